"""Clipped Gaussians: tetrachoric correlations of all pairs of columns, and the factors behind them.

What is compared is the table in, the matrix of tetrachoric correlations and the thresholds out.  Ours is a whole fit of
`ClippedGaussian` at its defaults: beside the correlations it finds their standard errors and the weights of the hidden
variables, which the others do not.  R's psych, lavaan and polycor run at their defaults but for smoothing of the matrix
(none) and standard errors (none); ordinalcorr and girth go pair by pair at theirs; "plain SciPy" is Newton's method in
asin(rho) on Owen's T for all pairs at once, which a careful user would write.  Where a cell of a pair's table is empty
the contenders differ; a correlation that one cannot tell counts as 0.

Quality is the log-likelihood of test rows under the probit factor model with as many factors as were asked for: from
each matrix the factors are taken in the same way (principal axes until the communalities stand), and rows are
integrated by Gauss-Hermite nodes around the mode of each, 15 a factor.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from benchmarks.peers.contender import Contender, Table
from benchmarks.peers.growth import Growth
from benchmarks.peers.r import in_r
from benchmarks.peers.sets import COMPILED, public

TITLE = "Clipped Gaussians"
NODES = 15  # a factor
LEAST_UNIQUE = 0.1  # share of a column's variance that no factor explains, at least
ROWS = 200  # at a time, in the measure


def bits(n: int, d: int) -> np.ndarray:
    """Rows of two standard normal factors with unit variance in all, cut at thresholds."""
    rng = np.random.default_rng([1998, d])
    weights = 0.8 * rng.standard_normal((d, 2))
    weights /= np.sqrt(1 + np.sum(weights**2, 1, keepdims=True))
    noise = np.sqrt(1 - np.sum(weights**2, 1))
    cut = 0.8 * rng.standard_normal(d)
    X = np.empty((n, d), np.uint8)
    for first in range(0, n, 20_000):
        rows = min(20_000, n - first)
        own = noise * rng.standard_normal((rows, d), np.float32)
        X[first : first + rows] = rng.standard_normal((rows, 2), np.float32) @ weights.T + own + cut > 0
    return X


def tables(quick: bool) -> dict[str, Table | str]:
    n, d = (500, 8) if quick else (5_000, 60)
    X = bits(n + n // 5, d)
    made: dict[str, Table | str] = {f"simulated, {n} x {d}": Table(X[:n], X[n:], {"factors": 2})}
    if not quick:
        made["digits"] = public("digits", rare=0.02, factors=2)
        made["nltcs"] = public("nltcs", factors=2)
    return made


def latentbits_(X: np.ndarray, *, seed: int, factors: int) -> dict[str, Any]:
    from latentbits.estimators.clipped_gaussian import ClippedGaussian

    model = ClippedGaussian(factors, random_state=seed).fit(X)
    return {"correlation": model.correlation_, "threshold": model.thresholds_, "factors": factors}


def scipy_(X: np.ndarray, *, seed: int, factors: int) -> dict[str, Any]:
    from scipy.special import ndtri, owens_t

    n, d = X.shape
    i, j = np.triu_indices(d, 1)
    counts = (X.T @ X).astype(float)
    ones = np.diag(counts)
    both, left, right = counts[i, j], ones[i], ones[j]
    agree = (both == 0) | (n - left - right + both == 0)
    differ = (both == left) | (both == right)
    share, p, q = (both + 0.5 * agree - 0.5 * differ) / n, left / n, right / n
    cut = ndtri(ones / n)
    h, k = cut[i], cut[j]
    opposite = np.where(h * k < 0, 0.5, 0.0)
    angle = np.clip(np.pi / 2 * (share - p * q) / np.sqrt(p * (1 - p) * q * (1 - q)), -1.4, 1.4)
    for _ in range(30):
        rho, c = np.sin(angle), np.cos(angle)
        u, v = (k - rho * h) / c, (h - rho * k) / c
        found = (p + q) / 2 - owens_t(h, u / h) - owens_t(k, v / k) - opposite
        step = (share - found) * 2 * np.pi * np.exp(0.5 * (h * h + u * u))
        angle = np.clip(angle + np.clip(step, -0.3, 0.3), -1.57, 1.57)
        if np.abs(step).max() < 1e-9:
            break
    correlation = np.eye(d)
    correlation[i, j] = correlation[j, i] = np.sin(angle)
    return {"correlation": correlation, "threshold": cut, "factors": factors}


def thresholds(X: np.ndarray) -> np.ndarray:
    from scipy.special import ndtri

    return ndtri(X.mean(0, dtype=float))


def girth_(X: np.ndarray, *, seed: int, factors: int) -> dict[str, Any]:
    from girth.common import polychoric

    found = polychoric.polychoric_correlation_serial(np.ascontiguousarray(X.T.astype(int)), 0, 1)
    return {"correlation": found, "threshold": thresholds(X), "factors": factors}


def ordinalcorr_(X: np.ndarray, *, seed: int, factors: int) -> dict[str, Any]:
    from ordinalcorr import tetrachoric

    d = X.shape[1]
    columns = [np.ascontiguousarray(column) for column in X.T.astype(int)]
    found = np.eye(d)
    for i in range(d):
        for j in range(i):
            try:
                value = tetrachoric(columns[i], columns[j])
            except AssertionError:  # raised by the peer itself, in an empty cell
                value = np.nan
            found[i, j] = found[j, i] = value
    return {"correlation": found, "threshold": thresholds(X), "factors": factors}


def r_(package: str, call: str) -> Any:
    body = f"""
x <- as.data.frame(X)
rho <- {call}
found <- list(correlation = unclass(rho), threshold = qnorm(colMeans(X)), factors = factors)
"""
    return in_r(package, body)


CONTENDERS = {
    "latentbits": Contender(latentbits_, "latentbits", module="latentbits.estimators.clipped_gaussian"),
    "plain SciPy": Contender(scipy_, "scipy", module="scipy.special", dtype=np.float32),
    "R psych": Contender(r_("psych", "suppressMessages(tetrachoric(x, smooth = FALSE))$rho"), "psych", needs="R"),
    "R lavaan": Contender(r_("lavaan", 'lavCor(x, ordered = names(x), output = "cor")'), "lavaan", needs="R"),
    "R polycor": Contender(
        r_(
            "polycor",
            "{x[] <- lapply(x, factor); hetcor(x, std.err = FALSE, use = 'complete.obs', parallel = TRUE, ncores = 2,"
            " pd = FALSE)$correlations}",
        ),
        "polycor",
        needs="R",
        note="on two cores, by its own workers",
    ),
    "ordinalcorr": Contender(ordinalcorr_, "ordinalcorr"),
    "girth": Contender(
        girth_,
        "girth",
        module="girth.common.polychoric",
        note="needs SciPy before 1.14",
        works="from scipy.stats.mvn import mvnun",
        install="pip install girth 'scipy<1.14'",
    ),
}


def factors_of(correlation: np.ndarray, n_factors: int) -> np.ndarray:
    """Weights (columns, factors) by principal axes: the diagonal is what the factors explain."""
    matrix = np.where(np.isfinite(correlation), correlation, 0.0)
    matrix = (matrix + matrix.T) / 2
    explained = np.full(len(matrix), 0.5)
    for _ in range(1000):
        np.fill_diagonal(matrix, explained)
        values, vectors = np.linalg.eigh(matrix)
        weights = vectors[:, -n_factors:] * np.sqrt(np.maximum(values[-n_factors:], 0))
        last, explained = explained, np.minimum((weights**2).sum(1), 1 - LEAST_UNIQUE)
        if np.abs(explained - last).max() < 1e-6:
            break
    length = np.sqrt((weights**2).sum(1))
    return weights * (np.sqrt(explained) / np.maximum(length, 1e-12))[:, None]


def held_out(params: dict[str, np.ndarray], test: np.ndarray) -> float:
    """`correlation` (columns, columns), `threshold` (columns,): P(1) = Phi(threshold), and the number of `factors`."""
    from scipy.special import log_ndtr

    q = int(np.ravel(params["factors"])[0])
    weights = factors_of(np.asarray(params["correlation"], float), q)
    noise = np.sqrt(1 - (weights**2).sum(1))
    slope, bias = weights / noise[:, None], np.ravel(params["threshold"]).astype(float) / noise
    points, logs = np.polynomial.hermite_e.hermegauss(NODES)
    logs = np.log(logs) + 0.5 * points**2  # the weight without the Gaussian that the rule has built in
    grid = np.array(list(product(points, repeat=q)))
    grid_logs = np.array([sum(one) for one in product(logs, repeat=q)])
    total = 0.0
    for first in range(0, len(test), ROWS):
        sign = 2.0 * test[first : first + ROWS] - 1
        mode, root = _modes(sign, slope, bias)
        z = mode[:, None] + np.linalg.solve(np.swapaxes(root, 1, 2), grid.T).transpose(0, 2, 1)
        value = log_ndtr(sign[:, None] * (z @ slope.T + bias)).sum(2) - 0.5 * (z**2).sum(2) + grid_logs
        total += (np.logaddexp.reduce(value, axis=1) - np.log(np.diagonal(root, axis1=1, axis2=2)).sum(1)).sum()
    return float(total / len(test) - q / 2 * np.log(2 * np.pi))


def _modes(sign: np.ndarray, slope: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of p(z | row), by Newton, which a concave log-probability allows; and the Cholesky root of the curvature."""
    from scipy.special import log_ndtr

    z = np.zeros((len(sign), slope.shape[1]))
    for _ in range(50):
        t = sign * (z @ slope.T + bias)
        ratio = np.exp(-0.5 * t * t - log_ndtr(t)) / np.sqrt(2 * np.pi)
        curvature = np.einsum("rd,dj,dk->rjk", ratio * (ratio + t), slope, slope, optimize=True) + np.eye(z.shape[1])
        step = np.linalg.solve(curvature, ((sign * ratio) @ slope - z)[..., None])[..., 0]
        z += step
        if np.abs(step).max() < 1e-8:
            break
    return z, np.linalg.cholesky(curvature)


def _one_pass(n: int, d: int, factors: int) -> Any:
    from latentbits.estimators.clipped_gaussian import ClippedGaussian

    X = bits(n, d)

    def fit() -> int:
        ClippedGaussian(factors).fit(X)
        return 1

    return fit


GROWTH = {
    "rows": Growth((100_000, 200_000, 400_000, 800_000), lambda n: _one_pass(n, 100, 2)),
    "columns": Growth((100, 200, 400, 800), lambda d: _one_pass(20_000, d, 2)),
    "causes": Growth((2, 4, 8, 16), lambda q: _one_pass(20_000, 200, q)),
}
WHY = {
    "plain SciPy": "ours finds standard errors of all correlations and the weights of the hidden variables as "
    "well, and checks the table; " + COMPILED,
    "R psych": COMPILED,
    "R lavaan": COMPILED,
    "R polycor": COMPILED,
    "ordinalcorr": COMPILED,
    "girth": COMPILED,
}

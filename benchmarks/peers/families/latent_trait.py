"""Latent trait models, in psychology item response models (2PL): log odds of a one are linear in a few hidden numbers.

As many hidden numbers for all, which are standard normal.  Ours runs at its defaults, which are exact by quadrature
around each row.  "mirt" is the Python package with acceleration (squarem) and as many quadrature points as R's mirt
takes by default (61 for one dimension, 31 for two); "mirt GVEM" is its variational learner.  girth is its marginal
maximum likelihood at its defaults.  py-irt is variational; it gets 500 epochs, a quarter of its default, which would
take minutes, and its slopes are positive, which fits no item that reads the other way round.  R's mirt runs at its
defaults.  "plain NumPy" is what a careful user would write: EM by quadrature around each row's last posterior with
parameter expansion, in float32, until a pass gains less than 1e-6 nats a row.  Quality is the log-likelihood of test
rows by one adaptive quadrature in float64.  How many points ours takes depends on the number of columns, so that a pass
over few of them may take longer than one over many.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from benchmarks.peers.contender import Contender, NotWaitedFor, Table
from benchmarks.peers.growth import Growth
from benchmarks.peers.r import in_r
from benchmarks.peers.sets import COMPILED, public

TITLE = "Latent trait models"
NODES = {1: 31, 2: 15, 3: 9}  # of the measure, a dimension
GIRTH_SIZE = 20_000  # cells above which girth is not waited for in several dimensions
OF_R = {1: 61, 2: 31, 3: 15}  # quadrature points a dimension that R's mirt takes


def bits(n: int, d: int, q: int) -> np.ndarray:
    """Rows of a true model: a main slope for each column, and small ones, which may be negative, on all dimensions."""
    rng = np.random.default_rng([1998, d, q])
    weights = 0.3 * rng.standard_normal((d, q))
    weights[np.arange(d), np.arange(d) % q] += np.exp(0.4 * rng.standard_normal(d))
    bias = rng.standard_normal(d)
    X = np.empty((n, d), np.uint8)
    for first in range(0, n, 10_000):
        rows = min(10_000, n - first)
        odds = rng.standard_normal((rows, q)) @ weights.T + bias
        X[first : first + rows] = rng.random((rows, d)) < 1 / (1 + np.exp(-odds))
    return X


def tables(quick: bool) -> dict[str, Table | str]:
    n, d, q = (500, 10, 1) if quick else (5_000, 50, 2)
    X = bits(n + n // 5, d, q)
    name = f"simulated, {n} x {d}, {q} dimension{'s' * (q > 1)}"
    made: dict[str, Table | str] = {name: Table(X[:n], X[n:], {"dimensions": q})}
    if not quick:
        made["nltcs, 1 dimension"] = public("nltcs", dimensions=1)
        made["digits, 2 dimensions"] = public("digits", rare=0.02, dimensions=2)
    return made


def latentbits_(X: np.ndarray, *, seed: int, dimensions: int) -> dict[str, Any]:
    from latentbits.estimators.latent_trait.latent_trait import LatentTrait

    model = LatentTrait(dimensions, random_state=seed).fit(X)
    return {"weights": model.components_.T, "bias": model.intercept_}


def mirt_(X: np.ndarray, *, seed: int, dimensions: int) -> dict[str, Any]:
    from mirt import fit_mirt

    options = {"accelerate": "squarem", "n_quadpts": OF_R[dimensions], "compute_standard_errors": False}
    return _of_mirt(fit_mirt(X, model="2PL", n_factors=dimensions, **options).model, dimensions)


def mirt_gvem(X: np.ndarray, *, seed: int, dimensions: int) -> dict[str, Any]:
    from mirt.estimation.gvem import GVEMEstimator
    from mirt.models.dichotomous import TwoParameterLogistic

    model = TwoParameterLogistic(X.shape[1], n_factors=dimensions)
    return _of_mirt(GVEMEstimator(use_gpu=False).fit(model, X).model, dimensions)


def _of_mirt(model: Any, q: int) -> dict[str, Any]:
    """Its difficulty is not per dimension; the log odds at the origin are the bias whatever the convention."""
    weights = np.asarray(model.parameters["discrimination"], float).reshape(-1, q)
    p = np.asarray(model.probability(np.zeros((1, q))), float).reshape(-1)
    return {"weights": weights, "bias": np.log(p) - np.log1p(-p)}


def girth_(X: np.ndarray, *, seed: int, dimensions: int) -> dict[str, Any]:
    from girth import twopl_mml
    from girth.multidimensional import multidimensional_twopl_mml
    from scipy.stats import mvn

    items = np.ascontiguousarray(X.T)
    if dimensions > 1 and X.size > GIRTH_SIZE:
        raise NotWaitedFor("two dimensions of 5000 x 50 took more than three minutes")
    if dimensions == 1:
        result = twopl_mml(items)
        slope = np.asarray(result["Discrimination"], float)
        return {"weights": slope[:, None], "bias": -slope * result["Difficulty"]}
    # its guess calls this function, which SciPy has dropped
    options = {} if hasattr(mvn, "mvnun") else {"initial_guess": False}
    result = multidimensional_twopl_mml(items, dimensions, options)
    return {"weights": result["Discrimination"], "bias": result["Difficulty"]}


def py_irt(X: np.ndarray, *, seed: int, dimensions: int) -> dict[str, Any]:
    import pandas as pd
    import pyro
    from py_irt.config import IrtConfig
    from py_irt.dataset import Dataset
    from py_irt.training import IrtModelTrainer

    q = dimensions
    names = [f"item{j}" for j in range(X.shape[1])]
    dataset = Dataset.from_pandas(pd.DataFrame(X, columns=names))
    kind = {"model_type": "2pl", "priors": "hierarchical"} if q == 1 else {"model_type": "multidim_2pl", "dims": q}
    pyro.set_rng_seed(seed)
    IrtModelTrainer(data_path=None, config=IrtConfig(epochs=500, **kind), dataset=dataset, verbose=False).train()
    store = pyro.get_param_store()

    def read(name: str) -> np.ndarray:
        value = store[name].detach().numpy().astype(float)
        return value.reshape(len(value), -1)

    slope = np.exp(read("loc_slope" if q == 1 else "loc_disc"))
    # Its population is estimated; here it is standard normal, so that its mean and spread go into the items.
    ability, spread = read("loc_ability"), read("scale_ability")
    mean, scale = ability.mean(0), np.sqrt(ability.var(0) + (spread**2).mean(0))
    order = [int(dataset.item_id_to_ix[name]) for name in names]
    return {"weights": (slope * scale)[order], "bias": (slope * (mean - read("loc_diff"))).sum(1)[order]}


def numpy_(X: np.ndarray, *, seed: int, dimensions: int) -> dict[str, Any]:
    """A step of re-weighted least squares a column is the M-step.

    Then the latents' coordinates are changed so that all posteriors together have mean 0 and covariance I (parameter
    expansion), which saves most of the iterations.
    """
    q = dimensions
    n, d = X.shape
    points, logs = np.polynomial.hermite_e.hermegauss({1: 7, 2: 5, 3: 4}[q])
    logs = np.log(logs) + 0.5 * points**2
    grid = np.array(list(product(points, repeat=q)), np.float32)
    grid_logs = np.array([sum(w) for w in product(logs, repeat=q)], np.float32)
    j, k = np.triu_indices(q + 1)
    eye = np.eye(q, dtype=np.float32)
    rows = max(1, 500_000 // (len(grid) * d))

    def symmetric(packed: np.ndarray) -> np.ndarray:
        full = np.empty((*packed.shape[:-1], q + 1, q + 1), packed.dtype)
        full[..., j, k] = full[..., k, j] = packed
        return full

    def posterior_modes(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        z = np.zeros((n, q), np.float32)
        squares = (w[:, :, None] * w[:, None]).reshape(d, -1)
        for _ in range(6):
            p = 1 / (1 + np.exp(-(z @ w.T + b)))
            hessian = ((p * (1 - p)) @ squares).reshape(n, q, q) + eye
            z = z + np.linalg.solve(hessian, ((x - p) @ w - z)[..., None])[..., 0]
        return z, np.linalg.inv(hessian)

    def e_step(x: np.ndarray, w: np.ndarray, b: np.ndarray, mean: np.ndarray, root: np.ndarray) -> tuple[Any, ...]:
        """Objective, gradient and curvature by column, and second moments of (z, 1), of some rows."""
        r, m = len(x), len(grid)
        z = mean[:, None] + grid @ np.swapaxes(root, 1, 2)
        odds = (z.reshape(-1, q) @ w.T + b).reshape(r, m, d)
        small = np.exp(-np.abs(odds))
        larger = 1 / (1 + small)
        p = np.where(odds > 0, larger, small * larger).reshape(-1, d)
        value = np.minimum((2 * x - 1)[:, None] * odds, 0).sum(-1) + grid_logs - 0.5 * (z**2).sum(-1)
        for first in range(0, d, 100):  # factors of at least 1/2: 100 of them do not underflow
            value += np.log(larger[..., first : first + 100].prod(-1))
        top = value.max(1, keepdims=True)
        share = np.exp(value - top)
        total = share.sum(1, keepdims=True)
        share /= total
        objective = (top + np.log(total)).sum(dtype=float) + np.log(np.einsum("rii->ri", root)).sum(dtype=float)
        extended = np.concatenate([z, np.ones((r, m, 1), np.float32)], -1)
        weighted = share[..., None] * extended[..., j] * extended[..., k]
        moments, weighted = weighted.sum(1), weighted.reshape(r * m, -1)
        gradient = x.T @ moments[:, k == q] - p.T @ weighted[:, k == q]
        return objective, gradient.astype(float), ((p * (1 - p)).T @ weighted).astype(float), moments

    x = X
    share = x.mean(0, dtype=float)
    table = (x - share.astype(np.float32)) / np.sqrt(share * (1 - share)).astype(np.float32)
    axes = np.linalg.eigh((table.T @ table).astype(float))[1][:, -q:]
    theta = np.column_stack([axes * np.sqrt(d / q), np.log(share / (1 - share))])
    before = -np.inf
    for iteration in range(500):
        w, b = theta[:, :q].astype(np.float32), theta[:, q].astype(np.float32)
        if iteration == 0:
            mean, covariance = posterior_modes(x, w, b)
        root = np.linalg.cholesky(covariance + 1e-6 * eye)
        parts = [slice(first, first + rows) for first in range(0, n, rows)]
        objectives, gradients, curvatures, moments = zip(
            *(e_step(x[part], w, b, mean[part], root[part]) for part in parts), strict=True
        )
        step = np.linalg.solve(symmetric(sum(curvatures)), sum(gradients)[..., None])[..., 0]
        second = symmetric(np.concatenate(moments))
        whole = second.mean(0, dtype=float)
        shift = whole[:q, q]
        factor = np.linalg.cholesky(whole[:q, :q] - np.outer(shift, shift))
        weights, bias = theta[:, :q] + step[:, :q], theta[:, q] + step[:, q]
        theta = np.column_stack([weights @ factor, bias + weights @ shift])
        inverse = np.linalg.inv(factor).astype(np.float32)
        mean = second[:, :q, q]
        covariance = inverse @ (second[:, :q, :q] - mean[:, :, None] * mean[:, None]) @ inverse.T
        mean = (mean - shift.astype(np.float32)) @ inverse.T
        if iteration > 2 and sum(objectives) - before < 1e-6 * n:
            break
        before = sum(objectives)
    return {"weights": theta[:, :q], "bias": theta[:, q]}


R_MIRT = """
fit <- mirt(as.data.frame(X), dimensions, itemtype = "2PL", method = "EM", SE = FALSE, verbose = FALSE)
items <- coef(fit, simplify = TRUE)$items
found <- list(weights = items[, paste0("a", seq_len(dimensions)), drop = FALSE], bias = items[, "d"])
"""

CONTENDERS = {
    "latentbits": Contender(latentbits_, "latentbits", module="latentbits.estimators.latent_trait.latent_trait"),
    "plain NumPy": Contender(numpy_, "numpy", dtype=np.float32),
    "mirt": Contender(mirt_, "mirt", dtype=np.int64),
    "mirt GVEM": Contender(mirt_gvem, "mirt", module="mirt.estimation.gvem", dtype=np.int64),
    "girth": Contender(girth_, "girth", dtype=np.int64),
    "py-irt": Contender(py_irt, "py-irt", module="py_irt.training"),
    "R mirt": Contender(in_r("mirt", R_MIRT), "mirt", needs="R"),
}


def held_out(params: dict[str, np.ndarray], test: np.ndarray, nodes: int | None = None) -> float:
    """`weights` (columns, dimensions) and `bias` (columns,); nodes around each row's mode, scaled by its curvature."""
    weights, bias = np.asarray(params["weights"], float), np.ravel(params["bias"]).astype(float)
    d, q = weights.shape
    points, logs = np.polynomial.hermite_e.hermegauss(nodes or NODES[q])
    logs = np.log(logs) + 0.5 * points**2  # the weight without the Gaussian that the rule has built in
    grid = np.array(list(product(points, repeat=q)))
    grid_logs = np.array([sum(one) for one in product(logs, repeat=q)])
    total = 0.0
    size = max(1, 4_000_000 // (len(grid) * d))
    for first in range(0, len(test), size):
        x = test[first : first + size].astype(float)
        mode, hessian = _modes(x, weights, bias)
        root = np.linalg.cholesky(hessian)
        z = mode[:, None] + np.linalg.solve(np.swapaxes(root, 1, 2), grid.T).transpose(0, 2, 1)
        value = _log_joint(x, z, weights, bias) + grid_logs
        total += (np.logaddexp.reduce(value, axis=1) - np.log(np.diagonal(root, axis1=1, axis2=2)).sum(1)).sum()
    return float(total / len(test) - q / 2 * np.log(2 * np.pi))


def _log_joint(x: np.ndarray, z: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """log p(x, z) up to the constant of the prior, for rows x (r, d) and points z (r, m, q): (r, m)."""
    odds = z @ weights.T + bias
    return np.einsum("rmd,rd->rm", odds, x) - np.logaddexp(0, odds).sum(2) - 0.5 * (z**2).sum(2)


def _modes(x: np.ndarray, weights: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mode of p(z | x) for each row by Newton with halved steps, and the Hessian of -log p there."""
    z = np.zeros((len(x), weights.shape[1]))
    value = _log_joint(x, z[:, None], weights, bias)[:, 0]
    for _ in range(100):
        p = 1 / (1 + np.exp(-np.clip(z @ weights.T + bias, -500, 500)))
        hessian = np.einsum("rd,dj,dk->rjk", p * (1 - p), weights, weights, optimize=True) + np.eye(z.shape[1])
        step = np.linalg.solve(hessian, ((x - p) @ weights - z)[..., None])[..., 0]
        if np.abs(step).max() < 1e-9:
            return z, hessian
        size = np.ones((len(x), 1))
        for _ in range(30):
            new = _log_joint(x, (z + size * step)[:, None], weights, bias)[:, 0]
            worse = new < value - 1e-12 * np.abs(value)
            if not worse.any():
                break
            size[worse] /= 2
        z, value = z + size * step, new
    raise ArithmeticError("no mode found")


def _passes(n: int, d: int, q: int) -> Any:
    from latentbits.estimators.latent_trait.latent_trait import LatentTrait

    X = bits(n, d, q)

    def fit() -> int:
        return len(LatentTrait(q, random_state=0, max_iter=5, tol=1e-300).fit(X).history_table_)

    return fit


GROWTH = {
    "rows": Growth((2_500, 5_000, 10_000, 20_000), lambda n: _passes(n, 50, 2)),
    "columns": Growth((25, 50, 100, 200), lambda d: _passes(5_000, d, 2)),
    # beyond three dimensions points are drawn, no longer a grid
    "causes": Growth((4, 8, 16, 32), lambda q: _passes(500, 64, q)),
}
WHY = {
    "plain NumPy": COMPILED,
    "mirt": "its points are the same for all rows, so that its E-step is two products; ours has points around each "
    "row, which steep slopes need; " + COMPILED,
    "girth": COMPILED,
    "R mirt": COMPILED,
    "mirt GVEM": "it maximises a bound and not the likelihood, in cheap passes; " + COMPILED,
    "py-irt": COMPILED,
}

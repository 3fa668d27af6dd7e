"""Latent classes: all contenders learn as many classes from the same rows, each from other starts.

On large tables everybody starts once, on the small one peers take the best of five starts; ours runs at its defaults,
which choose among short runs, and smooth as if each class had seen one more row.  A pass of EM that gains less than
1e-6 nats a row is a peer's last, or the thousandth.  pomegranate and StepMix start from k-means.  Plain NumPy is what a
careful user would write: two products a pass in float32, from randomly drawn rows.  R's poLCA makes no standard errors
here, and has the small table alone: it ends by gathering equal rows one by one in R.  The first table has classes that
lie well apart, those of the second overlap, and the third, plants, is a public set, where no one knows the number of
classes and starts lead to different maxima.  Quality is the exact log-likelihood of test rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.peers.contender import Contender, NotWaitedFor, Table
from benchmarks.peers.growth import Growth
from benchmarks.peers.r import in_r
from benchmarks.peers.sets import COMPILED, public

TITLE = "Bernoulli mixtures"
ENOUGH, MOST = 1e-6, 1000  # nats a row that a pass must gain; passes
SMALLEST = 1e-6  # probability of a bit, in plain NumPy and in the score


def bits(n: int, d: int, k: int, apart: float = 0.7) -> np.ndarray:
    """Rows of a mixture of k classes; the smaller `apart`, the nearer to 0 and 1 are their probabilities."""
    means = np.random.default_rng([d, k]).beta(apart, apart, (k, d)) * 0.96 + 0.02
    rng = np.random.default_rng([d, k, n])
    X = np.empty((n, d), np.uint8)
    for first in range(0, n, 10_000):
        rows = min(10_000, n - first)
        X[first : first + rows] = rng.random((rows, d), dtype=np.float32) < means[rng.integers(k, size=rows)]
    return X


def tables(quick: bool) -> dict[str, Table | str]:
    n, d, k = (4_000, 50, 5) if quick else (100_000, 100, 8)
    X = bits(n + n // 5, d, k)
    made: dict[str, Table | str] = {f"apart, {n} x {d}": Table(X[:n], X[n:], {"components": k, "starts": 1})}
    if not quick:
        X = bits(12_000, 12, 4, apart=2)
        made["overlapping, 2000 x 12"] = Table(X[:2_000], X[2_000:], {"components": 4, "starts": 5})
        made["plants"] = public("plants", components=20, starts=1)
    return made


def latentbits_(X: np.ndarray, *, seed: int, components: int, starts: int) -> dict[str, Any]:
    from latentbits.estimators.mixture import BernoulliMixture

    model = BernoulliMixture(components, random_state=seed).fit(X)
    return {"weights": model.weights_, "means": model.means_}


def numpy_(X: np.ndarray, *, seed: int, components: int, starts: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    found = [_em(X, 0.25 + 0.5 * X[rng.choice(len(X), components, replace=False)]) for _ in range(starts)]
    _, weights, means = max(found, key=lambda one: one[0])
    return {"weights": weights, "means": means}


def _em(X: np.ndarray, means: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """The log-likelihood of a row before the last pass, weights and means."""
    weights, reached = np.full(len(means), 1 / len(means)), -np.inf
    for _ in range(MOST):
        p, last = np.clip(means, SMALLEST, 1 - SMALLEST), reached
        odds = (np.log(p) - np.log1p(-p)).astype(X.dtype)
        joint = X @ odds.T + (np.log1p(-p).sum(1) + np.log(weights)).astype(X.dtype)
        top = joint.max(1, keepdims=True)
        np.exp(joint - top, out=joint)
        total = joint.sum(1, keepdims=True)
        reached = float(np.mean(np.log(total) + top, dtype=float))
        joint /= total
        members = np.maximum(joint.sum(0, dtype=float), 1e-9)
        means, weights = (joint.T @ X) / members[:, None], members / members.sum()
        if reached - last < ENOUGH:
            break
    return reached, weights, means


def pomegranate_(X: np.ndarray, *, seed: int, components: int, starts: int) -> dict[str, Any]:
    import torch
    from pomegranate.distributions import Bernoulli
    from pomegranate.gmm import GeneralMixtureModel

    rows = torch.from_numpy(X)
    found = []
    for start in range(starts):
        parts = [Bernoulli() for _ in range(components)]
        model = GeneralMixtureModel(parts, max_iter=MOST, tol=ENOUGH * len(X), random_state=100 * seed + start)
        model.fit(rows)
        found.append((float(model.log_probability(rows).sum()) if starts > 1 else 0.0, model))
    best = max(found, key=lambda one: one[0])[1]
    return {"weights": best.priors.numpy(), "means": np.stack([part.probs.numpy() for part in best.distributions])}


def stepmix_(X: np.ndarray, *, seed: int, components: int, starts: int) -> dict[str, Any]:
    from stepmix import StepMix

    options = {"init_params": "kmeans", "abs_tol": ENOUGH, "max_iter": MOST, "progress_bar": 0}
    model = StepMix(components, measurement="binary", n_init=starts, random_state=seed, **options).fit(X)
    return {"weights": model.weights_, "means": model.get_parameters()["measurement"]["pis"]}


POLCA_ROWS = 5_000  # the most; beyond, what it gathers at the end takes longer than the learning
POLCA = f"""\
set.seed(seed)
data <- as.data.frame(X + 1)
columns <- as.formula(paste0("cbind(", paste(names(data), collapse = ","), ") ~ 1"))
model <- poLCA(columns, data, nclass = components, nrep = starts, tol = {ENOUGH} * nrow(X), maxiter = {MOST},
               calc.se = FALSE, verbose = FALSE)
found <- list(weights = model$P, means = sapply(model$probs, function(one) one[, 2]))
"""


def polca(X: np.ndarray, **settings: Any) -> dict[str, Any]:
    if len(X) > POLCA_ROWS:
        raise NotWaitedFor(f"has more than {POLCA_ROWS} rows")
    return in_r("poLCA", POLCA)(X, **settings)


CONTENDERS = {
    "latentbits": Contender(latentbits_, "latentbits", module="latentbits.estimators.mixture"),
    "plain NumPy": Contender(numpy_, "numpy", dtype=np.float32),
    "pomegranate": Contender(pomegranate_, "pomegranate", module="pomegranate.gmm", dtype=np.float32),
    "StepMix": Contender(stepmix_, "stepmix", dtype=np.float64),
    "R poLCA": Contender(polca, "poLCA", needs="R"),
}


def held_out(params: dict[str, np.ndarray], test: np.ndarray) -> float:
    p = np.clip(np.asarray(params["means"], float), SMALLEST, 1 - SMALLEST)
    weights = np.ravel(params["weights"]).astype(float)
    x = test.astype(float)
    joint = x @ np.log(p).T + (1 - x) @ np.log1p(-p).T + np.log(np.maximum(weights / weights.sum(), 1e-300))
    return float(np.logaddexp.reduce(joint, axis=1).mean())


def _passes(n: int, d: int, k: int) -> Any:
    """A fit of as many passes as asked for, whatever they gain."""
    from latentbits.estimators.mixture import BernoulliMixture

    X = bits(n, d, k)

    def fit() -> int:
        model = BernoulliMixture(k, random_state=0, n_init=1, accelerate=False, max_iter=20, tol=-1e9)
        return model.fit(X).n_iter_

    return fit


GROWTH = {
    "rows": Growth((25_000, 50_000, 100_000, 200_000), lambda n: _passes(n, 100, 10)),
    "columns": Growth((50, 100, 200, 400), lambda d: _passes(50_000, d, 10)),
    "causes": Growth((5, 10, 20, 40), lambda k: _passes(50_000, 100, k)),
}
_STARTS = "where the table is small, ours takes more starts than the peers' five; " + COMPILED
WHY = {"plain NumPy": _STARTS, "pomegranate": COMPILED, "StepMix": _STARTS, "R poLCA": _STARTS}

"""Held-out log-likelihood of Bernoulli mixtures on the binary density-estimation sets.

    python benchmarks/density_estimation.py [nltcs plants jester ...] [--sizes 16 32 64 ...] [--smoothing 0.5 2 ...]

The number of components and the smoothing are chosen on the validation set; the test set is looked at once.  Needs the
sets: from the network, or from the folder that LATENTBITS_DATA names.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from latentbits import BernoulliMixture, BernoulliProduct, load_dataset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["nltcs", "plants", "jester"])
    parser.add_argument("--sizes", type=int, nargs="+", default=[16, 32, 64, 128, 256, 512])
    parser.add_argument("--smoothing", type=float, nargs="+", default=[0.5, 2.0])
    parser.add_argument("--init", default="random", choices=["random", "split"])
    parser.add_argument("--max-iter", type=int, default=200)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in options.names:
        data = load_dataset(name)
        train, valid, test = (data.split(part).X for part in ("train", "valid", "test"))
        began = time.perf_counter()
        product = BernoulliProduct().fit(train).score(test)
        tried = []
        for size in options.sizes:
            for smoothing in options.smoothing:
                m = BernoulliMixture(
                    size,
                    smoothing=smoothing,
                    init=options.init,
                    random_state=options.seed,
                    max_iter=options.max_iter,
                    tol=options.tol,
                ).fit(train)
                tried.append((m.score(valid), m))
                print(f"  {name} {size:4d} components, smoothing {smoothing}: valid {tried[-1][0]:.3f}", flush=True)
        best = max(tried, key=lambda pair: pair[0])[1]
        rows = best.score_samples(test)
        print(
            f"{name}: test {rows.mean():.3f} ± {rows.std() / np.sqrt(len(rows)):.3f} nats per row "
            f"({best.n_components} components, smoothing {best.smoothing}); independent bits {product:.2f}; "
            f"{time.perf_counter() - began:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""Size of the bootstrap likelihood-ratio test: how often it rejects the right number of classes at 5 %.

    python benchmarks/calibration_bootstrap.py [--replications 200] [--rows 150] [--columns 6] [--draws 99] [--starts 8]

Tables of two classes are tested for two against three.  The share of p-values of the likelihood ratio of at most 0.05
should lie between 3 and 7.5 %: its own standard error with 200 replications is 1.5 %.  Those of G2 and X2 are printed
beside it.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from latentbits import BernoulliMixture


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in {"replications": 200, "rows": 150, "columns": 6, "draws": 99, "starts": 8}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    a = parser.parse_args()
    warnings.simplefilter("ignore")
    p = []
    for seed in range(a.replications):
        rng = np.random.default_rng(seed)
        means = np.array([0.8, 0.25])[:, None] + rng.uniform(-0.1, 0.1, (2, a.columns))
        X = (rng.random((a.rows, a.columns)) < means[(rng.random(a.rows) < 0.4).astype(int)]).astype(np.uint8)
        m = BernoulliMixture(2, smoothing=0, random_state=seed).fit(X)
        test = m.bootstrap_test(X, n_draws=a.draws, n_starts=a.starts, random_state=seed)
        p.append((test.p_value, test.g2_p, test.x2_p))
        if (seed + 1) % 10 == 0:
            print(seed + 1, *(f"{share:.3f}" for share in np.mean(np.array(p) <= 0.05, axis=0)), flush=True)
    sizes, errors = np.mean(np.array(p) <= 0.05, axis=0), np.sqrt(0.05 * 0.95 / len(p))
    print(f"{len(p)} tables of {a.rows} x {a.columns}, {a.draws} draws each; rejected at 5 % (± {errors:.3f}):")
    for name, size in zip(("LR, 2 against 3 classes", "G2 of 2 classes", "X2 of 2 classes"), sizes):
        print(f"    {name}: {100 * size:.1f} %")


if __name__ == "__main__":
    main()

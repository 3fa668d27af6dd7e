"""Are the errors and tests of items what they say?  Coverage of intervals, and size of M2 and S-X².

Tables are drawn from a model that holds: items with slopes around 1.2 and difficulties around 0, abilities standard
normal.  Each is fitted and reported.  Of 200 tables, 95 % intervals of slopes and intercepts should hold the truth in
92 to 97.5 %, and M2 and S-X² should reject at 5 % in 3 to 7.5 %:

    python benchmarks/calibration_items.py

Measured with 200 tables of 1000 rows and 10 items: slopes 95.2 %, intercepts 95.0 %, M2 5.5 %, S-X² 4.5 %.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
from scipy.special import expit

from latentbits import ItemResponse
from latentbits.reports.fit import fit_report

COVERED, REJECTED = (0.92, 0.975), (0.03, 0.075)


def main() -> None:
    """Draw, fit, report; print shares as json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--items", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    rng = np.random.default_rng(options.seed)
    slopes = rng.lognormal(np.log(1.2), 0.25, options.items)
    intercepts = -slopes * rng.normal(0, 0.8, options.items)
    held, m2, s_x2 = [], [], []
    began = time.perf_counter()
    for _ in range(options.tables):
        z = rng.standard_normal((options.rows, 1))
        X = (rng.random((options.rows, options.items)) < expit(z * slopes + intercepts)).astype(np.uint8)
        m = ItemResponse(random_state=0).fit(X)
        errors = m.standard_errors(X)
        away = [(m.components_[0] - slopes) / errors.components[0], (m.intercept_ - intercepts) / errors.intercept]
        held.append(np.abs(away) < 1.959964)
        m2.append(m._more_of_fit(X, None, fit_report(0.0, 0.0, m.n_parameters_, len(X))).m2_p)
        s_x2.append(m.item_fit(X).p)
    covered, all_p = np.mean(held, axis=(0, 2)), np.ravel(s_x2)
    tested = all_p[~np.isnan(all_p)]
    shares = {
        "slopes": (covered[0], COVERED),
        "intercepts": (covered[1], COVERED),
        "M2": (np.mean(np.array(m2) < 0.05), REJECTED),
        "S-X2": (np.mean(tested < 0.05), REJECTED),
    }
    found = {name: {"share": round(float(share), 4), "within": list(band)} for name, (share, band) in shares.items()}
    for entry in found.values():
        entry["met"] = bool(entry["within"][0] <= entry["share"] <= entry["within"][1])
    untested = len(all_p) - len(tested)
    seconds = round(time.perf_counter() - began, 1)
    print(json.dumps({**vars(options), **found, "S-X2 untested": untested, "seconds": seconds}, indent=2))


if __name__ == "__main__":
    main()

"""Claims as numbers of our runs: the names are those of ``expected.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from latentbits.papers.freund_haussler_1994 import synthetic, usps
from latentbits.papers.pages import Measured, averaged, share_of

__all__ = ["QUICK", "TWO_PEAKS_DEVIATIONS", "Found", "of_digits", "of_synthetic", "of_theory"]

# Findings that a quick run can tell: theorems, and what does not depend on how long and from how much was learned.
QUICK = frozenset(
    {
        "universal_coarse",
        "universal_fine",
        "normaliser_order",
        "theorem_slope",
        "theorem_exception",
        "one_active",
        "orthogonal_rule",
        "orthogonal_printed",
        "terms_found",
        "terms_target",
        "terms_target_small",
    }
)
TWO_PEAKS_DEVIATIONS = 2.0  # standard deviations between two Gaussians of one width from which their sum has two
CELLS = {"gradient": "gradient", "pursuit": "pursuit", "short": "pursuit+short", "both": "pursuit+gradient"}

Found = dict[str, float | Measured]


# --- theory ---


def of_theory(seeds: Sequence[Mapping[str, Any]]) -> Found:
    """Find what sections 2.5, 2.6, 3.0.1 and 3.1, and appendix A, claim."""

    def worst(tolerance: str) -> Measured:
        return Measured(max(seed["universality"][tolerance] for seed in seeds), None, len(seeds))

    slopes = [_slope(seed["projections"]) for seed in seeds]
    return {
        "universal_coarse": worst("0.1"),
        "universal_fine": worst("1e-06"),
        "normaliser_order": averaged([seed["order"] for seed in seeds]),
        "theorem_slope": averaged(slopes),
        "theorem_exception": averaged([seed["exception"] for seed in seeds]),
        "one_active": Measured(max(seed["one_active"] for seed in seeds), None, len(seeds)),
        "orthogonal_rule": averaged([seed["orthogonal"]["corrected"] for seed in seeds]),
        "orthogonal_printed": averaged([seed["orthogonal"]["printed"] for seed in seeds]),
    }


def _slope(by_number: Mapping[str, float]) -> float:
    """Fit the power of the number with which a value goes.

    >>> round(_slope({"10": 0.1, "100": 0.001}), 6)
    -2.0
    """
    numbers = np.log([float(n) for n in by_number])
    return float(np.polyfit(numbers, np.log(list(by_number.values())), 1)[0])


# --- the synthetic target ---


def of_synthetic(large: Mapping[str, Any], few: Mapping[str, Any], small: Mapping[str, Any]) -> Found:
    """Find what tables 1 (4000 rows and 500) and 2, figures 4.1 and 4.2, and section 3.1 claim, seed by seed."""
    ahead = _differences(large)
    units, small_units = large["units"], small["units"]
    single = _of_units(units, "n_single")
    return {
        **{name: value for name, value in _cells("large", large).items() if name.endswith("test")},
        **_cells("few", few),
        **_cells("small", small),
        "large_gap": averaged(_gap(large)),
        "few_gap": averaged(_gap(few)),
        "pursuit_weaker": ahead("pursuit", "gradient"),
        "pursuit_first": ahead("gradient", "pursuit+gradient"),
        "longer_better": ahead("pursuit+short", "pursuit+gradient"),
        "pursuit_fast": averaged(np.divide(*(large["methods"][name]["seconds"] for name in ("pursuit", "gradient")))),
        "small_cause": averaged(_lost(large) - _lost(small)),
        "small_order": _differences(small)("gradient", "pursuit+gradient"),
        "units_both_single": averaged(single("pursuit+gradient")),
        "units_both_merged": averaged(_of_units(units, "n_merged")("pursuit+gradient")),
        "units_gradient_none": averaged(_of_units(units, "n_none")("gradient")),
        "units_gradient_more": averaged(_difference(_of_units(units, "n_none"), "gradient", "pursuit+gradient")),
        "units_pursuit": averaged(_difference(single, "pursuit+gradient", "pursuit")),
        "units_small": averaged(_of_units(small_units, "n_single")("pursuit+gradient") - single("pursuit+gradient")),
        "two_peaks": averaged(
            [np.mean(np.array(one) > TWO_PEAKS_DEVIATIONS) for one in units["pursuit+gradient"]["apart"]]
        ),
        "pca_units": averaged(_difference(_of_units(units, "n_found"), "pursuit+gradient", "principal")),
        "terms_found": averaged(np.divide(large["terms"]["share"], large["terms"]["best"])),
        "terms_share": averaged(large["terms"]["share"]),
        "terms_error": averaged(large["terms"]["error"]),
        "terms_target": large["terms_of_target"]["share"],
        "terms_target_small": small["terms_of_target"]["share"],
        **_ours(large),
    }


def _ours(large: Mapping[str, Any]) -> Found:
    """Measure the methods that are ours, of which a quick run has none."""
    if not large["ours"]:
        return {}
    ahead, behind = _differences(large), _above_true(large, "default", "log_loss")
    return {
        "terms_behind": ahead("largest", "pursuit+gradient"),
        "starts_pursuit": ahead("pursuit", "starts"),
        "starts_both": ahead("pursuit+gradient", "starts+gradient"),
        "default_behind": averaged(behind),
        "default_near": share_of(behind <= 0.006),  # log-loss by which it may be behind the true one
    }


def _cells(which: str, found: Mapping[str, Any]) -> Found:
    """Take the paper's rows of a table, each number less that of the true model on the same rows."""
    return {
        f"{which}_{word}_{measure}_{part}": averaged(_above_true(found, method, measure, part))
        for word, method in CELLS.items()
        if method in found["methods"]
        for measure in synthetic.MEASURES
        for part in ("train", "test")
    }


def _gap(found: Mapping[str, Any]) -> np.ndarray:
    """Measure how much larger log-losses above the true model's are on test rows than on training rows."""
    return np.mean(
        [
            _above_true(found, method, "log_loss") - _above_true(found, method, "log_loss", "train")
            for method in ("gradient", "pursuit+gradient")
        ],
        axis=0,
    )


def _error(found: Mapping[str, Any], method: str, measure: str, part: str = "test") -> np.ndarray:
    return np.array(found["methods"][method][measure][part])


def _above_true(found: Mapping[str, Any], method: str, measure: str, part: str = "test") -> np.ndarray:
    return _error(found, method, measure, part) - _error(found, "true", measure, part)


def _lost(found: Mapping[str, Any]) -> np.ndarray:
    """Compute the part of what the true model gains over the uniform one that pursuit alone loses."""
    return _above_true(found, "pursuit", "log_loss") / (1 - _error(found, "true", "log_loss"))


def _differences(found: Mapping[str, Any]) -> Any:
    def difference(worse: str, better: str) -> Measured:
        return averaged(_error(found, worse, "log_loss") - _error(found, better, "log_loss"))

    return difference


def _of_units(units: Mapping[str, Any], key: str) -> Any:
    def of(method: str) -> np.ndarray:
        return np.array(units[method][key])

    return of


def _difference(of: Any, first: str, second: str) -> np.ndarray:
    return of(first) - of(second)


# --- digits ---


def of_digits(found: Mapping[str, Any]) -> Found:
    """Find what table 3, figures 4.4 to 4.9, and sections 2.3 and 2.4 claim."""
    results = found["results"]

    def error(method: str, measure: str, part: str = "test") -> np.ndarray:
        return np.array(results[method][measure][part])

    def gap(method: str, measure: str) -> np.ndarray:
        return error(method, measure) - error(method, measure, "train")

    measured: Found = {}
    for measure in usps.MEASURES:
        for method in ("mixture", "pursuit"):
            for part in ("train", "test"):
                ratio = error(method, measure, part) / error("product", measure, part)
                measured[f"digits_{method}_{measure}_{part}"] = averaged(ratio)
        measured[f"digits_ahead_{measure}"] = averaged(error("mixture", measure) - error("pursuit", measure))
        measured[f"digits_gap_{measure}"] = averaged(gap("mixture", measure) - gap("pursuit", measure))
        for word, name in (("smoothed", "pursuit"), ("ours", "pursuit, ours"), ("default", "default")):
            if name in results:  # a quick run has not all of them
                ahead = error("mixture, smoothed", measure) - error(name, measure)
                measured[f"digits_{word}_{measure}"] = averaged(ahead)
        measured[f"digits_starts_{measure}"] = averaged(error("pursuit", measure) - error("pursuit, 8 starts", measure))
    weights, second = found["weights"], np.array(found["second_order"]["test"])
    for key in ("area", "likeness"):
        measured[f"local_{key}"] = averaged(np.subtract(weights["mixture"][key], weights["pursuit"][key]))
    measured["pca_single_bit"] = averaged(second - error("pursuit", "single_bit"))
    if "default" in results:
        measured["pca_default"] = averaged(second - error("default", "single_bit"))
    for measure in usps.MEASURES:
        ahead = [seed["before"][measure] - seed["after"][measure] for seed in found["backfitting"]]
        measured[f"backfitting_{measure}"] = averaged(ahead)
    measured["doubling_spike"] = _spike(found["curves"]["Mixture"])
    return measured | _likelihoods(found["likelihood"])


def _likelihoods(seeds: Sequence[Mapping[str, Any] | None]) -> Found:
    """Subtract log-losses of machines from those of mixtures with one parameter fewer, with errors of log Z."""
    known = [seed for seed in seeds if seed is not None]
    if not known:
        return {}
    measured: Found = {}
    for word, size in zip(("summed", "all"), known[0], strict=True):
        unsure = np.mean([seed[size]["error"] for seed in known])
        for name, mixture, machine, part in (
            (f"likelihood_{word}_train", "mixture", "machine", "train"),
            (f"likelihood_{word}_test", "mixture, smoothed", "machine", "test"),
            (f"likelihood_{word}_pursuit", "mixture, smoothed", "pursuit", "test"),
        ):
            mean = averaged([seed[size][mixture][part] - seed[size][machine][part] for seed in known])
            measured[name] = mean._replace(error=float(np.hypot(mean.error or 0.0, unsure)))
    return measured


def _spike(curve: Mapping[str, Any]) -> Measured:
    """Measure by how much a mixture's training error rises as its components are doubled and perturbed, on average.

    At an iteration at which a doubling comes, the curve has the error before it and then the one after it.
    """
    error = curve["reconstruction"][0]
    begins = [curve["steps"].index(int(step)) for step in curve["doublings"] if int(step) > 0]
    return averaged([error[place + 1] - error[place] for place in begins])

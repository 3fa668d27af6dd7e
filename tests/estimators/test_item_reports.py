"""Reports of items against R (mirt, ltm), and what the estimator adds: names, weights, columns that do not vary."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from tests.tables import answers

from latentbits import ItemResponse, load_dataset
from latentbits.estimators.latent_trait.item_reports import answers_of, varying
from latentbits.reports.fit import fit_report
from latentbits.reports.item_fit import item_fit
from latentbits.reports.items import Items, distinct
from latentbits.reports.limited_information import ItemFitReport
from latentbits.reports.sum_scores import sum_scores


def more_of_fit(m, X, sample_weight=None):
    return m._more_of_fit(X, sample_weight, fit_report(-1.0, 0.0, m.n_parameters_, len(X)))


@pytest.fixture(scope="module")
def table():
    """Named columns, two of which do not vary, and some answers missing."""
    X = np.column_stack([answers(scale=1.1), np.ones(240), np.zeros(240)])
    X[:10, 2] = np.nan
    X[10] = np.nan
    return pd.DataFrame(X, columns=[f"q{i}" for i in range(8)])


@pytest.fixture(scope="module")
def model(table):
    return ItemResponse(random_state=0, tol=1e-7).fit(table)


def test_every_report_has_the_names_and_says_what_it_leaves_out(model, table):
    fit, pairs = model.item_fit(table), model.local_dependence(table)
    assert fit.item == pairs.item == list(table.columns)
    assert fit.to_frame().index.tolist() == list(table.columns)
    for report in (fit, pairs, model.person_fit(table), model.sum_scores(table), model.reliability(table)):
        assert any("answer alike: q6, q7" in note for note in report.notes)
        assert "note: " in str(report)
    assert np.isnan([fit.s_x2[6], fit.infit[6], pairs.q3[6, 0], pairs.x2[0, 6]]).all()
    assert np.isfinite(fit.outfit[:6]).all()
    assert any("of the 229 of 239 rows" in note for note in fit.notes)
    report = more_of_fit(model, table)
    assert isinstance(report, ItemFitReport)
    assert report.m2_df == 21 - 12
    assert any("missing" in note for note in report.notes)


@pytest.mark.slow("two tables are compiled for")
def test_a_column_that_does_not_vary_changes_no_report(model, table):
    whole = table.drop(columns=["q6", "q7"])
    alone = ItemResponse(random_state=0, tol=1e-7).fit(whole)
    np.testing.assert_allclose(model.item_fit(table).outfit[:6], alone.item_fit(whole).outfit, rtol=1e-3)
    report, without = more_of_fit(model, table), more_of_fit(alone, whole)
    np.testing.assert_allclose(report.m2, without.m2, rtol=1e-3)
    assert report.m2_df == without.m2_df


def test_rows_without_an_answer(model, table):
    assert np.isnan(model.person_fit(table).lz[10])
    with pytest.warns(UserWarning, match="no finite ML score"):
        ml = model.scores(table, "ml")
    assert np.isnan(ml.value[10]).all()
    with pytest.warns(UserWarning, match="1 rows have no finite WLE score") as warned:
        wle = model.scores(table, "wle")
    assert str(warned[0].message).endswith("no answer depends on the latent. method='eap' gives all rows a score")
    assert np.isfinite(model.item_fit(table, scores="wle").outfit[:6]).all()
    rest = np.delete(np.arange(240), 10)
    assert np.isfinite(wle.value[rest]).all()
    top = np.isinf(ml.value[:, 0])
    assert top.any()
    assert np.isnan(ml.error[top]).all()
    share = np.nanmean(table.to_numpy()[:, :6][top], 1)
    np.testing.assert_array_equal(ml.value[top, 0] > 0, share == 1)
    assert set(share) <= {0.0, 1.0}


def test_weights_are_counts(model, table):
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 4, 240)
    repeated = table.loc[np.repeat(table.index, counts)]
    for name, fields in {
        "item_fit": ("s_x2", "p", "infit", "outfit_z", "n"),
        "local_dependence": ("q3", "signed_x2"),
        "sum_scores": ("observed", "expected"),
        "reliability": ("eap", "ml", "alpha"),
    }.items():
        ours, theirs = getattr(model, name)(table, counts), getattr(model, name)(repeated)
        for field in fields:
            np.testing.assert_allclose(ours[field], theirs[field], rtol=1e-9)
    ours, theirs = more_of_fit(model, table, counts), more_of_fit(model, repeated)
    np.testing.assert_allclose([ours.m2, ours.rmsea, ours.srmsr], [theirs.m2, theirs.rmsea, theirs.srmsr])


@pytest.mark.slow("modes and draws are compiled for")
def test_scores_agree_with_each_other(model, table):
    ours = model.person_fit(table).score
    np.testing.assert_allclose(ours, model.scores(table).value, atol=1e-3)
    # in float32 the density is flat about its maximum, further out than its derivatives are
    np.testing.assert_allclose(model.person_fit(table, scores="map").score, model.scores(table, "map").value, atol=2e-6)
    drawn = model.plausible_values(table, 40, random_state=0)
    assert drawn.draws.shape == (40, 240, 1)
    away = (drawn.draws.mean(0) - model.scores(table).value) / model.scores(table).error * np.sqrt(40)
    assert 0.85 < away.std() < 1.15
    assert str(drawn) == "40 plausible values of 240 rows"
    np.testing.assert_array_equal(drawn.draws, model.plausible_values(table, 40, random_state=0).draws)
    assert len(drawn.table().columns) == 40
    points = model.test_information([-1, 0.5])
    np.testing.assert_allclose(points.information, model.item_information([[-1], [0.5]]).sum(1))
    np.testing.assert_allclose(points.error, points.information**-0.5)
    np.testing.assert_array_equal(model.item_information([-1, 0.5]), model.item_information([[-1], [0.5]]))
    assert model.item_information(0.0).shape == (1, 8)


def test_sum_scores_are_of_all_columns(model, table):
    """A constant item is in the sum, and what the other items tell is found there."""
    whole = table.dropna().astype(int)
    X, found = whole.to_numpy(), model.sum_scores(whole)
    assert found.score.tolist() == list(range(9))
    assert np.isnan(found.eap[[0, 8]]).all()
    assert found.expected[[0, 8]].tolist() == found.observed[[0, 8]].tolist() == [0, 0]
    items, which = varying(model, "sum_scores")
    alone = sum_scores(items, answers_of(model, whole).of_items(which))
    np.testing.assert_allclose(found.eap[X.sum(axis=1)], alone.eap[X[:, :6].sum(1)])
    np.testing.assert_allclose(found.sd[1:8], alone.sd)
    np.testing.assert_allclose(found.expected[1:8], alone.expected)
    assert found.observed.tolist() == np.bincount(X.sum(1), minlength=9).tolist()
    assert found.notes == ("in the sum, though in the fit all rows answer alike: q6, q7",)
    whole.iloc[0, 6] = 0
    found = model.sum_scores(whole)
    assert found.observed.sum() == len(X) - 1
    assert "1 rows that answer these otherwise are left out" in found.notes


def test_invalid_options_are_refused(model, table):
    with pytest.raises(ValueError, match="scores must be one of eap, map, ml, wle"):
        model.item_fit(table, scores="mean")
    with pytest.raises(ValueError, match="theta must be a number"):
        model.test_information([[0.0]])
    with pytest.raises(ValueError, match="n_draws must be at least 1"):
        model.plausible_values(table, 0)


@pytest.mark.slow("two traits are compiled for")
def test_several_dimensions():
    X = answers(300, 8, 2)
    m = ItemResponse(n_factors=2, random_state=0, tol=1e-4).fit(X)
    report = more_of_fit(m, X)
    assert report.m2_df == 36 - m.n_parameters_  # the rotation is no parameter
    assert np.isfinite([report.m2, report.rmsea, report.cfi]).all()
    assert np.isfinite(m.item_fit(X).infit).all()
    found = m.reliability(X)
    assert found.eap.shape == (2,)
    assert np.isnan([found.marginal, *found.wle]).all()
    assert m.plausible_values(X[:3], random_state=0).draws.shape == (5, 3, 2)
    with pytest.warns(UserWarning, match="no finite ML score"):
        ml = m.scores(X, "ml")
    assert 0 < np.isfinite(ml.value).all(1).sum() < 300
    with pytest.raises(ValueError, match="one dimension"):
        m.scores(X, "wle")
    with pytest.raises(ValueError, match="test_information is for one latent dimension"):
        m.test_information(0.0)


@pytest.mark.slow("a prior is compiled for")
def test_m2_of_a_fit_with_a_prior_says_so():
    X = answers(80, 4)
    prior = ItemResponse(weight_prior=1.0, random_state=0, tol=1e-3).fit(X)
    assert any("maximum likelihood" in note for note in more_of_fit(prior, X).notes)


# ---------------------------------------------------------------- against R


def numbers(text):
    return np.array([float(part) for part in text.split()])


M2 = {  # m2, df, p, rmsea, low, high, srmsr, tli, cfi
    ("lsat6", False): "4.73838 5 0.44863 0 0 0.0427724 0.0213222 1.00921 1",
    ("lsat7", False): "11.9384 5 0.035641 0.0372702 0.00895474 0.0649674 0.0319629 0.936927 0.968463",
    ("lsat7", True): "23.1745 9 0.0058161 0.0397054 0.0200424 0.0599851 0.0474382 0.928415 0.935574",
    ("ability16", False): "553.171 104 2.0475e-62 0.0588513 0.0540557 0.0636976 0.0506054 0.941562 0.949354",
}
S_X2 = {  # with cells of at least 1 expected: statistic and df; and with all score groups
    ("lsat6", False): ("0.45037 1.691 0.66628 0.17531 0.11105", "2 2 1 2 2", "0.45037 1.691 0.987 0.17531 0.11105"),
    ("lsat7", False): ("4.7505 14.453 1.2727 5.2365 0.94094", "2 2 2 2 2", "4.7505 14.453 1.2727 5.2365 0.94094"),
    ("lsat7", True): (None, None, "5.5927 12.189 8.5881 8.9873 4.8773"),
    ("ability16", False): (
        "23.084 16.089 10.428 18.516 11.214 17.281 22.063 10.323 11.986 22.58 12.2 16.301 72.539 41.151 25.048 32.125",
        "12 12 11 12 12 13 12 12 13 13 13 13 11 10 12 11",
        "24.11 16.29 12.59 19.433 16.69 17.281 26.586 11.244 11.986 22.58 12.2 16.301 78.057 51.445 25.946 32.836",
    ),
}
RASCH = {  # infit, its z, outfit, its z at posterior means, Warm's scores and maximum likelihood
    ("lsat7", "eap"): (
        "0.93932 0.82613 0.85956 0.8175 0.99354",
        "-1.025 -6.302 -3.201 -7.961 -0.07973",
        "0.74433 0.75759 0.71123 0.76972 0.79729",
        "-3.596 -7.499 -5.419 -8.875 -2.572",
    ),
    ("lsat7", "wle"): (
        "0.7672 0.80201 0.73375 0.82464 0.82699",
        "-5.333 -6.685 -7.427 -6.121 -3.64",
        "0.56633 0.68988 0.56271 0.71015 0.61409",
        "-5.778 -7.003 -7.396 -7.065 -4.667",
    ),
    ("lsat7", "ml"): (
        "0.73716 0.80161 0.70019 0.85922 0.80603",
        "-5.912 -7.369 -8.248 -5.963 -4.009",
        "0.6377 0.80476 0.62709 0.83596 0.70631",
        "-6.492 -6.276 -8.805 -5.46 -4.702",
    ),
    ("ability16", "eap"): (
        "0.85265 0.93285 0.82986 0.92218 0.87395 0.92257 0.84928 0.88763 0.99467 0.97581 0.92893 1.0676 0.81984 "
        "0.79501 0.86907 0.87998",
        "-5.31 -2.116 -5.388 -2.905 -4.842 -3.01 -5.805 -4.605 -0.2054 -0.9601 -2.675 2.445 -4.597 -5.643 -4.413 "
        "-2.895",
        "0.74728 0.83977 0.72551 0.90131 0.82371 0.8969 0.81767 0.83393 0.98029 0.97174 0.85933 1.1215 0.92515 0.77202 "
        "0.85064 0.87333",
        "-4.864 -2.464 -4.265 -1.962 -3.772 -2.34 -3.829 -4.538 -0.4719 -0.6526 -2.901 2.645 -0.8603 -3.086 -2.798 "
        "-1.432",
    ),
}
SCORES = {  # by own formula: pattern, then value and error of EAP, MAP, WLE and ML
    "lsat7": """00000 -1.86978 0.692701 -1.81639 0.674999 -4.13707 1.95733 -inf nan
00001 -1.52726 0.673627 -1.49464 0.649614 -2.59983 1.16062 -3.12431 1.38208
00010 -1.51397 0.673081 -1.48228 0.648865 -2.5621 1.14633 -3.06933 1.3568
00011 -1.1855 0.665174 -1.17913 0.637344 -1.86105 0.92548 -2.10161 0.990662
00100 -1.09404 0.665024 -1.09523 0.636726 -1.71704 0.893077 -1.90978 0.937625
00101 -0.76618 0.672126 -0.794627 0.644282 -1.28477 0.832419 -1.34265 0.837006
00110 -0.752926 0.672658 -0.782446 0.644903 -1.26903 0.831373 -1.32215 0.835249
00111 -0.411279 0.692205 -0.466363 0.668557 -0.882017 0.834087 -0.815603 0.840167
01000 -1.37196 0.668304 -1.35075 0.642176 -2.21279 1.02485 -2.57798 1.15232
01001 -1.0458 0.66532 -1.05102 0.636879 -1.64641 0.879231 -1.81629 0.914834""",
    "ability16": """0000010000010000 -1.54893 0.470809 -1.47996 0.452487 -1.76483 0.579651 -1.95138 0.639259
0010101000000010 -0.741135 0.389571 -0.724233 0.380163 -0.82055 0.416671 -0.848713 0.418639
0110100011000000 -0.723683 0.388732 -0.707607 0.37952 -0.80194 0.41545 -0.828586 0.417217
1.0000100.000000 -1.12325 0.443635 -1.07741 0.427005 -1.24384 0.499221 -1.33937 0.518127
.110010.11000000 -0.560342 0.417755 -0.549384 0.41 -0.643623 0.452554 -0.661249 0.453263
1111111111101110 1.46447 0.458523 1.40651 0.439111 1.65337 0.541703 1.80092 0.58283
1111111111101111 1.83582 0.516898 1.74501 0.492813 2.20174 0.734985 2.6452 0.982767
0100000001100100 -0.880633 0.3976 -0.856597 0.386618 -0.970025 0.428873 -1.01182 0.433089
1101011110000000 -0.301628 0.377933 -0.300596 0.373318 -0.348936 0.402347 -0.349262 0.402348
1111001011000.00 -0.242003 0.387243 -0.248032 0.381155 -0.298378 0.411123 -0.290087 0.411294""",
}
ZH = {  # of the same patterns; then mean, sd and least over all rows
    "lsat7": (
        "0.57992 1.0434 -0.9105 -0.25635 -1.637 -0.39846 -2.2445 -0.78902 -1.4104 -0.56193",
        "0.1895 0.7406 -2.747",
    ),
    "ability16": (
        "0.12973 -0.65233 0.7649 0.609 0.66155 0.90837 0.77982 -1.4466 0.18351 1.0953",
        "0.2945 1.017 -4.919",
    ),
}
RELIABILITY = {  # marginal, EAP, MAP, ML, WLE with mirt's errors, alpha
    "lsat7": "0.441819 0.452305 0.435408 0.452184 0.47674 0.453409",
    "ability16": "0.828636 0.820729 0.815825 0.820135 0.823245 nan",
}
INFORMATION = {
    "lsat7": "1.0815 1.4608 0.91806 0.40237 0.16893",
    "ability16": "2.3203 5.3619 6.064 5.2057 2.3622",
}
# of LSAT7: lower triangles, row after row; EAP, SD, observed and expected number of each sum
Q3 = "-0.1345 -0.2137 -0.1628 -0.01211 -0.1339 -0.1698 0.008696 -0.1245 -0.1147 -0.05447"
LD_X2 = "0.451 0.8564 1.053 2.578 0.2661 0.1544 2.393 1.383 0.002956 1.053e-05"
SUM_SCORES = """-1.8698 0.6927 12 10.09
-1.4319 0.68387 40 44.659
-0.94885 0.69423 114 109.77
-0.4132 0.7211 205 207.74
0.15173 0.75877 321 319.19
0.72718 0.80093 308 308.55"""


@pytest.fixture(scope="module")
def fitted(lsat):
    """Fits of the reference sets, each once: name, equal slopes, complete rows only."""

    @cache
    def fit(name, tied=False, complete=False):
        settings = {"model": "1PL"} if tied else {}
        if name != "ability16":
            return lsat(name, **settings)
        X = np.asarray(load_dataset(name).X, float)
        X = X[~np.isnan(X).any(1)] if complete else X[~np.isnan(X).all(1)]
        return ItemResponse(random_state=0, tol=1e-10, dtype="float64", **settings).fit(X), X

    return fit


def cases(keys):
    """Mark what needs the folder of real data: LSAT6 and LSAT7 are bundled."""
    keys = [key if isinstance(key, tuple) else (key,) for key in keys]
    return [pytest.param(*key, marks=[pytest.mark.real_data] * ("ability16" in key)) for key in keys]


NAMES = ["lsat7", "ability16"]


@pytest.mark.parametrize(("name", "tied"), cases(M2))
def test_m2_against_mirt(name, tied, fitted):
    m, X = fitted(name, tied, complete=True)
    report = more_of_fit(m, X)
    fields = ("m2", "m2_df", "m2_p", "rmsea", "rmsea_low", "rmsea_high", "srmsr", "tli", "cfi")
    expected = numbers(M2[name, tied])
    found = np.array([report[field] for field in fields])
    np.testing.assert_allclose(np.delete(found, 2), np.delete(expected, 2), rtol=5e-3, atol=1e-5)
    np.testing.assert_allclose(np.log(found[2]), np.log(expected[2]), rtol=5e-3)


@pytest.mark.real_data
def test_m2_with_missing_answers_is_near_mirt(fitted, real_data):
    """mirt weights residuals by their rows, beside the covariance of complete ones; this knows the rows two share."""
    m, X = fitted("ability16")
    report = more_of_fit(m, X)
    assert report.m2_df == 104
    np.testing.assert_allclose(report.m2, 592.368, rtol=0.06)
    np.testing.assert_allclose(report.rmsea, 0.0558028, rtol=0.04)
    np.testing.assert_allclose(report.srmsr, 0.0515066, rtol=5e-3)


@pytest.mark.parametrize(("name", "tied"), cases(S_X2))
def test_s_x2_against_mirt(name, tied, fitted):
    m, X = fitted(name, tied, complete=True)
    merged, df, every = S_X2[name, tied]
    if merged is not None:
        report = m.item_fit(X)
        np.testing.assert_allclose(report.s_x2, numbers(merged), rtol=5e-3)
        assert report.df.tolist() == numbers(df).tolist()
    report = m.item_fit(X, min_expected=0)
    np.testing.assert_allclose(report.s_x2, numbers(every), rtol=5e-3)
    assert set(report.df) == {2 if X.shape[1] == 5 else 13}


@pytest.mark.parametrize(("name", "scores"), cases(RASCH))
def test_infit_and_outfit_against_mirt(name, scores, fitted):
    m, X = fitted(name, tied=True)
    report = m.item_fit(X, scores=scores)
    for field, expected in zip(("infit", "infit_z", "outfit", "outfit_z"), RASCH[name, scores]):
        # where answers are missing, mirt's z of outfit takes the number of answers from other items (R recycles it)
        off = 6 if name == "ability16" and field == "outfit_z" else 1
        np.testing.assert_allclose(report[field], numbers(expected), rtol=off * 5e-3, atol=off * 5e-3)


def _rows(name, columns):
    lines = [line.split() for line in SCORES[name].splitlines()]
    X = np.array([[np.nan if bit == "." else float(bit) for bit in line[0]] for line in lines])
    assert X.shape[1] == columns
    return X, np.array([[float(part) for part in line[1:]] for line in lines])


@pytest.mark.parametrize("name", cases(NAMES))
def test_scores_against_own_formula(name, fitted):
    m, data = fitted(name)
    X, expected = _rows(name, data.shape[1])
    for place, method in enumerate(("eap", "map", "wle", "ml")):
        value, error = expected[:, 2 * place], expected[:, 2 * place + 1]
        if np.isinf(value).any():
            with pytest.warns(UserWarning, match="1 rows have no finite ML score"):
                found = m.scores(X, method)
        else:
            found = m.scores(X, method)
        np.testing.assert_allclose(found.value[:, 0], value, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(found.error[:, 0], error, rtol=2e-5, atol=2e-5)
    zh, over_all = ZH[name]
    np.testing.assert_allclose(m.person_fit(X).lz, numbers(zh), atol=5e-4)
    lz = m.person_fit(data).lz
    np.testing.assert_allclose([lz.mean(), lz.std(ddof=1), lz.min()], numbers(over_all), rtol=1e-3)


@pytest.mark.parametrize("name", cases(NAMES))
def test_reliability_and_information_against_mirt(name, fitted):
    m, X = fitted(name)
    report = m.reliability(X)
    marginal, eap, map_, ml, wle, alpha = numbers(RELIABILITY[name])
    found = [report.marginal, *report.eap, *report.map, *report.ml]
    np.testing.assert_allclose(found, [marginal, eap, map_, ml], rtol=1e-3)
    if not np.isnan(alpha):
        np.testing.assert_allclose(report.alpha, alpha, rtol=1e-5)
    # mirt's errors of Warm's scores are from the curvature of what is maximised: larger reliability than by 1 / sqrt(I)
    scores = m.scores(X, "wle").value[:, 0]
    curvature = _curvature(m, X, scores)
    variance = scores.var(ddof=1)
    np.testing.assert_allclose(variance / (variance + np.mean(1 / curvature)), wle, rtol=5e-3)
    assert report.wle[0] < wle
    information = m.test_information([-2, -1, 0, 1, 2]).information
    np.testing.assert_allclose(information, numbers(INFORMATION[name]), rtol=1e-4)


def _curvature(m, X, z, step=1e-3):
    """Minus the second derivative of log-likelihood + 1/2 log information, numerically."""

    def height(z):
        p = m.inverse_transform(z[:, None]).astype(float)
        seen = ~np.isnan(X)
        information = np.sum(m.components_[0] ** 2 * p * (1 - p) * seen, 1)
        return np.nansum(np.where(X == 1, np.log(p), np.log1p(-p)) * seen, 1) + 0.5 * np.log(information)

    return (2 * height(z) - height(z + step) - height(z - step)) / step**2


def test_pairs_and_sum_scores_against_mirt(lsat):
    m, X = lsat()
    report = m.local_dependence(X)
    lower = np.tril_indices(5, -1)
    np.testing.assert_allclose(report.q3[lower], numbers(Q3), rtol=5e-3, atol=1e-5)
    np.testing.assert_allclose(report.x2[lower], numbers(LD_X2), rtol=5e-3, atol=5e-5)
    table = m.sum_scores(X)
    found = np.stack([table.eap, table.sd, table.observed, table.expected], 1)
    np.testing.assert_allclose(found, [numbers(line) for line in SUM_SCORES.splitlines()], rtol=1e-4)


@pytest.mark.real_data
def test_pairs_of_ability16_against_mirt(fitted, real_data):
    m, X = fitted("ability16")
    report = m.local_dependence(X)
    pairs = report.q3[np.triu_indices(16, 1)]
    over_all = [pairs.mean(), pairs.std(ddof=1), pairs.min(), pairs.max()]
    np.testing.assert_allclose(over_all, [-0.05835, 0.0615, -0.1683, 0.1656], rtol=5e-3)
    last = "0.4633 0.7756 2.322 3.939 18.49 7.898 13.57 1.264 1.198 2.568 1.426 0.8574 24.7 21.01 30.88"
    np.testing.assert_allclose(report.x2[15, :15], numbers(last), rtol=5e-3)
    assert report.signed_x2[8, 9] > 0 > report.signed_x2[4, 15]


# ---------------------------------------------------------------- item models


@pytest.fixture(scope="module")
def rasch(lsat):
    """The same model of LSAT7 twice: a slope for all, and a slope of 1 with the trait's variance."""
    return [lsat(model="1PL")[0], lsat(model="Rasch")[0]]


@pytest.mark.slow("two fits of another model")
def test_rasch_of_lsat7_against_mirt(lsat, rasch):
    (common, m), X = rasch, lsat()[1]
    assert m.log_likelihood(X) == pytest.approx(-2664.900891, abs=1e-4)
    assert m.population_.variance[0] == pytest.approx(1.02265, abs=1e-4)
    assert m.intercept_ == pytest.approx([1.8683, 0.791, 1.461, 0.5215, 1.993], abs=1e-4)
    assert np.array_equal(m.components_, np.ones((1, 5)))
    assert m.n_parameters_ == common.n_parameters_ == 6
    assert np.sqrt(m.population_.variance[0]) == pytest.approx(common.components_[0, 0], rel=1e-3)
    errors = m.standard_errors(X)
    assert errors.group_variances[0] == pytest.approx(0.1313, rel=2e-3)
    assert errors.intercept == pytest.approx([0.1004, 0.08116, 0.09131, 0.07872, 0.1037], rel=2e-3)
    assert np.isnan(errors.components).all()


@pytest.mark.slow("scores and draws are compiled for")
def test_a_free_variance_changes_no_report_but_units(lsat, rasch):
    X = lsat()[1]
    tied, free = (one.fit_report(X) for one in rasch)
    for name in ("log_likelihood", "n_parameters", "m2", "m2_df", "rmsea", "srmsr", "tli", "cfi"):
        assert free[name] == pytest.approx(tied[name], rel=1e-3), name
    tied, free = (one.item_fit(X) for one in rasch)
    for name in ("s_x2", "df", "infit", "outfit"):
        np.testing.assert_allclose(free[name], tied[name], rtol=1e-3)
    tied, free = (one.sum_scores(X) for one in rasch)
    m = rasch[1]
    spread = m.population_.variance[0] ** 0.5
    for name in ("eap", "sd"):
        np.testing.assert_allclose(free[name], spread * tied[name], atol=1e-3)
    np.testing.assert_allclose(free.expected, tied.expected, rtol=1e-3)
    # all patterns of a sum are as likely at any trait, so a person's score is that of the sum
    scores = m.scores(X).value
    np.testing.assert_allclose(scores[:, 0], free.eap[X.sum(axis=1)], atol=1e-6)
    np.testing.assert_allclose(m.person_fit(X).score, scores, atol=1e-6)
    draws = m.plausible_values(X, n_draws=40, random_state=0).draws
    assert draws.var() == pytest.approx(m.population_.variance[0], rel=0.1)


GIVEN = np.array([1.0, 1.5, 0.8, 1.2]), np.array([0.5, -1.0, 0.0, 1.0]), np.array([0.0, 0.25, 0.2, 0.0])


@pytest.mark.slow("a fit with asymptotes")
def test_asymptotes_are_in_the_reports():
    """A report of given items is that of these items, asymptotes included."""
    slopes, intercepts, lower = GIVEN
    m = ItemResponse.from_items(slopes, intercepts, lower)
    bits = m.sample(400, random_state=0)
    found = m.item_fit(bits)
    items = Items([str(j) for j in range(4)], slopes[:, None], intercepts, lower)
    rows = distinct([bits])
    expected = item_fit(items, rows, m.scores(bits).value[np.unique(rows.place, return_index=True)[1]], 1.0)
    np.testing.assert_allclose(found.s_x2, expected.s_x2, rtol=1e-6)
    np.testing.assert_allclose(found.outfit, expected.outfit, rtol=1e-4)
    assert any("fixed or shared" in note for note in found.notes)
    assert np.isnan(m.fit_report(bits).m2)


def test_weighted_likelihood_scores_of_given_items():
    slopes, intercepts, lower = GIVEN
    m = ItemResponse.from_items(slopes, intercepts, lower)
    row = np.array([[1, 0, 1, 1]])
    theta = np.linspace(-8, 8, 160_001)[:, None]
    sigmoid = expit(theta * slopes + intercepts)
    p = lower + (1 - lower) * sigmoid
    change = (1 - lower) * slopes * sigmoid * (1 - sigmoid)
    information = np.sum(change**2 / (p * (1 - p)), 1)
    objective = np.log(np.where(row == 1, p, 1 - p)).sum(1) + np.log(information) / 2
    best = int(objective.argmax())
    found = m.scores(row, method="wle")
    assert found.value[0, 0] == pytest.approx(theta[best, 0], abs=2e-4)
    assert found.error[0, 0] == pytest.approx(information[best] ** -0.5, rel=1e-3)

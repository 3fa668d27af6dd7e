"""Reports of items against R (mirt, ltm), and what the estimator adds: names, weights, columns that do not vary."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from latentbits import LatentTrait, load_dataset
from latentbits.reports.fit import fit_report
from latentbits.reports.limited_information import ItemFitReport
from latentbits.reports.sum_scores import sum_scores


def answers(n=200, d=6, q=1, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, q))
    return (rng.random((n, d)) < expit(z @ rng.uniform(0.7, 1.6, (q, d)) + rng.normal(0, 0.7, d))).astype(float)


def more_of_fit(m, X, sample_weight=None):
    return m._more_of_fit(X, sample_weight, fit_report(-1.0, 0.0, m.n_parameters_, len(X)))


@pytest.fixture(scope="module")
def table():
    """Named columns, one of which does not vary, and some answers missing."""
    X = np.column_stack([answers(), np.ones(200)])
    X[:10, 2] = np.nan
    X[10] = np.nan
    return pd.DataFrame(X, columns=[f"q{i}" for i in range(7)])


@pytest.fixture(scope="module")
def model(table):
    return LatentTrait(1, random_state=0, tol=1e-5).fit(table)


def test_every_report_has_the_names_and_says_what_it_leaves_out(model, table):
    fit, pairs = model.item_fit(table), model.local_dependence(table)
    assert fit.item == pairs.item == list(table.columns)
    assert fit.to_frame().index.tolist() == list(table.columns)
    for report in (fit, pairs, model.person_fit(table), model.sum_scores(table), model.reliability(table)):
        assert any("answer alike: q6" in note for note in report.notes)
        assert "note: " in str(report)
    assert np.isnan([fit.s_x2[6], fit.infit[6], pairs.q3[6, 0], pairs.x2[0, 6]]).all()
    assert np.isfinite(fit.outfit[:6]).all()
    assert any("of the 189 of 199 rows" in note for note in fit.notes)
    whole = table.drop(columns="q6")
    alone = LatentTrait(1, random_state=0, tol=1e-5).fit(whole)
    np.testing.assert_allclose(fit.outfit[:6], alone.item_fit(whole).outfit, rtol=1e-3)
    report, without = more_of_fit(model, table), more_of_fit(alone, whole)
    assert isinstance(report, ItemFitReport)
    np.testing.assert_allclose(report.m2, without.m2, rtol=1e-3)
    assert report.m2_df == without.m2_df == 21 - 12
    assert any("missing" in note for note in report.notes)


def test_rows_without_an_answer(model, table):
    assert np.isnan(model.person_fit(table).lz[10])
    with pytest.warns(UserWarning, match="no finite ML score"):
        ml = model.scores(table, "ml")
    assert np.isnan(ml.value[10]).all()
    with pytest.warns(UserWarning, match="1 rows have no finite WLE score") as told:
        wle = model.scores(table, "wle")
    assert str(told[0].message).endswith("no answer tells of the latent. method='eap' gives all rows a score")
    assert np.isfinite(model.item_fit(table, scores="wle").outfit[:6]).all()
    rest = np.delete(np.arange(200), 10)
    assert np.isfinite(wle.value[rest]).all()
    top = np.isinf(ml.value[:, 0])
    assert top.any()
    assert np.isnan(ml.error[top]).all()
    share = np.nanmean(table.to_numpy()[:, :6][top], 1)
    np.testing.assert_array_equal(ml.value[top, 0] > 0, share == 1)
    assert set(share) <= {0.0, 1.0}


def test_weights_are_counts(model, table):
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 4, 200)
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


def test_scores_agree_with_each_other(model, table):
    ours = model.person_fit(table).score
    np.testing.assert_allclose(ours, model.scores(table).value, atol=1e-3)
    # in float32 the density is flat about its maximum, further out than its derivatives are
    np.testing.assert_allclose(model.person_fit(table, scores="map").score, model.scores(table, "map").value, atol=2e-6)
    drawn = model.plausible_values(table, 40, random_state=0)
    assert drawn.draws.shape == (40, 200, 1)
    away = (drawn.draws.mean(0) - model.scores(table).value) / model.scores(table).error * np.sqrt(40)
    assert 0.85 < away.std() < 1.15
    assert str(drawn) == "40 plausible values of 200 rows"
    np.testing.assert_array_equal(drawn.draws, model.plausible_values(table, 40, random_state=0).draws)
    assert len(drawn.table().columns) == 40
    points = model.test_information([-1, 0.5])
    np.testing.assert_allclose(points.information, model.item_information([[-1], [0.5]]).sum(1))
    np.testing.assert_allclose(points.error, points.information**-0.5)
    np.testing.assert_array_equal(model.item_information([-1, 0.5]), model.item_information([[-1], [0.5]]))
    assert model.item_information(0.0).shape == (1, 7)


def test_sum_scores_are_of_all_columns():
    """A constant item is in the sum, and what the other items tell is found there."""
    bits = answers(60, 4)
    m = LatentTrait(1, random_state=0, tol=1e-3)
    X = np.column_stack([bits[:, :2], np.ones(60), bits[:, 2:], np.zeros(60)]).astype(int)
    table = m.fit(X).sum_scores(X)
    assert table.score.tolist() == list(range(7))
    assert np.isnan(table.eap[[0, 6]]).all()
    assert table.expected[[0, 6]].tolist() == table.observed[[0, 6]].tolist() == [0, 0]
    items, which = m._varying("sum_scores")
    alone = sum_scores(items, m._answers(X).of_items(which))
    np.testing.assert_allclose(table.eap[X.sum(axis=1)], alone.eap[bits.sum(1).astype(int)])
    np.testing.assert_allclose(table.sd[1:6], alone.sd)
    np.testing.assert_allclose(table.expected[1:6], alone.expected)
    assert table.observed.tolist() == np.bincount(X.sum(1), minlength=7).tolist()
    assert table.notes == ("in the sum, though in the fit all rows answer alike: column 2, column 5",)
    X[0, 2] = 0
    table = m.sum_scores(X)
    assert table.observed.sum() == 59
    assert "1 rows that answer these otherwise are left out" in table.notes


def test_what_cannot_be_told_is_refused(model, table):
    with pytest.raises(ValueError, match="scores must be one of eap, map, ml, wle"):
        model.item_fit(table, scores="mean")
    with pytest.raises(ValueError, match="theta must be a number"):
        model.test_information([[0.0]])
    with pytest.raises(ValueError, match="n_draws must be at least 1"):
        model.plausible_values(table, 0)


@pytest.mark.slow
def test_several_dimensions():
    X = answers(300, 8, 2)
    m = LatentTrait(2, random_state=0, tol=1e-4).fit(X)
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


@pytest.mark.slow
def test_models_that_are_no_test_are_told_so():
    X = pd.DataFrame(answers(80, 4), columns=list("abcd")).assign(e=np.linspace(0, 1, 80))
    mixed = LatentTrait(1, column_types="infer", random_state=0, tol=10).fit(X)
    with pytest.raises(ValueError, match="binary columns only"):
        mixed.item_fit(X)
    report = more_of_fit(mixed, X)
    assert np.isnan(report.m2)
    assert "binary columns only" in report.notes[0]
    prior = LatentTrait(1, weight_prior=1.0, random_state=0, tol=1e-3).fit(X.drop(columns="e"))
    assert any("maximum likelihood" in note for note in more_of_fit(prior, X.drop(columns="e")).notes)


# ---------------------------------------------------------------- against R


def numbers(text):
    return np.array([float(part) for part in text.split()])


M2 = {  # m2, df, p, rmsea, low, high, srmsr, tli, cfi
    ("lsat6", False): "4.73838 5 0.44863 0 0 0.0427724 0.0213222 1.00921 1",
    ("lsat6", True): "5.29135 9 0.80821 0 0 0.0225366 0.0224192 1.07253 1",
    ("lsat7", False): "11.9384 5 0.035641 0.0372702 0.00895474 0.0649674 0.0319629 0.936927 0.968463",
    ("lsat7", True): "23.1745 9 0.0058161 0.0397054 0.0200424 0.0599851 0.0474382 0.928415 0.935574",
    ("ability16", False): "553.171 104 2.0475e-62 0.0588513 0.0540557 0.0636976 0.0506054 0.941562 0.949354",
    ("ability16", True): "734.447 119 2.425e-89 0.0644004 0.0599474 0.0688844 0.0723934 0.930022 0.930605",
}
S_X2 = {  # with cells of at least 1 expected: statistic and df; and with all score groups
    ("lsat6", False): (
        "0.45037 1.691 0.66628 0.17531 0.11105",
        "2 2 1 2 2",
        "0.45037 1.691 0.987 0.17531 0.11105",
    ),
    ("lsat6", True): (None, None, "0.43632 1.5761 1.1167 0.18952 0.1898"),
    ("lsat7", False): ("4.7505 14.453 1.2727 5.2365 0.94094", "2 2 2 2 2", "4.7505 14.453 1.2727 5.2365 0.94094"),
    ("lsat7", True): (None, None, "5.5927 12.189 8.5881 8.9873 4.8773"),
    ("ability16", False): (
        "23.084 16.089 10.428 18.516 11.214 17.281 22.063 10.323 11.986 22.58 12.2 16.301 72.539 41.151 25.048 32.125",
        "12 12 11 12 12 13 12 12 13 13 13 13 11 10 12 11",
        "24.11 16.29 12.59 19.433 16.69 17.281 26.586 11.244 11.986 22.58 12.2 16.301 78.057 51.445 25.946 32.836",
    ),
    ("ability16", True): (
        None,
        None,
        "30.96 16.413 25.496 21.591 18.738 22.529 30.039 13.324 40.05 35.078 13.674 102.18 48.096 35.967 20.994 25.794",
    ),
}
RASCH = {  # infit, its z, outfit, its z at posterior means, Warm's scores and maximum likelihood
    ("lsat6", "eap"): (
        "1.077 0.88457 0.82691 0.91831 1.0131",
        "0.7245 -3.661 -12.72 -1.959 0.1992",
        "0.81895 0.82053 0.81476 0.82324 0.82654",
        "-1.557 -5.227 -12.94 -3.924 -2.187",
    ),
    ("lsat6", "wle"): (
        "0.71909 0.80559 0.78228 0.80143 0.76682",
        "-4.09 -6.455 -8.125 -5.859 -4.685",
        "0.50527 0.66519 0.70669 0.63932 0.56424",
        "-4.146 -7.04 -7.934 -6.418 -5.04",
    ),
    ("lsat6", "ml"): (
        "0.70003 0.78762 0.862 0.77296 0.73955",
        "-4.383 -7.38 -7.249 -6.667 -5.134",
        "0.57679 0.75726 0.85103 0.72457 0.64015",
        "-4.628 -7.558 -5.159 -7.057 -5.589",
    ),
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
    ("ability16", "wle"): (
        "0.87243 0.95078 0.83117 0.95627 0.90346 0.96287 0.87381 0.93259 1.0508 1.0274 0.96517 1.1429 0.80885 0.78931 "
        "0.90357 0.88403",
        "-4.44 -1.52 -5.285 -1.553 -3.536 -1.359 -4.653 -2.547 1.902 1.033 -1.244 4.729 -4.739 -5.6 -3.025 -2.708",
        "0.77248 0.86029 0.73611 0.96254 0.86476 0.96739 0.87768 0.881 1.0707 1.0705 0.89873 1.262 0.99716 0.80577 "
        "0.90508 0.90404",
        "-3.097 -1.548 -2.973 -0.4987 -2.005 -0.4923 -1.779 -2.277 1.205 1.15 -1.454 4.176 0.005472 -2.166 -1.388 "
        "-0.9109",
    ),
}
SCORES = {  # by own formula: pattern, then value and error of EAP, MAP, WLE and ML
    "lsat6": """00000 -1.89677 0.80128 -1.89526 0.795525 -5.7039 2.30463 -inf nan
00001 -1.47481 0.802276 -1.47951 0.796129 -3.9515 1.53735 -4.35729 1.65274
00010 -1.45453 0.802411 -1.45953 0.796236 -3.8906 1.52267 -4.27262 1.62602
00011 -1.02944 0.807126 -1.0413 0.800253 -2.75661 1.35073 -2.86787 1.36046
00100 -1.32398 0.803474 -1.33101 0.7971 -3.5188 1.4465 -3.78168 1.49802
00101 -0.897161 0.80934 -0.911298 0.802249 -2.43209 1.32917 -2.50123 1.33296
00110 -0.87651 0.809717 -0.891008 0.802594 -2.38202 1.32668 -2.44537 1.32987
00111 -0.440881 0.819694 -0.463237 0.812157 -1.35153 1.31931 -1.30623 1.32096
01000 -1.43239 0.802567 -1.43773 0.79636 -3.82524 1.50764 -4.18324 1.59936
01001 -1.00703 0.807476 -1.01927 0.800564 -2.70113 1.34635 -2.80452 1.35477""",
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
    "lsat6": (
        "-1.206 -0.95121 -1.8918 -1.1597 -3.5328 -2.579 -3.4119 -2.0803 -2.3089 -1.5322",
        "0.1281 0.8269 -3.533",
    ),
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
    "lsat6": "0.298949 0.301089 0.297407 0.386719 0.492235 0.294997",
    "lsat7": "0.441819 0.452305 0.435408 0.452184 0.47674 0.453409",
    "ability16": "0.828636 0.820729 0.815825 0.820135 0.823245 nan",
}
INFORMATION = {
    "lsat6": "0.57888 0.5592 0.46018 0.30701 0.17084",
    "lsat7": "1.0815 1.4608 0.91806 0.40237 0.16893",
    "ability16": "2.3203 5.3619 6.064 5.2057 2.3622",
}
Q3 = {  # lower triangle, row after row; of ability16 the largest
    "lsat6": "-0.04207 -0.04224 -0.1157 -0.06472 -0.09817 -0.09435 -0.06286 -0.03022 -0.1056 -0.00417",
    "lsat7": "-0.1345 -0.2137 -0.1628 -0.01211 -0.1339 -0.1698 0.008696 -0.1245 -0.1147 -0.05447",
}
LD_X2 = {
    "lsat6": "0.04692 0.3891 0.0001144 0.2479 0.4356 0.02867 0.52 0.366 0.748 1.301",
    "lsat7": "0.451 0.8564 1.053 2.578 0.2661 0.1544 2.393 1.383 0.002956 1.053e-05",
}
SUM_SCORES = {  # EAP, SD, observed, expected
    "lsat6": """-1.8968 0.80128 3 2.2765
-1.413 0.80438 20 20.469
-0.93521 0.81049 85 89.028
-0.44552 0.82191 237 229.13
0.074604 0.83886 357 362.42
0.64562 0.85901 298 296.68""",
    "lsat7": """-1.8698 0.6927 12 10.09
-1.4319 0.68387 40 44.659
-0.94885 0.69423 114 109.77
-0.4132 0.7211 205 207.74
0.15173 0.75877 321 319.19
0.72718 0.80093 308 308.55""",
}


@pytest.fixture(scope="module")
def fitted():
    """Fits of the reference sets, each once: name, equal slopes, complete rows only."""
    kept = {}

    def fit(name, tied=False, complete=False):
        if (name, tied, complete) not in kept:
            X = np.asarray(load_dataset(name).X, float)
            X = X[~np.isnan(X).any(1)] if complete else X[~np.isnan(X).all(1)]
            m = LatentTrait(1, equal_discrimination=tied, random_state=0, tol=1e-10, dtype="float64").fit(X)
            kept[name, tied, complete] = m, X
        return kept[name, tied, complete]

    return fit


NAMES = ["lsat6", "lsat7", "ability16"]


@pytest.mark.real_data
@pytest.mark.parametrize(("name", "tied"), M2)
def test_m2_against_mirt(name, tied, fitted, real_data):
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


@pytest.mark.real_data
@pytest.mark.parametrize(("name", "tied"), S_X2)
def test_s_x2_against_mirt(name, tied, fitted, real_data):
    m, X = fitted(name, tied, complete=True)
    merged, df, every = S_X2[name, tied]
    if merged is not None:
        report = m.item_fit(X)
        np.testing.assert_allclose(report.s_x2, numbers(merged), rtol=5e-3)
        assert report.df.tolist() == numbers(df).tolist()
    report = m.item_fit(X, min_expected=0)
    np.testing.assert_allclose(report.s_x2, numbers(every), rtol=5e-3)
    assert set(report.df) == {2 if X.shape[1] == 5 else 13}


@pytest.mark.real_data
@pytest.mark.parametrize(("name", "scores"), RASCH)
def test_infit_and_outfit_against_mirt(name, scores, fitted, real_data):
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


@pytest.mark.real_data
@pytest.mark.parametrize("name", NAMES)
def test_scores_against_own_formula(name, fitted, real_data):
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


@pytest.mark.real_data
@pytest.mark.parametrize("name", NAMES)
def test_reliability_and_information_against_mirt(name, fitted, real_data):
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


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["lsat6", "lsat7"])
def test_pairs_and_sum_scores_against_mirt(name, fitted, real_data):
    m, X = fitted(name)
    report = m.local_dependence(X)
    lower = np.tril_indices(5, -1)
    np.testing.assert_allclose(report.q3[lower], numbers(Q3[name]), rtol=5e-3, atol=1e-5)
    np.testing.assert_allclose(report.x2[lower], numbers(LD_X2[name]), rtol=5e-3, atol=5e-5)
    table = m.sum_scores(X)
    found = np.stack([table.eap, table.sd, table.observed, table.expected], 1)
    np.testing.assert_allclose(found, [numbers(line) for line in SUM_SCORES[name].splitlines()], rtol=1e-4)


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

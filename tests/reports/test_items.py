"""Reports of items against brute force: all patterns written out, fine grids, numerical derivatives."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import chi2, kstest, norm

from latentbits.core.batch import MISSING
from latentbits.estimators.psychometrics import item_errors
from latentbits.reports.fit import fit_report
from latentbits.reports.item_fit import item_fit, mean_squares, merged, score_groups
from latentbits.reports.items import Answers, Items, curves, distinct, grid_for, in_place, log_curves, whole
from latentbits.reports.limited_information import ItemFitReport, limited_fit, margins, with_limited_fit, without_m2
from latentbits.reports.local_dependence import local_dependence
from latentbits.reports.person_fit import person_fit
from latentbits.reports.reliability import alpha, empirical, reliability, test_information
from latentbits.reports.scoring import Estimates, draw, estimates
from latentbits.reports.sum_scores import sum_scores


def make(d=5, q=1, seed=0, lower=()):
    rng = np.random.default_rng(seed)
    slopes = rng.uniform(0.5, 2, (d, q)) * np.where(rng.random((d, q)) < 0.3, -1, 1) ** (q > 1)
    guess = np.zeros(d)
    guess[: len(lower)] = lower
    return Items([f"item {i}" for i in range(d)], slopes, rng.normal(0, 1, d), guess)


def table(items, n, seed=0, holes=0.0):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, items.n_dimensions))
    X = (rng.random((n, len(items.names))) < curves(items, z).right).astype(np.uint8)
    X[rng.random(X.shape) < holes] = MISSING
    return X


def patterns_of(items):
    """All patterns and their probabilities, by a grid of the test's own."""
    line = np.linspace(-8, 8, 81 if items.n_dimensions == 1 else 41)
    points = np.array(list(product(line, repeat=items.n_dimensions)))
    weights = norm.pdf(points).prod(1)
    p = items.lower + (1 - items.lower) * expit(points @ items.slopes.T + items.intercepts)
    X = np.array(list(product([0, 1], repeat=len(items.names))))
    each = np.prod(np.where(X[:, None, :] == 1, p, 1 - p), 2)
    return X, each @ (weights / weights.sum())


def moments_of(X):
    a, b = np.triu_indices(X.shape[1], 1)
    return np.concatenate([X, X[:, a] * X[:, b]], 1).astype(float)


def jacobian_of(items, tied):
    """By central differences of the margins over all patterns."""

    def shares(theta):
        d, q = items.slopes.shape
        slopes = np.full((d, 1), theta[0]) if tied else theta[: d * q].reshape(d, q)
        rest = theta[1:] if tied else theta[d * q :]
        lower = items.lower.copy()
        lower[lower > 0] = rest[d:]
        X, p = patterns_of(Items(items.names, slopes, rest[:d], lower))
        return p @ moments_of(X)

    start = [items.slopes[:1, 0]] if tied else [items.slopes.ravel()]
    theta = np.concatenate([*start, items.intercepts, items.lower[items.lower > 0]])
    steps = 1e-5 * np.eye(len(theta))
    return np.stack([(shares(theta + step) - shares(theta - step)) / 2e-5 for step in steps], 1)


def tied_items():
    items = make(4)
    return items._replace(slopes=np.full((4, 1), 1.3))


@pytest.mark.parametrize(
    ("items", "tied"),
    [(make(5), False), (tied_items(), True), (make(5, lower=(0.2, 0.1)), False), (make(6, q=2), False)],
    ids=["2pl", "1pl", "3pl", "two dimensions"],
)
def test_m2_is_that_over_all_patterns(items, tied):
    X = table(items, 300)
    all_rows, p = patterns_of(items)
    T = moments_of(all_rows)
    covariance = (T * p[:, None]).T @ T - np.outer(p @ T, p @ T)
    jacobian = jacobian_of(items, tied)
    outside = null_space(jacobian.T, rcond=1e-6)
    residual = outside.T @ (moments_of(X).mean(0) - p @ T)
    m2 = len(X) * residual @ np.linalg.solve(outside.T @ covariance @ outside, residual)
    found = limited_fit(items, distinct([X]), tied)
    np.testing.assert_allclose(found.m2, m2, rtol=1e-6)
    assert found.m2_df == outside.shape[1]
    np.testing.assert_allclose(found.m2_p, chi2.sf(m2, outside.shape[1]), rtol=1e-5)
    expected, derivatives, spread = margins(items, tied)
    np.testing.assert_allclose(expected, p @ T, atol=1e-9)
    np.testing.assert_allclose(spread, covariance, atol=1e-9)
    assert np.linalg.matrix_rank(np.hstack([derivatives, jacobian]), tol=1e-6) == np.linalg.matrix_rank(
        jacobian, tol=1e-6
    )


def test_m2_of_independent_items_and_what_is_made_of_both():
    items = make(6)
    X = table(items, 400)
    found = limited_fit(items, distinct([X]))
    # independence as a model: one point, and its parameters are the shares
    p = X.mean(0)
    null_items = Items(items.names, np.zeros((6, 1)), np.log(p / (1 - p)), np.zeros(6))
    expected, derivatives, spread = margins(null_items)
    outside = null_space(derivatives[:, 6:].T)
    residual = outside.T @ (moments_of(X).mean(0) - expected)
    null = len(X) * residual @ np.linalg.solve(outside.T @ spread @ outside, residual)
    null_df, m2, df = 15, found.m2, found.m2_df
    np.testing.assert_allclose(found.tli, (null / null_df - m2 / df) / (null / null_df - 1))
    np.testing.assert_allclose(found.cfi, 1 - max(m2 - df, 0) / max(null - null_df, m2 - df))
    all_rows, chance = patterns_of(items)
    a, b = np.triu_indices(6, 1)
    expected_phi = np.corrcoef(np.repeat(all_rows, np.round(chance * 1e6).astype(int), 0).T)[a, b]
    away = np.corrcoef(X.T)[a, b] - expected_phi
    np.testing.assert_allclose(found.srmsr, np.sqrt(np.mean(away**2)), rtol=1e-3)


def test_the_interval_of_rmsea_is_where_the_statistic_is_in_the_tails():
    items = make(6, q=2)
    one = items._replace(slopes=items.slopes[:, :1])
    X = table(items, 2000)
    found = limited_fit(one, distinct([X]))
    assert 0 < found.rmsea_low < found.rmsea < found.rmsea_high
    from scipy.stats import ncx2

    for bound, share in ((found.rmsea_low, 0.95), (found.rmsea_high, 0.05)):
        np.testing.assert_allclose(ncx2.cdf(found.m2, found.m2_df, bound**2 * found.m2_df * 1999), share, rtol=1e-6)


def test_m2_with_missing_answers_knows_which_rows_two_margins_share():
    """The covariance of two margins by a sum over rows; and its size when answers are missing by chance."""
    items = make(5)
    X = table(items, 60, holes=0.3)
    X = X[(X != MISSING).any(1)]
    answers = distinct([X])
    expected, derivatives, one_row = margins(items)
    seen = X != MISSING
    a, b = np.triu_indices(5, 1)
    held = np.concatenate([seen, seen[:, a] & seen[:, b]], 1).astype(float)
    values = moments_of(np.where(seen, X, 0))
    each = held / held.sum(0)
    residual = (each * values).sum(0) - expected
    covariance = sum(one_row * np.outer(row, row) for row in each)
    outside = null_space(derivatives.T)
    m2 = (outside.T @ residual) @ np.linalg.solve(outside.T @ covariance @ outside, outside.T @ residual)
    found = limited_fit(items, answers)
    np.testing.assert_allclose(found.m2, m2, rtol=1e-8)
    assert any("missing" in note for note in found.notes)


def test_m2_says_why_it_is_missing():
    items = make(5)
    X = table(items, 50)
    apart = X.copy()
    apart[:25, 0], apart[25:, 1] = MISSING, MISSING
    assert "answer both" in limited_fit(items, distinct([apart])).notes[0]
    same = items._replace(intercepts=np.where(np.arange(5) == 0, 60.0, items.intercepts))
    assert "singular" in limited_fit(same, distinct([X])).notes[0]
    wide = make(130)
    limited = limited_fit(wide, distinct([table(wide, 3)]))
    assert np.isnan(limited.m2)
    assert "fewer items" in limited.notes[0]
    few = limited_fit(make(3), distinct([X[:, :3]]))
    assert few.m2_df == 0
    assert np.isnan(few.m2_p)
    assert "tests nothing" in few.notes[0]
    sparse = items._replace(intercepts=items.intercepts + 5)
    assert any("approximate" in note for note in limited_fit(sparse, distinct([X])).notes)
    flat = make(6, q=2)
    flat.slopes[:, 1] = 0
    assert any("more dimensions" in note for note in limited_fit(flat, distinct([table(flat, 50)])).notes)


def test_the_report_has_what_all_have_and_more():
    general = fit_report(-100.0, 0.1, 10, 50, ("one",))
    report = with_limited_fit(general, without_m2("no reason"))
    assert isinstance(report, ItemFitReport)
    assert report.bic == general.bic
    assert report.notes == ("one", "no reason")
    assert "note: no reason" in str(report)
    assert report.to_json()["m2"] is None


@pytest.mark.parametrize(("q", "lower"), [(1, ()), (1, (0.2,)), (2, ())])
def test_expected_shares_by_score_are_those_of_all_patterns(q, lower):
    items = make(5, q, lower=lower)
    X = table(items, 200)
    rows, p = patterns_of(items)
    observed, expected = score_groups(items, distinct([X]))
    for i, score in product(range(5), range(1, 5)):
        here = rows.sum(1) == score
        share = p[here & (rows[:, i] == 1)].sum() / p[here].sum()
        mine = X.sum(1) == score
        np.testing.assert_allclose(expected[i, score - 1], mine.sum() * np.array([1 - share, share]), rtol=1e-7)
        assert observed[i, score - 1].tolist() == [np.sum(mine & (X[:, i] == value)) for value in (0, 1)]


def test_groups_are_merged_from_below():
    observed = np.array([[1, 0], [0, 0], [5, 3], [9, 9], [4, 4], [3, 5], [0, 1.0]])
    expected = np.array([[0.9, 0.1], [0, 0], [7.5, 0.5], [9, 9], [7.5, 0.5], [4, 4], [0.5, 0.5]])
    o, e = merged(observed, expected, 0)
    assert o.tolist() == [[6, 3], [9, 9], [4, 4], [3, 6]]  # none: dropped; one: into the next, the last before
    np.testing.assert_allclose(e, [[8.4, 0.6], [9, 9], [7.5, 0.5], [4.5, 4.5]])
    o, e = merged(observed, expected, 1)
    # the first into the second, then the one of 0.5 into the smaller of its neighbours
    assert o.tolist() == [[15, 12], [7, 10]]
    np.testing.assert_allclose(e, [[17.4, 9.6], [12, 5]])
    o, e = merged(observed[:0], expected[:0], 1)
    assert len(o) == len(e) == 0


def test_of_neighbours_of_equal_size_the_lower_takes_a_sparse_group():
    """Merge as mirt does: it looks which of the two is the smallest, and takes the first."""
    observed = np.array([[4, 4], [5, 2], [3, 5], [6, 6.0]])
    expected = np.array([[4, 4], [6.5, 0.5], [4, 4], [6, 6]])
    o, e = merged(observed, expected, 1)
    assert o.tolist() == [[9, 6], [3, 5], [6, 6]]
    np.testing.assert_allclose(e, [[10.5, 4.5], [4, 4], [6, 6]])


def test_outfit_with_the_floor_of_mirt_is_another():
    """mirt sets P(1 - P) below .00316 to that: an answer against all odds counts for less there."""
    items = Items(["a"], np.array([[2.0]]), np.array([4.0]), np.zeros(1))
    rows = np.array([[0], *[[1]] * 9], np.uint8)
    answers, floor = distinct([rows]), 1e-5**0.5
    latents = np.where(answers.rows == 0, 3.0, 0.0)  # P is .99995 and .982
    p = expit(4 + 2 * latents[:, 0])
    square, variance = (answers.rows[:, 0] - p) ** 2, p * (1 - p)
    plain = mean_squares(items, answers, latents)
    assert plain.outfit[0] == pytest.approx(answers.counts @ (square / variance) / 10)
    floored = np.maximum(variance, floor)
    mirt = answers.counts @ (square / floored) / 10
    assert mirt == pytest.approx(0.1 / floor, rel=1e-2)  # the one answer against the odds
    assert plain.outfit[0] == pytest.approx(0.1 / variance.min(), rel=1e-2)


def test_s_x2_is_of_complete_rows_and_says_so():
    items = make(6)
    X = table(items, 300)
    full = item_fit(items, distinct([X]), np.zeros((len(distinct([X]).rows), 1)), 0)
    holes = np.concatenate([X, np.full((20, 6), MISSING, np.uint8)])
    holes[300:, 0] = 1
    answers = distinct([holes])
    report = item_fit(items, answers, np.zeros((len(answers.rows), 1)), 0)
    np.testing.assert_allclose(report.s_x2, full.s_x2)
    assert report.notes == ("S-X2 is of the 300 of 320 rows that have answered every item",)
    assert report.n.tolist() == [320, *[300] * 5]
    np.testing.assert_allclose(report.p, chi2.sf(report.s_x2, report.df))
    # few rows, and few scores
    small = item_fit(make(3), distinct([X[:50, :3]]), np.zeros((len(distinct([X[:50, :3]]).rows), 1)))
    assert np.isnan(small.p).all()
    assert any("too few" in note for note in small.notes)
    assert any("50 rows are few" in note for note in small.notes)


def test_items_that_do_not_vary_in_a_table_are_named_and_not_judged():
    items = make(6)
    X = table(items, 400)
    X[:, 1] = 1
    weights = np.ones(400)
    X[0, 1], weights[0] = 0, 0  # which does not count
    answers = distinct([X], weights)
    latents = estimates(items, answers, "eap").value
    alike = f"in this table all rows answer alike: {items.names[1]}, so"

    fit = item_fit(items, answers, latents)
    assert np.isnan(fit.s_x2).tolist() == np.isnan(fit.p).tolist() == [i == 1 for i in range(6)]
    assert fit.df[1] == 0
    assert np.isfinite([fit.infit[1], fit.outfit[1]]).all()
    assert fit.notes == (f"{alike} they have no S-X2",)

    found = limited_fit(items, answers)
    assert np.isnan([found.tli, found.cfi]).all()
    assert np.isfinite([found.m2, found.rmsea, found.srmsr]).all()
    assert found.notes == (f"{alike} there are no TLI and CFI, and SRMSR is of the other items",)
    only = limited_fit(items.only(np.arange(6) != 1), answers.of_items(np.arange(6) != 1))
    np.testing.assert_allclose(found.srmsr, only.srmsr)

    pairs = local_dependence(items, answers, latents)
    for matrix in (pairs.x2, pairs.signed_x2, pairs.q3):
        assert np.isnan(matrix[1]).all()
        assert np.isfinite(matrix[0, 2:]).all()
    assert pairs.notes == (f"{alike} their dependence is unknown",)


def test_mean_squares_are_those_of_a_loop():
    items = make(4, lower=(0.2,))
    X = table(items, 40, holes=0.2)
    answers = distinct([X])
    latents = np.random.default_rng(1).standard_normal((len(answers.rows), 1))
    infit, infit_z, outfit, outfit_z, n = mean_squares(items, answers, latents)
    for i in range(4):
        who = X[:, i] != MISSING
        p = curves(items, latents[answers.place][who]).right[:, i]
        square, variance = (X[who, i] - p) ** 2, p * (1 - p)
        fourth = p * (1 - p) ** 4 + (1 - p) * p**4
        assert n[i] == who.sum()
        np.testing.assert_allclose(outfit[i], np.mean(square / variance))
        np.testing.assert_allclose(infit[i], square.sum() / variance.sum())
        # sd of the mean square itself, for the cube root
        sd = np.sqrt(np.sum(fourth / variance**2 - 1)) / who.sum()
        np.testing.assert_allclose(outfit_z[i], (outfit[i] ** (1 / 3) - 1) * 3 / sd + sd / 3)
        sd = np.sqrt(np.sum(fourth - variance**2)) / variance.sum()
        np.testing.assert_allclose(infit_z[i], (infit[i] ** (1 / 3) - 1) * 3 / sd + sd / 3)


def all_answers(d):
    return distinct([np.array(list(product([0, 1, MISSING], repeat=d)), np.uint8)])


@pytest.mark.parametrize("lower", [(), (0.25, 0.1)])
@pytest.mark.parametrize("method", ["eap", "map", "ml", "wle"])
def test_scores_are_those_of_a_fine_grid(method, lower):
    items = make(4, lower=lower)
    items.slopes[2] *= -1  # an item that the able get wrong
    answers = all_answers(4)
    line = np.linspace(-12, 12, 24_001)
    log_right, log_wrong = log_curves(items, line[:, None])
    information = items.slopes[:, 0] ** 2 * curves(items, line[:, None]).information
    found = estimates(items, answers, method)
    for row, value, error in zip(answers.rows, found.value[:, 0], found.error[:, 0]):
        seen = row != MISSING
        height = log_right[:, row == 1].sum(1) + log_wrong[:, row == 0].sum(1)
        own = information[:, seen].sum(1)
        if method == "eap":
            weight = np.exp(height - line**2 / 2)
            mean = weight @ line / weight.sum()
            np.testing.assert_allclose([value, error**2], [mean, weight @ (line - mean) ** 2 / weight.sum()], atol=1e-6)
            continue
        if not seen.any() and method != "map":
            assert np.isnan(value)
            assert np.isnan(error)
            continue
        height = height - line**2 / 2 if method == "map" else height
        height = height + 0.5 * np.log(own) if method == "wle" else height
        best = height.argmax()
        if best in (0, len(line) - 1):
            assert method == "ml"
            assert value == np.sign(line[best]) * np.inf
            assert np.isnan(error)
        else:
            np.testing.assert_allclose(value, line[best], atol=1e-3)
            np.testing.assert_allclose(error, (own[best] + (method == "map")) ** -0.5, rtol=2e-3)


def test_scores_in_two_dimensions():
    items = make(6, 2, seed=3)
    answers = distinct([table(items, 30, seed=1, holes=0.1)])
    for method, prior in (("map", 1.0), ("ml", 0.0)):
        found = estimates(items, answers, method)
        for row, value, error in zip(answers.rows, found.value, found.error):
            right, wrong = row == 1, row == 0

            def minus(z, right=right, wrong=wrong, prior=prior):
                a, b = log_curves(items, z[None])
                return prior * z @ z / 2 - a[0, right].sum() - b[0, wrong].sum()

            best = minimize(minus, np.zeros(2), method="BFGS", options={"gtol": 1e-8, "maxiter": 500})
            if np.isnan(value).any():
                assert method == "ml"
                assert np.isnan(error).all()
                assert np.abs(best.x @ items.slopes.T).max() > 8 or not (right | wrong).sum() > 1
            else:
                np.testing.assert_allclose(value, best.x, atol=1e-4)
                at = curves(items, value[None]).information[0] * (right | wrong)
                information = np.einsum("i,ij,ik->jk", at, items.slopes, items.slopes) + prior * np.eye(2)
                np.testing.assert_allclose(error**2, np.diag(np.linalg.inv(information)), rtol=1e-6)
    assert np.isfinite(estimates(items, answers, "ml").value).any()
    with pytest.raises(ValueError, match="one dimension"):
        estimates(items, answers, "wle")


def test_sum_scores_are_those_of_all_patterns():
    items = make(5, lower=(0.2,))
    X = table(items, 100)
    report = sum_scores(items, distinct([np.concatenate([X, [[MISSING, 1, 1, 1, 1]]]).astype(np.uint8)]))
    rows, p = patterns_of(items)
    every = distinct([rows.astype(np.uint8)])
    each = estimates(items, every, "eap")
    for score in range(6):
        here = rows.sum(1) == score
        share = p[here] / p[here].sum()
        value, error = each.value[every.place, 0][here], each.error[every.place, 0][here]
        mean = share @ value
        np.testing.assert_allclose(report.eap[score], mean, atol=1e-8)
        np.testing.assert_allclose(report.sd[score] ** 2, share @ (error**2 + value**2) - mean**2, atol=1e-8)
        np.testing.assert_allclose(report.expected[score], 100 * p[here].sum())
    assert report.observed.tolist() == np.bincount(X.sum(1), minlength=6).tolist()
    assert report.notes == ("1 rows with missing answers have no sum score",)
    assert sum_scores(make(4, 2), distinct([X[:, :4]])).eap.shape == (5, 2)


def test_person_fit_is_the_standardised_log_likelihood():
    items = make(5, lower=(0.2,))
    X = table(items, 20, holes=0.2)
    X[0] = MISSING
    answers = distinct([X])
    latents = np.random.default_rng(0).standard_normal((len(answers.rows), 1))
    report = person_fit(items, answers, latents)
    for i, row in enumerate(X):
        seen = row != MISSING
        if not seen.any():
            assert np.isnan(report.lz[i])
            continue
        p = curves(items, report.score[[i]]).right[0, seen]
        patterns = np.array(list(product([0, 1], repeat=seen.sum())))
        chance = np.where(patterns == 1, p, 1 - p).prod(1)
        mean = chance @ np.log(chance)
        sd = np.sqrt(chance @ np.log(chance) ** 2 - mean**2)
        own = np.log(np.where(row[seen] == 1, p, 1 - p)).sum()
        np.testing.assert_allclose(report.lz[i], (own - mean) / sd, rtol=1e-8)
    assert any("1 rows have no l_z" in note for note in report.notes)
    assert report.n[0] == 0


def test_local_dependence_by_pairs():
    items = make(4)
    X = table(items, 150, holes=0.15)
    answers = distinct([X])
    latents = estimates(items, answers, "eap").value
    report = local_dependence(items, answers, latents)
    rows, p = patterns_of(items)
    residual = X - curves(items, latents[answers.place]).right
    for i, j in product(range(4), range(4)):
        if i == j:
            assert np.isnan(report.q3[i, j])
            continue
        both = (X[:, i] != MISSING) & (X[:, j] != MISSING)
        np.testing.assert_allclose(report.q3[i, j], np.corrcoef(residual[both][:, [i, j]].T)[0, 1])
        x2, signs = 0.0, []
        for a, b in product([0, 1], repeat=2):
            seen = np.sum(both & (X[:, i] == a) & (X[:, j] == b))
            expected = both.sum() * p[(rows[:, i] == a) & (rows[:, j] == b)].sum()
            x2 += (seen - expected) ** 2 / expected
        np.testing.assert_allclose(report.x2[i, j], x2, rtol=1e-6)
        signs = np.corrcoef(X[both][:, [i, j]].T)[0, 1]
        expected_rows = np.repeat(rows, np.round(p * 1e6).astype(int), 0)
        assert np.sign(report.signed_x2[i, j]) == np.sign(signs - np.corrcoef(expected_rows[:, [i, j]].T)[0, 1])
        assert report.n[i, j] == both.sum()
    shown = report.table()
    assert len(shown.index) == 6
    assert np.all(np.diff(np.abs(shown.columns["signed X2"])) <= 0)


def test_long_reports_print_shortly():
    items = make(8)
    answers = distinct([table(items, 60)])
    latents = np.zeros((len(answers.rows), 1))
    pairs = local_dependence(items, answers, latents)
    assert "have 18 more pairs" in str(pairs)
    assert len(pairs.shown()[0].index) == 10
    assert pairs.to_csv().count("\n") == 29
    persons = person_fit(items, answers, latents)
    lines = str(persons).splitlines()
    assert lines[-1] == "note: the 20 lowest of 60 rows"
    assert lines[1].split()[0] == str(persons.lz.argmin())


def test_what_few_rows_or_columns_do_not_tell_is_said():
    items = make(1)
    answers = distinct([table(items, 30)])
    scores = {"eap": estimates(items, answers, "eap")}
    assert any("no alpha" in note for note in reliability(items, answers, scores).notes)
    one = answers.only(answers.place[:1])._replace(counts=np.ones(1))
    alone = reliability(items, one, {"eap": estimates(items, one, "eap")})
    assert np.isnan(alone.eap).all()
    assert any("a single row" in note for note in alone.notes)
    assert "a single item has no pairs" in local_dependence(items, answers, scores["eap"].value).notes


def test_items_without_standard_errors_are_named():
    covariance = np.diag([0.1, 0.1, np.nan, np.nan])
    found = item_errors(np.array([[1.0], [0.0]]), np.array([0.0, 9.0]), covariance, ["a", "b"])
    assert found.table().notes == ("without a standard error (NaN): b",)
    assert item_errors(np.ones((2, 1)), np.zeros(2), np.eye(4), ["a", "b"]).table().notes == ()


def test_reliability():
    items = make(6)
    X = table(items, 200)
    answers = distinct([X])
    covariance = np.cov(X.T)
    np.testing.assert_allclose(alpha(answers), 6 / 5 * (1 - np.trace(covariance) / covariance.sum()))
    scores = {method: estimates(items, answers, method) for method in ("eap", "map", "ml", "wle")}
    report = reliability(items, answers, scores)
    value, error = scores["ml"].value[answers.place, 0], scores["ml"].error[answers.place, 0]
    finite = np.isfinite(value)
    variance = value[finite].var(ddof=1)
    np.testing.assert_allclose(report.ml, variance / (variance + np.mean(error[finite] ** 2)))
    assert report.notes == (f"{np.sum(~finite)} rows have no finite ML score and are left out of that one",)
    line = np.linspace(-8, 8, 4001)
    information = test_information(items, line).information
    np.testing.assert_allclose(
        report.marginal, np.sum(information / (information + 1) * norm.pdf(line)) * (line[1] - line[0]), rtol=1e-7
    )
    p = expit(items.slopes[:, 0] * 0.3 + items.intercepts)
    np.testing.assert_allclose(
        test_information(items, np.array([0.3])).information, np.sum(items.slopes[:, 0] ** 2 * p * (1 - p))
    )
    assert np.isnan(empirical(Estimates(np.zeros((1, 1)), np.ones((1, 1))), np.ones(1))).all()


@pytest.mark.parametrize(("q", "centre", "spread"), [(1, 0.8, 1.4), (2, 0.0, 1.0)])
def test_plausible_values_are_draws_from_the_posterior(q, centre, spread):
    items = make(5, q)
    row = table(items, 1)
    answers = distinct([np.repeat(row, 4000, 0)])
    # in units of its spread the trait is standard normal
    standard = items._replace(slopes=spread * items.slopes, intercepts=items.intercepts + centre * items.slopes.sum(1))
    exact = estimates(standard, answers, "eap")
    exact = exact._replace(value=centre + spread * exact.value, error=spread * exact.error)
    prior = np.full((4000, 1), centre), np.full((4000, 1), spread)
    # proposals that are off are made good for
    mean = np.repeat(exact.value + 0.2, 4000, 0)
    covariance = np.repeat(np.eye(q)[None] * 0.7 * spread**2, 4000, 0)
    drawn = draw(items, answers, prior, mean, covariance, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.mean(0), exact.value[0], atol=4 * exact.error.max() / np.sqrt(4000))
    np.testing.assert_allclose(drawn.std(0), exact.error[0], rtol=0.06)
    if q == 1:
        line = np.linspace(-8, 8, 8001)
        log_right, log_wrong = log_curves(items, line[:, None])
        density = np.exp(np.where(row[0] == 1, log_right, log_wrong).sum(1) - ((line - centre) / spread) ** 2 / 2)
        below = np.cumsum(density) / density.sum()
        assert kstest(drawn[:, 0], lambda z: np.interp(z, line, below)).pvalue > 0.001


def test_curves_do_not_cancel_far_out():
    items = make(3, lower=(0.2,))
    at = curves(items, np.array([[-400.0], [400.0]]))
    assert np.isfinite(at.information).all()
    assert np.isfinite(log_curves(items, np.array([[-400.0], [400.0]]))[1]).all()
    z = np.array([[0.4]])
    step = 1e-6
    up, down = (curves(items, z + s).right for s in (step, -step))
    at = curves(items, z)
    np.testing.assert_allclose(at.up * items.slopes[:, 0], (np.log(up) - np.log(down)) / (2 * step), rtol=1e-6)
    slope = (up - down) / (2 * step) / items.slopes[:, 0]
    np.testing.assert_allclose(at.information, slope**2 / (at.right * at.wrong), rtol=1e-6)


def test_a_grid_is_finer_for_steep_items_and_for_many():
    assert len(grid_for(make(5)).weights) == 61
    steep = make(5)._replace(slopes=np.full((5, 1), 20.0))
    assert len(grid_for(steep).weights) > 200
    assert len(grid_for(make(2000)).weights) > 61
    assert grid_for(make(5, 3)).points.shape[1] == 3


def test_distinct_rows_of_blocks_with_weights():
    X = np.array([[0, 1], [1, 1], [0, 1], [1, 0]], np.uint8)
    answers = distinct([X[:2], X[2:]], np.array([1.0, 2.0, 0.5, 3.0]))
    np.testing.assert_array_equal(answers.rows[answers.place], X)
    assert dict(zip(map(tuple, answers.rows.tolist()), answers.counts)) == {(0, 1): 1.5, (1, 1): 2.0, (1, 0): 3.0}
    assert isinstance(answers, Answers)
    assert whole(np.array([1.0, 2.0])).dtype == int
    assert whole(np.array([1.5])).dtype == float
    np.testing.assert_array_equal(in_place(np.array([5.0]), np.array([False, True])), [np.nan, 5])

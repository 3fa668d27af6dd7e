"""Reports of items for item models: guessing, a free variance, given items, groups."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from latentbits.data import load_dataset
from latentbits.estimators.latent_trait import LatentTrait
from latentbits.figures import fitted
from latentbits.reports.item_fit import item_fit
from latentbits.reports.items import Items, distinct


@pytest.fixture(scope="module")
def answers():
    return load_dataset("lsat7").X


@pytest.fixture(scope="module")
def rasch(answers):
    """The same model twice: a slope for all, and a slope of 1 with the trait's variance."""
    tied = LatentTrait(1, equal_discrimination=True, random_state=0).fit(answers)
    return tied, LatentTrait(1, equal_discrimination=True, population="variance", random_state=0).fit(answers)


def test_a_free_variance_changes_no_report(answers, rasch):
    tied, free = (one.fit_report(answers) for one in rasch)
    for name in ("log_likelihood", "n_parameters", "m2", "m2_df", "rmsea", "srmsr", "tli", "cfi"):
        assert free[name] == pytest.approx(tied[name], rel=1e-3), name
    tied, free = (one.item_fit(answers) for one in rasch)
    for name in ("s_x2", "df", "infit", "outfit"):
        np.testing.assert_allclose(free[name], tied[name], rtol=1e-3)


def test_draws_are_in_units_of_the_trait(answers, rasch):
    free = rasch[1]
    draws = free.plausible_values(answers, n_draws=40, random_state=0).draws
    assert draws.var() == pytest.approx(free.trait_variance_, rel=0.1)


def test_sum_scores_and_scores_of_persons_are_in_units_of_the_trait(answers, rasch):
    tied, free = (one.sum_scores(answers) for one in rasch)
    spread = rasch[1].trait_variance_ ** 0.5
    for name in ("eap", "sd"):
        np.testing.assert_allclose(free[name], spread * tied[name], atol=1e-3)
    np.testing.assert_allclose(free.expected, tied.expected, rtol=1e-3)
    # all patterns of a sum are as likely at any trait, so a person's score is that of the sum
    np.testing.assert_allclose(rasch[1].scores(answers).value[:, 0], free.eap[answers.sum(axis=1)], atol=1e-6)
    np.testing.assert_allclose(rasch[1].person_fit(answers).score, rasch[1].scores(answers).value, atol=1e-6)


def test_sum_scores_of_a_trait_with_a_mean():
    """A test of given items, all of them hard for these people."""
    slopes, intercepts = np.array([1.0, 1.5, 0.8, 1.2]), np.array([0.5, 0.0, 1.0, -0.5])
    X = LatentTrait.from_items(slopes, intercepts - 1.2 * slopes).sample(300, random_state=0).astype(int)
    X[:, 2] = 0  # nobody is right, and the item tells that people are weak: it is no constant of the sum
    fixed = {j: {"slope": a, "intercept": b} for j, (a, b) in enumerate(zip(slopes, intercepts))}
    m = LatentTrait(1, fixed=fixed, population="free", random_state=0).fit(X)
    table = m.sum_scores(X)
    assert m.trait_mean_ < -0.5
    z = np.linspace(-8, 8, 4001)
    p = expit(z[:, None] * slopes + intercepts)
    posterior = np.exp(-0.5 * (z - m.trait_mean_) ** 2 / m.trait_variance_) * (1 - p).prod(1)
    mean = posterior @ z / posterior.sum()
    assert table.eap[0] == pytest.approx(mean, abs=1e-5)
    assert table.sd[0] == pytest.approx((posterior @ (z - mean) ** 2 / posterior.sum()) ** 0.5, abs=1e-5)
    assert np.isfinite(table.eap).all()
    np.testing.assert_allclose(m.person_fit(X).score, m.scores(X).value, atol=1e-6)


GIVEN = np.array([1.0, 1.5, 0.8, 1.2]), np.array([0.5, -1.0, 0.0, 1.0]), np.array([0.0, 0.25, 0.2, 0.0])


def test_asymptotes_are_in_the_reports():
    """A report of given items is that of these items, asymptotes included."""
    slopes, intercepts, lower = GIVEN
    m = LatentTrait.from_items(slopes, intercepts, lower)
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
    m = LatentTrait.from_items(slopes, intercepts, lower)
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


def test_groups_have_criteria_and_scores_and_no_reports_of_one_population(answers):
    groups = np.arange(len(answers)) % 2
    m = LatentTrait(1, random_state=0).fit(answers, groups=groups)
    people = m.people(answers, groups=groups)
    report = m.fit_report(people)
    assert report.n_parameters == 12
    assert np.isnan(report.m2)
    assert any("groups or covariates" in note for note in report.notes)
    finite = answers.sum(1) % 5 > 0
    scores = m.scores(people, method="wle")
    assert np.isfinite(scores.value[finite]).all()
    for method in ("item_fit", "local_dependence", "person_fit", "reliability", "plausible_values"):
        with pytest.raises(ValueError, match="one population"):
            getattr(m, method)(people)
    with pytest.raises(ValueError, match="one population"):
        fitted.item_pairs(m, people)
    assert list(fitted.figures_of(m, people)) == ["information"]

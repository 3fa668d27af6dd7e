"""What a page says of causes that say nothing yet, and of what there was no time for."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from contents import small_content
from sklearn.exceptions import ConvergenceWarning
from tests.tables import classes

from latentbits import BernoulliMixture, LatentTrait
from latentbits.choosing import budget
from latentbits.choosing.refit import as_searched
from latentbits.choosing.search import Trial, search
from latentbits.cli.explore import Seconds
from latentbits.explorer import explore as exploring
from latentbits.explorer.notes import how_compared, told_budget, tried, with_note

NOT_CONVERGED = "This fit had not converged: what it shows may change."
KINDS, NETWORK = small_content().galleries


def made_of(gallery, kind, weights, usage=0.5):
    layer = replace(
        gallery.layers[0],
        title="Causes",
        weights=np.asarray(weights, float),
        usage=np.full(len(weights), usage),
        names=tuple("abcdefgh"[: len(weights)]),
    )
    return replace(gallery, kind=kind, layers=(layer,))


def test_a_gallery_of_a_fit_that_has_not_converged_says_so():
    assert with_note(KINDS, True) == KINDS
    marked = with_note(KINDS, False)
    assert marked.note == NOT_CONVERGED
    assert marked.layers == KINDS.layers


@pytest.mark.parametrize(
    ("kind", "weights", "why"),
    [
        ("signed", 0.004 * np.ones((8, 12)), "Its 8 causes carry nothing: all weights are about 0."),
        ("strength", np.zeros((8, 12)), "Its 8 causes carry nothing: all weights are about 0."),
        (
            "probability",
            np.tile(np.linspace(0.1, 0.9, 12), (4, 1)),
            "Its 4 causes carry nothing: all kinds are the same.",
        ),
    ],
)
def test_causes_that_carry_nothing_are_not_shown(kind, weights, why):
    empty = made_of(KINDS, kind, weights)
    assert with_note(empty, True) == replace(empty, layers=(), note=why)
    assert with_note(empty, False).note == f"{NOT_CONVERGED} {why}"
    weights = np.array(weights)
    weights[0, 3] += 0.2
    assert with_note(made_of(KINDS, kind, weights), True).layers  # one weight is enough


def test_causes_that_are_one_and_the_same_are_reported():
    alike = np.linspace(0.1, 3, 12) + np.linspace(0, 0.04, 8)[:, None]
    found = with_note(made_of(NETWORK, "strength", alike), True)
    assert found.note == "Its causes are all about the same: the fit has not separated them."
    assert len(found.layers[0].names) == 8
    assert with_note(made_of(NETWORK, "strength", np.eye(8, 12)), True).note == ""
    assert with_note(made_of(NETWORK, "signed", alike, np.nan), True).note == ""  # traits are another matter


@pytest.fixture(scope="module")
def found():
    return search(classes(40, 4), ["product"], budget=None, n_folds=1)


def with_trials(found, *numbers):
    """As if mixtures had been tried, each in several sizes."""
    names = [f"mixture {i}" for i in range(len(numbers))]
    trials = {name: tuple(Trial(2, 3.0, 0.1, 1.0, True) for _ in range(n)) for name, n in zip(names, numbers)}
    families = found.families | dict.fromkeys(names, "mixture")
    return replace(found, trials=found.trials | trials, families=families)


def test_a_size_is_said_to_be_chosen_where_there_was_a_choice(found):
    one = how_compared(with_trials(found, 1))
    assert one == "The models learned from 24 rows and were scored on 10 rows that they had not seen."
    several = how_compared(with_trials(found, 3, 2))
    assert several == (
        "The models learned from 24 rows, chose their size on 6 others, and were scored on 10 rows that neither had "
        "seen."
    )
    assert "chose their size on 6 others where several were tried, and" in how_compared(with_trials(found, 3, 1))
    assert how_compared(replace(with_trials(found, 1), n_folds=4)).startswith("In each of 4 rounds the models learned")


def test_what_was_not_tried_is_reported_with_the_reason_and_what_to_do(found):
    assert tried(found, 60.0, kept=False) == ""
    left = {
        "mixture": "no time was left for it",
        "noisy-or": "no time was left for it",
        "latent-trait": "out of memory",
    }
    short = replace(found, left_out=left, was_short=True)
    remark = (
        "1 of 4 families were fitted; not fitted: mixture, noisy-or (no time was left for it); "
        "latent-trait (out of memory)."
    )
    assert tried(short, 60.0, kept=False) == (
        f"{remark} The same command with --budget 5m (in Python budget=300) would go further."
    )
    assert tried(short, 2.0, kept=True) == (
        f"{remark} The same command with --budget 10s --resume (in Python budget=10) would go on from here."
    )
    assert tried(replace(short, was_short=False), 60.0, kept=False) == remark  # time would not help
    assert tried(short, None, kept=False) == remark
    assert tried(replace(found, was_short=True), 60.0, kept=False).startswith("All 1 families were fitted, but not")


def test_the_budget_that_is_proposed_is_one_that_the_command_takes():
    for seconds in (300.0, 5.0, 2.5, 90.0, 3600.0, 1e-3, 1e6):
        assert Seconds().convert(told_budget(seconds), None, None) == seconds


@pytest.mark.slow("an exploration with all of its fits")
def test_what_has_not_converged_is_reported_from_the_fit_to_the_page(monkeypatch):
    """The mixture and the map were cut off: they are on the page, and are no findings."""
    table, n_rounds, cut = classes(60), 4, []
    fit = budget._fit

    def cut_off(model, *given):
        found = fit(model, *given)
        if not isinstance(model, BernoulliMixture):
            return found
        cut.append(model)
        found.model.stop_reason_ = "max_time"
        return found._replace(converged=found.model._finished, in_time=False)

    monkeypatch.setattr(budget, "_fit", cut_off)
    monkeypatch.setattr(budget.Clock, "left", property(lambda clock: 0.0 if len(cut) == n_rounds else 1e6))
    monkeypatch.setattr(exploring, "refit", lambda found, *_, **__: as_searched(found))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        where = LatentTrait(2, max_iter=1, random_state=0).fit(table)
    monkeypatch.setattr(exploring, "_fit_map", lambda *_: where)
    labels = {"side": (table[:, 0] > 0).astype(int)}
    found = exploring.explore(table, model=BernoulliMixture(2, n_init=2), labels=labels, out=None, budget=1e6)
    content = found.content
    assert not content.map.converged
    about_map, about_models = found.notes
    assert about_map == content.map.note
    assert about_models.startswith(
        "All 2 families were fitted, but not in all sizes, or not to the end. The same command"
    )
    assert all(note in str(found) for note in found.notes)
    assert {model.name: model.converged for model in content.models} == {
        "mixture of 2": False,
        "independent bits": True,
    }
    assert [model.name for model in content.sound] == ["independent bits"]
    assert [trial.converged for model in content.models for trial in model.trials].count(False) == 1
    (first,) = found.findings
    assert first.startswith("No model with anything hidden has converged; ")
    assert content.how_compared.startswith(
        "In each of 4 rounds the models learned from 36 rows and were scored on rows"
    )
    (gallery,) = content.galleries
    assert gallery.note == NOT_CONVERGED

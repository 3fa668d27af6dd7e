"""The sentences of a page."""

from dataclasses import replace

import numpy as np
import pytest
from contents import small_content

from latentbits.explorer.column_dependence import Together
from latentbits.explorer.content import Guesses, Labels, Meaning, ModelRow
from latentbits.explorer.findings import findings, headline
from latentbits.reports.summaries.records import Gallery, Layer

CONTENT = small_content()
UNLABELLED = replace(CONTENT.table, labels=())
ALONE = ModelRow("independent bits", "product", 1, 5.0, 0.2, 2.0, 0.3, 0.1, n_rows=100)
BEST = ModelRow("mixture of 3", "mixture", 3, 3.0, 0.1, 0.0, 0.0, 1.0)
GUESSES = Guesses("25% of the bits", *np.ones((3, 4, 12)), 0.9, 0.75)


def layer(weights, usage, active=None):
    names = tuple(f"cause {i}" for i in range(len(weights)))
    active = np.zeros((60, len(weights))) if active is None else active
    return Layer(
        "Causes", names, np.asarray(weights), None, np.asarray(usage), active, np.zeros((len(weights), 1), int)
    )


def on_columns(m, **values):
    """Weights (m, 12) with one at columns of the first cause."""
    weights = np.zeros((m, 12))
    for name, value in values.items():
        weights[0, int(name[1:])] = value
    return weights


def sentences(model, gallery=None, table=UNLABELLED, guesses=GUESSES, **changes):
    galleries = () if gallery is None else (replace(gallery, name=model.name),)
    return findings(replace(table, **changes), CONTENT.map, (model, ALONE), galleries, guesses)


def test_of_a_mixture():
    kinds = Gallery("", "", "probability", (layer(on_columns(3, c4=0.9, c2=0.5), [0.6, 0.395, 0.005]),))
    first, second, third = sentences(BEST, kinds)
    assert first == (
        "The bits are not independent: the mixture of 3 describes an unseen row in 3.0 bits, 2.0 ± 0.3 (40%) fewer "
        "than independent bits need."
    )
    assert second == (
        "It sorts the rows into 3 kinds; the commonest makes up 60% of them, the rarest 0.5%; they differ most in "
        "column 4, column 2 and column 0."
    )
    assert third == (
        "With 25% of the bits of an unseen row hidden, it guesses 90% of the hidden bits right; the average row alone "
        "would give 75%."
    )
    assert headline("zoo", (BEST, ALONE)) == "zoo: 3 hidden kinds of rows; a row then takes 3.0 bits instead of 5.0"
    assert "they differ most" not in sentences(BEST, kinds, image_shape=(3, 4))[1]
    near = ModelRow("2 latent traits", "latent-trait", 2, 3.05, 0.1, 0.05, 0.1, 1.0)
    text = findings(UNLABELLED, None, (BEST, near, ALONE), (), None)
    assert text == (first[:-1] + " (the model with 2 latent traits cannot be distinguished from it on these rows).",)


def test_where_nothing_is_hidden():
    best = ModelRow("mixture of 3", "mixture", 3, 4.9, 0.1, 0.0, 0.0, 1.0)
    near = replace(ALONE, behind=0.1, behind_error=0.2)
    (text,) = findings(UNLABELLED, CONTENT.map, (best, near), (), GUESSES)
    assert "no clear sign of hidden causes" in text
    assert headline("zoo", (best, near)) == "zoo: no clear sign of hidden causes"
    (text,) = findings(UNLABELLED, None, (replace(ALONE, behind=0.0),), (), None)
    assert text == "No model with anything hidden was fitted; independent bits need 5.0 bits for an unseen row."


def test_where_columns_go_together_and_no_model_is_clearly_better():
    best = ModelRow("mixture of 3", "mixture", 3, 4.9, 0.1, 0.0, 0.0, 1.0)
    near = replace(ALONE, behind=0.03, behind_error=0.012)
    strong = Together(0, 2, 0.114, 10, 1e-9)
    (text,) = findings(UNLABELLED, CONTENT.map, (best, near), (), GUESSES, together=strong)
    assert text == (
        "The bits are not independent: columns go together, most column 0 and column 2, with a correlation of 0.11, "
        "but nothing tried describes unseen rows clearly better than independent bits do (5.0 bits per row); the "
        "mixture of 3 comes closest, with 0.030 ± 0.012 bits fewer."
    )
    assert headline("zoo", (best, near), together=strong) == (
        "zoo: columns go together, but no model shows clearly by what"
    )
    (text,) = findings(UNLABELLED, CONTENT.map, (best, near), (), GUESSES, together=strong._replace(p=1e-3))
    assert "no clear sign of hidden causes" in text


def test_without_the_baseline():
    one = ModelRow("mixture of 3", "mixture", 3, 3.0, 0.1, 0.0, 0.0, 1.0)
    assert findings(UNLABELLED, None, (one,), (), None) == (
        "The mixture of 3 describes unseen rows, in 3.0 bits per row.",
    )
    assert headline("zoo", (one,)) == "zoo: the mixture of 3 needs 3.0 bits per row"


@pytest.mark.parametrize(("m", "where"), [(1, "along one scale"), (2, "in a space of 2 dimensions")])
def test_of_traits(m, where):
    best = ModelRow("latent traits", "latent-trait", m, 3.0, 0.1, 0.0, 0.0, 1.0)
    places = np.random.default_rng(0).normal(size=(60, m))
    traits = Gallery("", "", "signed", (layer(on_columns(m, c3=-9, c1=5, c7=4), [np.nan] * m, places),))
    assert (
        sentences(best, traits)[1]
        == f"It places each row {where}; rows differ most in column 3, column 1 and column 7."
    )


def test_of_causes_that_are_on_or_off():
    best = ModelRow("noisy OR of 2", "noisy-or", 2, 3.0, 0.1, 0.0, 0.0, 1.0)
    two = Gallery("", "", "strength", (layer(on_columns(2, c3=-9, c1=5, c7=4), [0.8, 0.3]),))
    assert sentences(best, two)[1] == (
        "It explains each row by which of 2 hidden causes are on, 1.1 of them on average; the commonest is on in 80% "
        "of the rows, the rarest in 30%; they act most on column 3, column 1 and column 7."
    )
    assert headline("zoo", (best, ALONE)).startswith(
        "zoo: 2 hidden causes that act together; a row then takes 3.0 bits"
    )
    one = Gallery("", "", "strength", (layer(on_columns(1), [0.3]),))
    assert sentences(best, one, image_shape=(3, 4))[1] == (
        "It explains each row by whether one hidden cause is on, as it is in 30% of them."
    )


def test_of_real_numbers():
    best = ModelRow("2 latent traits", "latent-trait", 2, -3.0, 0.1, 0.0, 0.0, 1.0)
    alone = ModelRow("independent Gaussians", "independent-gaussians", 1, -1.0, 0.1, 2.0, 0.05, 1.0, n_rows=100)
    text = findings(
        replace(UNLABELLED, real=True), None, (best, alone), (), replace(GUESSES, right=0.32, hidden="half")
    )
    assert text == (
        "The columns are not independent: the model with 2 latent traits describes an unseen row in -3.0 bits, "
        "2.00 ± 0.05 fewer than independent Gaussians need.",
        "With half of an unseen row hidden, it explains 32% of how they vary.",
    )


def test_labels_are_looked_for_on_the_map():
    side = (CONTENT.map.means[:, 0] > 0).astype(int)
    split = sentences(BEST, labels=(Labels("party", ("a", "b"), side),))[-1]
    assert split.startswith("On the map rows lie together by party, which no model saw: the row nearest to a row")
    mixed = sentences(BEST, labels=(Labels("party", ("a", "b"), np.arange(60) % 2),))[-1]
    assert mixed.startswith("The map does not separate rows by party: ")
    assert "50% by chance" in mixed
    same = replace(CONTENT.map, means=np.zeros((60, 2)))  # rows that are all alike
    few = replace(UNLABELLED, labels=(Labels("party", ("a", "b"), (np.arange(60) % 10 < 3).astype(int)),))
    assert "not separate rows by party" in findings(few, same, (BEST, ALONE), (), None)[-1]
    none = sentences(BEST, labels=(Labels("party", ("a", "b"), np.full(60, -1)),))[-1]
    assert "of the hidden bits right" in none


def test_what_axes_mean_is_said_instead_of_neighbours():
    side = (CONTENT.map.means[:, 0] > 0).astype(int)
    water = Labels("water", (), np.zeros(60, int), CONTENT.map.means[:, 0])
    table = replace(UNLABELLED, labels=(water, Labels("party", ("a", "b"), side)))

    def said(*meanings, table=table):
        return findings(table, CONTENT.map, (BEST, ALONE), (), None, meanings=meanings)[-1]

    one = Meaning("trait 1", "water", "rank correlation", -0.78, 1e-9, 60)
    ones = Meaning("trait 2", "", "rank correlation", 0.84, 1e-9, 60, number=1)
    two = Meaning("trait 2", "party", "AUC", 0.8, 1e-4, 60, ("a", "b"), number=1)
    cause = replace(one, of="cause 1", gallery="mixture of 3")
    assert said(one) == "On the map trait 1 goes with water (rank correlation -0.78). No model saw water."
    assert said(ones, one, two) == (
        "On the map trait 1 goes with water (rank correlation -0.78); trait 2 goes with party, a above b (AUC 0.80), "
        "and more with how many ones a row has (rank correlation 0.84). No model saw water or party."
    )
    assert said(ones, one) == (
        "On the map trait 1 goes with water (rank correlation -0.78); trait 2 goes with how many ones a row has (rank "
        "correlation 0.84). No model saw water."
    )
    for without in ((), (ones,), (cause,)):  # neighbours of the first label that tells kinds
        assert said(*without).startswith("On the map rows lie together by party, which no model saw")
    alone = replace(table, labels=(water, replace(water, name="mass")))
    assert said(table=alone) == "Neither axis of the map goes with water or mass."


def test_labels_by_chance_are_seldom_taken_for_a_finding():
    """Few bits: many rows share a place, so they count as fewer."""
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(40):
        where = replace(CONTENT.map, means=rng.integers(0, 2, (60, 5))[:, :2] + 0.01 * rng.integers(0, 2, (60, 2)))
        table = replace(UNLABELLED, labels=(Labels("party", ("a", "b"), rng.integers(0, 2, 60)),))
        wrong += "lie together" in findings(table, where, (BEST, ALONE), (), None)[-1]
    assert wrong <= 4


def test_where_the_baseline_holds_rows_impossible():
    best = ModelRow("mixture of 3", "mixture", 3, 4.9, 0.1, 0.0, 0.0, 1.0)
    never = replace(ALONE, bits=np.inf, behind=np.inf, behind_error=np.nan)
    text = findings(UNLABELLED, None, (best, never), (), None)[0]
    assert text.endswith("in 4.9 bits; independent bits hold some of these rows impossible.")
    assert "nan" not in text


def test_where_a_guess_is_no_better_than_the_average():
    """Of sparse tables: nearly all cells are 0, and every model says so."""
    same = replace(GUESSES, right=0.97, right_alone=0.97)
    odd = int(np.argmax(CONTENT.map.cost))
    text = findings(UNLABELLED, CONTENT.map, (BEST, ALONE), (), same)[-1]
    assert text.startswith(f"The most surprising row is {UNLABELLED.row_names[odd]}: it takes ")
    ones = Meaning("trait 1", "", "rank correlation", 0.98, 1e-9, 60)
    text = findings(UNLABELLED, CONTENT.map, (BEST, ALONE), (), same, meanings=(ones,))[-1]
    assert text == "On the map trait 1 is little else than how many ones a row has (rank correlation 0.98)."
    text = findings(UNLABELLED, CONTENT.map, (BEST, ALONE), (), same, meanings=(replace(ones, value=0.8),))[-1]
    assert text.startswith("The most surprising row")


def test_fits_that_were_cut_off_are_reported_where_they_matter():
    near = ModelRow("2 latent traits", "latent-trait", 2, 3.2, 0.1, 0.2, 0.05, 1.0, converged=False)
    far = replace(near, name="noisy OR of 4", family="noisy-or", bits=4.0)
    text = findings(UNLABELLED, None, (BEST, ALONE), (), None, (near, far))[0]
    assert text.endswith("; which model is best is open, since the model with 2 latent traits had not converged.")
    assert "open" not in findings(UNLABELLED, None, (BEST, ALONE), (), None, (far,))[0]
    (text,) = findings(UNLABELLED, None, (BEST,), (), None, (near,))
    assert text == (
        "The mixture of 3 describes unseen rows, in 3.0 bits per row; which model is best is open, since the model "
        "with 2 latent traits had not converged."
    )


def test_what_is_ahead_and_has_not_converged_is_named_without_its_causes():
    ahead = ModelRow("noisy OR of 8", "noisy-or", 8, 2.5, 0.1, 0.0, 0.0, 1.0, converged=False)
    causes = Gallery(ahead.name, "", "strength", (layer(on_columns(8, c3=9.0), [0.5] * 8),))
    kinds = Gallery(BEST.name, "", "probability", (layer(on_columns(3, c4=0.9), [0.6, 0.3, 0.1]),))
    first, second, _ = findings(UNLABELLED, None, (BEST, ALONE), (causes, kinds), GUESSES, (ahead,))
    assert first == (  # one sentence, and no winner in it
        "The bits are not independent: by the mixture of 3 an unseen row takes 3.0 bits, 2.0 ± 0.3 (40%) fewer than "
        "independent bits need; which model is best is open, since the noisy OR of 8 had not converged."
    )
    assert second.startswith("It sorts the rows into 3 kinds")
    assert headline("zoo", (BEST, ALONE), (ahead,)) == headline("zoo", (BEST, ALONE))


def test_nothing_hidden_is_not_claimed_while_a_fit_that_is_ahead_goes_on():
    same = ModelRow("mixture of 3", "mixture", 3, 5.0, 0.1, 0.0, 0.0, 1.0)
    alone = replace(ALONE, behind=0.0, behind_error=0.1)
    ahead = replace(same, name="noisy OR of 8", family="noisy-or", bits=2.5, converged=False)
    (text,) = findings(UNLABELLED, None, (same, alone), (), None, (ahead,))
    assert text == (
        "No model that has converged describes unseen rows clearly better than independent bits do (5.0 bits per row); "
        "which model is best is open, since the noisy OR of 8 had not converged."
    )
    assert headline("zoo", (same, alone), (ahead,)) == "zoo: the fits that are ahead have not converged"
    (text,) = findings(UNLABELLED, None, (alone,), (), None, (replace(ahead, bits=75.7),))
    assert text == "No model with anything hidden has converged; independent bits need 5.0 bits for an unseen row."
    assert headline("zoo", (alone,), (ahead,)) == "zoo: no model with causes has converged"
    assert headline("zoo", (alone,)) == "zoo: no model with causes was fitted"
    (text,) = findings(UNLABELLED, CONTENT.map, (), (), None, (ahead,))
    assert text == "No fit has converged."


def test_a_map_that_has_not_converged_tells_nothing():
    unfinished = replace(CONTENT.map, converged=False)
    same = replace(GUESSES, right=0.75)  # so that the most surprising row would be named
    assert len(findings(UNLABELLED, CONTENT.map, (BEST, ALONE), (), same)) == 2
    assert len(findings(UNLABELLED, unfinished, (BEST, ALONE), (), same)) == 1
    assert "party" in findings(CONTENT.table, CONTENT.map, (BEST, ALONE), (), same)[-1]
    assert len(findings(CONTENT.table, unfinished, (BEST, ALONE), (), same)) == 1


def test_causes_that_carry_nothing_are_no_finding():
    best = ModelRow("combination machine of 8", "combination-machine", 8, 3.0, 0.1, 0.0, 0.0, 1.0)
    empty = Gallery(best.name, "", "signed", (), note="Its 8 causes carry nothing: all weights are about 0.")
    assert len(findings(UNLABELLED, None, (best, ALONE), (empty,), None)) == 1


def test_a_little_in_every_row_is_no_sign_of_causes():
    """As where shares of rare bits are guessed better: 40 standard errors, but 2.5 bits in all."""
    best = ModelRow("mixture of 3", "mixture", 3, 4.96, 0.1, 0.0, 0.0, 1.0)
    text = findings(UNLABELLED, None, (best, replace(ALONE, behind=0.042, behind_error=0.001, n_rows=60)), (), None)[0]
    assert "no clear sign of hidden causes" in text
    text = findings(UNLABELLED, None, (best, replace(ALONE, behind=0.042, behind_error=0.001, n_rows=600)), (), None)[0]
    assert "are not independent" in text


def test_a_better_guess_of_rare_shares_is_no_sign_of_causes():
    """5.8 bits fewer where independent bits lose up to 6.4 by their smoothing; without that, it is one."""
    mixture = ModelRow("mixture of 8", "mixture", 8, 0.5, 0.1, 0.0, 0.0, 1.0, n_rows=400)
    alone = replace(ALONE, bits=6.3, behind=5.8, behind_error=0.04, n_rows=400)
    for by_shares, claimed in ((6.4, False), (0.5, True)):
        found = headline("x", [mixture, replace(alone, by_shares=by_shares)])
        assert ("no clear sign" not in found) is claimed

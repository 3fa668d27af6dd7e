"""The arrays and sentences behind the pictures."""

import numpy as np
import pytest
import scipy.sparse

from latentbits.report import summaries
from latentbits.report.map_summaries import kind_labels
from latentbits.report.summaries import findings, headline


def test_telling_columns_are_those_that_differ():
    means = np.array([[0.5, 0.9, 0.1, 0.2], [0.5, 0.1, 0.8, 0.2]])
    assert summaries.telling_columns(np.array([0.5, 0.5]), means, 2).tolist() == [1, 2]
    assert sorted(summaries.telling_columns(np.array([0.5, 0.5]), means, 9).tolist()) == [0, 1, 2, 3]


def test_tile_leaves_gaps():
    sheet = summaries.tile(np.arange(12).reshape(3, 4), (2, 2), 2)
    assert sheet.shape == (5, 5)
    np.testing.assert_array_equal(sheet[:2, :2], [[0, 1], [2, 3]])
    np.testing.assert_array_equal(sheet[3:, :2], [[8, 9], [10, 11]])
    assert np.isnan(sheet[2]).all()
    assert np.isnan(sheet[3:, 2:]).all()


def test_dense_bits():
    np.testing.assert_array_equal(summaries.dense_bits(scipy.sparse.csr_array([[0, 1]])), [[0, 1]])
    np.testing.assert_array_equal(summaries.dense_bits(np.array([[0.2, np.nan, 3]]), 1.0), [[0, np.nan, 1]])


def test_share_right_of_nothing_is_nan():
    assert np.isnan(summaries.share_right(np.ones((1, 2)), np.full((1, 2), np.nan), np.ones((1, 2), bool)))


def test_hidden_share():
    hidden = summaries.hide_some((100, 100), np.random.default_rng(0))
    assert hidden.mean() == pytest.approx(summaries.HIDDEN_SHARE, abs=0.02)


def test_findings_of_a_mixture(explored):
    told = findings(explored())
    assert len(told) == 3
    assert "describes an unseen row in 3.0 bits, 2.0 ± 0.3 (40%) fewer" in told[0]
    assert "60% of them, the rarest 0.5%" in told[1]
    assert "no larger number was tried" in told[1]
    assert "guesses 90% of the hidden bits right; the average row alone would give 75%" in told[2]
    assert headline(explored()) == "zoo: 3 hidden kinds of rows; a row then takes 3.0 bits instead of 5.0"


def test_findings_where_nothing_is_hidden(explored):
    nothing = explored(
        models=("independent bits", "mixture of 2", "mixture of 3"), behind=np.array([0.0, 0.1, 0.2]), right=np.nan
    )
    assert "no clear sign of hidden causes" in findings(nothing)[0]
    assert "no clear sign of hidden causes" in headline(nothing)
    assert len(findings(nothing)) == 1
    assert len(findings(explored(right=np.nan))) == 2


def test_findings_without_the_baseline(explored):
    one = explored(models=("mixture of 3",), bits=np.array([3.0]), weights=np.ones(1), means=np.ones((1, 6)))
    assert "describes unseen rows best, in 3.0 bits per row" in findings(one)[0]
    assert "needs 3.0 bits" in headline(one)


def test_findings_of_latent_traits(explored, mapped):
    one = explored(
        models=("mixture of 2", "1 latent trait", "independent bits"),
        shown="1 latent trait",
        trait=mapped(1, components=np.array([[0.0, 0.1, 3.0, 0.2, -2.0, 1.0]]), intercept=np.zeros(6)),
    )
    told = findings(one)
    assert "the model with 1 latent trait describes an unseen row in 3.5 bits" in told[0]
    assert told[1] == (
        "It places each row along one scale; along it, rows differ most in c, e and f (the mixture of 2 is not clearly "
        "better)."
    )
    assert headline(one).startswith("zoo: 1 hidden trait; a row then takes")
    two = explored(models=("2 latent traits",), shown="2 latent traits", trait=mapped(2))
    assert "the model with 2 latent traits describes unseen rows best" in findings(two)[0]
    assert "in a space of 2 dimensions, where they differ most in" in findings(two)[1]


def test_findings_of_a_combination_machine(explored):
    weights = np.array([[0.0, 0.1, 3.0, 0.0, -2.0, 1.0], [0.0, 0.2, 0.0, 0.0, 1.0, 0.0]])
    on = np.array([[0.1, 0.9], [0.9, 0.8], [0.2, 0.9], [0.0, 0.6]])
    many = explored(
        models=("combination machine of 2", "independent bits"),
        bits=np.array([3.0, 5.0]),
        shown="combination machine of 2",
        switches=summaries.switches_of(weights, on),
    )
    assert many.switches.shares.tolist() == pytest.approx([0.8, 0.3])
    np.testing.assert_array_equal(many.switches.weights, weights[::-1])
    assert many.switches.numbers.tolist() == [0, 0.75, 0.25]
    assert findings(many)[1] == (
        "It explains each row by which of 2 hidden causes are on, 1.1 of them on average; the commonest is on in 80% "
        "of the rows, the rarest in 30%; they act most on c, e and f."
    )
    assert headline(many).startswith("zoo: 2 hidden causes that act together; a row then takes 3.0 bits")
    one = many._replace(switches=summaries.switches_of(weights[:1], on[:, :1]), image_shape=(2, 3))
    assert findings(one)[1] == "It explains each row by whether one hidden cause is on, as it is in 30% of them."


def test_which_labels_are_kinds():
    labels = {"id": list(range(50)), "constant": [1] * 50, "kind": ["a", "b"] * 25}
    assert kind_labels(labels) == "kind"
    assert kind_labels({"id": ["x", "y", "z"]}) is None

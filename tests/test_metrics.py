from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from tests.tables import as_bytes, classes

from latentbits import BernoulliMixture, BernoulliProduct
from latentbits.metrics import log_loss, reconstruction, single_bit_error

TABLE = as_bytes(classes(200, k=3))


@pytest.fixture(scope="module")
def mixture():
    return BernoulliMixture(3, random_state=0, n_init=1, dtype="float64").fit(TABLE)


def test_uniform_has_a_log_loss_of_one():
    uniform = BernoulliProduct(smoothing=1e12).fit(TABLE)
    assert log_loss(uniform, TABLE) == pytest.approx(1, abs=1e-6)
    assert reconstruction(uniform, TABLE) == pytest.approx(1, abs=1e-6)


def test_log_loss_by_hand(mixture):
    joint = np.log(mixture.weights_) + np.where(TABLE[:, None], np.log(mixture.means_), np.log1p(-mixture.means_)).sum(
        2
    )
    by_hand = -np.logaddexp.reduce(joint, 1).mean() / np.log(2) / 6
    assert log_loss(mixture, TABLE) == pytest.approx(by_hand, rel=1e-9)


def test_every_single_bit_against_the_two_rows_it_could_be(mixture):
    """The prediction is the value of the more probable row: by brute force over all bits of all rows."""
    mistakes = 0
    for column in range(6):
        flipped = TABLE.copy()
        flipped[:, column] ^= 1
        mistakes += np.sum(mixture.score_samples(flipped) > mixture.score_samples(TABLE))
    assert single_bit_error(mixture, TABLE, n_bits=None) == pytest.approx(mistakes / TABLE.size)


def test_five_random_bits_estimate_it(mixture):
    every = single_bit_error(mixture, TABLE, n_bits=None)
    some = single_bit_error(mixture, TABLE, n_bits=5, random_state=0)
    assert some == single_bit_error(mixture, TABLE, n_bits=5, random_state=0)
    # 1000 of 1200 bits were tried: within 5 standard errors of a sample without replacement
    assert abs(some - every) < 5 * np.sqrt(every * (1 - every) / 1000 * (200 / 1199))


def test_reconstruction_by_hand(mixture):
    p = mixture.means_[mixture.transform(TABLE).argmax(1)]
    by_hand = -np.log2(np.where(TABLE == 1, p, 1 - p)).mean()
    assert reconstruction(mixture, TABLE) == pytest.approx(by_hand, rel=1e-9)


def test_missing_bits_count_nothing(mixture):
    holes = TABLE.astype(float)
    holes[:, 0] = np.nan
    seen = -mixture.score_samples(holes).sum() / np.log(2) / (200 * 5)
    assert log_loss(mixture, holes) == pytest.approx(seen)
    assert 0 < single_bit_error(mixture, holes, n_bits=None) < 0.5
    assert np.isfinite(reconstruction(mixture, holes))
    with pytest.raises(ValueError, match="no observed bit"):
        single_bit_error(mixture, np.full((3, 6), np.nan))


def test_a_model_that_binarises_is_measured_on_its_own_bits(mixture):
    """Grey values with a cut at 2 are the same bits, dense or sparse."""
    grey = TABLE * 3.0
    cut = BernoulliMixture(3, random_state=0, n_init=1, dtype="float64", binarize=2.0).fit(grey)
    for X in (grey, sparse.csr_matrix(grey)):
        assert log_loss(cut, X) == pytest.approx(log_loss(mixture, TABLE), rel=1e-9)
        assert reconstruction(cut, X) == pytest.approx(reconstruction(mixture, TABLE), rel=1e-9)
        assert single_bit_error(cut, X, n_bits=None) == single_bit_error(mixture, TABLE, n_bits=None)


def test_frames_are_measured_without_a_word(mixture):
    frame = pd.DataFrame(TABLE, columns=list("abcdef"))
    named = BernoulliMixture(3, random_state=0, n_init=1, dtype="float64").fit(frame)
    assert single_bit_error(named, frame, n_bits=None) == single_bit_error(mixture, TABLE, n_bits=None)
    assert log_loss(named, frame) == log_loss(mixture, TABLE)
    assert reconstruction(named, frame) == reconstruction(mixture, TABLE)

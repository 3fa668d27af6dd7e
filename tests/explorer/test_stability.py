"""Whether causes are found again in other parts of the rows."""

import numpy as np

from latentbits.explorer.stability import alike, axes_again, with_rounds
from latentbits.reports.summaries.records import Gallery, Layer


def gallery(active):
    m = active.shape[1]
    names = tuple(f"cause {i}" for i in range(m))
    layer = Layer("Causes", names, np.zeros((m, 3)), None, active.mean(0), active, np.zeros((m, 1), int))
    return Gallery("some model", "", "signed", (layer,))


def test_partners_are_found_in_any_order_and_of_any_sign():
    rng = np.random.default_rng(0)
    ours = rng.random((200, 3))
    theirs = np.column_stack([1 - ours[:, 2], ours[:, 0] + 0.01 * rng.normal(size=200), rng.random(200)])
    found = alike(ours, theirs[:150])
    assert found[0] > 0.99
    assert found[2] > 0.99
    assert found[1] < 0.3  # each has one partner, and this one is left over


def test_a_cause_that_never_changes_is_never_found():
    ours = np.column_stack([np.full(50, 0.3), np.arange(50.0)])
    assert alike(ours, ours).tolist()[0] == 0


def test_rounds_are_counted():
    rng = np.random.default_rng(0)
    ours = rng.random((100, 2))
    one, other = ours[:, ::-1], np.column_stack([ours[:, 0], rng.random(100)])
    layer = with_rounds(gallery(ours), [gallery(one), gallery(other)]).layers[0]
    assert layer.n_rounds == 2
    assert layer.found_again.tolist() == [2, 1]
    assert with_rounds(gallery(ours), []).layers[0].found_again is None


def test_axes_are_found_again_however_they_are_turned():
    rng = np.random.default_rng(0)
    ours = rng.normal(size=(200, 2)) * [2.0, 1.0]
    turned, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    in_three = np.column_stack([ours, 0.1 * rng.normal(size=200)]) @ turned
    one_alone = np.column_stack([ours[:, 0], rng.normal(size=200)])
    assert axes_again(ours, [in_three, -ours[:, ::-1]]).startswith("The axes were found again in 2 of 2 rounds")
    sentence = axes_again(ours, [in_three, one_alone])
    assert sentence.startswith("Trait 1 was found again in 2 of 2 rounds, trait 2 in 1 of 2")
    assert "not to be trusted" in sentence
    assert axes_again(ours, [one_alone]).endswith("): one round says little.")
    assert "is unknown: no fit of traits" in axes_again(ours, [])
    assert "is unknown: the fits to parts of the rows had one trait" in axes_again(ours, [ours[:, :1]])

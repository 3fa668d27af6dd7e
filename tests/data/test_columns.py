"""Columns that hold no bits: labels, marks of missing cells, or in doubt."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from latentbits.data.columns import all_words, of_numbers, of_words, refusal, settle


def numbers(values, name="x"):
    return of_numbers(name, name, np.array(values, float))


def words(cells, name="w"):
    return of_words(name, name, cells)


@pytest.mark.parametrize("code", [-9, 9, 99, 255, -1, 2])
def test_bits_with_a_code_have_marks(code):
    """Whatever share of the cells has it, and whichever bits are there."""
    for values in ([0, 1, code], [0, 1, 0, 1, 1, code], [0, 1, *[code] * 20], [0, code, np.nan]):
        found = numbers(values)
        assert (found.use, found.others) == ("marks", (str(code),))


def test_several_codes():
    assert numbers([0, 1, -9, 99, -1, 255, 9, np.nan]).use == "marks"  # more values than a few, but all are codes
    assert numbers([0, 1, 1, 0, 17]).others == ("17",)  # no usual code, but a cell among bits


@pytest.mark.parametrize(
    "values",
    [
        [1, 2, 1, 2],  # answers
        [0, 1, 2, 3, 0, 1],  # counts
        [2019, 2020, 2021],  # few
        [0, 1, 1, 0, 0.5],  # a fraction among bits
        [0, 1, 0, 1, 0, 1, 12, 13, 14, 15, 16],  # more than marks, among bits
    ],
)
def test_numbers_in_doubt(values):
    assert numbers(values).use == "unclear"


def test_many_numbers_are_a_label():
    assert numbers([0, 1, *range(2, 30)]).use == "label"
    assert numbers([1.5, 2.5, 3.5, 4.5, 5.5, 6.5, np.nan]).use == "label"
    assert numbers([0, 1, np.nan]) is None
    late = np.concatenate([np.tile([0, 1, -9], 1000), np.full(3000, 5.5)])  # what comes after the first numbers counts
    assert numbers(late).use == "unclear"
    assert numbers(np.concatenate([np.arange(2000) + 0.5, [0, 1] * 500])).use == "label"


def test_a_stray_word_is_a_mark_and_a_column_of_words_is_a_label():
    assert words(["0", "1", "1", "unknown"]).others == ("unknown",)
    assert words(["yes", "no", "maybe"]).use == "marks"
    assert words(["1.5", "2.5", "deep"]).use == "marks"
    assert words(["north", "south", "1"]).use == "label"
    assert words([*"0101010101", *"abcde"]).use == "unclear"


def test_numbers_are_labels_among_bits_only():
    depth, height = numbers(np.arange(9.5), "depth"), numbers(np.arange(9.5), "height")
    site, code = words(["north", "south", "west"], "site"), numbers([0, 1, -9], "q")
    assert settle([site, depth], 5).labels == [site, depth]
    assert settle([site, depth, height], 4) == ([site], [])  # one column of bits, two of numbers: a table of numbers
    assert settle([site, depth], 5, numbers_too=False) == ([site], [])
    assert settle([code, depth], 3).refused == [code]  # it would be bits but for the code


def test_answers_in_other_words_are_no_labels():
    votes = [words(["y", "n", "y"], f"v{i}") for i in range(3)]
    found = settle(votes, 5)
    assert [one.use for one in found.refused] == ["words"] * 3
    assert "Bits are written as 0 and 1, true and false, or yes and no." in str(refusal("", found.refused))
    assert "labels=" not in str(refusal("", found.refused))
    assert settle(votes[:1], 5).labels == votes[:1]
    assert refusal("", all_words(votes)).labels == []


def test_one_error_tells_of_all():
    odd = [numbers([0, 1, -9], "a"), numbers([0, 1, 99], "b"), numbers([2019, 2020], "year")]
    error = refusal("x.csv: ", odd, taken=[words(["north", "south", "west"], "site")])
    assert str(error).startswith(
        "x.csv: columns that hold no bits: a (with -9), b (with 99), year (numbers: 2019, 2020)."
    )
    assert "If -9 and 99 mark missing cells, say missing=['-9', '99']." in str(error)
    assert "If year tells what rows are, say labels=['site', 'year']." in str(error)  # who names labels names all
    assert "binarize=0.5" in str(error)
    assert "binarize" not in str(refusal("", odd[:2]))  # a cut would make answers of marks
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.missing) == (str(error), ["-9", "99"])

"""Which labels axes and causes go with: what is there is found, and chance is seldom taken for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from contents import small_content
from scipy import stats

from latentbits.explorer import meanings
from latentbits.explorer.content import Labels, Map, Meaning, Table
from latentbits.explorer.meanings import (
    axis_title,
    colouring,
    has_order,
    in_words,
    meanings_of,
    names_for,
    poles_of,
    strength,
)
from latentbits.reports.many_tests import adjusted
from latentbits.reports.summaries.records import Gallery, Layer


def numbers(name, values):
    values = np.asarray(values, float)
    return Labels(name, (), np.where(np.isnan(values), -1, 0), values)


def kinds(name, codes):
    return Labels(name, tuple("abcdefgh"[: max(codes) + 1]), np.asarray(codes))


def a_table(labels, n, bits=None):
    bits = np.tile([0.0, 1.0], (n, 3)) if bits is None else bits
    return Table("t", n, tuple("uvwxyz"[: bits.shape[1]]), bits, np.arange(n), labels=tuple(labels))


def a_map(means, weights=None):
    n, none = len(means), np.zeros(0, int)
    weights = np.zeros((2, 6)) if weights is None else weights
    return Map("", means, np.zeros((n, 3)), weights, np.zeros(weights.shape[1]), None, np.zeros(n), none)


def a_gallery(active):
    m = active.shape[1]
    names = tuple(f"cause {i + 1}" for i in range(m))
    layer = Layer("Causes", names, np.zeros((m, 6)), None, np.full(m, 0.1), active, np.zeros((m, 1), int))
    return Gallery("noisy OR", "", "strength", (layer,))


def test_numbers_and_kinds_are_tested_as_scipy_does():
    rng = np.random.default_rng(0)
    means = rng.normal(size=(80, 2))
    water = means[:, 0] * -2 + rng.normal(size=80)
    water[:5] = np.nan
    three = np.digitize(means[:, 1] + 0.5 * rng.normal(size=80), [-0.5, 0.5])
    two = (means[:, 0] + rng.normal(size=80) > 0).astype(int)
    labels = [numbers("water", water), kinds("three", three), kinds("two", two)]
    found = {(m.of, m.label): m for m in meanings_of(a_table(labels, 80), a_map(means), ())}
    assert set(found) == {("trait 1", "water"), ("trait 2", "three"), ("trait 1", "two")}

    one = found["trait 1", "water"]
    known = ~np.isnan(water)
    expected = stats.spearmanr(water[known], means[known, 0])
    assert (one.measure, one.n) == ("rank correlation", 75)
    assert one.value == pytest.approx(expected.statistic)
    assert one.p == pytest.approx(6 * expected.pvalue)  # the least of six tests; no row has more ones than another

    one = found["trait 2", "three"]
    groups = [means[three == k, 1] for k in range(3)]
    h = stats.kruskal(*groups).statistic
    assert (one.measure, one.kinds, one.n) == ("eta squared", ("c",), 80)
    assert one.value == pytest.approx((h - 2) / 77)

    one = found["trait 1", "two"]
    test = stats.mannwhitneyu(means[two == 1, 0], means[two == 0, 0], method="asymptotic", use_continuity=False)
    assert (one.measure, one.kinds) == ("AUC", ("b", "a"))
    assert one.value == pytest.approx(test.statistic / (two == 1).sum() / (two == 0).sum())
    assert one.p == pytest.approx(4 * test.pvalue)


def test_strongest_first_on_one_scale():
    rng = np.random.default_rng(1)
    means = rng.normal(size=(200, 2))
    labels = [numbers("weak", means[:, 0] + 1.5 * rng.normal(size=200)), numbers("strong", means[:, 1])]
    found = meanings_of(a_table(labels, 200), a_map(means), ())
    assert [m.label for m in found] == ["strong", "weak"]
    assert strength(Meaning("", "", "AUC", 0.9, 0, 9)) == pytest.approx(0.8)
    assert strength(Meaning("", "", "eta squared", 0.25, 0, 9)) == pytest.approx(0.5)
    assert strength(Meaning("", "", "rank correlation", -0.6, 0, 9)) == pytest.approx(0.6)


def test_causes_are_of_the_rows_looked_at_closely():
    rng = np.random.default_rng(2)
    means = rng.normal(size=(300, 2))
    active = rng.random((100, 3))
    active[:, 1] = np.arange(100) % 2
    labels = [kinds("side", np.arange(300) % 2)]
    (found,) = meanings_of(a_table(labels, 300), a_map(means), (a_gallery(active),))
    assert (found.of, found.label, found.n) == ("cause 2", "side", 100)
    assert (found.gallery, found.layer, found.number) == ("noisy OR", 0, 1)
    assert (found.value, found.kinds) == (1.0, ("b", "a"))


def test_numbers_from_0_to_6_are_grades_where_they_rise_and_codes_where_not():
    """Both tests are made, and counted; one is said."""
    rng = np.random.default_rng(8)
    means = rng.normal(size=(300, 2))
    grade = np.digitize(means[:, 0] + 0.7 * rng.normal(size=300), [-1.5, -1, -0.5, 0, 0.5, 1])
    code = np.array([3, 0, 6, 1, 5, 2, 4])[np.digitize(means[:, 1], [-1.5, -1, -0.5, 0, 0.5, 1])]
    labels = [replace(kinds(name, codes), ordered=True) for name, codes in (("grade", grade), ("code", code))]
    found = meanings_of(a_table(labels, 300), a_map(means), ())
    assert {(m.of, m.label, m.measure) for m in found} == {
        ("trait 1", "grade", "rank correlation"),
        ("trait 2", "code", "eta squared"),
    }
    by_label = {m.label: m for m in found}
    expected = stats.spearmanr(grade, means[:, 0])
    assert by_label["grade"].value == pytest.approx(expected.statistic)
    assert by_label["grade"].p <= 8 * expected.pvalue * (1 + 1e-9)  # of the eight tests
    assert [has_order(one, found) for one in labels] == [True, False]
    assert not has_order(kinds("grade", grade), found)


def test_how_many_ones_is_no_label():
    """It is tested without being asked for, and of real numbers it is not."""
    rng = np.random.default_rng(3)
    bits = (rng.random((60, 6)) < 0.5).astype(float)
    means = np.column_stack([bits.sum(axis=1) + 0.1 * rng.normal(size=60), rng.normal(size=60)])
    (found,) = meanings_of(a_table([], 60, bits), a_map(means), ())
    assert (found.of, found.label) == ("trait 1", "")
    assert in_words([found]).startswith("how many ones a row has (rank correlation 0.9")
    assert axis_title(0, [found]).startswith("trait 1: number of ones, rank correlation 0.9")
    holes = np.where(rng.random(bits.shape) < 0.3, np.nan, bits)
    shares = np.nanmean(np.column_stack([holes, np.full(60, 0.5)]), axis=1)
    found = meanings_of(a_table([], 60, holes), a_map(np.column_stack([shares, shares])), ())
    assert {m.of for m in found} == {"trait 1", "trait 2"}
    assert meanings_of(replace(a_table([], 60, bits), real=True), a_map(means), ()) == ()


def test_words():
    water = Meaning("trait 1", "WatrCont", "rank correlation", -0.694, 1e-5, 70)
    topo = Meaning("trait 1", "Topo", "AUC", 0.81, 1e-4, 70, ("Hummock", "Blanket"))
    ground = Meaning("trait 2", "Substrate", "eta squared", 0.31, 1e-4, 70, ("Litter",), number=1)
    ones = Meaning("trait 1", "", "rank correlation", 0.75, 1e-5, 70)
    of_cause = replace(topo, of="cause 2", gallery="noisy OR", number=1)
    said = (ones, water, of_cause, topo, ground)
    assert names_for(said, None, 0, 0) == [water, ones]
    assert names_for(said[1:], None, 0, 0) == [water]
    assert names_for(said, "noisy OR", 0, 0) == []
    assert in_words([water, ones]) == (
        "WatrCont (rank correlation -0.69), and more with how many ones a row has (rank correlation 0.75)"
    )
    assert in_words(names_for(said, "noisy OR", 0, 1)) == "Topo, Hummock above Blanket (AUC 0.81)"
    assert in_words([ground]) == "Substrate, highest for Litter (eta squared 0.31)"
    assert in_words([]) == ""
    assert axis_title(0, [water]) == "trait 1: WatrCont, rank correlation \N{MINUS SIGN}0.69"
    assert axis_title(0, [water, ones]) == "trait 1: number of ones, rank correlation 0.75"  # the stronger of both
    assert axis_title(1, [ground]) == "trait 2: Substrate, highest for Litter, eta squared 0.31"
    assert axis_title(1, []) == "trait 2"


def test_poles_name_columns_that_move():
    """A rare bit moves little however it is pulled; pixels have no names."""
    bits = np.zeros((100, 4))
    bits[:50, :2] = bits[50:, 2] = bits[:1, 3] = 1
    where = a_map(np.zeros((100, 2)), np.array([[1.0, 2.0, -1.0, 9.0], [0.0, 0.0, 0.0, 0.0]]))
    table = a_table([], 100, bits)
    assert poles_of(table, where) == ((("v", "u", "x"), ("w",)), ((), ()))
    assert poles_of(replace(table, image_shape=(2, 2)), where) == ()
    scaled = replace(table, real=True, values=bits * [1, 100, 1, 1])
    assert poles_of(scaled, where)[0][0] == ("x", "u", "v")


# --- chance ---


def test_holm_holds_for_all_tests():
    p = np.array([0.004, 0.2, 0.001, 0.01])
    np.testing.assert_allclose(adjusted(p, "holm"), [0.012, 0.2, 0.004, 0.02])
    assert adjusted(np.array([]), "holm").tolist() == []


def random_table(rng, n, rare):
    """Labels of every sort beside causes, some of them rarely on, and neither knows of the other."""
    active = rng.random((n, 12))
    if rare:
        active = np.where(rng.random((n, 12)) < rng.choice([3 / n, 0.05, 0.1], 12), active, 0)
        active[:, ::2] = active[:, ::2] > 0
    counts = np.where(rng.random(n) < 0.8, 0, rng.poisson(5, n))
    labels = [
        numbers("normal", rng.normal(size=n)),
        numbers("counts", counts),
        kinds("two", rng.integers(0, 2, n)),
        kinds("uneven", (rng.random(n) < 0.1).astype(int)),
        kinds("six", rng.choice(6, n, p=[0.5, 0.3, 0.08, 0.06, 0.03, 0.03])),
    ]
    bits = (rng.random((n, 6)) < 0.5).astype(float)
    return a_table(labels, n, bits), a_map(rng.normal(size=(n, 2))), (a_gallery(active),)


MANY = [
    pytest.param(n, rare, 200, marks=pytest.mark.slow("chance in 200 tables"))
    for n, rare in ((30, True), (1000, False))
]


@pytest.mark.parametrize(("n", "rare", "n_tables"), [(100, True, 100), *MANY])
def test_of_random_labels_nothing_is_said(n, rare, n_tables, monkeypatch):
    """In tables each with some eighty tests; by nature one of 100 would have a p below 0.01."""
    monkeypatch.setattr(meanings, "N_SHUFFLES", 9_999)  # of rare kinds, where fewer than 30 rows are left
    rng = np.random.default_rng(n)
    assert sum(len(meanings_of(*random_table(rng, n, rare))) > 0 for _ in range(n_tables)) <= n_tables // 100


def test_few_rows_are_shuffled():
    """As exact as the enumeration of all orders, by scipy; and what is plain in few rows is reported."""
    rng = np.random.default_rng(4)
    means = rng.normal(size=(8, 2))
    own, unit = (meanings._unit(stats.rankdata(x, axis=0)) for x in (means[:, :1] + rng.normal(size=(8, 1)), means))

    def explained(x, axis):
        return np.square(np.sum(x * unit[:, 0], axis=axis))

    exact = stats.permutation_test(
        (own[:, 0],), explained, permutation_type="pairings", n_resamples=np.inf, alternative="greater"
    )
    assert meanings._by_shuffling(own, unit)[0] == pytest.approx(exact.pvalue, abs=0.004)

    means = rng.normal(size=(24, 2))
    labels = [kinds("side", (means[:, 0] > 0).astype(int)), numbers("rank", means[:, 1])]
    found = meanings_of(a_table(labels, 24), a_map(means), ())
    assert {(m.of, m.label) for m in found} == {("trait 1", "side"), ("trait 2", "rank")}


def test_a_cause_that_is_hardly_ever_on_proves_nothing():
    """It is on in three rows, all of a kind of five: 1 in 5474, which 81 tests make common; formulas have 1e-10."""
    n = 70
    active = np.random.default_rng(6).random((n, 81))
    active[:, 0] = np.arange(n) < 3
    labels = [kinds("kind", (np.arange(n) < 5).astype(int))]
    assert 81 * stats.kruskal(active[:5, 0], active[5:, 0]).pvalue < 1e-6
    assert meanings_of(a_table(labels, n), None, (a_gallery(active),)) == ()
    assert len(meanings_of(a_table(labels, n), None, (a_gallery(active[:, :9]),))) == 1


def test_labels_that_cannot_be_tested_are_not():
    n = 40
    means = np.random.default_rng(5).normal(size=(n, 2))
    lonely = np.zeros(n, int)
    lonely[:4] = 1  # too few of a kind
    labels = [kinds("lonely", lonely), numbers("few", np.where(np.arange(n) < 7, means[:, 0], np.nan))]
    labels.append(numbers("constant", np.full(n, 3.0)))
    assert meanings_of(a_table(labels, n), a_map(means), ()) == ()
    assert meanings_of(small_content().table, None, ()) == ()
    assert meanings_of(small_content().table, a_map(np.zeros((60, 2))), ()) == ()  # rows that are all alike


def test_the_map_is_coloured_by_what_its_axes_go_with_most():
    content = small_content()
    assert [one.name for one in content.table.labels] == ["party", "water"]
    assert colouring(content.meanings, content.table.labels) == (
        1,
        "the label that the axes go with most: trait 1, rank correlation \N{MINUS SIGN}1.00",
    )
    assert colouring(content.meanings[1:], content.table.labels) == (0, "")  # ones are no label, nor is a cause an axis
    assert colouring(content.meanings, ()) is None

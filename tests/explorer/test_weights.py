"""An exploration of rows with weights: fits, scores and sentences are of rows that count as often as these say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from contents import small_content
from tests.fitted import fitted, table
from tests.tables import classes

from latentbits import BernoulliMixture, explore
from latentbits.core.errors import DataError
from latentbits.estimators.families import families, family
from latentbits.explorer.explore import _fit_map
from latentbits.explorer.findings import findings
from latentbits.explorer.page import render_page
from latentbits.explorer.payload import payload_of
from latentbits.explorer.tables import most_varied, shown_rows, take_table
from latentbits.figures.any_model.arrays import numbers_on, share_right

BITS = classes(160)
COUNTS = np.random.default_rng(0).integers(0, 5, 160).astype(float)


def test_a_column_of_weights_is_neither_bit_nor_label():
    frame = pd.DataFrame(BITS, columns=list("abcdef")).assign(n=COUNTS, kind=["x", "y"] * 80)
    given = take_table(frame, "kind", sample_weight="n")
    assert given.columns == tuple("abcdef")
    assert list(given.labels) == ["kind"]
    np.testing.assert_array_equal(given.weights, COUNTS)
    table, n_close = shown_rows(given, 0)
    assert n_close == table.n_rows == np.count_nonzero(COUNTS)
    assert table.n_counted == COUNTS.sum()
    np.testing.assert_array_equal(table.weights, COUNTS[table.numbers])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("m", "sample_weight: there is no column 'm'"),
        ("kind", "labels and sample_weight both name column 'kind'"),
        (np.ones(3), "X has 10 rows and sample_weight 3"),
    ],
)
def test_invalid_weights_are_refused(weights, message):
    frame = pd.DataFrame(BITS[:10], columns=list("abcdef")).assign(kind=["x", "y"] * 5)
    with pytest.raises(DataError, match=message):
        take_table(frame, "kind", sample_weight=weights)
    with pytest.raises(DataError, match="X is no frame"):
        take_table(BITS, sample_weight="n")


def test_sums_over_rows_are_those_of_the_table_written_out():
    written = np.repeat(np.arange(160), COUNTS.astype(int))
    rng = np.random.default_rng(1)
    active, guess, hidden = rng.random((160, 3)), rng.random((160, 6)), rng.random((160, 6)) < 0.5
    np.testing.assert_allclose(numbers_on(active, COUNTS), numbers_on(active[written]))
    assert share_right(guess, BITS, hidden, COUNTS) == pytest.approx(
        share_right(guess[written], BITS[written], hidden[written])
    )
    sparse_or_dense = BITS * rng.gamma(1.0, 1.0, 6)
    np.testing.assert_array_equal(most_varied(sparse_or_dense, 3, COUNTS), most_varied(sparse_or_dense[written], 3))


# shares of the states on a tree are those of the model, which no rows are needed for
FAMILIES = [one.name for one in families() if one.size and one.name != "latent-tree"]
FAST = ("mixture", "clipped-gaussian")
MANY = pytest.mark.slow("a fit of each family")


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in FAST else MANY) for name in FAMILIES])
def test_what_is_shown_of_a_family_counts_rows_by_weight(name):
    """Shares of causes are those of the table written out; and None counts each row once."""
    model, rows, counts = fitted(name), table(name), np.random.default_rng(0).permutation(np.repeat([0, 1, 2], 80))
    usage = [
        family(name).summaries.show(name, model, values, float(len(values)), weights).gallery.layers[0].usage
        for values, weights in ((rows, counts.astype(float)), (np.repeat(rows, counts, axis=0), None))
    ]
    np.testing.assert_allclose(*usage, rtol=1e-5)


def test_the_page_has_the_weights_and_says_what_it_counts():
    content = small_content()
    assert "count each row once" not in render_page(content)
    weights = np.linspace(0.5, 3, 60)
    table = replace(content.table, weights=weights, n_counted=float(weights.sum()))
    content = replace(content, table=table)
    page = render_page(content)
    assert "60 rows (by their weights 105)" in page
    assert "count each row once" in page
    assert "rows.weights" in payload_of(content)[0]["arrays"]


def test_half_of_the_rows_is_by_weight():
    content = small_content()
    table = replace(content.table, labels=())
    dearest = np.argsort(content.map.cost)[-5:]
    weights = np.ones(60)
    weights[dearest] = 1000.0

    def sentence(weights):
        weighted = replace(table, weights=weights)
        return findings(weighted, content.map, content.models, (), None)[-1]

    low, high = (float(sentence(w).split("take less than ")[1].rstrip(".")) for w in (None, weights))
    assert high > low


@pytest.mark.slow("an exploration with all of its fits")
def test_an_exploration_with_weights(tmp_path):
    mixture = BernoulliMixture(2, n_init=2, random_state=0)  # no other size is tried
    explored = explore(
        BITS,
        model=mixture,
        sample_weight=COUNTS,
        budget=None,
        out=tmp_path / "page.html",
        column_names=list("abcdef"),
    )
    there = COUNTS > 0
    models = {found: m for name, m in explored.models.items() for found in [explored.search.families[name]]}
    shares = COUNTS @ BITS / COUNTS.sum()
    np.testing.assert_allclose(models["product"].means_, shares, atol=2 / COUNTS.sum())
    np.testing.assert_allclose(models["mixture"].weights_ @ models["mixture"].means_, shares, atol=0.02)
    assert explored.search.n_rows == explored.content.table.n_rows == there.sum()
    again, other = (
        _fit_map(take_table(BITS[there], sample_weight=weights), None, 0) for weights in (COUNTS[there], None)
    )
    np.testing.assert_array_equal(explored.map.components_, again.components_)
    assert not np.allclose(explored.map.components_, other.components_, rtol=1e-2)
    assert "count each row once" in (tmp_path / "page.html").read_text()

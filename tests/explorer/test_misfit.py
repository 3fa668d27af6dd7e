"""Rows and columns that fit worst: against sums over a grid, cell by cell, and on the page."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from browser import csv_of, saved
from contents import placed, predicted_from_others, small_content
from scipy.special import expit

from latentbits.explorer import misfit
from latentbits.explorer.content import Map
from latentbits.explorer.misfit import misfit_of


def made():
    """Forty bits of two traits, some missing; row 11 is far out, and two of its surest bits are turned over."""
    rng = np.random.default_rng(4)
    traits, weights = rng.normal(size=(150, 2)), 1.5 * rng.normal(size=(2, 40))
    traits[11] = [2.0, -1.5]
    chances = expit(traits @ weights)
    X = (rng.random((150, 40)) < chances).astype(float)
    X[rng.random(X.shape) < 0.05] = np.nan
    surest = np.argsort(np.abs(chances[11] - 0.5))[-2:]
    X[11, surest] = chances[11, surest] < 0.5
    return X, placed(weights, np.zeros(40), X)


X, WHERE = made()
FOUND = misfit_of(WHERE, X)


def test_the_row_that_was_tampered_with_is_found():
    """Its sums are those of the cells that had a chance below 0.1, counted cell by cell."""
    assert FOUND.rows[0] == 11
    assert FOUND.beyond[0] > 3 * FOUND.sd[0]
    assert (np.diff(FOUND.beyond) <= 0).all()
    bits, expected, variance, many, chance = 0.0, 0.0, 0.0, 0, 0.0
    for j in np.flatnonzero(~np.isnan(X[11])):
        w = WHERE.weights[:, j]
        xx, yy, xy = WHERE.covariances[11]
        a, v = WHERE.means[11] @ w + WHERE.bias[j], w @ np.array([[xx, xy], [xy, yy]]) @ w
        p = 1 / (1 + np.exp(-(2 * X[11, j] - 1) * a + v / 2))
        m = min(p, 1 - p)
        if m < 0.1:
            bits += -np.log2(p) if p < 0.1 else 0
            expected -= m * np.log2(m)
            variance += m * (1 - m) * np.log2(m) ** 2
            many += p < 0.1
            chance += m
    assert FOUND.beyond[0] == pytest.approx(bits - expected, rel=1e-4)
    assert FOUND.sd[0] == pytest.approx(np.sqrt(variance), rel=1e-4)
    assert FOUND.n_odd[0] == many >= 2
    assert FOUND.expected_odd[0] == pytest.approx(chance, rel=1e-4)


def test_cells_are_predicted_by_the_others():
    """The surprise of a cell, and the cost of a column, are what the model says where the cell is taken out."""
    p = predicted_from_others(WHERE, X)
    cost = -np.log2(np.where(X == 1, p, 1 - p))
    np.testing.assert_allclose(FOUND.surprise, 2 ** -cost[FOUND.rows[:, None], FOUND.odd], atol=0.05)
    np.testing.assert_allclose(FOUND.column_bits, np.nanmean(np.where(np.isnan(X), np.nan, cost), axis=0), rtol=0.06)


def test_columns_without_the_others():
    """A column of noise costs what its share of ones costs alone; those of the traits cost less."""
    noise = np.random.default_rng(1).integers(0, 2, 150).astype(float)
    wider = dataclasses.replace(
        WHERE, weights=np.column_stack([WHERE.weights, [0.0, 0.0]]), bias=np.append(WHERE.bias, 0.0)
    )
    found = misfit_of(wider, np.column_stack([X, noise]))
    share = noise.mean()
    alone = -share * np.log2(share) - (1 - share) * np.log2(1 - share)
    assert found.column_alone[-1] == pytest.approx(alone)
    assert found.column_bits[-1] == pytest.approx(1.0)
    assert np.median(found.column_alone[:-1] - found.column_bits[:-1]) > 0.1


def test_weights_count_rows():
    twice = np.r_[np.arange(150), 3, 3]
    doubled = misfit_of(placed(WHERE.weights, WHERE.bias, X[twice]), X[twice])
    weighted = misfit_of(WHERE, X, np.where(np.arange(150) == 3, 3.0, 1.0))
    np.testing.assert_allclose(weighted.column_bits, doubled.column_bits, rtol=1e-6)
    np.testing.assert_allclose(weighted.column_alone, doubled.column_alone, rtol=1e-6)


def test_chunks_and_the_most_cells(monkeypatch):
    """Chunks change nothing; of more cells than can be looked at, the first rows are taken, which is reported."""
    monkeypatch.setattr(misfit, "CHUNK_CELLS", 7 * 40)
    np.testing.assert_allclose(misfit_of(WHERE, X).column_bits, FOUND.column_bits)
    monkeypatch.setattr(misfit, "MOST_CELLS", 100 * 40)
    part = misfit_of(WHERE, X)
    assert part.n_rows == 100
    assert part.rows.max() < 100


def test_real_columns_by_least_squares():
    """Each number is predicted from the others as a Gaussian with a low-rank covariance is."""
    rng = np.random.default_rng(2)
    W, noise = rng.normal(size=(2, 6)), np.linspace(0.2, 0.4, 6)
    values = rng.normal(size=(80, 2)) @ W + np.sqrt(noise) * rng.normal(size=(80, 6))
    values[5, 2] += 8
    spread = np.linalg.inv(np.eye(2) + W / noise @ W.T)
    short = np.tile(spread[[0, 1, 0], [0, 1, 1]], (80, 1))
    none = np.zeros(0, int)
    where = Map("", values / noise @ W.T @ spread, short, W, np.zeros(6), noise, np.zeros(80), none)
    found = misfit_of(where, values)
    assert found.rows[0] == 5
    precision = np.linalg.inv(W.T @ W + np.diag(noise))
    away = values @ precision / np.diag(precision)
    cost = np.log2(2 * np.pi / np.diag(precision)) / 2 + away**2 * np.diag(precision) / 2 / np.log(2)
    np.testing.assert_allclose(found.column_bits, cost.mean(axis=0), rtol=1e-3)
    off = np.abs(away[5]) * np.sqrt(np.diag(precision))
    assert found.beyond[0] == pytest.approx((off**2 - 1).sum() / 2 / np.log(2), rel=1e-3)
    assert found.sd[0] == pytest.approx(np.sqrt(6 / 2) / np.log(2))
    assert found.n_odd[0] == (off > 1.645).sum()
    np.testing.assert_allclose(found.surprise[0], np.sort(off)[::-1][:3], rtol=1e-3)


def test_on_the_page(show):
    content = small_content(150)
    names = tuple(f"column {j}" for j in range(40))
    table = dataclasses.replace(content.table, values=X, columns=names)
    page = show(dataclasses.replace(content, table=table, map=WHERE, misfit=FOUND, galleries=(), morph=None))
    first = page.locator("#worst table").first.locator("tbody tr").first
    name, beyond, _, cells, odd = first.locator("th, td").all_inner_texts()
    assert (name, float(beyond)) == ("row 11", pytest.approx(FOUND.beyond[0], abs=0.06))
    assert cells.startswith(f"{FOUND.n_odd[0]}, expected ")
    assert odd.startswith(f"column {FOUND.odd[0, 0]} = {X[11, FOUND.odd[0, 0]]:.0f} (P ")
    first.get_by_role("button").press("Enter")
    assert page.locator(".row-title strong").inner_text() == "row 11"
    columns = page.locator("#worst table").nth(1)
    assert columns.locator("tbody th").all_inner_texts() == [names[j] for j in np.argsort(-FOUND.column_bits)]
    columns.get_by_role("button", name="Saved").click()
    least = int(np.argmin(FOUND.column_alone - FOUND.column_bits))
    assert columns.locator("tbody th").first.inner_text() == names[least]
    page.locator("#worst").get_by_role("searchbox").fill("column 3")
    assert columns.locator("tbody tr:visible").count() == 11
    _, data = saved(page.get_by_role("button", name="CSV: download the rows that fit worst"))
    assert [int(line["row"]) for line in csv_of(data)] == FOUND.rows.tolist()

"""Rows and columns that fit worst: against models that are asked cell by cell, and on the page."""

from __future__ import annotations

import csv
import dataclasses
import warnings

import numpy as np
import pytest
from contents import small_content

from latentbits import LatentTrait
from latentbits.explorer import misfit
from latentbits.explorer.looks import map_of
from latentbits.explorer.misfit import misfit_of
from latentbits.explorer.page import write_page


@pytest.fixture(scope="module")
def fitted():
    """Forty bits of two traits, some missing; row 11 is far out, and two of its surest bits are turned over."""
    rng = np.random.default_rng(4)
    traits = rng.normal(size=(150, 2))
    traits[11] = [2.0, -1.5]
    chances = 1 / (1 + np.exp(-traits @ rng.normal(size=(2, 40)) * 1.5))
    X = (rng.random((150, 40)) < chances).astype(float)
    X[rng.random(X.shape) < 0.05] = np.nan
    surest = np.argsort(np.abs(chances[11] - 0.5))[-2:]
    X[11, surest] = chances[11, surest] < 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it need not converge
        return LatentTrait(2, method="variational", max_iter=20, random_state=0).fit(X), X


def told_by_others(model, X, rows):
    """P(bit = 1) of each cell of some rows, asked one by one, with the cell taken out."""
    d = X.shape[1]
    without = np.repeat(X[rows], d, axis=0)
    without[np.arange(len(without)), np.tile(np.arange(d), len(rows))] = np.nan
    return model.complete(without)[np.arange(len(without)), np.tile(np.arange(d), len(rows))].reshape(len(rows), d)


def test_the_row_that_was_tampered_with_is_found(fitted):
    """Its sums are those of the cells that had a chance below 0.1, told cell by cell."""
    model, X = fitted
    where = map_of("2 latent traits", model, X)
    found = misfit_of(where, X)
    assert found.rows[0] == 11
    assert found.beyond[0] > 3 * found.sd[0]
    assert (np.diff(found.beyond) <= 0).all()
    bits, expected, variance, many, chance = 0.0, 0.0, 0.0, 0, 0.0
    for j in np.flatnonzero(~np.isnan(X[11])):
        w = where.weights[:, j]
        xx, yy, xy = where.covariances[11]
        a, v = where.means[11] @ w + where.bias[j], w @ np.array([[xx, xy], [xy, yy]]) @ w
        p = 1 / (1 + np.exp(-(2 * X[11, j] - 1) * a + v / 2))
        m = min(p, 1 - p)
        if m < 0.1:
            bits += -np.log2(p) if p < 0.1 else 0
            expected -= m * np.log2(m)
            variance += m * (1 - m) * np.log2(m) ** 2
            many += p < 0.1
            chance += m
    assert found.beyond[0] == pytest.approx(bits - expected, rel=1e-4)
    assert found.sd[0] == pytest.approx(np.sqrt(variance), rel=1e-4)
    assert found.n_odd[0] == many >= 2
    assert found.expected_odd[0] == pytest.approx(chance, rel=1e-4)


def test_cells_are_told_by_the_others(fitted):
    """The surprise of a cell, and the cost of a column, are what the model says where the cell is taken out."""
    model, X = fitted
    found = misfit_of(map_of("2 latent traits", model, X), X)
    p = told_by_others(model, X, np.arange(150))
    cost = -np.log2(np.where(X == 1, p, 1 - p))
    odd = found.rows[:, None], found.odd
    np.testing.assert_allclose(found.surprise, 2 ** -cost[odd], atol=0.05)
    np.testing.assert_allclose(found.column_bits, np.nanmean(np.where(np.isnan(X), np.nan, cost), axis=0), rtol=0.06)


def test_columns_without_the_others(fitted):
    """A column of noise costs what its share of ones costs alone; those of the traits cost less."""
    model, X = fitted
    noise = np.random.default_rng(1).integers(0, 2, 150).astype(float)
    where = map_of("2 latent traits", model, X)
    wider = dataclasses.replace(
        where, weights=np.column_stack([where.weights, [0.0, 0.0]]), bias=np.append(where.bias, 0.0)
    )
    found = misfit_of(wider, np.column_stack([X, noise]))
    share = noise.mean()
    alone = -share * np.log2(share) - (1 - share) * np.log2(1 - share)
    assert found.column_alone[-1] == pytest.approx(alone)
    assert found.column_bits[-1] == pytest.approx(1.0)
    assert np.median(found.column_alone[:-1] - found.column_bits[:-1]) > 0.1


def test_weights_count_rows(fitted):
    model, X = fitted
    where = map_of("2 latent traits", model, X)
    twice = np.r_[np.arange(150), 3, 3]
    doubled = misfit_of(map_of("2 latent traits", model, X[twice]), X[twice])
    weighted = misfit_of(where, X, np.where(np.arange(150) == 3, 3.0, 1.0))
    np.testing.assert_allclose(weighted.column_bits, doubled.column_bits, rtol=1e-6)
    np.testing.assert_allclose(weighted.column_alone, doubled.column_alone, rtol=1e-6)


def test_chunks_and_the_most_cells(fitted, monkeypatch):
    """Chunks change nothing; of more cells than can be looked at, the first rows are taken, and it is told."""
    model, X = fitted
    where = map_of("2 latent traits", model, X)
    whole = misfit_of(where, X)
    monkeypatch.setattr(misfit, "CHUNK", 7 * 40)
    np.testing.assert_allclose(misfit_of(where, X).column_bits, whole.column_bits)
    monkeypatch.setattr(misfit, "MOST_CELLS", 100 * 40)
    part = misfit_of(where, X)
    assert part.n_rows == 100
    assert part.rows.max() < 100


@pytest.mark.slow
def test_real_columns_by_least_squares():
    """Each number is predicted from the others as a Gaussian with a low-rank covariance is."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(80, 2)) @ rng.normal(size=(2, 6)) + 0.5 * rng.normal(size=(80, 6))
    X[5, 2] += 8
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LatentTrait(2, max_iter=50, random_state=0, column_types=["continuous"] * 6).fit(X)
    where = map_of("2 latent traits", model, X)
    found = misfit_of(where, X)
    assert found.rows[0] == 5
    precision = np.linalg.inv(where.weights.T @ where.weights + np.diag(where.noise))
    away = (X - where.bias) @ precision / np.diag(precision)
    cost = np.log2(2 * np.pi / np.diag(precision)) / 2 + away**2 * np.diag(precision) / 2 / np.log(2)
    np.testing.assert_allclose(found.column_bits, cost.mean(axis=0), rtol=1e-3)
    off = np.abs(away[5]) * np.sqrt(np.diag(precision))
    assert found.beyond[0] == pytest.approx((off**2 - 1).sum() / 2 / np.log(2), rel=1e-3)
    assert found.sd[0] == pytest.approx(np.sqrt(6 / 2) / np.log(2))
    assert found.n_odd[0] == (off > 1.645).sum()
    np.testing.assert_allclose(found.surprise[0], np.sort(off)[::-1][:3], rtol=1e-3)


def test_on_the_page(fitted, open_page, tmp_path):
    model, X = fitted
    content = small_content(150)
    names = tuple(f"column {j}" for j in range(40))
    where = map_of("2 latent traits", model, X)
    found = misfit_of(where, X)
    content = dataclasses.replace(
        content,
        table=dataclasses.replace(content.table, values=X, columns=names),
        map=where,
        misfit=found,
        galleries=(),
        morph=None,
    )
    page = open_page(write_page(content, tmp_path / "page.html"))
    page.wait_for_selector("html[data-ready]")
    first = page.locator("#worst table").first.locator("tbody tr").first
    name, beyond, _, cells, odd = first.locator("th, td").all_inner_texts()
    assert (name, float(beyond)) == ("row 11", pytest.approx(found.beyond[0], abs=0.06))
    assert cells.startswith(f"{found.n_odd[0]}, expected ")
    assert odd.startswith(f"column {found.odd[0, 0]} = {X[11, found.odd[0, 0]]:.0f} (P ")
    first.get_by_role("button").press("Enter")
    assert page.locator(".row-title strong").inner_text() == "row 11"
    columns = page.locator("#worst table").nth(1)
    order = np.argsort(-found.column_bits)
    assert columns.locator("tbody th").all_inner_texts() == [names[j] for j in order]
    columns.get_by_role("button", name="Saved").click()
    saved = found.column_alone - found.column_bits
    assert columns.locator("tbody th").first.inner_text() == names[int(np.argmin(saved))]
    page.locator("#worst").get_by_role("searchbox").fill("column 3")
    assert columns.locator("tbody tr:visible").count() == 11
    with page.expect_download() as info:
        page.get_by_role("button", name="CSV: download the rows that fit worst").click()
    with open(info.value.path(), newline="", encoding="utf-8-sig") as file:
        lines = list(csv.DictReader(file))
    assert [int(line["row"]) for line in lines] == found.rows.tolist()

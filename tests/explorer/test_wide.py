"""Tables with very many columns: what is taken of them, and what is claimed."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from latentbits import explore
from latentbits.core.errors import FitError
from latentbits.core.limits import check_time, within
from latentbits.explorer import tables
from latentbits.explorer.content import ModelRow
from latentbits.explorer.findings import headline


def row(name, family, bits, **fields):
    return ModelRow(name, family, 1, bits, 0.1, 0.0, 0.0, 1.0, n_rows=400, **fields)


def test_a_better_guess_of_rare_shares_is_no_sign_of_causes():
    """5.8 bits fewer where independent bits lose up to 6.4 by their smoothing; without that, it is one."""
    mixture = row("mixture of 8", "mixture", 0.5)
    alone = {"behind": 5.8, "behind_error": 0.04}
    for by_shares, claimed in ((6.4, False), (0.5, True)):
        product = ModelRow(
            "independent bits", "product", 1, 6.3, 0.1, **alone, seconds=1.0, n_rows=400, by_shares=by_shares
        )
        assert ("no clear sign" not in headline("x", [mixture, product])) is claimed


@pytest.mark.slow
def test_a_sparse_table_of_rare_independent_bits_has_a_page_and_no_claim(monkeypatch):
    """It is not made dense: 10^5 rows of 10^4 columns would be 10^9 cells."""
    monkeypatch.setattr(tables, "MOST_COLUMNS", 60)
    rng = np.random.default_rng(0)
    cells = np.unique(rng.integers(0, 10**9, 20_000))
    X = scipy.sparse.csr_matrix((np.ones(len(cells), np.uint8), (cells // 10**4, cells % 10**4)), shape=(10**5, 10**4))
    found = explore(X, model="mixture", out=None, budget=5)
    assert "no clear sign of hidden causes" in found.findings[0]
    assert len(found.content.table.columns) == 60


def test_work_that_takes_too_long_is_given_up():
    check_time()
    with within(1000.0, "counting"):
        check_time()
        with within(-1.0, "scoring 7 rows"), pytest.raises(FitError, match="scoring 7 rows takes longer than"):
            check_time()
        check_time()
    check_time()

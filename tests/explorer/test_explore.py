"""How the explorer spends its fits, and what it tells of an exploration from the table to the page."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from tests.tables import classes

from latentbits import BernoulliMixture, LatentTrait, __version__, explore
from latentbits.explorer import explore as exploring
from latentbits.explorer import tables

TABLE = classes(60)


@pytest.mark.parametrize(
    ("model", "rows", "finished", "is_map"),
    [
        (LatentTrait(2, random_state=0), 60, True, True),
        (LatentTrait(2, random_state=1), 60, True, False),  # another fit
        (LatentTrait(1, random_state=0), 60, True, False),
        (BernoulliMixture(2, random_state=0), 60, True, False),
        (LatentTrait(2, random_state=0), 50, True, False),  # learned from a sample
        (LatentTrait(2, random_state=0), 60, False, False),
    ],
)
def test_the_entry_of_two_traits_is_the_map(model, rows, finished, is_map):
    given = SimpleNamespace(counting=np.arange(60), values=TABLE)
    found = SimpleNamespace(n_used=rows, units=None, fitted={"it": model})
    mapped = LatentTrait(2, random_state=0)
    mapped.stop_reason_ = "converged" if finished else "max_time"
    assert exploring._on_the_map(found, given, mapped) == ({"it": mapped} if is_map else {})


def test_equal_rows_are_learned_from_once():
    X = np.vstack([TABLE[:20]] * 3)
    X[5, 2] = X[25, 2] = np.nan  # equal, with a hole
    values, weights = exploring._each_once(X, None)
    assert weights.sum() == 60
    assert len(np.unique(np.nan_to_num(values, nan=2), axis=0)) == len(values) < 30
    np.testing.assert_allclose(weights @ np.nan_to_num(values), np.nan_to_num(X).sum(axis=0))
    values, weights = exploring._each_once(X, np.arange(60.0))
    assert weights.sum() == np.arange(60.0).sum()
    distinct = np.eye(20)
    assert exploring._each_once(distinct, None)[0] is distinct


@pytest.mark.slow("an exploration with all of its fits")
def test_a_planted_table_is_described_as_it_was_made(tmp_path):
    """Its kinds are found in all rounds; the paragraph of methods says what was done, and is on the page."""
    bits = classes(means=np.where(np.arange(6) < 3, [[0.95], [0.05]], [[0.05], [0.95]]))
    bits[0, 0] = np.nan
    model = BernoulliMixture(2, n_init=2)
    found = explore(bits, model=model, budget=None, out=tmp_path / "page.html", source="answers", random_state=3)
    layer = found.content.galleries[0].layers[0]
    assert layer.n_rounds == 4
    assert (layer.found_again == 4).all()
    text, best = found.content.methods, found.content.models[0]
    for said in (
        "(answers) has 240 rows and 6 columns of bits, of which 0.1% are missing",
        "independent bits and mixture of 2",
        "in 4 rounds that test every row once",
        f"{best.name} {best.bits:.2f} ± {best.error:.2f}",
        f"latentbits {__version__} with seed 3",
        "learned from 240 rows",
    ):
        assert said in text
    assert "chosen" not in text  # one size was given
    assert text.split(".")[0] in found.path.read_text(encoding="utf-8")


@pytest.mark.slow("an exploration with all of its fits")
def test_two_traits_are_fitted_to_all_rows_once(monkeypatch):
    """The map is shown as the model of the comparison, and its cards are those of the map."""
    learned = []
    fit = LatentTrait.fit

    def counted(self, X, *given, **settings):
        learned.append(len(X))
        return fit(self, X, *given, **settings)

    monkeypatch.setattr(LatentTrait, "fit", counted)
    estimator = exploring.family("latent-trait").new(2, "bits", 6).set_params(random_state=0)
    distinct = np.unique(TABLE, axis=0)
    found = exploring.explore(distinct, model=estimator, out=None, budget=None)
    assert learned.count(len(distinct)) == 1
    assert found.models["2 latent traits"] is found.map


@pytest.mark.slow("an exploration with all of its fits")
def test_a_sparse_table_of_rare_independent_bits_has_a_page_and_no_claim(monkeypatch):
    monkeypatch.setattr(tables, "MOST_COLUMNS", 20)
    rng = np.random.default_rng(0)
    cells = np.unique(rng.integers(0, 2 * 10**7, 4000))
    X = scipy.sparse.csr_matrix((np.ones(len(cells), np.uint8), (cells // 10**4, cells % 10**4)), shape=(2000, 10**4))
    found = explore(X, model=BernoulliMixture(2, n_init=1), out=None, budget=None)
    assert "no clear sign of hidden causes" in found.findings[0]
    assert len(found.content.table.columns) == 20

"""No input to fit or transform gives anything but a result or a documented error (ValueError or TypeError)."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from tests.fitted import fitted, new

from latentbits import BernoulliProduct

numbers = st.one_of(
    st.sampled_from([0, 1, 0.0, 1.0, np.nan]),
    st.floats(),
    st.integers(-(2**70), 2**70),
    st.booleans(),
    st.none(),
    st.text(max_size=3),
    st.complex_numbers(),
)
tables = st.one_of(
    hnp.arrays(
        st.sampled_from([np.float64, np.float32, np.float16, np.int8, np.uint8, np.int64, np.uint64, bool, complex]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6),
    ),
    hnp.arrays(object, hnp.array_shapes(min_dims=1, max_dims=2, max_side=6), elements=numbers),
    hnp.arrays(np.dtype("U2"), (2, 3)),
    hnp.arrays(np.dtype("M8[s]"), (2, 2)),
    st.lists(st.lists(numbers, max_size=6), max_size=4),
    st.builds(lambda a: sparse.csr_matrix(a), hnp.arrays(np.float64, (3, 6), elements=st.floats())),
    st.builds(lambda blocks: lambda: blocks, st.lists(hnp.arrays(np.float64, (3, 6)), max_size=3)),
    numbers,
    st.dictionaries(st.text(max_size=2), st.lists(numbers, max_size=3), max_size=3),
)
# one number of columns, for which programs are compiled
bits = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 8), st.just(6)), elements=st.sampled_from([0.0, 1.0, np.nan])
).filter(lambda X: not np.isnan(X).all())  # such a table is refused
many = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True)
def nothing_is_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.slow("fits of random tables")
@many
@given(X=st.one_of(tables, bits), binarize=st.sampled_from([None, 0.5]))
def test_fit_answers_or_says_why(X, binarize):
    try:
        m = BernoulliProduct(binarize=binarize).fit(X)
    except (ValueError, TypeError):
        return
    assert np.isfinite(m.means_).all()
    assert np.isfinite(m.score(X))


@pytest.mark.slow("random tables")
@many
@given(X=st.one_of(tables, bits))
def test_transform_answers_or_says_why(X):
    try:
        Z = fitted("mixture").transform(X)
    except (ValueError, TypeError):
        return
    np.testing.assert_allclose(Z.sum(1), 1, rtol=1e-5)


@pytest.mark.slow("tables of many shapes, each compiled for")
@settings(many, max_examples=15)
@given(X=bits, smoothing=st.sampled_from([0.0, 1.0]))
def test_any_table_of_bits_is_learned(X, smoothing):
    """Constant columns, columns and rows with nothing in them, one row, fewer rows than components."""
    m = new("mixture").set_params(n_components=3, smoothing=smoothing).fit(X)
    assert np.isfinite(m.score_samples(X)).all()
    assert m.weights_.sum() == pytest.approx(1, abs=1e-9)
    assert ((m.means_ >= 0) & (m.means_ <= 1)).all()
    filled = m.complete(X)
    assert ((filled >= 0) & (filled <= 1)).all()


@pytest.mark.slow("many fits of odd tables")
@settings(many, max_examples=12)
@given(X=bits)
def test_any_table_of_bits_has_traits(X):
    """Constant and separable columns, columns and rows with nothing in them, one row, more latents than rows."""
    m = new("latent-trait").set_params(method="auto", weight_prior=None, max_iter=50).fit(X)
    assert np.isfinite(m.components_).all()
    assert np.isfinite(m.intercept_).all()
    assert np.isfinite(m.transform(X)).all()
    assert (np.asarray(m.log_likelihoods(X).value) <= 1e-5).all()  # some are known to a tenth only, and a score warns
    filled = m.complete(X)
    assert ((filled >= 0) & (filled <= 1)).all()

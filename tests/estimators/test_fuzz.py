"""No input to fit or transform gives anything but a result or a documented error (ValueError or TypeError)."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from latentbits import BernoulliMixture, BernoulliProduct, LatentTrait

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
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
    ),
    hnp.arrays(object, hnp.array_shapes(min_dims=1, max_dims=2, max_side=4), elements=numbers),
    hnp.arrays(np.dtype("U2"), (2, 3)),
    hnp.arrays(np.dtype("M8[s]"), (2, 2)),
    st.lists(st.lists(numbers, max_size=4), max_size=4),
    st.builds(lambda a: sparse.csr_matrix(a), hnp.arrays(np.float64, (3, 4), elements=st.floats())),
    st.builds(lambda blocks: lambda: blocks, st.lists(hnp.arrays(np.float64, (3, 4)), max_size=3)),
    numbers,
    st.dictionaries(st.text(max_size=2), st.lists(numbers, max_size=3), max_size=3),
)
bit_tables = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 6), st.integers(1, 4)), elements=st.sampled_from([0.0, 1.0, np.nan])
)
many = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))


@many
@given(X=tables, binarize=st.sampled_from([None, 0.5]))
def test_fit_answers_or_says_why(X, binarize):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            m = BernoulliProduct(binarize=binarize).fit(X)
        except (ValueError, TypeError):
            return
    assert np.isfinite(m.means_).all()
    assert np.isfinite(m.score(X))


@many
@given(X=tables)
def test_transform_answers_or_says_why(X):
    m = _fitted()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            Z = m.transform(X)
        except (ValueError, TypeError):
            return
    np.testing.assert_allclose(Z.sum(1), 1, rtol=1e-5)


@pytest.mark.slow
@many
@given(X=bit_tables, smoothing=st.sampled_from([0.0, 1.0]))
def test_any_table_of_bits_is_learned(X, smoothing):
    """Constant columns, columns and rows with nothing in them, one row, fewer rows than components."""
    m = BernoulliMixture(3, smoothing=smoothing, random_state=0, n_init=1).fit(X)
    assert np.isfinite(m.score_samples(X)).all()
    assert m.weights_.sum() == 1 or abs(m.weights_.sum() - 1) < 1e-9
    assert ((m.means_ >= 0) & (m.means_ <= 1)).all()
    filled = m.complete(X)
    assert ((filled >= 0) & (filled <= 1)).all()


@pytest.mark.slow
@settings(many, max_examples=25)
@given(X=hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.just(3)), elements=st.sampled_from([0.0, 1.0, np.nan])))
def test_any_table_of_bits_has_traits(X):
    """Constant and separable columns, columns and rows with nothing in them, one row, more latents than rows.

    One number of columns, as each is compiled anew.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # weights that run to infinity
        m = LatentTrait(2, max_iter=50, random_state=0).fit(X)
    assert np.isfinite(m.components_).all()
    assert np.isfinite(m.intercept_).all()
    assert np.isfinite(m.transform(X)).all()
    assert (np.asarray(m.log_likelihoods(X).value) <= 1e-5).all()  # some are known to a tenth only, and a score warns
    filled = m.complete(X)
    assert ((filled >= 0) & (filled <= 1)).all()


def _fitted(cache=[]):  # noqa: B006
    if not cache:
        cache.append(BernoulliMixture(2, n_init=1, random_state=0).fit(np.eye(4)))
    return cache[0]

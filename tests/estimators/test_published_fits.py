"""Published latent-class fits, on data that are bundled as pattern counts."""

from __future__ import annotations

import pytest

from latentbits import BernoulliMixture, load_dataset


@pytest.mark.parametrize(("classes", "published"), [(1, -524.465), (2, -317.257), (3, -293.705), (4, -289.286)])
def test_carcinoma(classes, published):
    """Seven pathologists, 118 slides; maximum likelihood, so no smoothing."""
    X = load_dataset("carcinoma").X
    m = BernoulliMixture(classes, smoothing=0, n_init=20, random_state=0).fit(X)
    assert m.log_likelihood(X) == pytest.approx(published, abs=0.01)

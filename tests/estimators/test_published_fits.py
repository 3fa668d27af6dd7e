"""Published latent-class fits, on data that are bundled as pattern counts."""

from __future__ import annotations

import pytest

from latentbits import BernoulliMixture, BernoulliProduct, load_dataset


@pytest.mark.slow("twenty starts of four classes")
def test_four_classes_of_carcinoma():
    """Seven pathologists, 118 slides; maximum likelihood, so no smoothing.  Fewer classes are in test_class_reports."""
    X = load_dataset("carcinoma").X
    m = BernoulliMixture(4, smoothing=0, n_init=20, random_state=0).fit(X)
    assert m.log_likelihood(X) == pytest.approx(-289.286, abs=0.01)
    assert BernoulliProduct(smoothing=0).fit(X).log_likelihood(X) == pytest.approx(-524.465, abs=0.01)


@pytest.mark.real_data
@pytest.mark.optimised
@pytest.mark.parametrize(
    ("name", "components", "independent", "at_least"),
    [("nltcs", 32, -9.23, -6.05), ("jester", 32, -63.88, -53.0), ("plants", 64, -31.27, -13.8)],
)
def test_density_estimation(name, components, independent, at_least, real_data):
    """Test log-likelihoods per row: independent bits as published, a mixture well above a Chow-Liu tree."""
    data = load_dataset(name)
    train, test = data.split("train").X, data.split("test").X
    assert BernoulliProduct().fit(train).score(test) == pytest.approx(independent, abs=0.01)
    m = BernoulliMixture(components, smoothing=0.5, random_state=0, tol=1e-3).fit(train)
    assert m.score(test) > at_least

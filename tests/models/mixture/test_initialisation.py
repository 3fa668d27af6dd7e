from __future__ import annotations

import jax
import numpy as np
from tests.models.mixture import twin

from latentbits.core import keys
from latentbits.core.tree import double, to_numpy
from latentbits.models.mixture import initialisation


def test_the_split_schedule_is_the_paper_s():
    assert initialisation.split_sizes(45) == (1, 2, 4, 8, 16, 32, 45)
    assert initialisation.split_sizes(1) == (1,)
    assert initialisation.split_sizes(4) == (1, 2, 4)


def test_components_whose_rows_differ_most_are_split():
    means = np.array([[0.1, 0.1, 0.1], [0.5, 0.4, 0.6], [0.5, 0.5, 0.5], [0.9, 0.9, 0.9]])
    given = twin.parameters([0.4, 0.3, 0.2, 0.1], means)
    with double():
        grown = to_numpy(jax.jit(initialisation.split, static_argnums=2)(jax.random.key(0), given, 6))
    on_host = initialisation.split(keys.of_seed(0), given, 6)
    np.testing.assert_allclose(on_host.means, grown.means, rtol=1e-12)
    np.testing.assert_allclose(grown.weights, [0.4, 0.15, 0.1, 0.1, 0.15, 0.1], rtol=1e-6)
    np.testing.assert_allclose(grown.means[[0, 3]], means[[0, 3]], rtol=1e-6)
    for new, old in ((1, 1), (4, 1), (2, 2), (5, 2)):
        assert 0 < np.abs(grown.means[new] - means[old]).max() < 0.5
    assert np.abs(grown.means[1] - grown.means[4]).max() > 0


def test_the_paper_splits_the_first():
    """Footnote 5 of its section 4, whatever the components are."""
    given = twin.parameters([0.1, 0.2, 0.7], np.array([[0.1], [0.9], [0.5]]))
    with double():
        grown = to_numpy(jax.jit(initialisation.split, static_argnums=(2, 3))(jax.random.key(0), given, 5, True))
    np.testing.assert_allclose(grown.weights, [0.05, 0.1, 0.7, 0.05, 0.1], rtol=1e-6)
    np.testing.assert_allclose(grown.means[2], [0.5], rtol=1e-6)

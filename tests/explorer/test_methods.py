"""The paragraph of methods says what was done."""

import numpy as np
import pytest

from latentbits import BernoulliMixture, __version__, explore

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    rng = np.random.default_rng(0)
    bits = (rng.random((60, 6)) < np.where(rng.integers(2, size=60)[:, None] == 0, 0.85, 0.15)).astype(float)
    bits[0, 0] = np.nan
    page = tmp_path_factory.mktemp("page") / "page.html"
    return explore(bits, model=BernoulliMixture(2, n_init=2), budget=None, out=page, source="answers", random_state=3)


def test_it_tells_rows_models_seeds_and_numbers(found):
    text = found.content.methods
    assert "(answers) has 60 rows and 6 columns of bits, of which 0.3% are missing" in text
    assert "independent bits and mixture of 2" in text
    assert "in 4 rounds that test every row once" in text
    assert "chosen" not in text  # one size was given
    best = found.content.models[0]
    assert f"{best.name} {best.bits:.2f} ± {best.error:.2f}" in text
    assert f"latentbits {__version__} with seed 3" in text
    assert "learned from 60 rows" in text


def test_it_is_on_the_page(found):
    assert found.content.methods.split(".")[0] in found.path.read_text(encoding="utf-8")

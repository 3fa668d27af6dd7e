"""Lee & Sompolinsky (1998) repeated: the bump, the constraint, the states, the twos, and the files."""

import numpy as np
import pytest

from latentbits.core.errors import DownloadError
from latentbits.data.toys import bump as draw_bumps
from latentbits.papers import digits, pages, summary
from latentbits.papers.digits import load_twos
from latentbits.papers.lee_sompolinsky_1998 import bump, modes, simulated, states, tables, twos
from latentbits.papers.lee_sompolinsky_1998 import reproduce as lee
from latentbits.papers.skeleton import Run

# --- what the paper found ---


def test_every_claim_says_where_it_stands():
    for one in pages.expected(lee.__package__)["relations"].values():
        assert ("paper" in one) == ("where" in one)
        assert "paper" in one or "doubt" not in one


@pytest.mark.parametrize("share", [0.02, 0.3, 1.0])
def test_any_mixture_of_shifts_has_rank_two(share):
    """C^xx is the cosine of differences of angles, whichever shifts there are; see the README."""
    shifts = np.random.default_rng(0).beta(share, 1.0, 60)
    X = draw_bumps(n_features=32).X[(32 * shifts).astype(int)]
    s = 2.0 * X - 1
    latent = np.sin(np.pi / 2 * (s.T @ s) / len(s))
    theta = bump.angles(X)
    np.testing.assert_allclose(latent, np.cos(theta[:, None] - theta), atol=1e-13)
    assert np.ptp(np.diff(theta)) > 0.01  # the circle is warped


def test_eigenvectors_and_units_of_a_small_bump():
    """C^ss and C^xx have the first plane in common; not so where shifts are not equally frequent.  Ranks stay."""
    exact = bump.fit_bump(16, None).model
    assert bump.vectors(exact)["plane"] < 1e-9
    assert bump.vectors(exact)["off_fourier"] < 1e-12
    uneven = bump.fit_bump(16, 12, seed=1).model
    assert bump.vectors(uneven)["plane"] > 1e-3
    assert bump.vectors(uneven)["off_fourier"] > 1e-3
    for spread in (0.1, 1.0):
        assert bump.rescaled(exact, spread)["rank"] == 2
    assert bump.rescaled(exact, 1.0)["change"] > bump.rescaled(exact, 0.1)["change"] > 1e-3


@pytest.mark.parametrize("size", [2, 4, 20])
def test_smallest_eigenvalue_in_closed_form(size):
    """All pairs of N bits of which half are on have <s_i s_j> = -1 / (N - 1)."""
    matrix = np.where(np.eye(size) == 1, 1.0, np.sin(-np.pi / 2 / (size - 1)))
    assert bump.smallest_eigenvalue(size) == pytest.approx(np.linalg.eigvalsh(matrix)[0], abs=1e-12)


# --- states ---


@pytest.mark.parametrize(("bias", "n_components", "expected"), [(True, 2, 1 + 7 + 21), (False, 2, 14), (False, 3, 44)])
def test_all_states_against_brute_force(bias, n_components, expected):
    """Each state found has a y, by draws from far and near; and draws find no other."""
    rng = np.random.default_rng(3)
    planes = states.random_planes(7, n_components, bias, rng)
    found = {tuple(row) for row in states.all_states(planes).tolist()}
    y = rng.standard_normal((100_000, n_components)) * rng.choice([0.5, 3.0, 30.0], (100_000, 1))
    seen = {tuple(row) for row in np.unique(y @ planes.weights.T + planes.phi > 0, axis=0).astype(int).tolist()}
    assert len(found) == expected
    assert seen <= found
    assert len(seen) >= expected - 2  # a cell may be too small to be hit


def test_neighbours_one_and_two_flips_away():
    rows = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 0, 0]])
    assert states.walls(rows).tolist() == [2, 2, 1, 1]
    assert states.two_flips_away(rows).tolist() == [1, 1, 1, 1]
    every = states.all_states(states.random_planes(9, 2, True, np.random.default_rng(0)))
    apart = np.sum(every[:, None] != every, axis=2)
    np.testing.assert_array_equal(states.walls(every), np.sum(apart == 1, axis=1))
    np.testing.assert_array_equal(states.two_flips_away(every), np.sum(apart == 2, axis=1))


# --- eigenmodes ---


def test_distortions_are_small_differences_of_images():
    """A quadratic image, turned and stretched a little, against central differences of `gradient`, which are exact."""
    row, column = np.meshgrid(np.arange(7) - 3.0, np.arange(5) - 2.0, indexing="ij")

    def image(row, column):
        return 0.3 * row**2 - row * column + 2 * column + 0.1 * column**2

    turned = [image(row + e * column, column - e * row) for e in (1e-6, -1e-6)]
    wider = [image(row, (1 + e) * column) for e in (1e-6, -1e-6)]
    taller = [image((1 + e) * row, column) for e in (1e-6, -1e-6)]
    found = modes.distortions(image(row, column)).reshape(3, 7, 5)
    for one, (more, less) in zip(found, (turned, wider, taller), strict=True):
        np.testing.assert_allclose(one[1:-1, 1:-1], ((more - less) / 2e-6)[1:-1, 1:-1], atol=1e-8)


def test_modes_of_all_columns_hold_every_distortion():
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(400, 2)) @ rng.normal(size=(2, 12)) + rng.normal(size=(400, 12)) > 0.3).astype(np.uint8)
    table = digits.Twos(X, 300, (3, 4), False)
    whole, some = modes.modes(table, 12), modes.modes(table, 2)
    for name in ("kept_latent", "kept_bits", "vectors", "rotations", "stretching"):
        assert whole[name] == pytest.approx(1, abs=1e-12)
        assert some[name] < 1 - 1e-4
    assert some["vectors"] > 0.9  # two factors are found in either matrix
    error = modes.errors(table, 2, 4)
    assert all(0 < error[name] < 0.3 for name in ("steeper", "vectors", "rotations", "stretching"))


def test_entropy_of_uniform_states():
    """Four lines through the origin, 45 degrees apart: eight states of the same probability."""
    angle = np.arange(4) * np.pi / 4
    planes = states.Planes(np.column_stack([np.cos(angle), np.sin(angle)]), np.zeros(4))
    found = states.sample_states(planes, 100_000, np.random.default_rng(0))
    assert found.n_states == 8
    assert found.entropy == pytest.approx(np.log(8), abs=1e-3)


# --- simulated data ---


def test_simulated_rows_have_the_means_they_should():
    rng = np.random.default_rng(0)
    truth = simulated.draw_truth(6, 2, 0.5, rng)
    np.testing.assert_allclose(np.diag(truth.correlation()), 1)
    X = simulated.simulate(truth, 100_000, rng)
    from scipy.special import ndtr

    np.testing.assert_allclose(X.mean(0), ndtr(truth.phi), atol=0.008)


# --- the twos ---


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The small twos, few components, and noise, which compiles faster: the numbers and the figure's files."""
    notes = []
    found = load_twos("bundled", notes)._replace(n_train=140)
    plan = lee.QUICK._replace(n_components=3, noise="unique", held_out=(0, 3), likelihood=(1,), n_morphs=5)
    run = Run(plan, tmp_path_factory.mktemp("twos"))
    return lee._twos(found, "bundled", run), run.figures["4"]


@pytest.mark.slow("fits of the small twos")
def test_twos(small):
    found, files = small
    assert found["title"].startswith("stand-in")
    assert files == ["figure_4.png", "figure_4.svg"]
    assert found["modes"]["kept_latent"] > found["modes"]["kept_bits"]
    assert 0 < found["negative_share"] < 0.5
    assert found["without_rare"][-1]["negative_share"] < found["negative_share"]
    assert sum(found["morph"]["flips"]) > 0
    assert found["by_chance"] < found["modes"]["vectors"] <= 1
    assert len(found["nearer"]) == 5
    (climbed,) = found["likelihood"]
    assert climbed["converged"]
    assert climbed["gain"]["nats"] == pytest.approx(0, abs=2)
    alone, one = found["held_out"]
    assert one["nats"] < alone["nats"] - 1
    kept, expected = summary.in_package("lee_sompolinsky_1998"), pages.expected(lee.__package__)
    page, without = (tables.report({**kept, "twos": one}, expected) for one in (found, None))
    assert page.count("\n## ") == without.count("\n## ") + 1
    assert f"{found['wrong_bits']:.1f} bits wrong" in page


def test_a_pair_is_typically_far_apart_among_the_best():
    class Model:
        def morph(self, first, last, n_steps):
            return first, last, n_steps

    X = np.array([[0, 0, 0, 0], [0, 0, 0, 1], [0, 1, 1, 1], *[[1, 1, 1, 1]] * 27])
    wrong = np.array([0, 0, 0, *[5] * 27])
    pair = twos.pick_pair(Model(), X, wrong, 3)
    assert pair.rows.tolist() == [1, 2]  # the three best are 1, 2 and 3 bits apart
    assert pair.morph[2] == 3


def test_digits_that_cannot_be_had_are_told(monkeypatch):
    def without_network(name):
        if name == "usps_twos":
            raise DownloadError("no network")
        return load(name)

    load = digits.load_dataset
    monkeypatch.setattr(digits, "load_dataset", without_network)
    notes = []
    found = load_twos("usps_twos", notes)
    assert found.X.shape == (177, 64)
    assert not found.is_usps
    assert found.title.startswith("stand-in: 177 twos")
    assert "no network" in notes[0]
    assert load_twos("none", notes) is None
    assert notes[1] == "The digits were left out."


@pytest.mark.real_data
def test_twos_of_usps(real_data, monkeypatch):
    """Unseen twos: 123.2 nats alone, about 113 with one hidden variable (a prototype had 113.0)."""
    monkeypatch.setenv("LATENTBITS_DATA", str(real_data))
    found = load_twos("usps_twos", [])
    assert (found.X.shape, found.n_train, found.is_usps) == ((929, 256), 731, True)
    alone, one = (twos.scored(found, size) for size in (0, 1))
    assert alone["nats"] == pytest.approx(123.2, abs=0.1)
    assert one["nats"] == pytest.approx(113.0, abs=0.5)


# --- trials, and files ---

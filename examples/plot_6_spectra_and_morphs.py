"""
Spectra of clipped Gaussians, and morphs
========================================

Lee & Sompolinsky (1998) take bits for the signs of a few mixed Gaussian variables. The
correlations of these can be found from those of the bits, and their spectrum shows how many
there are: far fewer than the spectrum of the bits suggests.
"""

# %%
# The paper's first example: 256 bits in a ring, of which half in a row are on. One number,
# the place of the bump, makes every row, but the bits' own correlations have 128 positive
# eigenvalues. Those of the Gaussian behind them have two, a sine and a cosine.

import matplotlib.pyplot as plt
import numpy as np

from latentbits import BernoulliMixture, BernoulliProduct, ClippedGaussian, compare, load_dataset
from latentbits.data.toys import bump
from latentbits.figures.clipped_gaussian.pictures import plot_cells, plot_morph, plot_spectra, plot_weights

ring = ClippedGaussian("positive", bias=False, correction=0, noise="none").fit(bump(2000, random_state=0).X)
print(f"{ring.n_components_} hidden variables; {ring.n_states()} rows can occur")
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", width_ratios=[1.4, 1])
plot_spectra(ring.binary_eigenvalues_, ring.eigenvalues_, ring.n_components_, left, log_rank=True)
right.plot(ring.components_.T)
right.set_xlabel("bit")
right.set_title("the weights of both")

# %%
# Where two hidden variables are cut by lines, cells that touch differ in one bit: seven of
# eight rows of three bits have a cell.

weights = np.array([[1.0, 0.2], [-0.4, 1.0], [0.5, 0.9]])
ax = plot_cells(weights, np.array([0.4, 0.6, -0.6]))

# %%
# Handwritten digits, 8 x 8 bits. Parallel analysis keeps the eigenvalues that independent
# bits would not have. Correlations are found pair by pair, so a part of the spectrum can be
# negative, which no Gaussian has: by chance, where images are few, or because there is none.

digits = load_dataset("digits")
m = ClippedGaussian("parallel", random_state=0).fit(digits.X)
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained", width_ratios=[1.4, 1])
plot_spectra(m.binary_eigenvalues_, m.eigenvalues_, m.n_components_, left)
plot_weights(m.components_, digits.image_shape, right)
right.set_title("the weights of the hidden variables")
print(f"{m.n_components_} hidden variables; {m.negative_share_:.0%} of the spectrum is negative")

# %%
# The twos alone are few. `repair=True` takes the nearest matrix that a Gaussian can have.
# Between two images lies a straight line in the space of the hidden variables. Along it bits
# flip one after another; linear PCA can only fade one image out and the other in.

twos = digits.X[digits.labels["digit"] == 2]
hands = ClippedGaussian(16, extraction="components", repair=True).fit(twos)
way = hands.morph(twos[8], twos[61], n_steps=9)
ax = plot_morph(way.bits, way.cross_fade, twos[[8, 61]], digits.image_shape)

# %%
# Is this many-dimensional Gaussian a good model of digits? On images that it has not seen it
# is better than a mixture of as many kinds, and learned in one pass.

models = {
    "independent bits": BernoulliProduct(),
    "mixture of 8": BernoulliMixture(8, random_state=0),
    "clipped Gaussian of 8": ClippedGaussian(8, extraction="factors"),
}
print(compare(digits.X, models))

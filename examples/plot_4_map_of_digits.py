"""
A map of handwritten digits
===========================

Tipping (1998) puts a table of bits on a map: each row gets a point in the plane, and each
bit is one with a probability that rises or falls along one direction of it. Rows that are
alike come to lie together, and any place of the map can be turned back into a row.
"""

# %%
# The 8 x 8 digits that come with scikit-learn, without their labels.

import matplotlib.pyplot as plt
import numpy as np

from latentbits import LatentTrait, load_dataset
from latentbits.figures.latent_trait.arrays import spread_places
from latentbits.figures.latent_trait.maps import plot_decoded, plot_map

digits = load_dataset("digits")
m = LatentTrait(2, weight_prior=3, random_state=0).fit(digits.X)
Z = m.transform(digits.X)
print(f"{m.n_iter_} iterations, {-m.score(digits.X) / np.log(2):.1f} bits per image")

# %%
# Colours show what the model did not see. 0 and 6, 4, 1 and 7 have separate regions;
# 3, 5, 8 and 9 overlap: two dimensions are few for ten digits. `inverse_transform` gives
# P(ink) at places of the map, here nine that are spread over the rows.

places = spread_places(Z, 9)
fig, (left, right) = plt.subplots(1, 2, figsize=(11, 6), width_ratios=[1.5, 1], layout="constrained")
plot_map(Z, left, labels=digits.labels["digit"], marks=places)
left.set_title("1797 digits by two latent traits")
plot_decoded(m.inverse_transform(places), digits.image_shape, right)
right.set_title("P(ink) at the numbered places")

# %%
# How sure is a place? The posterior of a row has a spread as well as a mean. It is the same
# order of size for all digits here, and grows where bits are hidden.

spread = np.sqrt(np.trace(m.posterior(digits.X).covariance, axis1=1, axis2=2))
half = digits.X.astype(float)
half[:, 32:] = np.nan
wider = np.sqrt(np.trace(m.posterior(half).covariance, axis1=1, axis2=2))
print(f"posterior spread: {spread.mean():.2f}, with the lower half hidden {wider.mean():.2f}")

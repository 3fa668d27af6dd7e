"""
Item response theory: which of two law school tests has items of equal slope?
=============================================================================

Two sections of the Law School Admission Test, 1000 people and 5 items each (Bock and
Lieberman 1970). With one latent trait the model is the two-parameter logistic model; with
one slope for all items it is the Rasch model.
"""

# %%
# Fit both models to both sections.

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import chi2

from latentbits import ItemResponse, load_dataset
from latentbits.figures.latent_trait.curves import plot_item_curves, plot_item_information

fits = {}
for name in ("lsat6", "lsat7"):
    X = load_dataset(name).X
    two = ItemResponse("2PL", random_state=0).fit(X)
    one = ItemResponse("1PL", random_state=0).fit(X)
    ratio = 2 * (two.log_likelihood(X) - one.log_likelihood(X))
    p = chi2.sf(ratio, two.n_parameters_ - one.n_parameters_)
    print(f"{name}: likelihood ratio {ratio:5.2f}, p = {p:.3f}; AIC {one.aic(X):.1f} (one slope), {two.aic(X):.1f}")
    fits[name] = two

# %%
# In section 6 one slope is enough; in section 7 it is not. The curves show why: item 3 of
# section 7 is much steeper than the others.

items = load_dataset("lsat6").feature_names
fig, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", sharey=True)
for ax, (name, m) in zip(axes, fits.items(), strict=True):
    plot_item_curves(m.components_, m.intercept_, items, ax, extent=(-4, 3))
    ax.set_title(name)

# %%
# Information adds up over items, and its inverse root is the standard error of an ability
# where a test is long. Section 7 measures best about one standard deviation below the mean.

z = np.linspace(-4, 3, 141)
ax = plot_item_information(z, fits["lsat7"].item_information(z[:, None]), items)
ax.set_title("lsat7")

# %%
# Standard errors of the items, and scores of three people: none right, all but item 3, all.

X = load_dataset("lsat7").X
m = fits["lsat7"]
errors = m.standard_errors(X)
for j, item in enumerate(items):
    print(f"{item}: difficulty {m.difficulty_[j]:5.2f} ± {errors.difficulty[j]:.2f}")
scores = m.scores(np.array([[0, 0, 0, 0, 0], [1, 1, 0, 1, 1], [1, 1, 1, 1, 1]]))
print("abilities", scores.value[:, 0].round(2), "±", scores.error[:, 0].round(2))

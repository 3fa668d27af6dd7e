"""
Kinds of digits, by splitting
=============================

Freund and Haussler (1994, section 4) learn a mixture by splitting: one component, EM,
split it in two and perturb both, EM, and so on. On the 8 x 8 digits that come with
scikit-learn the schedule sorts images into ever finer kinds, without having seen
that there are digits.
"""

# %%
# `init="split"` runs the schedule. Of k components, number i is split into i and k + i.

import matplotlib.pyplot as plt
import numpy as np

from latentbits import BernoulliMixture, BernoulliProduct, load_dataset
from latentbits.metrics import log_loss, single_bit_error

digits = load_dataset("digits")
train, test = digits.X[:1300], digits.X[1300:]
sizes = (1, 2, 4, 8)
fits = {}
for k in sizes:
    fits[k] = BernoulliMixture(k, init="split", tol=1e-4, random_state=1).fit(train)


def family_order(k):
    """Components so that those with a common parent stand side by side."""
    order = [0]
    while len(order) < k:
        order = [child for parent in order for child in (parent, parent + len(order))]
    return order


fig = plt.figure(figsize=(8, 5), layout="constrained")
axes = fig.subplots(len(sizes), 1)
for ax, (k, m) in zip(axes, fits.items(), strict=True):
    images = m.means_[family_order(k)].reshape(k, 8, 8)
    gap = np.full((k, 8, 1), np.nan)
    strip = np.concatenate([gap, images, gap], axis=2).transpose(1, 0, 2).reshape(8, -1)
    ax.imshow(strip, cmap="Greys", vmin=0, vmax=1)
    ax.set_ylabel(f"{k}", rotation=0, labelpad=14, va="center")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
fig.suptitle("P(ink) in each component, as 1, 2, 4 and 8 of them are learned")

# %%
# What is it good for? On images that were not used for learning, the components say much
# about a bit that is hidden. (The error measures are those of the paper; log-loss is in
# bits per bit, and 1 for the uniform distribution.)

models = {"independent bits": BernoulliProduct().fit(train), "mixture of 8": fits[8]}
for name, m in models.items():
    loss, mistakes = log_loss(m, test), single_bit_error(m, test, random_state=0)
    print(f"{name:16s} log-loss {loss:.3f}   hidden bit guessed wrong {mistakes:.1%}")

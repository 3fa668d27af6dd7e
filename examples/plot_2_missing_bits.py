"""
Missing bits: how much can be taken away?
=========================================

Rows with holes are used as they are, in training and afterwards: what was not observed
is summed out. This example hides more and more of a synthetic table, of which we know
the truth, and fills the holes in again.
"""

# %%
# 900 rows are noisy copies of three prototypes of 6 x 6 bits; every bit is inverted with
# probability 0.1. So no method can be expected to guess more than 90 % of the hidden bits.

import matplotlib.pyplot as plt
import numpy as np

from latentbits import BernoulliMixture, BernoulliProduct
from latentbits.data import toys

toy = toys.noisy_prototypes(300, n_prototypes=3, n_features=36, flip=0.1, random_state=4)
rng = np.random.default_rng(0)
shares = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95]
models = {
    "mixture of 3": BernoulliMixture(3, n_init=5, random_state=0),
    "independent bits": BernoulliProduct(),
}
right: dict[str, list[float]] = {name: [] for name in models}
learned = {}
for share in shares:
    hidden = rng.random(toy.X.shape) < share
    X = np.where(hidden, np.nan, toy.X)
    for name, model in models.items():
        guess = model.fit(X).complete(X) > 0.5
        right[name].append(float(np.mean(guess[hidden] == toy.X[hidden])))
    learned[share] = models["mixture of 3"].means_

# %%
# With 80 % of the table gone, a row still has seven bits on average. That is mostly enough
# to tell which prototype it is a copy of, and the prototypes are still learned from what
# all rows have left.

fig = plt.figure(figsize=(10, 4), layout="constrained")
left, space = fig.subplots(1, 2, width_ratios=[3, 2])
for (name, values), colour in zip(right.items(), ("#cc6677", "#777777"), strict=True):
    left.plot(shares, values, marker="o", color=colour, label=name)
left.axhline(0.9, color="#999999", linestyle=":", label="the best possible")
left.set(xlabel="share of the bits that is hidden", ylabel="hidden bits guessed right")
left.set(title="Filling in the holes", ylim=(0.45, 1.0))
left.legend(frameon=False, loc="lower left")
left.spines[["top", "right"]].set_visible(False)

space.axis("off")
space.set_title("Prototypes, as learned")
shown = {"truth": toy.prototypes.astype(float)}
shown |= {f"{share:.0%} hidden": learned[share] for share in (0.5, 0.8, 0.95)}
grid = space.inset_axes((0.0, 0.0, 1.0, 1.0))
grid.axis("off")
for row, (name, means) in enumerate(shown.items()):
    # components come in any order: show each next to the prototype that it is closest to
    for column, prototype in enumerate(toy.prototypes):
        k = int(np.argmin(np.abs(means - prototype).sum(axis=1)))
        box = grid.inset_axes((0.34 + 0.22 * column, 0.77 - 0.25 * row, 0.2, 0.22))
        box.imshow(means[k].reshape(6, 6), cmap="Greys", vmin=0, vmax=1)
        box.set(xticks=[], yticks=[])
    grid.text(0.3, 0.88 - 0.25 * row, name, ha="right", va="center", transform=grid.transAxes)

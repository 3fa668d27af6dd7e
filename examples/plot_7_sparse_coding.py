"""
Binary sparse coding: bars that add up
======================================

Henniges et al. (2010) take rows of real numbers for sums of a few patterns, each there or
not, in noise. Patterns, noise, and how many are there on average are learned together.
"""

# %%
# The paper's test: ten bars on a grid of 5 x 5 pixels, five bright (red) and five dark (blue).
# An image has two of them on average; where they cross, they add up. Twenty of 500 images:

import numpy as np

from latentbits import BinarySparseCoding
from latentbits.data.toys import linear_bars
from latentbits.figures.binary_sparse_coding.pictures import plot_course, plot_fields

toy = linear_bars(500, random_state=1)
ax = plot_fields(toy.X[:20], (5, 5), n_columns=10, common=True, colours="signed")

# %%
# Learning starts from random components and five causes in an image. It looks at states of at
# most three of the five causes that match an image best. After a third of the iterations, images
# that seem to have more than three begin to be left out. The components along the way, each
# on its own scale:

m = BinarySparseCoding(10, max_active=3, n_candidates=5, keep_components=True, random_state=0)
m.fit(toy.X)
passes = [0, 5, 10, 20, 40, 60]
ax = plot_fields(
    m.components_history_[passes].reshape(-1, 25),
    (5, 5),
    n_columns=10,
    row_labels=[f"iteration {n}" for n in passes],
    colours="signed",
)

# %%
# Sparseness and noise find their values with them. Dashed: how the images were made. Thin: where
# images begin to be left out, and where they no longer become fewer.

course = {"": (m.sparseness_history_, m.noise_history_)}
upper, lower = plot_course(course, truth=(2.0, 2.0), marks=(20, 40))
print(f"{m.sparseness_:.2f} causes in an image, noise of {m.noise_std_:.2f}")

# %%
# With its causes known, an image can be freed of noise, and what is missing be filled in. Here
# two columns of pixels on the left are hidden: bars that lie across them are completed; upright
# ones in the hidden part leave no trace, and are expected faintly, as often as they are there.

seen = toy.X.copy()
seen[:, np.arange(25) % 5 < 2] = np.nan
filled = m.complete(seen)
rows = {"truth": toy.causes @ toy.components, "image": toy.X, "denoised": m.denoise(toy.X)}
rows |= {"seen": np.nan_to_num(seen), "completed": filled}
some = np.arange(10)
ax = plot_fields(
    np.vstack([values[some] for values in rows.values()]),
    (5, 5),
    n_columns=10,
    row_labels=list(rows),
    common=True,
    colours="signed",
)

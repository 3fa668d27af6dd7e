"""
Noisy-OR networks: lines, and patterns of lines
===============================================

Lewicki & Sejnowski (1996) learn causes in layers: what is seen has causes, and these have causes
of their own. Every unit is an OR of its causes in the layer above, each of which may fail.
"""

# %%
# The paper's first test. In images of 5 x 5 pixels each of ten lines is there with probability
# 0.3. In addition, each of four patterns, ``||``, ``=``, ``+`` and ``]``, is laid over them with
# probability 0.15. Where something is drawn twice it is just there. Forty of 2000 images:

import numpy as np

from latentbits import NoisyOrNetwork
from latentbits.data.toys import lines
from latentbits.figures.binary_sparse_coding.pictures import plot_fields
from latentbits.figures.noisy_or.arrays import credit_of
from latentbits.figures.noisy_or.pictures import plot_explanation, plot_network

toy = lines(2000, random_state=0)
ax = plot_fields(1 - 2.0 * toy.X[:40], (5, 5), n_columns=20, common=True)

# %%
# A network of ten and five hidden units. Below are the weights of its first layer, as squares whose
# area is the weight: the ten lines. Above, those of the second layer: four of its units have the
# lines of one pattern each. The fifth is left over.

m = NoisyOrNetwork((10, 5), random_state=0).fit(toy.X)
axes = plot_network(m.weights_, m.biases_, image_shape=(5, 5))

# %%
# From an image to its causes. Of every pixel that is on, the share that each unit accounts for:
# the lines of the first layer, and the patterns that brought some of these.

row = int(np.argmax((toy.patterns.sum(axis=1) == 1) & (toy.causes.sum(axis=1) == 2)))
shares = credit_of(m.weights_, m.biases_, toy.X[row], m.posterior(toy.X[row : row + 1]).mode[0])
ax = plot_explanation(toy.X[row], shares, image_shape=(5, 5))

# %%
# And from a cause to images: with the unit of the bracket held on, nearly all of them have it.

bracket = int(np.argmax(m.weights_[1][:, np.argmax(m.weights_[0][:, 4])]))
drawn = m.sample(20, random_state=0, clamp={f"h2_{bracket}": 1})
ax = plot_fields(1 - 2.0 * drawn, (5, 5), n_columns=20, common=True)
print(f"{m.description_length(toy.X).mean():.2f} bits for an image, exactly; the best model needs 9.17")

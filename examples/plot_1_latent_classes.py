"""
Latent classes: do seven pathologists see the same thing?
=========================================================

Seven pathologists looked at 118 slides and said of each whether it shows carcinoma
(Agresti 2002, page 542). They do not agree. A mixture of Bernoulli products, here
known as latent class analysis, asks whether their answers can be explained by a few
kinds of slides within which the pathologists judge independently.
"""

# %%
# Fit one to four classes by maximum likelihood. The likelihood has local maxima, so
# each fit is the best of 10 restarts.

import matplotlib.pyplot as plt
import numpy as np

from latentbits import BernoulliMixture, load_dataset

X = load_dataset("carcinoma").X
n, d = X.shape
fits, bic = {}, []
for k in (1, 2, 3, 4):
    m = BernoulliMixture(k, smoothing=0, n_init=10, tol=1e-7, random_state=0).fit(X)
    fits[k], log_likelihood = m, m.log_likelihood(X)
    bic.append((k - 1 + k * d) * np.log(n) - 2 * log_likelihood)
    print(f"{k} classes: log-likelihood {log_likelihood:9.3f}, BIC {bic[-1]:8.2f}")

# %%
# The Bayesian information criterion is smallest for three classes: slides that hardly
# anybody calls carcinoma, slides that most do, and a class in between on which the
# pathologists differ: B, E and G mostly say yes, C, D and F say no.

m = fits[3]
order = np.argsort(m.means_.mean(axis=1))
fig = plt.figure(figsize=(10, 4.4), layout="constrained")
left, right = fig.subplots(1, 2, width_ratios=[3, 2])
names = list("ABCDEFG")
looks = ("#4477aa", "o"), ("#ccbb44", "s"), ("#cc6677", "D")
for i, (colour, marker) in zip(order, looks, strict=True):
    label = f"{m.weights_[i]:.0%} of the slides"
    left.plot(names, m.means_[i], color=colour, marker=marker, label=label)
left.set(xlabel="pathologist", ylabel="P(says carcinoma)", ylim=(-0.03, 1.03))
left.set_title("Three kinds of slides")
fig.legend(*left.get_legend_handles_labels(), frameon=False, loc="outside lower left", ncols=3)

right.plot(list(fits), bic, color="#555555", marker="o")
right.set(xlabel="number of classes", ylabel="BIC", xticks=list(fits))
right.set_title("How many? Where it is lowest")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)

# %%
# `transform` gives the probability of each class for a slide. Most slides are clear, a few are not.

share = m.transform(X)[:, order]
unclear = int(np.sum(share.max(axis=1) < 0.9))
print(f"{unclear} of {n} slides have a class that is less than 90 % certain")

"""
Latent classes: do seven pathologists see the same thing?
=========================================================

Seven pathologists looked at 118 slides and said of each whether it shows carcinoma (Agresti 2002, page 542). They do not
agree. A mixture of Bernoulli products, here known as latent class analysis, asks whether their answers can be explained
by a few kinds of slides within which the pathologists judge independently.
"""

# %%
# Fit one to four classes by maximum likelihood. The likelihood has local maxima, so each fit is the best of 10 restarts.

import matplotlib.pyplot as plt
import numpy as np

from latentbits import BernoulliMixture, load_dataset

X = load_dataset("carcinoma").X
n, d = X.shape
fits = {
    k: BernoulliMixture(k, smoothing=0, n_init=10, tol=1e-7, random_state=0).fit(X)
    for k in (1, 2, 3, 4)
}
for k, m in fits.items():
    n_parameters = k - 1 + k * d
    log_likelihood = m.log_likelihood(X)
    print(f"{k} classes: log-likelihood {log_likelihood:9.3f}, BIC {n_parameters * np.log(n) - 2 * log_likelihood:8.2f}")

# %%
# The Bayesian information criterion is smallest for three classes: slides that nobody calls carcinoma, slides that nearly
# all do, and a class in between on which pathologists differ: B, E and G mostly say yes, C, D and F say no.

m = fits[3]
order = np.argsort(m.means_.mean(axis=1))
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), width_ratios=[3, 2], layout="constrained")
names = list("ABCDEFG")
for i, colour, marker in zip(order, ("#4477aa", "#ccbb44", "#cc6677"), "osD", strict=True):
    left.plot(names, m.means_[i], color=colour, marker=marker, label=f"{m.weights_[i]:.0%} of the slides")
left.set(xlabel="pathologist", ylabel="P(says carcinoma)", ylim=(-0.03, 1.03), title="Three kinds of slides")
fig.legend(*left.get_legend_handles_labels(), frameon=False, loc="outside lower left", ncols=3)

bic = [(k - 1 + k * d) * np.log(n) - 2 * fits[k].log_likelihood(X) for k in fits]
right.plot(list(fits), bic, color="#555555", marker="o")
right.set(xlabel="number of classes", ylabel="BIC", xticks=list(fits), title="How many? The lowest")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)

# %%
# `transform` gives the probability of each class for a slide. Most slides are clear, a few are not.

share = m.transform(X)[:, order]
print("slides whose class is less than 90 % certain:", int(np.sum(share.max(axis=1) < 0.9)))

"""Numbers that were tuned for clipped Gaussians, each with the measurement that chose it where there was one."""

from __future__ import annotations

from typing import Any

# --- pairs of columns ---

INVERTED_PAIRS_AT_ONCE = 65_536  # bounds the memory
SOLVED_PAIRS_AT_ONCE = 16_384  # the solver's twenty or so arrays of them stay in the second-level cache
COUNTED_ROWS_AT_ONCE = 65_536  # float32 holds whole numbers up to 2^24
LEAST_COVARIANCE_SLOPE = 1e-5  # dC/drho: below, a small error of C is a large one of rho
# Share of a table's rows: sums of weights that are no whole numbers differ by so much from what they should be, and a
# cell with no more is empty.  One row of as many as there may be is more.
EMPTY_CELL_SHARE = 1e-12
WIDE_PAIRS_AT_ONCE = 2**19
MOST_KEPT_COLUMNS = 1024  # with matrices of pairs: a file of 26 MB

# --- from correlations to weights ---

LEAST_UNIQUENESS = 0.005  # of a column whose weights reproduce no variances: by factors, and by the likelihood
# Components reproduce the variances too.  Where the spectrum has a negative part, its positive part has more than a
# column's variance, and rows that were not learned from say that there is noise all the same.
LEAST_COMPONENT_UNIQUENESS = 0.1
LEAST_SQUARES_OPTIONS: Any = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 2000, "maxfun": 4000}  # to the end
# Parallel analysis: a simulated table may have the larger of both, and there are up to five times twenty less one.
MOST_SIMULATED_ROWS, MOST_SIMULATED_ENTRIES = 2**15, 2**24
MOST_SIMULATED_TWENTIES = 5

# --- expectation propagation ---

EP_STEP_SHARE = 0.9  # of the way to where a sweep points; all factors move at once, and a whole step could overshoot
# Half-spaces are made soft by additional noise, which shrinks from sweep to sweep: N of them cut a cell so small out of
# the prior that a first sweep with all of them at once would throw the posterior anywhere.
SOFTENING_SWEEPS = 34  # to 1e-10 of the prior's variance
PLACING_SDS = 0.01  # standard deviations that a posterior may be off where it says no more than where points go

# --- integrals over the hidden variables of a row ---

LATTICE_SPACING = 1.0  # with it log p is right to 1e-9, with 1.4 to 1e-5, with 2 to 0.007 (loadings of .5 to .9975)
LATTICE_REACH_SDS = 6.5  # of the prior beyond the modes of rows, which no posterior is wider than
MOST_LATTICE_NODES = {1: 2**20, 2: 2**20, 3: 2**18}  # by dimensions, about: more are put further apart
LATTICE_NODES_AT_ONCE = 128
NET_REPLICATES = 16  # with fewer the error itself would be known too badly
# Points with their mirror images in each replicate, level by level.  With few columns the first is left out: posteriors
# with corners have tails that so few points may miss, and an error that does not know of them.
LIKELIHOOD_PAIRS = (1, 8, 32)
# The same for missing bits, of all rows: of 8 columns with communalities of .9 to .97 and 4 factors, P(bit) was then
# wrong by .004 at most (with 32 by .009, by expectation propagation .020).
COMPLETION_PAIRS = 128
GOAL_ERROR_NATS = 0.05  # rows are spread by several, and their errors average out

# --- clipping without noise ---

CELL_SLIDES = 64  # of the local search

# --- maximum likelihood ---

# Nodes a dimension by the number of latents, of the way there and of its end, with few columns and with many; above
# three latents the power of two of a net.
NODES_OF_FEW_COLUMNS = {1: (15, 81), 2: (9, 21), 3: (5, 11), 4: (7, 10)}
NODES_OF_MANY_COLUMNS = {1: (7, 15), 2: (5, 7), 3: (3, 5), 4: (6, 8)}
PATIENCE_PASSES = 5  # without gain: a bold step, a cautious one and shorter ones, each taken back

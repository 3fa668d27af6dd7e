"""Numbers that steer the learning and the answers of noisy-OR networks."""

STRONGEST_WEIGHT = 9.0  # exp(-w) of nine causes as strong together is still a float32
N_HALVINGS = 60  # of the interval of a root, to the last bit of float64

# --- sums over states ---
EXACT_MOST_PAIRS = 2**16  # pairs of states up to which EM, posterior means and completions sum over all of them
EXACT_LIKELIHOOD_MOST_PAIRS = 2**22  # and log p(x), where an estimate costs more
STATE_CELLS_PER_BLOCK = 2**20  # numbers in a table of rows and states
STATE_LEAST_PER_BLOCK = 64  # states in a block, however many rows there are
STATE_ROWS_PER_BLOCK = 2**12  # states of a layer that are rows to the layer above it at once

# --- Gibbs chains ---
GIBBS_FACTORS_PER_LOG = 8  # 1 - exp(-u) whose product is within the range of float32, from biases of 2e-5 on
GIBBS_CELLS_PER_BLOCK = 2**16  # numbers Q that a block of rows has on a CPU: a part of its second cache
MEAN_SWEEPS = 100  # posterior means
MODE_SWEEPS = 25  # most probable states; coldness rises from 1


# --- where learning starts ---
START_WEIGHTS = (0.05, 0.15)  # range, as in the paper
START_HIDDEN_BIAS = 0.3  # of a layer that has no layer above it yet

# --- updates ---
JOINT_UPDATES = 60  # of all layers together
UPDATES_PER_RENEWAL = 30

# --- exact EM ---
# Relative, of the log-likelihood, whose products over columns are rounded many times.  With the rounding of float32 in
# float64 too, climbs wandered .002 nats below the top and none of 6 seeds ended.
CLIMB_VALUE_ROUNDING_EPS = 4.2

# --- new use for units that do nothing ---
ALIKE_COSINE = 0.9  # of the effects of duplicates
CHANGED_MOST_EFFECT = 0.95  # of a unit that has changed: learning takes away what is too much
FRESH_BIAS = 0.1  # of a unit that starts again
CHILD_LEAST_EFFECT = 0.05  # from which on a unit of a large table has a child
ODD_ROWS_PER_UPDATE = 3.0  # in which such a cause is expected at first

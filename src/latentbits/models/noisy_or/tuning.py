"""Numbers that steer the learning and the answers of noisy-OR networks."""

STRONGEST_WEIGHT = 9.0  # exp(-w) of nine causes as strong together is still a float32
N_HALVINGS = 60  # of the interval of a root, to the last bit of float64

# --- sums over states ---
EXACT_MOST_PAIRS = 2**16  # pairs of states up to which EM, posterior means and completions sum over all of them
EXACT_LIKELIHOOD_MOST_PAIRS = 2**22  # and log p(x), where an estimate costs more
DRAWN_MOST_STATES = 2**10  # of a single layer: up to here it takes less time to draw one of all than to make a chain
STATE_CELLS_PER_BLOCK = 2**20  # numbers in a table of rows and states
SMALL_TABLE_CELLS = 2**24  # rows x columns x states for which float64 takes no time to speak of
STATE_LEAST_PER_BLOCK = 64  # states in a block, however many rows there are
STATE_ROWS_PER_BLOCK = 2**12  # states of a layer that are rows to the layer above it at once

# --- Gibbs chains ---
GIBBS_FACTORS_PER_LOG = 8  # 1 - exp(-u) whose product is within the range of float32, from biases of 2e-5 on
GIBBS_CELLS_PER_BLOCK = 2**16  # numbers Q that a block of rows has on a CPU: a part of its second cache
START_MOST_INPUT = 60.0  # exp(-u) and what is left of it are float32 numbers
PAPER_SETTLED_CHANGE = 0.05  # the paper's chain stops when no unit changes with this probability
CLAMPED_SWEEPS = 200  # from a state of the network to one given the clamped units
MEAN_CHAINS, MEAN_BURN_SWEEPS, MEAN_SWEEPS = 2, 50, 100  # posterior means
MODE_CHAINS, MODE_SWEEPS, MODE_LAST_COLDNESS = 8, 25, 8.0  # most probable states; coldness rises from 1

# --- annealed importance sampling (`annealing.py` has what was measured) ---
ANNEALING_LEAST_PROBABILITY = 1e-5  # of a unit to be on, or off, before any input is known
PILOT_STEPS_PER_STEP = 5  # steps of the walk for one of the pilot,
PILOT_STEPS_PER_SWEEP = 10  # and for one of the sweeps that the pilot makes at its end
PILOT_MOST_COMPONENTS = 16
PILOT_SHARED_SWEEPS = 2.0  # that a component has from the other chains of the pilot, beside its own
PILOT_DOUBT_CHAINS = 0.5  # added on either side, so that q is never certain

# --- where learning starts ---
START_WEIGHTS = (0.05, 0.15)  # range, as in the paper
START_HIDDEN_BIAS = 0.3  # of a layer that has no layer above it yet
START_INPUT_BIAS = 0.02
START_BIAS_SHARE = 0.2  # part of its bias that a unit keeps when it gets parents

# --- updates ---
JOINT_UPDATES = 60  # of all layers together
UPDATES_PER_RENEWAL = 30
UPDATES_PER_ODD_START = 5  # late in the learning of a layer, when units start from the least probable rows
MEMORY_ROWS = 20.0  # rows in which a unit was on, from which its weights are learned
RAREST_ONES = 0.1  # ones in all rows: a bias of no less; a bit that was never on may be so in the next row
STABLE_CHANGE = 0.1  # a unit that changes with less than this probability is ready to be learned from

# --- exact EM ---
CLIMB_UNSEEN_CURVATURE = 1e-4  # of directions that secants have not seen: a cause that is hardly needed fades slowly
# Relative, of the log-likelihood, whose products over columns are rounded many times.  With the rounding of float32 in
# float64 too, climbs wandered .002 nats below the top and none of 6 seeds ended.
CLIMB_VALUE_ROUNDING_EPS = 4.2

# --- new use for units that do nothing ---
IDLE_MOST_NATS = 10.0  # gained from a unit in the rows of an update: its weights are worth at least that
ALIKE_COSINE = 0.9  # of the effects of duplicates
PART_UNEXPLAINED_SHARE = 0.1  # share of the bits of A in a unit for A and B that must be left to the biases
SPLIT_LEAST_NATS = 0.05  # gained by a split, per row in which the unit is on
CHANGED_MOST_EFFECT = 0.95  # of a unit that has changed: learning takes away what is too much
FRESH_BIAS = 0.1  # of a unit that starts again
ALONE_EFFECT_SHARE = 0.9  # share of its effect that a unit has at one child, which a bias could do as well
CHILD_LEAST_EFFECT = 0.05  # from which on a unit of a large table has a child
ODD_MOST_NATS = 40.0  # by which a row may be less probable than those before it, and count for more
ODD_LEAST_BITS = 3  # of the least probable rows, that a cause must explain
ODD_ROWS_PER_UPDATE = 3.0  # in which such a cause is expected at first

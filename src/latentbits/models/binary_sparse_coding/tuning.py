"""Numbers that steer the learning of binary sparse coding, each with what chose it."""

# --- sizes: gamma and H' ---

FIRST_SIZE = (3, 5)  # that "auto" begins with
SIZE_STEP = (2, 3)  # by which they grow
LEAST_GAIN_NATS_PER_ROW = 0.1  # by a larger size, below which they stop
MOST_STATES_PER_ROW = 4096  # up to which they grow
MOST_ENUMERATED_CAUSES = 12  # up to which a fitted model sums over all states of a row
# "auto" ends with exact EM up to this number of causes, and of states of all rows.
MOST_SETTLED_CAUSES, MOST_SETTLED_STATES = 14, 2**24

# --- starts ---

STARTS_AT_ONCE, STARTS_AT_ONCE_CELLS = 8, 2**21  # and rows x columns x causes up to which several are learned at once

# --- parameters ---

LEAST_NOISE_SHARE = 1e-4  # of the rows' root mean square: float32 has no more digits
LEAST_PRIOR = 1e-8  # pi stays this far from 0 and 1
LEAST_USED_ROWS = 0.5  # a cause that is expected in fewer rows than this is not used, and starts again,
LEAST_LEARNABLE_ROWS = 1e-20  # and in fewer than this it has nothing to learn from

# --- rows ---

LEAST_LEARNED_SHARE = 0.2  # of the rows: with pi H above gamma the paper's N_cut goes to none
SCORE_BINS = 512
DRAWN_ROWS = 16  # whose residuals unused causes may start from
GATHERED_ROWS = 64  # whose candidates' components are gathered at a time, where pixels are missing

# --- kernels ---

ROWS_PER_TILE, STATES_PER_TILE = 64, 128

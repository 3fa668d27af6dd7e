"""Numbers that steer the learning and the sums of combination machines."""

# learning in batches
ROWS_PER_BATCH = 100
RANDOM_WEIGHTS_LENGTH = 0.8  # of a unit's at the start of an ascent; random, so that units differ
CENTRE_STEP_SHARE = 0.02  # of the centre's way to the mean of a batch
SAMPLED_RATE_SHARE = 1 / 3  # chains cannot follow steps as long as those that exact expectations allow

# ascent with all rows
HELD_OUT_LEAST_ROWS = 50  # by fewer, learning would be stopped by chance
CLIMB_PATIENCE_PASSES = 100  # without a gain, that end a climb: held-out rows may fall for a while before they rise
CLIMB_PATIENCE_SHARE = 0.5  # of the passes so far: units that share a cause part late, after hundreds of passes
MOMENTUM_STEP_SHARE = 0.9  # of the last step, that is taken again
REFIT_PASSES = 15  # of 8 units on 500 digits, 10 gain 0.08 nats per unseen row, and 80 gain 0.02
PASSES_PER_PRIOR = 10  # of a climb, after which its prior is chosen again
PRIOR_LEAST_PRECISION, PRIOR_MOST_PRECISION = 1 / 3.0**2, 1 / 0.05**2  # weights stay finite, and units can wake
LEAST_VARIANCE = 0.01  # that a coordinate is scaled by: of a unit that is hardly ever on, or off

# persistent chains
TEMPERED_LEVELS = 4  # each with a tenth of all chains
MEAN_MEMORY_SHARE = 0.02  # of the updates so far: how far back the running mean reaches
PRIOR_STEP_SHARE = 0.02  # of the prior's way to the one that the rows would choose
CHAINS_MOMENTUM = 0.5  # of Adam; more would let the machine run away from its chains

# pursuit
START_ROW_SHARE = 0.5  # of a row, where EM begins: from whole rows the sums of gains are smaller
PURSUIT_NATS_PER_PARAMETER = 1.5  # that a unit must gain; the best unit of pure noise gains about 1
HALF_LEAST_ROWS = 0.5  # a half of a mixture that has fewer is none
BIT_MOST_MEAN = 0.99  # means of a bit beyond this have no larger weight

# sums over all states
FLOAT32_LEAST_UNITS = 14  # enumerated, from which on sums in learning are in float32: 1e-6 of log Z, half of the time
FLOAT64_MOST_UNITS = 20  # enumerated, up to which the final log Z is summed in float64
DRAWN_MOST_UNITS = 22  # enumerated, up to which rows are drawn exactly, from a table of all states
HOST_MOST_FLOATS = 2**20  # states times units up to which log Z is summed sooner than a program for it is compiled;
HOST_MOST_FLOATS_PER_PASS = 2**17  # and at every pass: 2^10 states take 1.3 ms, a program of 1.1 ms 1 s to compile
CPU_TABLE_LOG2_FLOATS = 15  # states times inputs in the table of a CPU's block,
CPU_OUTER_UNITS = 6  # and units that run over it
GPU_TABLE_UNITS = 10, 10  # inner units in each of the two tables of a GPU's block
REAL_INNER_UNITS = 12, 16  # for real inputs: on a CPU, on a GPU
INPUTS_PER_PRODUCT = 128  # of (1 + q) / sqrt 2: it is between 2^-64 and 2^64

# sums over the states of few active units
STATES_PER_BLOCK = 2**12
SPARSE_MOST_STATES = 2**24
OUTSIDE_CHAINS, OUTSIDE_TEMPERATURES, OUTSIDE_SWEEPS = 1000, 100, 10  # for the share of Z of all others

# rows with missing entries
HOLES_MOST_UNITS = 18, 22  # hidden, whose states are summed: on a CPU (some milliseconds a row) and elsewhere
LEARNING_MOST_UNITS = 16, 20  # the same in learning
PATTERN_MOST_BITS = 4, 8, 12  # missing in a row, whose patterns are summed; a route is compiled for each
LOG2_STATES_PER_BLOCK = 10
LEARNING_SWEEPS = 20  # of a row's chain in learning, where it is a fresh one at every pass
FLOATS_PER_PATTERN_BLOCK = 2**10  # of a row

# annealing
ANNEALING_CHAINS, ANNEALING_TEMPERATURES = 1000, 300
ROW_CHAINS, ROW_TEMPERATURES = 64, 100
MEAN_CHAINS, MEAN_TEMPERATURES, MEAN_SWEEPS = 32, 20, 20
FALL_SWEEPS = 50  # from a hidden state to a mode nearby
FLOATS_PER_SLICE = 2**22  # that the chains of a slice of rows may hold
BASE_COMPONENTS = 32

# what "auto" decides
EXACT_LOG2_STATES = 16  # the most that are learned from exactly
BATCH_LOG2_STATES = 12  # the most that are summed for every batch; with more, chains are cheaper until L-BFGS
ADAM_MOST_UPDATES = 4000  # before L-BFGS takes over: by then it is in the basin of a good optimum
HELD_OUT_SHARE = 0.1  # of the rows, unless these are few
STOCHASTIC_RATE = 0.01  # step size of "stochastic"
AGAIN_RATE_SHARE = 0.2  # of its step size with which a machine that ran away from its chains is learned again,
AGAIN_MOST_TIMES = 2
TRUSTED_LEAST_SHARE = 0.05  # of annealed chains that count: with less, log Z is not to be trusted

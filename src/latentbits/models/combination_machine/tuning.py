"""Numbers that steer the learning and the sums of combination machines."""

# learning in batches
ROWS_PER_BATCH = 100

# ascent with all rows
HELD_OUT_LEAST_ROWS = 50  # by fewer, learning would be stopped by chance
PRIOR_LEAST_PRECISION, PRIOR_MOST_PRECISION = 1 / 3.0**2, 1 / 0.05**2  # weights stay finite, and units can wake
LEAST_VARIANCE = 0.01  # that a coordinate is scaled by: of a unit that is hardly ever on, or off

# persistent chains
TEMPERED_LEVELS = 4  # each with a tenth of all chains

# pursuit
PURSUIT_NATS_PER_PARAMETER = 1.5  # that a unit must gain; the best unit of pure noise gains about 1
HALF_LEAST_ROWS = 0.5  # a half of a mixture that has fewer is none
BIT_MOST_MEAN = 0.99  # means of a bit beyond this have no larger weight

# sums over all states
HOST_MOST_FLOATS = 2**20  # states times units up to which log Z is summed sooner than a program for it is compiled;
HOST_MOST_FLOATS_PER_PASS = 2**17  # and at every pass: 2^10 states take 1.3 ms, a program of 1.1 ms 1 s to compile
CPU_TABLE_LOG2_FLOATS = 15  # states times inputs in the table of a CPU's block,
CPU_OUTER_UNITS = 6  # and units that run over it
GPU_TABLE_UNITS = 10, 10  # inner units in each of the two tables of a GPU's block
REAL_INNER_UNITS = 12, 16  # for real inputs: on a CPU, on a GPU
INPUTS_PER_PRODUCT = 128  # of (1 + q) / sqrt 2: it is between 2^-64 and 2^64

# sums over the states of few active units
STATES_PER_BLOCK = 2**12
OUTSIDE_CHAINS = 1000  # for the share of Z of all others

# rows with missing entries
LEARNING_MOST_UNITS = 16, 20  # the same in learning
PATTERN_MOST_BITS = 4, 8, 12  # missing in a row, whose patterns are summed; a route is compiled for each
LOG2_STATES_PER_BLOCK = 10
FLOATS_PER_PATTERN_BLOCK = 2**10  # of a row

# annealing
ANNEALING_CHAINS, ANNEALING_TEMPERATURES = 1000, 300
ROW_TEMPERATURES = 100
MEAN_CHAINS, MEAN_SWEEPS = 32, 20
FLOATS_PER_SLICE = 2**22  # that the chains of a slice of rows may hold
BASE_COMPONENTS = 32

# what "auto" decides
STOCHASTIC_RATE = 0.01  # step size of "stochastic"
AGAIN_MOST_TIMES = 2

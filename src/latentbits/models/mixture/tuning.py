"""Numbers that steer the learning of mixtures; none of them changes where learning ends, but for rounding."""

FLOAT32_ROUNDING = 1e-7  # relative, of a row's log-likelihood and shares
FLOAT64_ROUNDING = 1e-15  # relative, of an objective whose rows are computed in float64

START_ROWS_PER_COMPONENT = 16  # rows of the sample that short runs need to rank one start above another

ANNEALING_FIRST_BETA = 0.5
ANNEALING_PASSES = 10

SMOOTHING_FIRST_ROWS = 1.0  # pseudo-rows per component before the number is chosen
SMOOTHING_PASSES = 20  # passes in which the number of pseudo-rows is chosen,
SMOOTHING_FIXED_PASSES = 5  # and how many of them keep the first: components that are still alike would be held so
SMOOTHING_LEAST_ROWS, SMOOTHING_MOST_ROWS = 1e-3, 1e4  # components that are all alike ask for infinitely many
SMOOTHING_CYCLES_PER_PASS = 3  # of Minka's fixed point
SMOOTHING_MOST_RATE = 0.95  # the slowest convergence that its extrapolation assumes

# Responsibilities of some starts that are computed together: a fit of 24 starts of 4 components on 2000 rows takes 1.05
# times as long as EM in plain NumPy with so many, and 1.3 times with all at once, which no cache holds
ABREAST_NUMBERS = 2**15

NEWTON_MOST_PARAMETERS = 256
NEWTON_NATS_PER_ROW = 1e-4  # left to gain where EM makes room for Newton's method
NEWTON_FIRST_DAMPING, NEWTON_LEAST_DAMPING = 0.1, 1e-8  # in units of the complete information
NEWTON_SADDLE_EIGENVALUE = -1e-6  # an eigenvalue below this is not rounding
NEWTON_LEAST_EIGENVALUE = 1e-9  # a gradient is divided by at least this in directions that the data do not determine

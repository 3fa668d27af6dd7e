"""Numbers that steer the learning and use of latent traits: lengths of steps, sizes of rules, and when to stop."""

import math

# ---------------------------------------------------------------- learning

# How often what a step promises may be left to gain: with few columns slow directions hide behind a small gain.
CAUTION_FACTOR_MANY_COLUMNS, CAUTION_FACTOR_FEW_COLUMNS = 1.0, 10.0
PATIENCE_PASSES = 5  # without gain: a bold step, a cautious one and shorter ones, each taken back
NEAR_NATS_PER_ROW = 1e-4  # left to gain where the bound has gone near enough, or starts differ enough to choose one
LEAST_VARIANCE_SHARE = 1e-4  # of the column's own: a column that the latents explain wholly would run to 0
LEAST_SHARE_OF_ROWS = 1e-10  # of a map that no row is on any more
FACTORS_PER_LOGARITHM = 8  # whose product is far from the smallest number, and loses no digit

# ---------------------------------------------------------------- rules that adapt to rows

FIRST_NET_LOG2_POINTS, LAST_NET_LOG2_POINTS = 7, 10  # to get near a maximum, and to be there
# By latent dimensions: the largest bend (`quadrature.bend_of`) for which a number of nodes a dimension is enough.
NODES_PER_DIMENSION_BY_BEND = {
    1: ((0.65, 5), (0.7, 7), (0.8, 9), (1.2, 15), (1.4, 21), (1.8, 31), (2.6, 61), (6.0, 121), (12.0, 241)),
    2: ((0.6, 5), (0.9, 7), (1.2, 11), (1.5, 15), (1.8, 21), (2.6, 31)),
    3: ((0.45, 3), (1.2, 5), (1.6, 7), (2.2, 11)),
}
MOST_NODES_PER_DIMENSION = {1: 481, 2: 41, 3: 15, 4: 13}  # from four dimensions on log2 of the points in all
# Latents up to which a number of points of a net finds a posterior's mean; off by a little in each of many dimensions,
# it would leave the weights of the points that go there to a few of them.
START_NET_POINTS_BY_DIMENSIONS = ((6, 32), (8, 128), (math.inf, 512))

# ---------------------------------------------------------------- evenly spaced nodes of steep columns

NODES_PER_BLOCK = 256  # that are looked at together; numbers of nodes are such multiples that programs are few
RESOLVED_SLOPE_TIMES_SPACING = 1.5  # right to exp(-2 pi^2 / 1.5), 2e-6
# The same of the first nodes.  Where three dimensions make them dear, a probability was wrong by 1e-4 at most, of
# tables with 6 to 20 columns and slopes of scale 0.8 to 2: the steepest column is seldom along an axis.
FIRST_SLOPE_TIMES_SPACING = {1: 1.7, 2: 1.7, 3: 2.1}
EVEN_MOST_NODES = {1: 1281, 2: 2**15, 3: 2**18}  # in all, by dimensions

# ---------------------------------------------------------------- a grid for all rows

GRID_REACH_SD = 6.5  # beyond the mode of a row, where at most 1e-9 of a posterior is left
# Spacings of nodes, the first with few enough of them, and by how many nats they put log p(row) wrong where columns
# are steep: the most that was measured against a quarter of the spacing, and dense rules, for 6 to 30 of slopes of
# 1 to 1e5 and 40 % of the cells hidden.  Means and P(bit) are as good.
GRID_ERROR_BY_LINE_STEP = {0.5: 2e-6, 0.75: 2e-4, 1.0: 2e-3}
GRID_ERROR_BY_PLANE_STEP = {0.6: 1e-5, 0.75: 5e-5, 1.0: 1e-3}
GRID_MOST_NODES_TIMES_COLUMNS = 2**22
GRID_STEEP_SLOPE = 2.0  # from which a mesh to find nodes by is made closer
# Of a row, by which chunks are made: 512 rows of 64 columns.  What nodes cost by themselves, once a chunk, is then a
# quarter of what rows do; larger chunks would leave cores without work where tables are small.
GRID_FLOATS_PER_ROW = 2**13
MESH_SPACING = 0.1  # where no column is steep

# ---------------------------------------------------------------- items

ITEM_REACH_SD = 6.0  # of the trait, which nodes span
ITEM_FEWEST_NODES, ITEM_MOST_NODES = 61, 481

# ---------------------------------------------------------------- curved surfaces

LIKELIHOOD_NETS = 8  # whose differences are the error of a likelihood
ROWS_PER_UPDATE = 128

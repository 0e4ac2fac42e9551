"""Thresholds of the models and working sets on the l1 ball that compiled code and Python share.

Compiled code has them as they were when it was compiled: they stand in this folder, of which a digest decides whether
that is still good (`readiness`). Importing this module loads no numba.
"""

ACCURACY = 1e-4
"""The gap of a model's least point, as a share of what the model falls by."""
ROUNDS = 1000
"""Rounds of the compiled active-set method on one model: far more than it was ever seen to take."""
WIDE, WIDE_FROM = 2, 200
"""Coordinates a sample, and coordinates, from which on a model is kept by its rows."""
PASSES = 1500
"""Coordinates of a sparse model to the third power, over the entries of its columns, from which on conjugate gradients
take less time than factors."""
WEIGHT_CHANGE = 0.05
"""How much a weight may change, as a share of it, before the Gram matrix is computed again: the error of a Newton step
then falls by that factor at least."""
LEAST_SLOPE_CURVATURE = 1e-12
"""What is added, as a share of the steepest slope over the size of the set, for coordinates along which F is linear."""
LONG_MODEL = 1000
"""Coordinates from which on a model may take longer than a deadline or Ctrl-C should wait."""
FIRST_SIZE = 50
"""Coordinates of the first working set, unless more are not 0 at its start or there are few in all."""
NEAR_MULTIPLIER = 0.8
"""The pull, as a share of the multiplier, from which on a coordinate belongs into the next working set."""
COMPILED_OPERATIONS = 1 << 25
"""Multiplications of a Gram matrix up to which Newton steps are one compiled call, which nothing interrupts."""
NEWTON_STEPS = 50
"""Newton steps after which a working set gives way to a look at the full problem."""
FLAT = 0.3
"""The slope of F where a line search ends, as a share of that where it began."""
NARROW = 1e-6
"""The width of a bracket, as a share of the step, at which a line search ends on a kink."""
SHORTEST_STEP = 1e-10
"""The shortest step that a line search tries."""
HIDDEN_FALL = 1e-9
"""A fall along the boundary of a `NormBall`, as a share of the multiplier's part in it, that rounding may hide."""
SETTLED = 0.1
"""A working set has done its work when its own gap is this share of the full one."""
SLOW = 0.1
"""The share that a working set may leave of the full gap; where it leaves more, the next one is larger."""

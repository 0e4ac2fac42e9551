"""Every threshold of the engine outside compiled code, in the order of its use.

All are counts, or ratios of numbers in the same unit. So other units of the data, F or x change no
decision. They were measured on 43 problems (colon, prostate, lymphoma, BASEHOCK, a9a and random
data) with one thread.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """The thresholds of the engine; `OPTIONS` are those in use."""

    head_start: int = 100
    """On a ball of groups, so many projected gradients go first. They solved half of 240 random
    problems of 3 to 200 groups, most of them in a few milliseconds. On most of the others, with
    correlated data or a large ball, Newton's method is up to a thousand times as fast. With 30 or
    300 in place of 100 these problems took a tenth longer."""

    # The working set.
    first_size: int = 50
    """The number of coordinates of the first working set. A later one has the coordinates that are
    not 0, and at least half of this number besides."""
    growth: int = 4
    """If a working set brought little, the next one is larger by this factor. The first one is
    smaller by this factor if there are more samples than features: then Gram matrices are the most
    expensive part."""
    near: float = 0.8
    """A coordinate is a candidate if its slope is at least this share of the multiplier. The next
    working set need not be larger than the number of candidates and coordinates that are not 0."""
    most_of_all: float = 1.5
    """If n is at most this factor times the size of a working set, all n coordinates are taken."""
    slow: float = 0.1
    """If more than this share of the gap is left after a working set, the next one is larger. A
    working set is finished once its own gap is less than this share of the gap."""
    newton_steps: int = 50
    """After so many steps in one working set, the gradient of the full problem is computed again,
    even if the working set is not finished."""
    largest_model: int = 4096
    """For several classes or Dask's blocks, another part computes the Hessian. If there are more
    coordinates, it is not computed, and projected gradients continue."""
    wide_box: int = 500
    """On a box or simplex with more coordinates than this and than samples, projected gradients go
    first, because each model would have all coordinates."""

    # Models.
    accuracy: float = 1e-4
    """A model is minimised until its gap is at most this share of the fall of the model."""
    accuracy_by_products: float = 0.1
    """The same if each digit costs products with K. A tenth is enough: the number of Newton steps
    does not grow."""
    rounds: int = 1000
    """The limit on rounds of the quadratic program. No known problem takes nearly as many."""
    wide: int = 200
    """A model with more coordinates than this, and than twice the samples, stores the rows of the
    data in place of a Gram matrix."""
    most_copied: int = 1 << 25
    """If a matrix has more entries, no model is made, and projected gradients continue."""
    passes: int = 1500
    """If k^3 is more than this times the entries of a sparse model of k coordinates, the model is
    solved by conjugate gradients: they take less time there than a factorisation."""
    slope_curvature: float = 1e-12
    """Coordinates along which F is linear get a small curvature: this share of the steepest slope,
    divided by the size of the set."""
    mostly_stored: float = 0.4
    """A column of a sparse K is treated as dense if more than this share of its entries is stored.
    """
    nearly_full: float = 0.9
    """A sparse column is centred if more than this share of its entries is stored. For any other
    column centring leaves at least a tenth of its sum of squares, so it would save at most one
    digit."""
    block: int = 1 << 29
    """How many multiplications of a Gram matrix are done before the time limit is checked again."""
    long: int = 1000
    """A model with more coordinates runs in a thread, so that deadlines and Ctrl-C can end it."""
    look: float = 0.02
    """How many seconds later the time limit is checked again while such a thread runs."""

    group_rounds: int = 100
    """The limit on rounds for a model on a ball of groups. A round has projected gradients and a
    Newton step. Of 1450 models of 600 random problems half took one round, 99 % took at most ten,
    and one reached this limit."""
    group_projections: int = 5
    """The number of projected gradients in each round. With twenty, fits took up to ten times as
    long if more groups than samples matter (lymphoma62)."""
    group_shortest: float = 0.5**11
    """The Newton step of a round is halved no further than this. If H is singular on the entries
    that are not 0, even an eighth of the step was too long for the model to fall."""

    # The line search.
    flat: float = 0.3
    """It ends once the slope is at most this share of the slope at its start."""
    narrow: float = 1e-6
    """At a kink of F it ends once its bracket is at most this share of the step."""
    shortest_step: float = 1e-10
    hidden_fall: float = 1e-9
    """Between two points on the boundary of the ball, the norm does not change. If F falls by less
    than this share of multiplier times radius, rounding may hide the fall. Then the multiplier
    times the change of the norm, which is 0, is subtracted term by term."""

    # Inside the ball, where the constraint is not active.
    inside_steps: int = 300
    """If conjugate gradients take more steps, a matrix with one row for each sample is factored
    instead. The limit also holds for passes of liblinear, which finds a start for a squared hinge."""
    factor_passes: int = 5000
    """This matrix is factored at once if that takes less time than so many passes over the data."""
    most_samples: int = 4000
    """It is never factored for more samples."""

    # The dual with one variable for each sample.
    dual_samples: int = 2500
    """The largest number of samples of a least-squares problem for which it is solved. Each step
    has equations in as many variables."""
    dual_samples_of_hinge: int = 1000
    """The same for a squared hinge, where each step is a quadratic program."""
    dual_steps: int = 30
    """The limit on Newton steps; five are usual."""
    dual_gap: float = 1e-9
    """It ends once the gap is at most this share of F."""
    exact: float = 1e-13
    """The tolerance of two equations: of the sum of theta_i, which is 0 with an intercept, as a
    share of sum |theta_i|; and of quadratic programs with one variable for each sample, whose gap
    may be this share of their fall."""
    short_step: float = 0.01
    """It ends after three steps shorter than this, because then too few coordinates matter. It is
    also how exactly the line search of a model of classes or blocks is solved."""


OPTIONS = Options()

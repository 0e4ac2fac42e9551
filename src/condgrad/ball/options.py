"""Every threshold of the engine outside compiled code, in the order of its use.

All are ratios of numbers of one unit, or counts: data, F or x in other units take the same steps.
Measured on 43 problems (colon, prostate, lymphoma, BASEHOCK, a9a and random data) with one thread.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """How the engine goes about its work; `OPTIONS` are those in use."""

    # The working set.
    first_size: int = 50
    """Coordinates of the first one; half as many are added to those that are not 0 in any."""
    growth: int = 4
    """One that brought little is followed by one so many times larger. The first one of data with
    more samples than features is smaller by as much: there Gram matrices cost most."""
    near: float = 0.8
    """A coordinate whose pull is at least this share of the multiplier is in the next one."""
    most_of_all: float = 1.5
    """All n coordinates are taken where n is at most so many times the size."""
    slow: float = 0.1
    """A working set that leaves more than this share of the gap is followed by a larger one; one
    whose own gap is less than this share has done its work."""
    newton_steps: int = 50
    """Then the full problem is looked at again, whatever is left to gain."""
    largest_model: int = 4096
    """Coordinates beyond which a Hessian that others compute, of classes or of Dask's blocks, is
    not asked for: projected gradients go on."""
    wide_box: int = 500
    """On a box or simplex whose coordinates are more than these and than the samples, projected
    gradients go first: there all coordinates are in each model."""

    # Models.
    accuracy: float = 1e-4
    """The gap of a model's least point, as a share of what the model falls by."""
    accuracy_by_products: float = 0.1
    """The same where each digit costs products with K: a tenth costs no Newton step more."""
    rounds: int = 1000
    """Rounds of the quadratic program: far more than it was ever seen to take."""
    wide: int = 200
    """A model of more coordinates than these, and than twice the samples, is kept by rows."""
    most_copied: int = 1 << 25
    """Entries of a matrix beyond which no model is made: projected gradients go on."""
    passes: int = 1500
    """A sparse model of k coordinates goes by products where k^3 is more than so many times its
    entries: conjugate gradients take less time there than factors."""
    slope_curvature: float = 1e-12
    """Curvature for coordinates along which F is linear: this share of the steepest slope over the
    size of the set."""
    mostly_stored: float = 0.4
    """Columns of a sparse K with more of their entries stored are taken as dense ones."""
    nearly_full: float = 0.9
    """A sparse column with more of its entries stored is centred. Of one with more zeros, centring
    leaves a tenth of its square at least, and would save one digit at most."""
    block: int = 1 << 29
    """Multiplications of a Gram matrix between two looks at the clock."""
    long: int = 1000
    """A model of more coordinates runs in a thread, so that deadlines and Ctrl-C end it."""
    look: float = 0.02
    """Seconds between two looks at the clock meanwhile."""

    group_rounds: int = 100
    """Rounds of projected gradients and Newton steps for a model on a ball of groups. Of 1450 models
    of 600 random problems half took one round, 99 in a hundred ten, and one took all of these."""
    group_projections: int = 5
    """Projected gradients in each. Twenty took up to ten times as long where more groups than
    samples matter (lymphoma62)."""
    group_shortest: float = 0.5**11
    """Newton steps in them are halved down to this. Where H is singular on the entries that are
    not 0, an eighth was too long: no step fell."""

    # The line search.
    flat: float = 0.3
    """It ends where the slope is at most this share of that at its start."""
    narrow: float = 1e-6
    """It ends on a kink once its bracket is this share of the step."""
    shortest_step: float = 1e-10
    hidden_fall: float = 1e-9
    """A fall along the boundary below this share of the multiplier's part in it is computed with
    that part taken out: rounding would hide it."""

    # Inside the ball, where the constraint is slack.
    inside_steps: int = 300
    """Conjugate gradients that take more give way to factors with a row a sample; and the passes
    of liblinear for a start of a squared hinge."""
    factor_passes: int = 5000
    """Those factors are taken at once where they cost fewer passes over the data."""
    most_samples: int = 4000
    """They are never taken for more samples."""

    # The dual with a variable a sample.
    dual_steps: int = 30
    """Newton steps at most; five are usual."""
    dual_gap: float = 1e-9
    """It ends at this gap, as a share of F."""
    exact: float = 1e-13
    """The balance of the intercept, as a share of sum |theta_i|, and the gap of quadratic
    programs in the samples, as a share of their fall."""
    short_step: float = 0.01
    """Three steps shorter than this end it: too few coordinates matter. And how exactly the
    lowest point on the way to the end of a model of classes or blocks is found."""


OPTIONS = Options()

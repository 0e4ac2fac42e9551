"""The public call."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from condgrad import _checks, ball, deadline, kernels, overflow, resuming
from condgrad.arrays import Array, Space, copied, is_formed
from condgrad.arrays.inputs import floating
from condgrad.certificate import Terms
from condgrad.choosing import LAZY, METHODS, RunOptions, WantedGap
from condgrad.errors import MissingAbility
from condgrad.loop import Callback, Progress, run
from condgrad.problem import Set, Simple, Smooth
from condgrad.result import NO_STREAMED_PLANS, Result
from condgrad.rounding import membership_tolerance
from condgrad.search.steps import Exact, OpenLoop, StepRule, step_rule
from condgrad.stopping import RelativeGap, RelativeStationarity, StopRule
from condgrad.structure import LossOnSet

WORTH_RESUMING = 0.2
"""A run that converges in fewer seconds gets no checksum. Computing one would take a good part of
that time, and the run can be repeated.
"""


def minimize(
    f: Smooth,
    g: Simple,
    x0: Any = None,
    *,
    start: Any = None,
    method: str = "cgs",
    step: str | StepRule = "exact",
    tol: float = 1e-6,
    max_iter: int = 10_000,
    time_limit: float | None = None,
    memory: int = 0,
    lazy: bool = False,
    stop: StopRule | None = None,
    callback: Callback | None = None,
    progress: bool = False,
    checkpoint: str | Path | None = None,
    checkpoint_every: float = 30.0,
) -> Result:
    """Minimise f(x) + g(x) over the set that g lives on, with a proof of how good the answer is.

    In each iteration an *oracle* finds a point s of the set that minimises <grad f(x), s> + g(s).
    This *oracle point* shows where to go, and it proves a lower bound on the minimum of f + g.

    If f is not convex (`f.convex` is False), the answer is a nearly stationary point instead. Its
    `stationarity` is proved: to first order, no point of the set has an F = f + g that is lower by
    more than this number. In such a run F never rises.

    Parameters
    ----------
    f : Smooth
        The smooth part, from `condgrad.smooth`. Sums and positive multiples of smooth parts are
        smooth parts too.
    g : Simple
        The simple part, from `condgrad.simple`. The set is given to it as `on=`.
    x0 : array, optional
        Where to start, inside the set. By default, a start point of the set.
    start : Result, optional
        An earlier result to continue from, instead of x0. If it belongs to the same problem, its
        bound, memory and trace are used as well. If it belongs to another problem, only its point
        is used, since its bound proves nothing here. Two problems count as the same if their
        checksums agree. A checksum covers f, g, the set and their data. A result has no checksum if
        f or g is a function of your own. Without a checkpoint, it also has none if the run
        converged within a fifth of a second, or if the data are so large that a checksum takes
        long.
    method : {"cgs", "cg", "away", "pairwise", "spg", "pqn", "newton", "auto"}
        - "cgs": linearises f and keeps g (the paper's Algorithm 1).
        - "cg": linearises both (Frank-Wolfe). g needs a gradient.
        - "away", "pairwise": Frank-Wolfe with an active set of vertices, for g = `Zero` on
          polytopes.
        - "spg", "pqn": spectral projected gradient and projected quasi-Newton. They need a g with a
          finite gradient, on a set with a projection. "spg" also takes `ElasticNetPenalty`. With
          step="exact" they use a step rule of their own. With step="armijo" F never rises.
        - "newton": Newton's method, for the pairs of f and g listed below.
        - "auto": the first method of the numbered list below that fits f and g. If it can make no
          further step, the next method of the list continues from its best point. `method` of the
          result says which methods ran.

        "newton" solves these pairs of f and g. A *loss* is here a positive multiple of
        `LeastSquares`, `Logistic`, `SquaredHinge`, `Poisson`, `Gamma` or `Huber`, alone or plus
        `Linear`.

        - A loss with `ElasticNetPenalty`.
        - A loss with `Ridge` or `Zero` on `L1Ball`, `GroupBall`, `Simplex`, `SolidSimplex` or
          `Box`.
        - A loss with `Zero` on a `Polytope`, if some point satisfies all inequalities strictly.
        - `Multinomial` with `ElasticNetPenalty`, or with `Ridge` or `Zero` on `L1Ball` or
          `GroupBall`.
        - `Linear` with `Entropy` on `Transport`, alone or plus one `TransportLaplacian` or one
          `TransportGroupLasso`.
        - `Linear` with `Entropy` on `SharedMarginal`.

        "auto" tries these methods in this order:

        1. "newton", if it is likely the fastest. For a plan, it is likely slower if the entropy is
           large and the Laplacian, if there is one, is weak. (In many dimensions, stronger
           Laplacians count as weak too.) On a `Box` or `Simplex`, it is likely slower if there are
           more than 500 coordinates and more coordinates than samples. On a `GroupBall`, "spg" goes
           first: for a hundred steps, or with `Multinomial` until it can make no further step.
        2. "spg", and then "newton" if it was not first.
        3. "pairwise" with lazy=True, if g is `Zero` and f is a function of your own.
        4. "cgs", with a memory of 5, or of up to 50 if g is `Zero`.

        Newton's method for a loss or `Multinomial` needs compiled code, except on a `Polytope`.
        This code is compiled once on a machine, in about half a minute, and stored on disk. "newton"
        waits for it. "auto" does not wait: "spg" runs while another process compiles. The
        environment variable `CONDGRAD_KERNELS` can change this. With "wait", "auto" waits too. With
        "off", "newton" is an error for these problems, and "auto" uses other methods. The default
        is "background".

        If f is not convex, you can choose "cgs", "cg", "away", "pairwise", "spg" or "auto". "spg"
        is then monotone. "auto" tries "spg" first, if g and the set allow it. If g is `Zero`, it
        then runs "cgs" until the point is nearly stationary, and "pairwise" from there. "cgs"
        comes last.
    step : {"exact", "armijo", "open-loop", "log-open-loop", "short", "adaptive"} or a step rule
        How far to go in each iteration; see `condgrad.steps`.
    tol : float
        Stop when the certified gap, `value - lower_bound`, is at most `tol * scale`. The scale is
        the larger of two numbers: |f| + |g| at the answer, and a hundredth of |f| + |g| at the
        point of the set nearest to the origin. So multiplying f and g by a constant changes
        nothing. The docstring of the module `condgrad.certificate` gives the reasons. If f is not
        convex, the stationarity gap takes the place of the certified gap.
    max_iter, time_limit : int, float
        Limits on iterations and seconds.
    memory : int
        Each step of "cgs" or "cg" may combine the new oracle point with this many earlier ones.
        This needs exact steps. With `memory=0`, "auto" chooses this number.
    lazy : bool
        For "away" and "pairwise": call the oracle only when the known vertices do not promise
        enough progress.
    stop : stop rule, optional
        A rule to use instead of `tol`, such as `condgrad.stopping.FixedPoint(1e-5)`.
    callback : callable, optional
        Called with a `Progress` after each iteration; a true return value stops the run. NumPy's
        settings decide what happens if a number overflows in the callback, or in an f or g of your
        own. Overflows in the parts of this package are not reported.
    progress : bool
        Show a live line on the terminal.
    checkpoint : path, optional
        The best certified result is written to this file every `checkpoint_every` seconds and at
        the end. It is never left half written. If the file exists already, the run continues from
        it. A file of another problem is an error.
    checkpoint_every : float
        Seconds between two checkpoints. If the process is killed, only the work since the last
        checkpoint is lost.

    Returns
    -------
    Result
        For every status, it has `lower_bound <= F* <= certificate.upper_bound`. F* is the minimum
        of f + g over the set, and `upper_bound` is `value` plus its possible rounding error. If f
        is not convex, the lower bound is -inf.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> f = cg.smooth.LeastSquares([[2.0, 0.0], [0.0, 1.0]], [2.0, 2.0])
    >>> r = cg.minimize(f, cg.simple.Ridge(0.5, on=cg.sets.L1Ball(1.0)))
    >>> r.status.name, np.round(r.x, 3)
    ('CONVERGED', array([0.571, 0.429]))
    """
    if not isinstance(f, Smooth):
        raise TypeError(_not_smooth(f))
    if isinstance(g, Set):
        raise TypeError(
            f"g must be a simple part: for {g!r} alone write condgrad.simple.Zero(on=...)"
        )
    if not isinstance(g, Simple):
        raise TypeError(f"g must be a simple part (condgrad.simple), got {type(g).__name__}")
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}, got {method!r}")
    rule = step_rule(step)
    if _checks.whole("memory", memory, at_least=0) and not isinstance(rule, Exact):
        raise ValueError(
            f"with memory={memory} a step minimises over earlier points too: this needs step='exact', got {step!r}"
        )
    if not f.convex:
        _check_descent(f, rule, memory)
    _checks.whole("max_iter", max_iter, at_least=0)
    lazy = _checks.flag("lazy", lazy)
    if lazy and method not in LAZY:
        raise ValueError(
            f"lazy=True works only with method='away' or 'pairwise', got method={method!r}"
        )
    progress = _checks.flag("progress", progress)
    if time_limit is not None:
        _checks.number("time_limit", time_limit, at_least=0.0)
    if stop is not None and (isinstance(stop, type) or not hasattr(stop, "measure")):
        raise TypeError(f"stop must be a stop rule such as stopping.FixedPoint(1e-5), got {stop!r}")
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be callable, got {callback!r}")
    limit = deadline.within(time_limit)
    overflows = overflow.silent_in_our_code()
    with _progress_line(progress) as show, limit, kernels.with_signals_as_raised(), overflows:
        if show is not None:
            callback = _both(show, callback)
        earlier, written_to, point = _earlier(f, g, x0, start, checkpoint, checkpoint_every)
        first = start_point(f, g.on, point)
        null = null_size(f, g, first) if earlier is None else earlier.certificate.null_size
        options = RunOptions(rule, memory, lazy, WantedGap.of(stop, tol, null))
        if earlier is not None:
            past = tuple(resuming.in_space(s, Space.of(first)) for s in earlier.past)
            options = replace(options, first=earlier.iterations, past=past)
        result = run(
            METHODS[method](f, g, options),
            first,
            null_size=null,
            stop=_stop_rule(f, tol, stop),
            max_iter=max_iter,
            callback=callback,
            problem=(f, g),
            earlier=earlier,
            checkpoint=written_to,
        )
    if written_to is not None:
        result = replace(result, digest=written_to.digest)
        result.save(written_to.path)
        return result
    if earlier is not None:
        return replace(result, digest=earlier.digest)
    if (result.success and result.seconds < WORTH_RESUMING) or not is_formed(result.x):
        return result  # a digest would be of no use
    return replace(result, digest=resuming.cheap_digest(f, g, result.seconds))


def minimize_next(
    problem: LossOnSet,
    x: Array,
    *,
    warm: ball.Warm,
    null_size: float,
    tol: float,
    max_iter: int,
    time_limit: float | None,
) -> Result:
    """`minimize` with "auto" for the next problem of a path, from a point of its set.

    `warm` holds what the last run computed at that point. `null_size` is |f| + |g| at the null
    point.
    """
    overflows = np.errstate(over="ignore")  # nothing here is the user's own code
    with deadline.within(time_limit), kernels.with_signals_as_raised(), overflows:
        wanted_gap = WantedGap(tol, null_size)
        options = RunOptions(wanted_gap=wanted_gap, problem=problem, warm=warm)
        method = METHODS["auto"](problem.f, problem.g, options)
        return run(
            method, x, null_size=null_size, stop=RelativeGap(tol), max_iter=max_iter
        ).uninterrupted()


def _not_smooth(f: Any) -> str:
    """What to say of an f that is no smooth part."""
    advice = ": give condgrad.smooth.Function its value and gradient" if callable(f) else ""
    return f"f must be a smooth part (condgrad.smooth), got {type(f).__name__}{advice}"


def _stop_rule(f: Smooth, tol: float, stop: StopRule | None) -> StopRule:
    """What ends the run: `tol` or a relative gap is one of stationarity where f is not convex."""
    if stop is None:
        stop = RelativeGap(tol)
    if not f.convex and type(stop) is RelativeGap:
        return RelativeStationarity(stop.tolerance)
    return stop


def _check_descent(f: Smooth, rule: StepRule, memory: int) -> None:
    """Refuse options that need a convex f: steps under which F may rise, and a memory."""
    if memory:
        raise ValueError(
            f"with memory={memory} a step minimises over earlier points too: for {f!r}, which is not convex, take memory=0"
        )
    if isinstance(rule, OpenLoop):
        raise ValueError(
            f"step={rule!r} does not look at F, so F may rise: for {f!r}, which is not convex, take 'exact', "
            "'armijo' or 'short'"
        )


def _earlier(
    f: Smooth, g: Simple, x0: Any, start: Any, checkpoint: Any, every: float
) -> tuple[Result | None, resuming.Checkpoint | None, Any]:
    """The result of this problem to go on from, the checkpoint to keep, and the point to start
    from.
    """
    written_to = None
    space = f.space or g.on.space
    if checkpoint is not None:
        if not g.on.forms_points:
            raise TypeError(NO_STREAMED_PLANS)
        every = _checks.number("checkpoint_every", every, at_least=0.0)
        written_to = resuming.Checkpoint(checkpoint, every, resuming.digest(f, g))
        found = written_to.earlier()
        if found is not None:
            found = resuming.result_in_space(found, space)
            return found, written_to, found.x
    if start is None:
        return None, written_to, x0
    start = getattr(start, "result", start)  # a TransportResult has one
    if not isinstance(start, Result):
        raise TypeError(
            f"start must be a result of condgrad.minimize or condgrad.load, got {type(start).__name__}"
        )
    if x0 is not None:
        raise ValueError("x0 and start both say where to start: give one of them")
    if not is_formed(start.x) or not g.on.forms_points:
        raise TypeError(NO_STREAMED_PLANS)
    start = resuming.result_in_space(start, space)
    same = start.digest is not None and start.digest == (
        written_to.digest if written_to else resuming.digest(f, g)
    )
    return start if same else None, written_to, start.x


def start_point(f: Smooth, on: Set, x0: Any) -> Array:
    """x0 in the precision of f's data and checked to lie in the set, or the set's own start."""
    space = f.space or on.space
    if on.shape is not None and space is not None and space.shape != on.shape:
        raise ValueError(
            f"f has a variable of shape {space.shape}, but {on!r} has points of shape {on.shape}"
        )
    if not is_formed(x0):  # made by the library, for this set
        return x0
    if x0 is None:
        if space is None and on.shape is None:
            raise ValueError(
                f"x0 is needed: neither {f!r} nor {on!r} knows the shape of the variable"
            )
        if space is None:
            space = Space.of(floating("x0", 0.0), shape=on.shape)
        return on.start(space)
    x = copied(floating("x0", x0))
    if 0 in x.shape:
        raise ValueError(f"x0 must not be empty, got shape {tuple(x.shape)}")
    if space is not None:
        try:
            x = space.hold(x)
        except (TypeError, ValueError) as error:
            raise type(error)(f"x0 does not fit the problem: {error}") from None
    elif on.shape is not None and tuple(x.shape) != on.shape:
        raise ValueError(f"x0 must have the shape {on.shape} of {on!r}, got {tuple(x.shape)}")
    if not on.contains(x, membership_tolerance(x)):
        raise ValueError(f"x0 must lie in {on!r}; it is outside by {on.violation(x):.3g}")
    return x


def null_size(f: Smooth, g: Simple, start: Array) -> float:
    """|f| + |g| at the set's null point, or 0 if the start of the run is to be used instead.

    The start is used if it is the null point, if the set does not know its null point, or if f or g
    is not finite there.
    """
    try:
        null = g.on.null_point(Space.of(start))
    except MissingAbility:
        return 0.0
    if is_formed(null) and bool((null == start).all()):
        return 0.0
    try:
        size = Terms(f.at(null).value, g.value(null)).size
    except (ArithmeticError, ValueError):  # an f of the user's own that is not made for this point
        return 0.0
    return size if math.isfinite(size) else 0.0


def _progress_line(wanted: bool) -> AbstractContextManager[Callback | None]:
    """The live line on the terminal, or nothing."""
    if not wanted:
        return nullcontext()
    from condgrad.progress import ProgressLine

    return ProgressLine()


def _both(show: Callback, callback: Callback | None) -> Callback:
    def called(now: Progress) -> Any:
        show(now)
        return callback is not None and callback(now)

    return called

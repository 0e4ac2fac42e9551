"""The public call."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from condgrad import _checks, ball, deadline, kernels, overflow, resuming
from condgrad.arrays import Array, Space, copied, is_formed
from condgrad.arrays.inputs import floating
from condgrad.certificate import Terms
from condgrad.errors import MissingAbility
from condgrad.kernels import readiness
from condgrad.loop import Callback, Method, Progress, run
from condgrad.methods import CG, CGS, PQN, SPG, ActiveSetCG
from condgrad.methods.cgs_on_moments import CGSOnMoments, WholeStepCGS
from condgrad.methods.in_turn import HeadStart, InTurn, UntilCompiled, UntilNear
from condgrad.methods.interior import InteriorNewton
from condgrad.newton.ascent import Newton
from condgrad.newton.engines import dual_model
from condgrad.problem import Set, Simple, Smooth
from condgrad.result import Result
from condgrad.rounding import membership_tolerance
from condgrad.search.steps import Armijo, Exact, OpenLoop, StepRule, step_rule
from condgrad.sets.balls import Ball
from condgrad.sets.constraints import Polytope
from condgrad.sets.group_ball import GroupBall
from condgrad.simple import Zero
from condgrad.simple.oracle import Unknown
from condgrad.stopping import RelativeGap, RelativeStationarity, StopRule

WORTH_RESUMING = 0.2
"""Seconds of a finished run below which nobody needs its bound to go on: a digest would take a part
of them.
"""
NEAR = 1e-3
"""Gap, as a share of the size of F, at which "auto" leaves plain conditional gradients for pairwise
steps where f is not convex: earlier they end in worse points, later they are slow to leave the
mixture that they start from.
"""
HEAD_START = 100
"""Projected gradients that go first on a ball of groups. Of 240 problems of 3 to 200 groups these
solved every other one, most of them in a few milliseconds; on most others, whose data are
correlated or whose ball is large, Newton's method is up to a thousand times as fast as they are.
With 30 or 300 of them, 250 problems took a tenth longer.
"""
AUTO_MEMORY = 5
"""Past oracle points that CGS uses where nobody asked for a number."""
VERTEX_MEMORY = 50
"""The same where oracle points are vertices, of which a solution is a mixture: a portfolio of 500
assets takes 53 oracle calls with 40 of them, and more than 1400 with 5.
"""
MOST_REMEMBERED = 1 << 22
"""Entries that so many vertices may have together; there are fewer where they would have more, but
no less than 5.
"""


class MethodFactory(Protocol):
    def __call__(self, f: Smooth, g: Simple, step: StepRule, memory: int) -> Method: ...


def _require_convex(f: Smooth, method: str) -> None:
    if not f.convex:
        raise MissingAbility(
            f"method={method!r} needs a convex f, and {f!r} says that it is not: take 'cgs', 'cg', 'away', 'pairwise', "
            "'spg' or 'auto'"
        )


def newton(f: Smooth, g: Simple, step: StepRule, memory: int) -> Method:
    """Newton chooses its own steps."""
    _require_convex(f, "newton")
    if memory or step != Exact():
        raise ValueError("method='newton' chooses its own steps: leave step='exact' and memory=0")
    model = dual_model(f, g)
    if model is not None:
        return Newton(f, g, model)
    if isinstance(g.on, Polytope):
        return InteriorNewton.of(f, g)
    try:
        return ball.FaceNewton.of(f, g)
    except MissingAbility as missing:
        raise MissingAbility(
            "method='newton' knows h(Kx) and linear terms with ElasticNet, or Ridge or Zero on sets with faces, and "
            "linear costs with TransportLaplacian or GroupLasso under Entropy on Transport, "
            f"not f = {f!r} and g = {g!r}: {missing}; method='cgs' works for every pair"
        ) from None


def auto(f: Smooth, g: Simple, step: StepRule, memory: int) -> Method:
    """Newton where it is at hand and affordable, else SPG where g has a gradient and the set
    projects, else CGS.

    Where one of them has no step left, the next goes on from its best point.
    """
    if memory or step != Exact():
        return cgs(f, g, step, memory)
    methods = _most_promising_first(f, g, step)
    return InTurn(next(methods), methods)


def _most_promising_first(
    f: Smooth, g: Simple, step: StepRule, warm: ball.Warm | None = None
) -> Iterator[Method]:
    """The methods of "auto", each made when it is asked for; `warm` is what an earlier run left."""
    if not f.convex:
        with suppress(MissingAbility):
            yield SPG(f, g, window=1)
        if isinstance(g, Zero) and not isinstance(step, OpenLoop):
            yield UntilNear(cgs(f, g, step, 0), NEAR)
            yield ActiveSetCG(f, g, step, pairwise=True)
        yield cgs(f, g, step, 0)
        return
    model = dual_model(f, g)
    if model is not None and model.affordable:
        yield Newton(f, g, model)
    with suppress(MissingAbility):
        yield InteriorNewton.of(f, g)
    faces = None
    with suppress(MissingAbility):
        faces = ball.FaceNewton.of(f, g, warm)
    if faces is not None and faces.affordable:
        if not readiness.available():
            with suppress(MissingAbility):
                yield UntilCompiled(SPG(f, g))
        has_groups = isinstance(g.on, GroupBall)
        yield HeadStart(SPG(f, g), HEAD_START, faces) if has_groups else faces
    with suppress(MissingAbility):
        yield SPG(f, g)
    if faces is not None and not faces.affordable:
        yield faces
    if (
        isinstance(g, Zero) and not f.mixes
    ):  # a search over many vertices would ask f at every point
        yield ActiveSetCG(f, g, step, pairwise=True, lazy=True)
    yield cgs(f, g, step, _auto_memory(f, g))


def _auto_memory(f: Smooth, g: Simple) -> int:
    """How many oracle points CGS remembers by itself; none on plans that are never formed."""
    if not g.on.forms_points:
        return 0
    space = f.space or g.on.space
    shape = space.shape if space is not None else g.on.shape
    if not isinstance(g, Zero) or shape is None:
        return AUTO_MEMORY
    return max(AUTO_MEMORY, min(VERTEX_MEMORY, MOST_REMEMBERED // max(1, math.prod(shape))))


def spg(f: Smooth, g: Simple, step: StepRule, memory: int) -> Method:
    """Non-monotone by default, monotone with Armijo's rule and where f is not convex."""
    if memory or not (step == Exact() or isinstance(step, Armijo)):
        raise ValueError(
            "method='spg' searches along projected gradients: step must be 'exact' (non-monotone), 'armijo' (monotone) "
            f"or a steps.Armijo, and memory 0, got {step!r} and memory={memory}"
        )
    if isinstance(step, Armijo):
        return SPG(f, g, window=1, armijo=step)
    return SPG(f, g) if f.convex else SPG(f, g, window=1)


def pqn(f: Smooth, g: Simple, step: StepRule, memory: int) -> Method:
    """Monotone always, with the parameters of Armijo's rule if it is given."""
    _require_convex(f, "pqn")
    if memory or not (step == Exact() or isinstance(step, Armijo)):
        raise ValueError(
            "method='pqn' tries the whole step and backtracks: step must be 'exact', 'armijo' or a steps.Armijo, "
            f"and memory 0, got {step!r} and memory={memory}"
        )
    return PQN(f, g, armijo=step) if isinstance(step, Armijo) else PQN(f, g)


def away(f: Smooth, g: Simple, step: StepRule, memory: int) -> Method:
    """Steps to the oracle's vertex or away from the worst known one."""
    return _active_set(f, g, step, memory, pairwise=False)


def pairwise(f: Smooth, g: Simple, step: StepRule, memory: int) -> Method:
    """Steps that move weight from the worst known vertex to the oracle's."""
    return _active_set(f, g, step, memory, pairwise=True)


def _active_set(f: Smooth, g: Simple, step: StepRule, memory: int, *, pairwise: bool) -> Method:
    method = ActiveSetCG(f, g, step, pairwise)
    if memory:
        raise ValueError(
            f"method={method.name!r} remembers its vertices anyway: leave memory=0, got {memory}"
        )
    return method


def cgs(f: Smooth, g: Simple, step: StepRule, memory: int) -> Method:
    """The paper's Algorithm 1; on plans that are never formed, on their moments."""
    if g.on.forms_points:
        return CGS(f, g, step, memory)
    return CGSOnMoments(f, g, step, memory) if f.convex else WholeStepCGS(f, g, step, memory)


METHODS: dict[str, MethodFactory] = {
    "cgs": cgs,
    "cg": CG,
    "away": away,
    "pairwise": pairwise,
    "spg": spg,
    "pqn": pqn,
    "newton": newton,
    "auto": auto,
}


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

    Where f is not convex (`f.convex` is False) the answer is a nearly stationary point instead.
    `stationarity` proves how far it is from an exactly stationary one. F never rises during the
    run.

    Parameters
    ----------
    f : Smooth
        The smooth part, from `condgrad.smooth`; sums and positive multiples of these too.
    g : Simple
        The simple part, from `condgrad.simple`, which carries its set.
    x0 : array, optional
        Where to start, inside the set; by default the set chooses.
    start : Result, optional
        An earlier result to go on from, instead of x0. If it belongs to the same problem, its
        bound, memory and trace are used as well. The problem is the same if a digest (a checksum)
        of f, g, the set and their data agrees. Otherwise only its point is used, since a bound of
        another problem proves nothing. Functions of your own have no digest. Without a checkpoint,
        two more kinds of runs have none: those that converged within a fifth of a second, and those
        whose data are so large that a digest would take long compared with the run.
    method : {"cgs", "cg", "away", "pairwise", "spg", "pqn", "newton", "auto"}
        "cgs" linearises f and keeps g (the paper's Algorithm 1); "cg" linearises both
        (Frank-Wolfe); "away" and "pairwise" are Frank-Wolfe with an active set of vertices, for g =
        `Zero` on polytopes; "spg" is the spectral projected gradient and "pqn" is projected
        quasi-Newton. Both need a g with a finite gradient, on a set with a projection; "spg" also
        takes `ElasticNet`. With step "exact" they use their own step rule, with "armijo" the
        monotone one.

        "newton" is Newton's method on the certificate: for h(Kx) (a multiple of `LeastSquares`,
        `Logistic`, `SquaredHinge`, `Poisson`, `Gamma` or `Huber`, plus `Linear`) with `ElasticNet`,
        or with `Ridge` or `Zero` on `L1Ball`, `GroupBall`, `Simplex`, `SolidSimplex` or `Box`; for
        `Multinomial` with `ElasticNet`, or with `Ridge` or `Zero` on `L1Ball` or `GroupBall`; for
        linear costs with `Entropy` on `Transport`, alone or with one `TransportLaplacian` or one
        `GroupLasso`; for linear costs alone with `Entropy` on `SharedMarginal`; and for h(Kx) with
        `Zero` on a `Polytope` that has an inside. For h(Kx) on the other sets it needs compiled
        code. The code is compiled once on a machine, in half a minute or so, and kept on disk; the
        first call waits for it.

        "auto" takes the first of these that fits. "newton", where it is available and likely to be
        the fastest; it is likely slower where f is weak compared with an entropy that is not small,
        on a `Box` or `Simplex` with more coordinates than samples, and in hundreds of dimensions; a
        hundred steps of "spg" go first on a `GroupBall`. Then "spg". Then, for `Zero`, lazy
        "pairwise" where f can only be evaluated point by point. Then "cgs", with a memory of 5, or
        of up to 50 for `Zero`. When a method can make no further step, the next one goes on from
        its best point; `method` of the result says what ran. "auto" does not wait for the compiler:
        "spg" runs while another process compiles the code that "newton" needs, once on a machine
        (the environment variable `CONDGRAD_KERNELS` may be "background", the default, "wait" or
        "off").

        For an f that is not convex, the methods are "cgs", "cg", "away", "pairwise", "spg" (which
        is then monotone) and "auto". There "auto" takes "spg" if possible, else "cgs"; for g =
        `Zero` it changes from "cgs" to "pairwise" near a stationary point.
    step : {"exact", "armijo", "open-loop", "log-open-loop", "short", "adaptive"} or a step rule
        How far to go; see `condgrad.search.steps`.
    tol : float
        Stop when the certified gap is at most `tol * scale`. The scale is the larger of two
        numbers: |f| + |g| at the answer, and a hundredth of |f| + |g| at the point of the set
        nearest to the origin. So multiplying f and g by a constant changes nothing. See
        `condgrad.certificate`. Where f is not convex, the stationarity gap of the answer must be at
        most `tol * scale`.
    max_iter, time_limit : int, float
        Limits on iterations and seconds.
    memory : int
        How many past oracle points each step may use in addition; needs exact steps. With method
        "auto", 0 means that the method chooses.
    lazy : bool
        For "away" and "pairwise": call the oracle only when the known vertices do not promise
        enough progress.
    stop : stop rule, optional
        Instead of `tol`, such as `condgrad.stopping.FixedPoint(1e-5)`.
    callback : callable, optional
        Called with a `Progress` after each iteration; a true return value stops the run. Overflows
        in the callback, or in an f or g of your own, are reported according to NumPy's settings.
        Overflows in the parts of this package are not reported.
    progress : bool
        Show a live line on the terminal.
    checkpoint : path, optional
        A file to which the best certified result is written every `checkpoint_every` seconds and at
        the end; it is never left half written. If the file exists already, the run goes on from it.
        A file of another problem is an error.
    checkpoint_every : float
        Seconds between two checkpoints, and the most that is lost when the process is killed.

    Returns
    -------
    Result
        With `lower_bound <= F* <= value`, whatever its status; the bound is -inf where f is not
        convex.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> f = cg.smooth.LeastSquares([[2.0, 0.0], [0.0, 1.0]], [2.0, 2.0])
    >>> r = cg.minimize(f, cg.simple.Ridge(0.5, on=cg.sets.L1Ball(1.0)))
    >>> r.status.name, np.round(r.x, 3)
    ('CONVERGED', array([0.571, 0.429]))
    """
    if not isinstance(f, Smooth):
        raise TypeError(f"f must be a smooth part (condgrad.smooth), got {type(f).__name__}")
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
            f"memory={memory} minimises over past points and goes with step='exact', got {step!r}"
        )
    if not f.convex:
        _check_descent(f, rule, memory)
    _checks.whole("max_iter", max_iter, at_least=0)
    lazy = _checks.flag("lazy", lazy)
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
        earlier, kept, point = _earlier(f, g, x0, start, checkpoint, checkpoint_every)
        first = start_point(f, g.on, point)
        chosen = METHODS[method](f, g, rule, memory)
        if lazy:
            if not isinstance(chosen, ActiveSetCG):
                raise ValueError(
                    f"lazy=True goes with method='away' or 'pairwise', got method={method!r}"
                )
            chosen = replace(chosen, lazy=True)
        if earlier is not None and isinstance(chosen, CGS):
            past = deque(resuming.in_space(s, Space.of(first)) for s in earlier.past)
            chosen = replace(chosen, first=earlier.iterations, past=past)
        null = null_size(f, g, first) if earlier is None else earlier.certificate.null_size
        if stop is None:
            chosen = _ending_at(chosen, tol, null)
        elif isinstance(chosen, Newton) and stop.name == "gap":
            chosen = replace(chosen, wanted_absolutely=stop.tolerance)
        result = run(
            chosen,
            first,
            null_size=null,
            stop=_stop_rule(f, tol, stop),
            max_iter=max_iter,
            callback=callback,
            problem=(f, g),
            earlier=earlier,
            checkpoint=kept,
        )
    if kept is not None:
        result = replace(result, digest=kept.digest)
        result.save(kept.path)
        return result
    if earlier is not None:
        return replace(result, digest=earlier.digest)
    if (result.success and result.seconds < WORTH_RESUMING) or not is_formed(result.x):
        return result  # nobody will go on from it, or nobody can
    return replace(result, digest=resuming.cheap_digest(f, g, result.seconds))


def minimize_next(
    f: Smooth,
    g: Simple,
    x: Array,
    *,
    warm: ball.Warm,
    null_size: float,
    tol: float,
    max_iter: int,
    time_limit: float | None,
) -> Result:
    """`minimize` by "auto" where runs of one f follow each other, from a point of the set.

    What the last run knows of that point goes on; `null_size` is that of f and g together.
    """
    overflows = overflow.silent_in_our_code()
    with deadline.within(time_limit), kernels.with_signals_as_raised(), overflows:
        methods = _most_promising_first(f, g, Exact(), warm)
        method = _ending_at(InTurn(next(methods), methods), tol, null_size)
        return run(
            method, x, null_size=null_size, stop=RelativeGap(tol), max_iter=max_iter
        ).uninterrupted()


def _stop_rule(f: Smooth, tol: float, stop: StopRule | None) -> StopRule:
    """What ends the run: `tol` or a relative gap is one of stationarity where f is not convex."""
    if stop is None:
        stop = RelativeGap(tol)
    if not f.convex and type(stop) is RelativeGap:
        return RelativeStationarity(stop.tolerance)
    return stop


def _check_descent(f: Smooth, rule: StepRule, memory: int) -> None:
    """Refuse what would let an f that is not convex rise, or what looks for its minimum over a
    hull.
    """
    if memory:
        raise ValueError(
            f"memory={memory} looks for the minimum over a hull and needs a convex f: leave 0 for {f!r}"
        )
    if isinstance(rule, OpenLoop):
        raise ValueError(
            f"step={rule!r} does not look at F and may let it rise: for {f!r}, which is not convex, take 'exact', "
            "'armijo' or 'short'"
        )


def _ending_at(method: Method, tol: float, null: float) -> Method:
    """The same method, which knows the gap that ends the run if it can use that."""
    if isinstance(method, InTurn):
        others = (_ending_at(each, tol, null) for each in method.others)
        return InTurn(_ending_at(method.first, tol, null), others)
    if isinstance(method, HeadStart):
        return replace(method, other=_ending_at(method.other, tol, null))
    if isinstance(method, ball.FaceNewton):
        return replace(method, wanted=tol, null_size=null)
    return replace(method, wanted=tol) if isinstance(method, Newton) else method


def _earlier(
    f: Smooth, g: Simple, x0: Any, start: Any, checkpoint: Any, every: float
) -> tuple[Result | None, resuming.Checkpoint | None, Any]:
    """The result of this problem to go on from, the checkpoint to keep, and the point to start
    from.
    """
    kept = None
    space = f.space or g.on.space
    if checkpoint is not None:
        if not g.on.forms_points:
            raise TypeError(resuming.NO_STREAMED_PLANS)
        every = _checks.number("checkpoint_every", every, at_least=0.0)
        kept = resuming.Checkpoint(checkpoint, every, resuming.digest(f, g))
        found = kept.earlier()
        if found is not None:
            found = resuming.result_in_space(found, space)
            return found, kept, found.x
    if start is None:
        return None, kept, x0
    start = getattr(start, "result", start)  # a TransportResult has one
    if not isinstance(start, Result):
        raise TypeError(
            f"start must be a result of condgrad.minimize or condgrad.load, got {type(start).__name__}"
        )
    if x0 is not None:
        raise ValueError("x0 and start both say where to start: give one of them")
    if not is_formed(start.x) or not g.on.forms_points:
        raise TypeError(resuming.NO_STREAMED_PLANS)
    start = resuming.result_in_space(start, space)
    same = start.digest is not None and start.digest == (
        kept.digest if kept else resuming.digest(f, g)
    )
    return start if same else None, kept, start.x


def start_point(f: Smooth, on: Set, x0: Any) -> Array:
    """x0 in the precision of f's data and checked to lie in the set, or the set's own start."""
    space = f.space or on.space
    if on.shape is not None and space is not None and space.shape != on.shape:
        raise ValueError(
            f"f has a variable of shape {space.shape} where {on!r} has points of shape {on.shape}"
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
    """|f| + |g| at the set's null point; 0, which stands for that at the start, where the null
    point is the start.

    A set or an f that does not know its null point, or is not finite there, leaves the start too.
    """
    if isinstance(g.on, Unknown):
        return 0.0
    if isinstance(g.on, Ball) and not bool(
        start.any()
    ):  # its null point, which need not be made to see that
        return 0.0
    null = g.on.null_point(Space.of(start))
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

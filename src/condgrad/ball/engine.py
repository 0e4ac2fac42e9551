"""Newton's method for F(x) = f(x) + ridge |x|^2 on the l1 ball, the simplex, solid or not, and the
box.

A penalty l1 |x|_1 in place of a ball (`ElasticNet`) is one set more: all x, with the multiplier
known.

One turn, whatever the data:

1. The full problem: F at x, its gradient and the lower bound that this proves.
2. A working set: the coordinates that are not 0 and, of the rest, those with the largest pulls.
3. The problem in these coordinates (a part): a quadratic model of F there, its least point over the
   set by a compiled quadratic program, and a line search towards it.

| f                                        | part                | steps in a part             |
|------------------------------------------|---------------------|-----------------------------|
| h(Kx) and linear terms, K at hand        | `columns.Columns`   | until it has little to gain |
| several classes; K in blocks of Dask     | `entries.Entries`   | one                         |

Two roads lead to points where turns would take long, for h(Kx) alone (`Roads`): the dual in as many
variables as there are samples, where more coordinates than samples matter (`sample_dual`), and
models of all coordinates inside the ball, where its constraint is slack (`inside`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

from condgrad import deadline
from condgrad.arrays import Array, host, is_dense, is_torch, steepest_indices
from condgrad.ball.columns import Columns, pulls_at
from condgrad.ball.entries import Entries
from condgrad.ball.inside import InsideRoad
from condgrad.ball.models import SetWithFaces, SparseSet, in_entries
from condgrad.ball.options import OPTIONS
from condgrad.ball.sample_dual import least_by_dual
from condgrad.certificate import NULL_SHARE, Iterate
from condgrad.errors import MissingAbility
from condgrad.kernels import readiness
from condgrad.methods.certified_point import Certifier, ObjectivePoint, Tally
from condgrad.problem import Simple, Smooth
from condgrad.sets import GroupBall, L1Ball
from condgrad.sets.penalised import Penalised
from condgrad.simple import ElasticNet, Ridge, Zero
from condgrad.smooth import LeastSquares, Multinomial, SquaredHinge
from condgrad.smooth.composite import Composite
from condgrad.smooth.folding import Folded
from condgrad.smooth.offset import WithOffset
from condgrad.structure import LossOnSet


class WorkingSet(Protocol):
    """The problem in some coordinates, and its best point so far."""

    chosen: Array | None
    """Which coordinates; None for all of them."""
    multiplier: float | None
    is_slack: bool
    steps: int

    @property
    def size(self) -> int: ...

    @property
    def has_moved(self) -> bool: ...

    @property
    def has_fallen(self) -> bool: ...

    def begin(self, point: ObjectivePoint) -> None: ...

    def solve(self, enough: float) -> None: ...

    def point(self) -> ObjectivePoint: ...

    def uncertified(self, iterate: Iterate) -> Iterate: ...


@dataclass
class Gaps:
    """How the gap of the full problem goes from turn to turn."""

    last: float = math.inf
    before: float = math.inf
    idle_turns: int = 0
    """Turns in a row whose working set brought neither a lower F nor half of the gap."""

    def note(self, iterate: Iterate, part: WorkingSet | None) -> None:
        """One turn more, which a working set has brought, or a road, or the start of the run."""
        self.before = self.last
        self.last = iterate.value - iterate.lower_bound
        if part is not None and self.before < math.inf:
            is_idle = not part.has_fallen and not self.last <= 0.5 * self.before
            self.idle_turns = self.idle_turns + 1 if is_idle else 0

    @property
    def is_slow(self) -> bool:
        """Whether the last turn left most of the gap."""
        return self.last > OPTIONS.slow * self.before


@dataclass
class Roads:
    """Two other ways to a lower point, and when each is due, rather than a part of some size.

    One that leads to no lower point is not gone again. Both know of an intercept, and of no other
    columns without a penalty.
    """

    loss: Folded
    g: Simple
    start: ObjectivePoint
    is_plain_ridge: bool
    """Whether nothing but a ridge keeps x small."""
    inside: InsideRoad | None = None
    """Where that was begun."""
    is_inside_open: bool = True
    is_dual_open: bool = True

    def lower(
        self, point: ObjectivePoint, part: WorkingSet | None, size: int, enough: float
    ) -> ObjectivePoint | None:
        """A lower point that a road leads to."""
        if self.is_inside_open and self._is_inside_due(point, part, size):
            self.inside = self.inside or InsideRoad(self.loss, self.start)
            there = self.inside.leads_to(point, enough)
            if there is not None and there.value < point.value:
                return there
            self.is_inside_open = False
        if self.is_dual_open and self._is_dual_due(point, part, size):
            self.is_dual_open = False
            there = least_by_dual(self.loss, point) if self.has_dual else None
            if there is not None and there.value < point.value:
                return there
        return None

    @cached_property
    def has_dual(self) -> bool:
        """Whether there is a dual with fewer variables than coordinates, of data on the host."""
        composite = self.loss.composite
        g = self.g
        most: dict[type[Composite], int] = {
            LeastSquares: OPTIONS.dual_samples,
            SquaredHinge: OPTIONS.dual_samples_of_hinge,
        }
        m, n = composite.K.shape
        if m > min(n, most.get(type(composite), 0)) or isinstance(composite.h, WithOffset):
            return False
        if not isinstance(g, Ridge | ElasticNet) or not isinstance(g.on, SparseSet):
            return False
        if isinstance(g.on, GroupBall) and not is_dense(composite.K):
            return False
        return self.loss.tilt is None and g.weight / self.loss.weight > 0.0

    def _is_inside_due(self, point: ObjectivePoint, part: WorkingSet | None, size: int) -> bool:
        """Where the ball would hold the least point of all n coordinates too.

        A least point in k of many coordinates has a norm of about sqrt(k) times its length, which
        falls as k grows. A part of all coordinates is faster where these are no more than the
        samples, and the dual is wherever there is one of dense data.
        """
        if self.inside is not None:
            return True
        on: Any = self.g.on
        K = self.loss.composite.K
        n = point.x.shape[0]
        if n <= K.shape[0] or (is_dense(K) and self.has_dual):
            return False
        if self.is_plain_ridge:
            return True
        if part is None or not part.is_slack or size == n:
            return False
        is_ball = isinstance(on, L1Ball | GroupBall) and not on.nonnegative
        return is_ball and bool(on.norm(point.x) * math.sqrt(n / part.size) < on.scale)

    def _is_dual_due(self, point: ObjectivePoint, part: WorkingSet | None, size: int) -> bool:
        """Whether more coordinates than samples are not 0, or will be in a next part."""
        m = self.loss.composite.K.shape[0]
        will_be = part is not None and part.is_slack and size > m
        return will_be or int(np.count_nonzero(point.x)) > m


@dataclass
class Warm:
    """What a run leaves for the next one, of the same f and ridge and a larger set."""

    point: ObjectivePoint | None = None
    part: WorkingSet | None = None
    before: ObjectivePoint | None = None
    """The last point of the run before, by which the next solution can be guessed."""
    is_predicted: bool = False
    """Whether the point is no run's, but where a follower says that the solution is."""

    def begin(self, f: Smooth, g: Simple, x: Array, tally: Tally) -> ObjectivePoint:
        """F at x, from what is known of it."""
        last = self.point
        if last is None or last.x is not x:
            self.part = None
            self.before = None
            return ObjectivePoint(f, g, x, tally)
        point = ObjectivePoint(f, g, x, tally, last.smooth, afresh=last.afresh)
        point.smooth_gradient = last.smooth_gradient
        return point

    def ahead(self, on: Any) -> Array | None:
        """What the last two solutions let expect x to move by on a larger set; None without two."""
        last = self.point
        if last is None or self.before is None:
            return None
        earlier = extent(self.before.g.on)
        now = extent(last.g.on)
        if not earlier < now < extent(on):
            return None
        return (extent(on) - now) / (now - earlier) * (last.x - self.before.x)


def extent(on: Any) -> float:
    """What grows from run to run of a path: the size of the set, or less the penalty in its place."""
    return -on.l1 if isinstance(on, Penalised) else float(on.scale)


@dataclass(frozen=True)
class AtPrediction:
    """The proof at a predicted solution: a method of one iterate, where most runs of a path end."""

    f: Smooth
    g: Simple
    warm: Warm = field(repr=False)
    name: ClassVar[str] = "newton"

    def iterates(self, x: Array) -> Iterator[Iterate]:
        tally = Tally()
        self.warm.point = self.warm.begin(self.f, self.g, x, tally)
        yield Certifier(self.f, self.g, tally).iterate(self.warm.point, 0.0)


@dataclass(frozen=True)
class FaceNewton:
    """Newton's method for a smooth loss and a ridge, or none, on a set with faces or under a
    penalty.
    """

    f: Smooth
    g: Ridge | Zero | ElasticNet
    loss: Folded | None = field(repr=False)
    """f as h(Kx) and linear terms; None where f knows its own Hessian."""
    wanted: float = 0.0
    """The gap that ends the run, as a share of F; 0 where that is not known."""
    null_size: float = 0.0
    """|F| at the null point, a hundredth of which F counts as at least; 0 stands for that at x0."""
    warm: Warm = field(default_factory=Warm, repr=False)
    name: ClassVar[str] = "newton"

    @classmethod
    def of(
        cls,
        problem: LossOnSet,
        *,
        warm: Warm | None = None,
        wanted: float = 0.0,
        null_size: float = 0.0,
    ) -> FaceNewton:
        """The method, or a sentence that names the missing piece."""
        f = problem.f
        g = problem.g
        if not isinstance(g.on, SetWithFaces):
            sets = "L1Ball, GroupBall, Simplex, SolidSimplex and Box do"
            raise MissingAbility(f"{g.on!r} has no faces: {sets}")
        if readiness.mode() == "off":
            off = f"{readiness.VARIABLE}=off switches off the compiled code that it needs"
            raise MissingAbility(off)
        if isinstance(f, Multinomial):
            if not f.at_hand or is_torch(f.K):
                raise MissingAbility(f"{f!r} is not a Multinomial of NumPy or SciPy data")
            if not isinstance(g.on, L1Ball | GroupBall | Penalised) or g.on.nonnegative:
                raise MissingAbility(
                    f"Multinomial needs L1Ball, GroupBall or ElasticNetPenalty, without positive=True, got {g.on!r}"
                )
        return cls(f, g, problem.loss, wanted, null_size, warm or Warm())

    @property
    def is_ready(self) -> bool:
        """Whether the compiled code is there."""
        return readiness.available()

    @property
    def head_start(self) -> int:
        return OPTIONS.head_start if self.has_groups else 0

    @property
    def has_groups(self) -> bool:
        return isinstance(self.g.on, GroupBall)

    @property
    def affordable(self) -> bool:
        """Where projected gradients are not ahead: few coordinates matter, or samples are many."""
        if self.has_groups:
            # of 38 problems of several classes, projected gradients were ahead in 33
            return self.loss is not None
        if isinstance(self.g.on, SparseSet):
            return True
        if self.loss is None:
            return self._coordinates <= OPTIONS.largest_model
        m, n = self.loss.composite.K.shape
        return bool(n <= max(m, OPTIONS.wide_box))

    @property
    def _coordinates(self) -> int:
        return math.prod(self.f.space.shape)  # type: ignore[union-attr]

    def iterates(self, x: Array) -> Iterator[Iterate]:
        tally = Tally()
        certifier = Certifier(self.f, self.g, tally)
        warm = self.warm
        point = warm.begin(self.f, self.g, x, tally)
        roads = self._roads(point)
        ahead = warm.ahead(self.g.on)
        if warm.part is not None:
            warm.before = warm.point
            if self.loss is not None:  # once for all certificates to come
                _ = self.loss.composite.column_norms
        least_scale = NULL_SHARE * (self.null_size or point.value)
        gaps = Gaps()
        if warm.part is None or warm.part.is_slack:
            iterate = certifier.iterate(point, 0.0)
        else:  # the bound of another radius' solution is worth nothing here
            iterate = Iterate(x, point.terms, -math.inf, None, 0.0, tally.effort, 0.0)
        while True:
            warm.point = point
            yield iterate
            if not readiness.wait() or deadline.passed() or self.g.on.scale == 0.0:
                return
            gaps.note(iterate, warm.part)
            if gaps.idle_turns == 2 or (gaps.idle_turns == 1 and self._has_all_in(warm.part)):
                return
            pulls = pulls_at(point)
            size = self._next_size(point.x, pulls, warm.part, gaps)
            there = None
            if roads is not None:
                wide = self._coordinates if self._takes_all(size) else size
                there = roads.lower(point, warm.part, wide, OPTIONS.slow * gaps.last)
            step = 1.0
            if there is not None:
                warm.part = None
                point = there
            else:
                part, is_last = self._next_part(point.x, pulls, size, gaps)
                if part is None:
                    return
                part.begin(point)
                if ahead is not None and isinstance(part, Columns):
                    part.advance(ahead)
                    ahead = None
                asked = self.wanted * max(point.value, least_scale)
                part.solve(self._enough(asked, gaps.last, part.size, is_last=is_last))
                tally.inner_iterations += part.steps
                if deadline.passed():
                    yield part.uncertified(iterate)
                    return
                if part.has_moved:
                    point = part.point()
                elif self._has_all_in(part):
                    return
                step = 1.0 if part.has_fallen else 0.0
            iterate = certifier.iterate(point, step)

    def _next_part(
        self, x: Array, pulls: Array, size: int, gaps: Gaps
    ) -> tuple[WorkingSet | None, bool]:
        """The next working set, and whether it is likely the last: where that before does again.

        And under a penalty, whose multiplier is known, where it has all coordinates that are near.
        """
        part = self.warm.part
        is_last = self._is_good_again(part, pulls, size, is_slow=gaps.is_slow)
        if not is_last:
            part = self._part(x, pulls, size, part)
            self.warm.part = part
            is_last = (
                isinstance(self.g, ElasticNet) and self._count_near(x, pulls, self.g.l1) <= size
            )
        return part, is_last

    def _count_near(self, x: Array, pulls: Array, multiplier: float) -> int:
        """Coordinates that are not 0, or have pulls near the multiplier."""
        return int(np.count_nonzero((pulls >= OPTIONS.near * multiplier) | (host(x) != 0.0)))

    def _enough(self, asked: float, gap: float, size: int, *, is_last: bool) -> float:
        """The gap at which a part has done its work; infinite for one step.

        A part that is likely the last one is solved to what is asked for. But where the
        gap is not known, as at the start of the next radius, one step is likely enough: then a look
        at the full problem follows, unless that costs much more.
        """
        is_cheap = self._coordinates <= OPTIONS.growth * size
        if not is_last or (gap == math.inf and is_cheap):
            return OPTIONS.slow * gap
        return min(OPTIONS.slow * gap, asked)

    def _roads(self, start: ObjectivePoint) -> Roads | None:
        """What may lead on where turns would take long."""
        if self.loss is None or is_torch(start.x) or self.loss.composite.unpenalised is not None:
            return None
        return Roads(self.loss, self.g, start, self._is_plain_ridge)

    @property
    def _is_plain_ridge(self) -> bool:
        """Whether nothing but a ridge keeps x small: then no coordinate is 0."""
        return isinstance(self.g, ElasticNet) and self.g.l1 == 0.0 and not self.g.positive

    def _multiplier(self, part: WorkingSet) -> float | None:
        """That of the norm, if known; a penalty always is."""
        return self.g.l1 if isinstance(self.g, ElasticNet) else part.multiplier

    @property
    def _first_size(self) -> int:
        """Fewer for tall data, where the Gram matrix costs most; more in blocks, where passes do."""
        if self.loss is None:
            f: Any = self.f  # a `LossOfMatrix`
            return OPTIONS.first_size if f.at_hand else OPTIONS.wide_box
        m, n = self.loss.composite.K.shape
        return OPTIONS.first_size if n >= m else OPTIONS.first_size // OPTIONS.growth

    def _has_all_in(self, part: WorkingSet | None) -> bool:
        return part is not None and part.size == self._coordinates

    def _takes_all(self, size: int) -> bool:
        """Whether a working set of some size would rather be all coordinates."""
        may_be_sparse = self.g.on.solid and self.g.on.shape is None and not self._is_plain_ridge
        return not may_be_sparse or self._coordinates <= OPTIONS.most_of_all * size

    def _next_size(self, x: Array, pulls: Array, part: WorkingSet | None, gaps: Gaps) -> int:
        """How many coordinates the next working set should have.

        Twice as many as are not 0, and several times as many as before where these brought little;
        but no more than are not 0 or have pulls near the multiplier. After an idle turn it is
        larger in any case: what rounding hides in some coordinates, more of them may show.
        """
        first = self._first_size
        is_used = host(x) != 0.0
        support = int(np.count_nonzero(is_used))
        if part is None:
            return max(first, 2 * support)
        least = 2 * part.size if gaps.idle_turns else 0
        most = max(OPTIONS.growth * part.size if gaps.is_slow else part.size, 2 * support)
        multiplier = self._multiplier(part)
        if multiplier is None or not isinstance(self.g.on, SparseSet):
            return max(least, most)
        near = self._count_near(x, pulls, multiplier)
        return max(least, support + first // 2, first, min(most, near))

    def _is_good_again(
        self, part: WorkingSet | None, pulls: Array, size: int, *, is_slow: bool
    ) -> bool:
        """Whether the last part will do: no other coordinate has a pull above the multiplier.

        If the part was solved on the set of the radius before, the next multiplier is smaller: half
        way, say, to the pulls that brought coordinates into the part.
        """
        if not isinstance(part, Columns):
            return False
        if part.chosen is None:
            is_small = self._coordinates <= OPTIONS.most_of_all * self._first_size
            return is_small or self._takes_all(size)
        multiplier = self._multiplier(part)
        if is_slow or self._takes_all(size) or multiplier is None:
            return False
        others = pulls.copy()
        others[part.chosen] = 0.0
        is_guess = part.start.g.on is not self.g.on and not isinstance(self.g, ElasticNet)
        share = 0.5 * (1.0 + OPTIONS.near) if is_guess else 1.0
        return bool(others.max() <= share * multiplier)

    def _part(
        self, x: Array, pulls: Array, size: int, last: WorkingSet | None
    ) -> WorkingSet | None:
        """The problem in about so many coordinates; None where they are too many, or no number."""
        n = self._coordinates
        whole = self._takes_all(size)
        if self.loss is None and (n if whole else size) > OPTIONS.largest_model:
            return None
        chosen = None
        if not whole:
            if not np.isfinite(pulls).all():
                return None
            chosen = np.sort(steepest_indices(np.ravel(pulls), np.ravel(host(x)), size))
            if self.has_groups:  # whole ones
                codes = in_entries(self.g.on, None, x.shape).codes
                chosen = np.flatnonzero(np.isin(codes, codes[chosen]))
        part: WorkingSet
        if self.loss is not None:
            part = Columns(self.loss, chosen, has_groups=self.has_groups)
        else:
            entries = np.arange(n) if chosen is None else chosen
            by_products = self._is_plain_ridge and self.f.at_hand  # type: ignore[attr-defined]
            part = Entries(entries, by_products=by_products)
        if last is not None:
            part.multiplier = last.multiplier
        return part

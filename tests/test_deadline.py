"""A time limit reaches into the oracles and the inner loops of Newton's method, and the certificate holds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest

import condgrad as cg
from condgrad import deadline
from condgrad.ball import FaceNewton
from condgrad.ball.columns import Columns
from condgrad.methods.certified_point import Certifier
from condgrad.structure import structure


def stiff_transport(n: int = 40) -> tuple[cg.smooth.Linear, cg.simple.Entropy]:
    """An entropy so small that Sinkhorn's iteration needs many passes."""
    rng = np.random.default_rng(0)
    cost = ((rng.uniform(size=(n, 1, 2)) - rng.uniform(size=(1, n, 2))) ** 2).sum(-1)
    weights = np.full(n, 1.0 / n)
    return cg.smooth.Linear(cost), cg.simple.Entropy(5e-3, on=cg.sets.Transport(weights, weights))


def test_outside_of_a_limit_there_is_time() -> None:
    assert not deadline.passed()
    with deadline.within(None):
        assert not deadline.passed()


def test_the_nearer_of_two_limits_counts_and_ends_with_its_block() -> None:
    with deadline.within(0.0):
        with deadline.within(100.0):
            assert deadline.passed()
        assert deadline.passed()
    assert not deadline.passed()
    with deadline.within(100.0):
        with pytest.raises(ValueError, match="out"), deadline.within(0.0):
            raise ValueError("out")
        assert not deadline.passed()


class Clock:
    """Tells a time of its own, which work moves on, or each look at it if it is ticking."""

    def __init__(self) -> None:
        self.now, self.ticking = 0.0, False
        self.begun: list[float] = []

    def __call__(self) -> float:
        self.now += self.ticking
        return self.now

    def work(self) -> None:
        """A product, a projection, an oracle: something that takes a second."""
        self.begun.append(self.now)
        self.now += 1.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(deadline, "clock", clock)
    return clock


class Timed(cg.smooth.Logistic):
    """Each product with the data takes a second."""

    def __init__(self, Z: Any, y: Any, clock: Clock) -> None:
        super().__init__(Z, y)
        self.clock = clock

    def image(self, x: Any) -> Any:
        self.clock.work()
        return super().image(x)

    def gradient_from(self, theta: Any) -> Any:
        self.clock.work()
        return super().gradient_from(theta)


class TimedBox(cg.sets.Box):
    """Each of its argmins takes a second."""

    clock: Clock

    def project(self, x: Any) -> Any:
        self.clock.work()
        return super().project(x)

    def linear_argmin(self, c: Any) -> Any:
        self.clock.work()
        return super().linear_argmin(c)

    def entropic_argmin(self, c: Any, weight: float, **options: Any) -> Any:
        self.clock.work()
        return super().entropic_argmin(c, weight, **options)


WAYS: dict[str, dict[str, Any]] = {
    "cgs": {"method": "cgs"},
    "armijo": {"method": "cgs", "step": "armijo"},
    "memory": {"method": "cgs", "memory": 3},
    "cg": {"method": "cg"},
    "spg": {"method": "spg"},
    "pqn": {"method": "pqn"},
    "auto": {"method": "auto"},
}


@pytest.mark.parametrize("own", [False, True], ids=["logistic", "own"])
@pytest.mark.parametrize("kind", ["ridge", "zero", "entropy"])
@pytest.mark.parametrize("way", WAYS)
def test_nothing_starts_late(way: str, kind: str, own: bool, clock: Clock) -> None:
    """Whenever the limit comes: but for F at the answer, which is computed afresh on the way out."""
    if own is False and way == "auto" and kind != "entropy":
        return  # Newton's products are not those of Timed; its own tests count them
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((20, 6))
    y = np.where(Z[:, :2].sum(axis=1) + rng.standard_normal(20) > 0.0, 1.0, -1.0)
    box = TimedBox(np.full(6, 0.1), np.full(6, 0.9))
    box.clock = clock
    plain = cg.smooth.Logistic(Z, y)

    def both(x: Any) -> Any:
        clock.work()
        return plain.value_and_gradient(x)

    f: cg.smooth.Smooth = cg.smooth.Function(both) if own else Timed(Z, y, clock)
    g = {
        "ridge": cg.simple.Ridge(0.1, on=box),
        "zero": cg.simple.Zero(on=box),
        "entropy": cg.simple.Entropy(0.1, on=box),
    }[kind]
    for limit in (0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0):
        clock.begun.clear()
        begin = clock.now
        result = cg.minimize(f, g, np.full(6, 0.5), tol=0.0, time_limit=limit, **WAYS[way])
        late = [moment - begin for moment in clock.begun if moment - begin >= limit]
        # before the first look at the clock there are F at the null point, with its projection, and at the start
        assert len(late) <= 1 + (4 if limit < 4.0 else 0), late
        assert result.status is cg.Status.TIME_LIMIT or limit > 20.0
        assert result.lower_bound <= result.value


@pytest.mark.parametrize("method", ["newton", "cgs", "spg"])
@pytest.mark.parametrize("limit", [0.0, 1e-3, 5e-3])
def test_a_limit_is_called_a_limit(method: str, limit: float) -> None:
    """However early it comes, the status is no other, and F* stays between the two."""
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((200, 100))
    y = np.where(Z[:, :5].sum(axis=1) + rng.standard_normal(200) > 0.0, 1.0, -1.0)
    f, g = cg.smooth.SquaredHinge(Z, y), cg.simple.Ridge(1e-6, on=cg.sets.L1Ball(50.0))
    result = cg.minimize(f, g, method=method, tol=0.0, max_iter=10**6, time_limit=limit)
    assert result.status is cg.Status.TIME_LIMIT
    best = cg.minimize(f, g, method="newton", tol=1e-6)
    assert result.lower_bound <= best.value
    assert best.lower_bound <= result.value


def first_steps(f: cg.smooth.Smooth, g: cg.simple.Simple, method: str) -> int:
    """What happens inside the first iteration, counted by the method."""
    return int(
        cg.minimize(f, g, method=method, tol=1e-10, max_iter=1).trace["inner_iterations"][-1]
    )


def test_newton_for_transport_stops_inside_its_equations(clock: Clock) -> None:
    """The clock ticks at each look at it: once it is late, a direction takes no further conjugate-gradient step."""
    d = cg.datasets.make_clusters(80)
    cost = ((d.Xs[:, None] - d.Xt[None]) ** 2).sum(-1)
    weights = np.full(80, 1.0 / 80.0)
    f = cg.smooth.Linear(cost) + cg.transport.Laplacian(d.Xs, d.Xt, weight=1e3).smooth_part()
    g = cg.simple.Entropy(1.7e-2, on=cg.sets.Transport(weights, weights))
    whole = cg.minimize(f, g, method="newton", tol=1e-10)
    assert whole.status is cg.Status.CONVERGED
    clock.ticking = True
    spent = []
    for limit in (20.0, 30.0, 40.0):
        cut = cg.minimize(f, g, method="newton", tol=1e-10, time_limit=limit)
        assert cut.status is cg.Status.TIME_LIMIT
        assert cut.lower_bound <= whole.value
        assert whole.lower_bound <= cut.value
        spent.append(int(cut.trace["inner_iterations"][-1]))
    assert spent == sorted(spent)
    assert spent[-1] < int(whole.trace["inner_iterations"][-1])


def test_a_working_set_takes_no_step_after_the_deadline() -> None:
    rng = np.random.default_rng(2)
    Z = rng.standard_normal((60, 400))
    y = np.where(Z[:, :5].sum(axis=1) + rng.standard_normal(60) > 0.0, 1.0, -1.0)
    f, g = cg.smooth.Logistic(Z, y), cg.simple.Ridge(1e-3, on=cg.sets.L1Ball(4.0))
    assert first_steps(f, g, "newton") > 0
    with deadline.within(0.0):
        assert first_steps(f, g, "newton") == 0


def once(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that is not to be called again."""
    calls = []

    def called(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        assert len(calls) == 1
        return method(*arguments, **options)

    return called


def test_a_working_set_cut_short_keeps_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is up after a Newton step: its point comes without a bound of its own, and no further product."""
    rng = np.random.default_rng(3)
    Z = rng.standard_normal((60, 30))
    f = cg.smooth.SquaredHinge(Z, np.where(Z[:, 0] + rng.standard_normal(60) > 0.0, 1.0, -1.0))
    g = cg.simple.Ridge(1e-3, on=cg.sets.L1Ball(1.0))
    whole, out_of_time = cg.minimize(f, g, method="newton", tol=1e-10), [False]
    step = Columns._newton_step

    def last_step(self: Columns, slope: np.ndarray) -> bool:
        fell = step(self, slope)
        out_of_time[0] = True
        return fell

    monkeypatch.setattr(Columns, "_newton_step", last_step)
    monkeypatch.setattr(deadline, "passed", lambda: out_of_time[0])
    monkeypatch.setattr(Certifier, "iterate", once(Certifier.iterate))
    first, second = islice(FaceNewton.of(structure(f, g)).iterates(np.zeros(30)), 2)
    assert second.lower_bound == -np.inf
    assert second.gradient is None
    assert whole.lower_bound <= second.value < first.value
    assert second.value == pytest.approx(f.at(second.x).value + g.value(second.x), rel=1e-14)
    assert g.on.violation(second.x) == 0.0


def test_sinkhorn_stops_after_its_first_look(clock: Clock) -> None:
    f, g = stiff_transport()
    usual = first_steps(f, g, "cgs")
    clock.ticking = True
    assert (
        int(cg.minimize(f, g, tol=1e-10, time_limit=5.0).trace["inner_iterations"][-1])
        < 0.5 * usual
    )
    clock.ticking = False
    whole, none = (cg.minimize(f, g, tol=1e-7, time_limit=limit) for limit in (None, 0.0))
    assert (whole.status, none.status) == (cg.Status.CONVERGED, cg.Status.TIME_LIMIT)
    assert none.lower_bound <= whole.value
    assert whole.lower_bound <= none.value

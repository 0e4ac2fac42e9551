"""A time limit reaches into the oracles and the inner loops of Newton's method, and the certificate holds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest

import condgrad as cg
from condgrad import deadline
from condgrad.methods.spg import Witness
from condgrad.newton import faces


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
    return int(cg.minimize(f, g, method=method, tol=1e-10, max_iter=1).trace["inner_iterations"][-1])


def test_newton_for_transport_stops_inside_its_equations() -> None:
    d = cg.datasets.make_clusters(80)
    cost = ((d.Xs[:, None] - d.Xt[None]) ** 2).sum(-1)
    weights = np.full(80, 1.0 / 80.0)
    f = cg.smooth.Linear(cost) + cg.transport.Laplacian(d.Xs, d.Xt, weight=1e3).smooth_part()
    g = cg.simple.Entropy(1.7e-2, on=cg.sets.Transport(weights, weights))
    assert first_steps(f, g, "newton") > 1
    with deadline.within(0.0):
        assert first_steps(f, g, "newton") == 1  # the step itself, without conjugate gradients
        none = cg.minimize(f, g, method="newton", max_iter=1)
    whole = cg.minimize(f, g, method="newton", tol=1e-10)
    assert whole.status is cg.Status.CONVERGED
    assert none.lower_bound <= whole.value
    assert whole.lower_bound <= none.value


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
    """Time is up after a Newton step: its point comes with the bound from before it, and no further product."""
    rng = np.random.default_rng(3)
    Z = rng.standard_normal((60, 30))
    f = cg.smooth.SquaredHinge(Z, np.where(Z[:, 0] + rng.standard_normal(60) > 0.0, 1.0, -1.0))
    g = cg.simple.Ridge(1e-3, on=cg.sets.L1Ball(1.0))
    whole, out_of_time = cg.minimize(f, g, method="newton", tol=1e-10), [False]
    step = faces.WorkingSet._newton_step

    def last_step(self: faces.WorkingSet, slope: np.ndarray) -> bool:
        fell = step(self, slope)
        out_of_time[0] = True
        return fell

    monkeypatch.setattr(faces.WorkingSet, "_newton_step", last_step)
    monkeypatch.setattr(deadline, "passed", lambda: out_of_time[0])
    monkeypatch.setattr(Witness, "iterate", once(Witness.iterate))
    first, second = islice(faces.FaceNewton.of(f, g).iterates(np.zeros(30)), 2)
    assert second.lower_bound == first.lower_bound
    assert second.gradient is None
    assert whole.lower_bound <= second.value < first.value
    assert second.value == pytest.approx(f.at(second.x).value + g.value(second.x), rel=1e-14)
    assert g.on.violation(second.x) == 0.0


def test_sinkhorn_stops_after_its_first_look() -> None:
    f, g = stiff_transport()
    usual = first_steps(f, g, "cgs")
    with deadline.within(0.0):
        assert first_steps(f, g, "cgs") < 0.5 * usual
    whole, none = (cg.minimize(f, g, tol=1e-7, time_limit=limit) for limit in (None, 0.0))
    assert (whole.status, none.status) == (cg.Status.CONVERGED, cg.Status.TIME_LIMIT)
    assert none.lower_bound <= whole.value
    assert whole.lower_bound <= none.value

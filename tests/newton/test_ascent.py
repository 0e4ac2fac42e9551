"""The path-following ascent itself: when it certifies, and what a dual model need not say."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import condgrad as cg
from condgrad.newton.ascent import STAGE_RATIOS, Newton
from condgrad.newton.groups import EntropicGroups
from condgrad.newton.laplacian.dual import EntropicLaplacian
from condgrad.transport import Laplacian, SquaredEuclidean, solve

RNG = np.random.default_rng(0)
XS, XT = RNG.random((60, 2)), RNG.random((50, 2)) + 0.3


def test_few_streamed_plans_are_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    """The entropy of a streamed plan takes three products: it is asked for only where the run may end.

    A plan that is an array is certified earlier, for the trace. Both take about the same steps.
    """
    counts, answers, primal = {"streamed": 0, "dense": 0}, {}, EntropicLaplacian.primal
    for plan in counts:

        def counted(model: EntropicLaplacian, point: Any, plan: str = plan) -> Any:
            counts[plan] += 1
            return primal(model, point)

        monkeypatch.setattr(EntropicLaplacian, "primal", counted)
        terms = [Laplacian(XS, XT, 10.0, neighbors=3)]
        answers[plan] = solve(
            SquaredEuclidean(XS, XT),
            entropy=0.002,
            regularizers=terms,
            method="newton",
            plan=plan,
            tol=1e-10,
        )
    assert all(t.success for t in answers.values())
    assert abs(answers["streamed"].iterations - answers["dense"].iterations) <= 2
    assert counts["streamed"] <= 2 < counts["dense"]


def test_the_path_falls_at_its_pace() -> None:
    C, stages = RNG.random((12, 9)), []
    f = cg.smooth.Linear(C) + 0.1 * cg.smooth.GroupLasso(np.arange(12) % 3)
    g = cg.simple.Entropy(1e-3, on=cg.sets.Transport(np.full(12, 1 / 12), np.full(9, 1 / 9)))

    class Watched(EntropicGroups):
        def evaluate(self, z: Any, t: float) -> Any:
            stages.append(t)
            return super().evaluate(z, t)

    model = Watched(C, g.on.a, g.on.b, g.weight, cg.smooth.GroupLasso(np.arange(12) % 3), 0.1)
    for _ in Newton(f, g, model).iterates(np.full(C.shape, 1 / C.size)):
        pass
    ratios = {
        later / earlier for earlier, later in itertools.pairwise(stages) if 1.0 < later < earlier
    }
    assert any(ratio == pytest.approx(STAGE_RATIOS[0]) for ratio in ratios)
    assert model.entry_gap(None) == math.inf


def test_a_run_that_ends_on_the_path_has_the_bound_of_its_start() -> None:
    """Before t = 1 nothing new is proved, but the dual point of the start is one of F itself."""
    t = solve(RNG.random((12, 9)), entropy=1e-3, method="newton", max_iter=1)
    assert t.status is cg.Status.ITERATION_LIMIT
    assert -math.inf < t.lower_bound <= t.value

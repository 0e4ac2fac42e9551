"""Methods that take turns: what one cannot solve is no end of the run where another can go on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import condgrad as cg
from condgrad.loop import run
from condgrad.methods import SPG
from condgrad.methods.in_turn import InTurn
from condgrad.stopping import RelativeGap

F = cg.smooth.LeastSquares(np.eye(3), [1.0, 2.0, 3.0])
G = cg.simple.Ridge(0.1, on=cg.sets.L1Ball(1.0))


class Broken:
    """A method that has no step after its first iterate."""

    name = "broken"

    def __init__(self, method: Any) -> None:
        self.f, self.g, self.inner = method.f, method.g, method

    def iterates(self, x: Any) -> Any:
        yield next(self.inner.iterates(x))
        raise np.linalg.LinAlgError("singular")


def runs(first: Any, others: Any) -> cg.Result:
    return run(InTurn(first, others), np.zeros(3), stop=RelativeGap(1e-6), max_iter=100)


def test_auto_survives_equations_without_a_solution() -> None:
    result = runs(Broken(SPG(F, G)), iter([SPG(F, G)]))
    assert result.success
    assert result.method == "broken, then spg"


def test_the_last_dead_end_is_told() -> None:
    """Equations without a solution are the run's end where no other method is left."""
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        runs(Broken(SPG(F, G)), iter([]))


def test_methods_are_made_when_their_turn_comes() -> None:
    """A run that its first method ends has made no other."""
    made: list[str] = []

    def others() -> Any:
        made.append("spg")
        yield SPG(F, G)

    assert runs(SPG(F, G), others()).success
    assert made == []
    assert runs(Broken(SPG(F, G)), others()).success
    assert made == ["spg"]

"""Results: equality, interrupts on behalf of somebody else, and what a plot shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot

import condgrad as cg
from condgrad.linear_model import path
from condgrad.transport import recoloring

A = np.random.default_rng(0).standard_normal((12, 5))
F = cg.smooth.LeastSquares(A, A[:, 0] - 1.0)
G = cg.simple.Ridge(0.1, on=cg.sets.L1Ball(0.7))


def recolored() -> Any:
    image = np.random.default_rng(1).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    return recoloring(image, image[::-1], entropy=1e-2, weight=0.0, samples=10, seed=0, tol=1e-3)


MAKERS = {
    "Result": lambda: cg.minimize(F, G),
    "TransportResult": lambda: cg.transport.solve(A[:, :4] ** 2, entropy=0.1),
    "Recoloring": recolored,
    "Path": lambda: path(A, A[:, 0], loss="least-squares", radii=[0.5]),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_a_result_is_equal_to_itself_alone(make: Any) -> None:
    """Arrays have no single truth value: two results are the same only where they are one."""
    once, again = make(), make()
    assert once == once
    assert once != again
    assert len({once, again}) == 2


def test_uninterrupted_passes_answers_on_and_raises_interrupts() -> None:
    r = cg.minimize(F, G)
    assert r.uninterrupted() is r

    def interrupt(_: Any) -> None:
        raise KeyboardInterrupt

    cut = cg.minimize(F, G, callback=interrupt)
    assert cut.status is cg.Status.INTERRUPTED
    with pytest.raises(KeyboardInterrupt):
        cut.uninterrupted()


# --- plots ---


@pytest.fixture
def axes() -> Iterator[Any]:
    figure, axes = pyplot.subplots()
    yield axes
    pyplot.close(figure)


def rows(values: list[float], bounds: list[float]) -> list[tuple[float, ...]]:
    """A trace with these values of F and lower bounds."""
    known: dict[str, Any] = {
        "iteration": range(len(values)),
        "seconds": np.linspace(0.0, 1.0, len(values)),
        "value": values,
        "best_value": np.minimum.accumulate(values),
        "lower_bound": bounds,
        "measure": np.subtract(values, bounds),
    }
    columns = [known.get(name, np.zeros(len(values))) for name in cg.Trace.columns]
    return list(zip(*columns, strict=True))


def test_every_iteration_is_drawn_to_the_end(axes: Any) -> None:
    """Where the value no longer changes, too: there the distance to the last bound is the last gap."""
    cg.Trace(rows([5.0, 3.0, 2.0, 2.0], [-1.0, 0.0, 1.0, 1.5])).plot(ax=axes)
    gap, hindsight = (line.get_ydata() for line in axes.lines)
    np.testing.assert_allclose(gap, [6.0, 3.0, 1.0, 0.5])
    np.testing.assert_allclose(hindsight, [3.5, 1.5, 0.5, 0.5])


def test_a_gap_of_zero_is_drawn_at_the_rounding_of_the_values(axes: Any) -> None:
    cg.Trace(rows([4.0, 2.0], [1.0, 2.0])).plot(ax=axes)
    for line in axes.lines:
        assert line.get_ydata()[-1] == 4.0 * np.finfo(float).eps
    axes.figure.canvas.draw()


def test_a_single_point_is_marked(axes: Any) -> None:
    cg.Trace(rows([2.0], [1.0])).plot(ax=axes)
    assert all(line.get_marker() not in ("", "None", None) for line in axes.lines)


def test_without_any_bound_there_is_the_gap_alone(axes: Any) -> None:
    cg.Trace(rows([2.0, 1.0], [-np.inf, -np.inf])).plot(ax=axes)
    assert [line.get_label() for line in axes.lines] == ["certified gap"]

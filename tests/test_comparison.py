"""Runs on one problem beside each other: what the table and the picture say, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot

import condgrad as cg

A = np.random.default_rng(3).standard_normal((20, 8))
F = cg.smooth.LeastSquares(A, A[:, :3].sum(axis=1) + 1.0)
G = cg.simple.Ridge(0.2, on=cg.sets.L1Ball(1.3))


@pytest.fixture
def axes() -> Iterator[Any]:
    figure, axes = pyplot.subplots()
    yield axes
    pyplot.close(figure)


@pytest.fixture(scope="module")
def comparison() -> Any:
    """A run that ends early, and one that ends well."""
    return cg.compare(
        {
            "few steps": cg.minimize(F, G, max_iter=2, tol=1e-12),
            "spg": cg.minimize(F, G, method="spg", tol=1e-10),
        }
    )


def test_the_best_bound_of_all_judges_every_run(comparison: Any) -> None:
    """A long run of another method is the judge: F* lies between the two numbers."""
    judge = cg.minimize(F, G, method="newton", tol=1e-12)
    assert comparison.lower_bound <= judge.value
    assert judge.lower_bound <= comparison.best_value
    frame = comparison.to_frame()
    assert frame.index.tolist() == ["few steps", "spg"]
    few = comparison.results["few steps"]
    distance = frame.loc["few steps", "distance"]
    assert few.value - judge.value <= distance <= few.gap


def test_it_prints_a_row_a_run_and_what_is_known_of_the_optimum(comparison: Any) -> None:
    lines = str(comparison).splitlines()
    assert [line.split("  ")[0] for line in lines[1:3]] == ["few steps", "spg"]
    assert "ITERATION_LIMIT" in lines[1]
    assert "CONVERGED" in lines[2]
    assert lines[-1].startswith("F* lies between")
    assert len(lines) == 4
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("against", ["iteration", "seconds", "oracle_calls", "evaluations"])
@pytest.mark.parametrize("measure", ["distance", "gap"])
def test_curves_are_what_the_traces_say(
    comparison: Any, measure: str, against: str, axes: Any
) -> None:
    comparison.plot(measure=measure, against=against, ax=axes)
    assert axes.get_yscale() == "log"
    for line, (name, result) in zip(axes.lines, comparison.results.items(), strict=True):
        trace = result.trace
        bound = comparison.lower_bound if measure == "distance" else trace["lower_bound"]
        assert line.get_label() == name
        assert np.array_equal(line.get_xdata(), trace[against])
        shown = np.asarray(line.get_ydata())
        assert np.allclose(shown, np.maximum(trace["best_value"] - bound, shown.min()), rtol=1e-12)
        assert (shown > 0.0).all()


def test_labelled_traces_share_an_axis(comparison: Any, axes: Any) -> None:
    for name, result in comparison.results.items():
        result.trace.plot(label=name, ax=axes)
    assert [line.get_label() for line in axes.lines] == ["few steps", "spg"]
    assert len({line.get_color() for line in axes.lines}) == 2


def test_answers_of_transport_are_compared_too() -> None:
    cost = A[:, :6] ** 2
    runs = {m: cg.transport.solve(cost, entropy=0.1, method=m) for m in ("cgs", "newton")}
    assert cg.compare(runs).to_frame()["status"].tolist() == ["CONVERGED", "CONVERGED"]


def test_results_of_different_problems_are_told_apart() -> None:
    other = cg.minimize(F, cg.simple.Ridge(0.2, on=cg.sets.L1Ball(5.0)), method="spg")
    with pytest.raises(ValueError, match=r"different problems: 'small' proves that F\* >= "):
        cg.compare({"small": cg.minimize(F, G, method="spg"), "large": other})


def test_bad_input_gets_a_sentence_that_names_it(comparison: Any, axes: Any) -> None:
    result = comparison.results["spg"]
    with pytest.raises(TypeError, match="results must be a dict of results by name, got list"):
        cg.compare([result])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one result"):
        cg.compare({})
    with pytest.raises(TypeError, match=r"results\['x'\] must be a result, got ndarray"):
        cg.compare({"x": result.x})
    with pytest.raises(ValueError, match="measure must be one of 'distance', 'gap', got 'value'"):
        comparison.plot(measure="value", ax=axes)
    with pytest.raises(ValueError, match=r"against must be one of .*, got 'time'"):
        comparison.plot(against="time", ax=axes)

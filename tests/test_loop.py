"""The loop: every status by its own rule, the trace, the callback, the result."""

from __future__ import annotations

import csv
import math
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot
from scipy.optimize import minimize as scipy_minimize

import condgrad as cg
from condgrad import Status

RNG = np.random.default_rng(7)
A = RNG.standard_normal((20, 8))
Y = RNG.standard_normal(20)
LABELS = np.where(Y > 0, 1.0, -1.0)
RIDGE, RADIUS = 0.1, 1.0
BALL = cg.sets.L1Ball(RADIUS)
G = cg.simple.Ridge(RIDGE, on=BALL)
F = cg.smooth.LeastSquares(A, Y)


def objective(x: Any) -> float:
    """F(x), written out again."""
    return 0.5 * float(np.sum((A @ x - Y) ** 2)) + RIDGE * float(np.sum(x**2))


def least_squares(x: Any) -> tuple[float, Any]:
    """The same f for `smooth.Function`."""
    residual = A @ x - Y
    return 0.5 * float(residual @ residual), A.T @ residual


def projected(v: Any) -> Any:
    """The projection onto the l1 ball, by sorting: not the library's algorithm."""
    sizes = np.abs(v)
    if sizes.sum() <= RADIUS:
        return v
    falling = np.sort(sizes)[::-1]
    thetas = (np.cumsum(falling) - RADIUS) / np.arange(1, len(v) + 1)
    theta = thetas[np.flatnonzero(falling > thetas)[-1]]
    return np.sign(v) * np.maximum(sizes - theta, 0.0)


@pytest.fixture(scope="module")
def optimum() -> float:
    """F* by SLSQP on x = u - v with u, v >= 0."""
    n = A.shape[1]

    def both(w: Any) -> tuple[float, Any]:
        x = w[:n] - w[n:]
        slope = A.T @ (A @ x - Y) + 2.0 * RIDGE * x
        return objective(x), np.concatenate([slope, -slope])

    sides = {"type": "ineq", "fun": lambda w: RADIUS - w.sum(), "jac": lambda w: -np.ones_like(w)}
    found = scipy_minimize(
        both,
        np.full(2 * n, 0.01),
        jac=True,
        method="SLSQP",
        bounds=[(0, None)] * (2 * n),
        constraints=sides,
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    return float(found.fun)


@pytest.fixture(scope="module")
def crawl() -> cg.Result:
    """Forty iterations of the open loop."""
    return cg.minimize(F, G, step="open-loop", tol=0.0, max_iter=40)


@pytest.fixture(scope="module", params=["exact", "open-loop", "armijo", "short"])
def result(request: pytest.FixtureRequest) -> cg.Result:
    """Up to sixty iterations of each step rule."""
    return cg.minimize(F, G, step=request.param, tol=1e-12, max_iter=60)


def assert_certified(r: cg.Result, optimum: float) -> None:
    """The proof holds: lower_bound <= F* <= value, value is F(x), and x is in the ball."""
    assert r.lower_bound <= optimum + 1e-9
    assert optimum - 1e-9 <= r.value
    assert r.value == pytest.approx(objective(r.x), rel=1e-12)
    assert np.abs(r.x).sum() <= RADIUS * (1.0 + 1e-9)


class Hook:
    """Wraps a callable, counts its calls, and does something just before one of them."""

    def __init__(
        self, call: Callable[[Any], Any], at: int = -1, action: Callable[[], Any] = lambda: None
    ) -> None:
        self.call, self.at, self.action, self.calls = call, at, action, 0

    def __call__(self, x: Any) -> Any:
        self.calls += 1
        if self.calls == self.at:
            self.action()
        return self.call(x)


def interrupt() -> None:
    raise KeyboardInterrupt


def always(now: cg.Progress) -> bool:
    return isinstance(now, cg.Progress)


def fail(now: cg.Progress) -> None:
    raise LookupError(f"mine, at {now.iteration}")


def counted_oracle(
    at: int = -1, action: Callable[[], Any] = lambda: None
) -> tuple[cg.simple.Oracle, Hook]:
    """Ridge on the ball as a user would write it, with its calls counted."""
    argmin = Hook(lambda c: projected(-c / (2.0 * RIDGE)), at, action)
    return cg.simple.Oracle(lambda x: RIDGE * float(x @ x), argmin, on=BALL), argmin


class TestConverged:
    """CONVERGED: a stopping rule was met, and not one iteration earlier."""

    @pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6])
    @pytest.mark.parametrize("step", ["exact", "armijo", "short"])
    def test_stops_at_the_first_iteration_within_the_relative_gap(
        self, tol: float, step: str, optimum: float
    ) -> None:
        r = cg.minimize(F, G, tol=tol, step=step)
        # both terms are positive, so that the scale is the value itself
        gap = (r.trace["best_value"] - r.trace["lower_bound"]) / r.trace["best_value"]
        assert r.status is Status.CONVERGED
        assert r.success
        assert r.gap <= tol * r.scale
        assert np.flatnonzero(gap <= tol).tolist() == [r.iterations]
        np.testing.assert_allclose(r.trace["measure"], gap, rtol=1e-12)
        assert_certified(r, optimum)

    def test_message_tells_measure_and_tolerance(self) -> None:
        r = cg.minimize(F, G, tol=1e-3)
        assert "gap / scale of F" in r.message
        assert f"{r.trace['measure'][-1]:.3g}" in r.message
        assert "0.001" in r.message

    def test_an_optimal_start_needs_no_iteration(self) -> None:
        best = cg.minimize(F, G, tol=1e-10).x
        r = cg.minimize(F, G, x0=best, tol=1e-8)
        assert (r.status, r.iterations, len(r.trace)) == (Status.CONVERGED, 0, 1)

    def test_convergence_wins_over_limits_and_callback(self) -> None:
        r = cg.minimize(F, G, tol=1e3, max_iter=0, callback=always)
        assert r.status is Status.CONVERGED


class TestFixedPoint:
    """The stopping rule of the paper's elastic-net experiments, with its residual computed by other means."""

    @staticmethod
    def residual(x: Any) -> float:
        """|P(x - grad F(x)) - x|_inf for the logistic elastic net."""
        slope = -A.T @ (LABELS / (1.0 + np.exp(LABELS * (A @ x)))) + 2.0 * RIDGE * x
        return float(np.abs(projected(x - slope) - x).max())

    @pytest.mark.parametrize(
        ("method", "step", "tolerance"),
        [
            ("cgs", "armijo", 1e-5),
            ("cgs", "exact", 1e-5),
            ("cgs", "open-loop", 1e-4),
            ("cg", "exact", 1e-2),
            ("cg", "open-loop", 1e-2),
        ],
    )
    def test_the_answer_is_an_iterate_that_meets_the_rule(
        self, method: str, step: str, tolerance: float
    ) -> None:
        iterates = []
        r = cg.minimize(
            cg.smooth.Logistic(A, LABELS),
            G,
            method=method,
            step=step,
            stop=cg.stopping.FixedPoint(tolerance),
            callback=lambda now: iterates.append(now.x),
        )
        assert r.status is Status.CONVERGED
        assert "fixed-point residual" in r.message
        assert r.trace["measure"][-1] <= tolerance < r.trace["measure"][:-1].min()
        np.testing.assert_allclose(
            [self.residual(x) for x in iterates],
            r.trace["measure"][: len(iterates)],
            rtol=1e-6,
            atol=1e-12,
        )
        assert self.residual(r.x) <= tolerance * (1.0 + 1e-6)

    @pytest.mark.parametrize(("seed", "step"), [(20, "open-loop"), (30, "short")])
    def test_a_lower_value_elsewhere_is_not_the_answer(self, seed: int, step: str) -> None:
        """The oracle's point may have a lower F than the iterate that met the rule, and not meet it."""
        rng = np.random.default_rng(seed)
        data, target = rng.standard_normal((15, 6)), rng.standard_normal(15)
        r = cg.minimize(
            cg.smooth.LeastSquares(data, target), G, step=step, stop=cg.stopping.FixedPoint(1e-3)
        )
        slope = data.T @ (data @ r.x - target) + 2.0 * RIDGE * r.x
        assert r.status is Status.CONVERGED
        assert np.abs(projected(r.x - slope) - r.x).max() <= 1e-3 * (1.0 + 1e-6)

    def test_the_gap_does_not_stop_it(self) -> None:
        r = cg.minimize(F, G, tol=1e3, stop=cg.stopping.FixedPoint(1e-6))
        assert r.trace["measure"][-1] <= 1e-6
        assert r.iterations > 0

    def test_needs_a_projection(self) -> None:
        plans = cg.sets.Transport([0.5, 0.5], [0.5, 0.5])
        with pytest.raises(cg.MissingAbility, match="project"):
            cg.minimize(
                cg.smooth.Linear(np.eye(2)),
                cg.simple.Zero(on=plans),
                stop=cg.stopping.FixedPoint(1e-5),
            )


class TestLimits:
    """ITERATION_LIMIT and TIME_LIMIT."""

    @pytest.mark.parametrize("limit", [0, 1, 7])
    @pytest.mark.parametrize("step", ["exact", "open-loop"])
    def test_iteration_limit(self, limit: int, step: str, optimum: float) -> None:
        r = cg.minimize(F, G, tol=1e-14, max_iter=limit, step=step)
        assert r.status is Status.ITERATION_LIMIT
        assert not r.success
        assert r.iterations == limit
        assert len(r.trace) == limit + 1
        assert_certified(r, optimum)

    def test_no_iteration_still_certifies_the_start(self, optimum: float) -> None:
        start = np.full(8, 0.05)
        r = cg.minimize(F, G, x0=start, max_iter=0, tol=0.0)
        assert r.trace["value"].tolist() == [pytest.approx(objective(start))]
        assert r.value <= objective(start)
        assert math.isfinite(r.gap)
        assert_certified(r, optimum)

    def test_time_limit(self, optimum: float) -> None:
        slow = Hook(least_squares)
        f = cg.smooth.Function(lambda x: (time.sleep(0.005), slow(x))[1])
        r = cg.minimize(f, G, x0=np.zeros(8), step="open-loop", tol=0.0, time_limit=0.1)
        assert r.status is Status.TIME_LIMIT
        assert r.seconds >= 0.1
        assert r.trace["seconds"][:-1].max() < 0.1
        assert 0 < r.iterations < 25
        assert_certified(r, optimum)

    def test_an_ample_time_limit_changes_nothing(self) -> None:
        bounded, free = cg.minimize(F, G, time_limit=3600.0), cg.minimize(F, G)
        assert bounded.status is free.status is Status.CONVERGED
        assert bounded.iterations == free.iterations

    def test_time_limit_of_zero_still_certifies_the_start(self, optimum: float) -> None:
        r = cg.minimize(F, G, tol=0.0, time_limit=0.0)
        assert (r.status, r.iterations) == (Status.TIME_LIMIT, 0)
        assert_certified(r, optimum)


class TestStalled:
    """STALLED: nothing moves any more, up to rounding, and nothing did for a while."""

    @pytest.mark.parametrize("step", ["exact", "armijo", "short"])
    def test_zero_tolerance_ends_at_the_rounding(self, step: str, optimum: float) -> None:
        r = cg.minimize(F, G, tol=0.0, step=step, max_iter=100_000)
        assert r.status is Status.STALLED
        assert r.iterations < 100_000
        assert r.gap <= 1e-10
        assert_certified(r, optimum)

    def test_a_crawl_is_not_a_stall(self) -> None:
        r = cg.minimize(F, G, tol=0.0, step="open-loop", max_iter=400)
        assert r.status is Status.ITERATION_LIMIT


class TestInterrupted:
    """INTERRUPTED: Ctrl-C anywhere gives the best certified answer so far."""

    @staticmethod
    def assert_interrupted(r: cg.Result, optimum: float, iterations: int) -> None:
        assert r.status is Status.INTERRUPTED
        assert "interrupted" in r.message
        assert r.iterations == iterations
        assert len(r.trace) == iterations + 1
        assert r.value == pytest.approx(r.trace["best_value"][-1], rel=1e-12)
        assert r.lower_bound == r.trace["lower_bound"][-1]
        assert_certified(r, optimum)

    def test_inside_f(self, optimum: float) -> None:
        # the open loop calls f once an iteration, the sixth call is for iteration 5
        f = cg.smooth.Function(Hook(least_squares, at=6, action=interrupt))
        r = cg.minimize(f, G, x0=np.zeros(8), step="open-loop", tol=0.0)
        self.assert_interrupted(r, optimum, iterations=4)

    def test_inside_the_oracle(self, optimum: float) -> None:
        g, _ = counted_oracle(at=6, action=interrupt)
        r = cg.minimize(F, g, tol=0.0, step="armijo")
        self.assert_interrupted(r, optimum, iterations=4)

    def test_inside_the_callback(self, optimum: float) -> None:
        r = cg.minimize(
            F, G, tol=0.0, callback=lambda now: interrupt() if now.iteration == 5 else None
        )
        self.assert_interrupted(r, optimum, iterations=5)

    def test_inside_the_step(self, optimum: float) -> None:
        step = Hook(cg.steps.Exact(), at=3, action=interrupt)
        self.assert_interrupted(cg.minimize(F, G, tol=0.0, step=step), optimum, iterations=2)

    @pytest.mark.parametrize("at", [1, 4])
    def test_inside_the_stopping_rule(self, at: int, optimum: float) -> None:
        class Rule:
            """Never satisfied, interrupted once."""

            tolerance, name, calls = 0.0, "nothing", 0

            def measure(self, *seen: Any) -> float:
                self.calls += 1
                if self.calls == at:
                    interrupt()
                return 1.0

        r = cg.minimize(F, G, stop=Rule())
        assert r.status is Status.INTERRUPTED
        assert_certified(r, optimum)

    def test_before_anything_is_known(self) -> None:
        f = cg.smooth.Function(Hook(least_squares, at=1, action=interrupt))
        r = cg.minimize(f, G, x0=np.zeros(8))
        assert (r.status, r.iterations, len(r.trace)) == (Status.INTERRUPTED, 0, 0)
        assert r.value == pytest.approx(objective(np.zeros(8)))
        assert r.lower_bound == -math.inf
        assert "INTERRUPTED" in str(r)

    def test_progress_line_is_closed(self, capsys: pytest.CaptureFixture[str]) -> None:
        r = cg.minimize(
            F,
            G,
            tol=0.0,
            progress=True,
            callback=lambda now: interrupt() if now.iteration == 5 else None,
        )
        assert r.status is Status.INTERRUPTED
        assert "gap" in capsys.readouterr().err

    def test_a_real_signal(self, tmp_path: Path, optimum: float) -> None:
        script = tmp_path / "interrupted.py"
        script.write_text(
            textwrap.dedent(
                """
                import signal, sys, time
                import numpy as np
                import condgrad as cg

                # a shell may have started us with the signal ignored
                signal.signal(signal.SIGINT, signal.default_int_handler)
                data = np.load(sys.argv[1])
                A, Y = data["A"], data["Y"]

                def f(x):
                    time.sleep(0.002)
                    residual = A @ x - Y
                    return 0.5 * float(residual @ residual), A.T @ residual

                def ready(now):
                    if now.iteration == 5:
                        sys.stdout.write("ready\\n")
                        sys.stdout.flush()

                g = cg.simple.Ridge(0.1, on=cg.sets.L1Ball(1.0))
                r = cg.minimize(cg.smooth.Function(f), g, np.zeros(8), step="open-loop", tol=0.0,
                                max_iter=10**9, time_limit=30.0, callback=ready)
                sys.stdout.write(f"{r.status} {r.iterations} {r.lower_bound!r} {r.value!r}\\n")
                """
            )
        )
        np.savez(tmp_path / "data.npz", A=A, Y=Y)
        command = [sys.executable, "-W", "error", str(script), str(tmp_path / "data.npz")]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            os.kill(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=30)
        assert err == ""
        status, iterations, lower, value = out.split()
        assert status == "INTERRUPTED"
        assert int(iterations) >= 5
        assert float(lower) <= optimum + 1e-9
        assert optimum - 1e-9 <= float(value)

    def test_ctrl_c_in_compiled_code_keeps_the_answer(self) -> None:
        """Compiled code makes a SystemError of a KeyboardInterrupt."""

        def stop(now: cg.Progress) -> None:
            if now.iteration == 3:
                raise SystemError(
                    "returned a result with an exception set"
                ) from KeyboardInterrupt()

        f = cg.smooth.LeastSquares(np.eye(3), [1.0, 2.0, 3.0])
        result = cg.minimize(
            f,
            cg.simple.Ridge(0.1, on=cg.sets.L1Ball(1.0)),
            step="open-loop",
            tol=0.0,
            callback=stop,
        )
        assert result.status is cg.Status.INTERRUPTED
        assert result.iterations == 3


class TestCallback:
    """STOPPED_BY_CALLBACK, and what a callback sees."""

    def test_a_true_answer_stops(self, optimum: float) -> None:
        r = cg.minimize(F, G, tol=0.0, callback=lambda now: now.iteration == 3)
        assert r.status is Status.STOPPED_BY_CALLBACK
        assert r.iterations == 3
        assert_certified(r, optimum)

    @pytest.mark.parametrize("answer", [None, False, 0])
    def test_a_false_answer_does_not(self, answer: Any) -> None:
        r = cg.minimize(F, G, callback=lambda now: now and answer)
        assert r.status is Status.CONVERGED

    @pytest.mark.parametrize("step", ["exact", "open-loop"])
    def test_progress_fields_agree_with_the_trace(self, step: str) -> None:
        seen: list[cg.Progress] = []
        r = cg.minimize(F, G, tol=0.0, max_iter=30, step=step, callback=seen.append)
        trace = r.trace
        assert [now.iteration for now in seen] == list(range(31))
        for field in ("seconds", "value", "lower_bound", "step"):
            assert [getattr(now, field) for now in seen] == trace[field].tolist()
        assert [now.gap for now in seen] == (trace["best_value"] - trace["lower_bound"]).tolist()
        np.testing.assert_allclose([objective(now.x) for now in seen], trace["value"], rtol=1e-12)

    def test_the_last_iteration_is_seen_too(self) -> None:
        seen: list[int] = []
        r = cg.minimize(F, G, callback=lambda now: seen.append(now.iteration))
        assert r.status is Status.CONVERGED
        assert seen == r.trace["iteration"].tolist()

    def test_its_own_errors_pass_through(self) -> None:
        with pytest.raises(LookupError, match=r"^mine, at 0$"):
            cg.minimize(F, G, callback=fail)


class TestTrace:
    """The run by column."""

    COLUMNS = (
        "iteration",
        "seconds",
        "value",
        "best_value",
        "lower_bound",
        "gap",
        "step",
        "evaluations",
        "oracle_calls",
        "inner_iterations",
        "measure",
    )

    def test_columns_lengths_and_dtypes(self, crawl: cg.Result) -> None:
        assert crawl.trace.columns == self.COLUMNS
        assert len(crawl.trace) == 41
        for column in self.COLUMNS:
            values = crawl.trace[column]
            whole = column in ("iteration", "evaluations", "oracle_calls", "inner_iterations")
            assert values.shape == (41,)
            assert values.dtype == (np.int64 if whole else np.float64)
            assert np.isfinite(values).all()

    def test_contents(self, crawl: cg.Result) -> None:
        trace = crawl.trace
        assert trace["iteration"].tolist() == list(range(41))
        assert (trace["best_value"] <= np.minimum.accumulate(trace["value"])).all()
        assert (np.diff(trace["best_value"]) <= 0).all()
        assert (np.diff(trace["lower_bound"]) >= 0).all()
        assert (np.diff(trace["seconds"]) >= 0).all()
        assert trace["seconds"][0] >= 0
        assert trace["seconds"][-1] <= crawl.seconds
        np.testing.assert_array_equal(trace["gap"], trace["value"] - trace["lower_bound"])
        # the step is the one that led here: none at the start, then 2/(k+2)
        np.testing.assert_allclose(trace["step"], [0.0, *(2.0 / (k + 2.0) for k in range(40))])

    def test_a_column_is_a_copy(self, crawl: cg.Result) -> None:
        crawl.trace["value"][:] = 0.0
        assert crawl.trace["value"].min() > 0.0

    def test_unknown_column_lists_the_known(self, crawl: cg.Result) -> None:
        with pytest.raises(KeyError, match=r"no column 'values'.*lower_bound"):
            crawl.trace["values"]

    def test_repr(self, crawl: cg.Result) -> None:
        assert repr(crawl.trace).startswith("Trace(41 rows: iteration, seconds")

    def test_to_frame(self, crawl: cg.Result) -> None:
        frame = crawl.trace.to_frame()
        assert tuple(frame.columns) == self.COLUMNS
        for column in self.COLUMNS:
            np.testing.assert_array_equal(frame[column].to_numpy(), crawl.trace[column])
            assert frame[column].dtype == crawl.trace[column].dtype

    @pytest.mark.parametrize("kind", [str, Path])
    def test_to_csv_reads_back_equal(self, crawl: cg.Result, kind: type, tmp_path: Path) -> None:
        crawl.trace.to_csv(kind(tmp_path / "trace.csv"))
        with (tmp_path / "trace.csv").open(newline="") as file:
            header, *rows = csv.reader(file)
        assert tuple(header) == self.COLUMNS
        for column, texts in zip(header, zip(*rows, strict=True), strict=True):
            np.testing.assert_array_equal([float(text) for text in texts], crawl.trace[column])

    @pytest.mark.parametrize("against", ["iteration", "seconds"])
    def test_plot(self, crawl: cg.Result, against: str) -> None:
        ax = crawl.trace.plot(against=against)
        gap = crawl.trace["best_value"] - crawl.trace["lower_bound"]
        assert ax.get_yscale() == "log"
        assert ax.get_xlabel() == against
        assert len(ax.lines) == 2
        np.testing.assert_array_equal(ax.lines[0].get_xdata(), crawl.trace[against])
        np.testing.assert_array_equal(ax.lines[0].get_ydata(), gap)
        ax.figure.canvas.draw()
        pyplot.close(ax.figure)

    def test_plot_into_given_axes(self, crawl: cg.Result) -> None:
        figure, ax = pyplot.subplots()
        assert crawl.trace.plot(ax=ax) is ax
        pyplot.close(figure)

    def test_plot_against_something_else(self, crawl: cg.Result) -> None:
        with pytest.raises(
            ValueError, match="against must be 'iteration' or 'seconds', got 'time'"
        ):
            crawl.trace.plot(against="time")

    def test_plot_of_a_run_that_was_solved_at_once(self) -> None:
        r = cg.minimize(cg.smooth.Linear([1.0, 2.0]), cg.simple.Zero(on=BALL), x0=[0.0, -1.0])
        assert r.iterations == 0
        ax = r.trace.plot()
        ax.figure.canvas.draw()
        pyplot.close(ax.figure)

    def test_plot_of_an_empty_trace(self) -> None:
        ax = cg.Trace([]).plot()
        ax.figure.canvas.draw()
        pyplot.close(ax.figure)

    @pytest.mark.parametrize(
        ("step", "memory"), [("exact", 0), ("exact", 3), ("armijo", 0), ("open-loop", 0)]
    )
    def test_oracle_calls_are_real_calls(self, step: str, memory: int) -> None:
        g, argmin = counted_oracle()
        r = cg.minimize(F, g, step=step, memory=memory, max_iter=25, tol=0.0)
        assert r.trace["oracle_calls"][-1] == argmin.calls
        assert r.trace["oracle_calls"].tolist() == list(range(1, len(r.trace) + 1))

    def test_inner_iterations_add_up(self) -> None:
        def argmin(c: Any) -> cg.Answer:
            s = projected(-c / (2.0 * RIDGE))
            return cg.Answer(s, float(c @ s) + RIDGE * float(s @ s), inner_iterations=3)

        g = cg.simple.Oracle(lambda x: RIDGE * float(x @ x), argmin, on=BALL)
        r = cg.minimize(F, g, step="open-loop", max_iter=10, tol=0.0)
        assert r.trace["inner_iterations"].tolist() == list(range(3, 36, 3))

    def test_float32_data_have_a_float64_trace(self) -> None:
        r = cg.minimize(cg.smooth.LeastSquares(A.astype(np.float32), Y), G, max_iter=5)
        assert r.x.dtype == np.float32
        assert r.trace["value"].dtype == np.float64


class TestResult:
    """The answer and how it presents itself."""

    def test_gap_is_value_minus_bound(self, result: cg.Result) -> None:
        assert result.gap == result.value - result.lower_bound
        assert result.gap >= 0

    def test_the_best_iterate_is_returned(self, result: cg.Result) -> None:
        assert result.value <= result.trace["value"].min() * (1.0 + 1e-14)
        assert result.value == pytest.approx(objective(result.x), rel=1e-14)
        assert result.lower_bound == result.trace["lower_bound"].max()

    def test_the_open_loop_goes_up_and_the_answer_does_not(self) -> None:
        # f is flat but for one direction: the open loop must overshoot
        f = cg.smooth.LeastSquares(np.diag([10.0, 0.1]), [1.0, 0.0])
        r = cg.minimize(
            f, cg.simple.Zero(on=BALL), x0=[0.101, 0.0], step="open-loop", tol=0.0, max_iter=4
        )
        assert r.trace["value"].max() > r.trace["value"][0] + 1.0
        assert r.value <= r.trace["value"].min()
        np.testing.assert_array_equal(r.x, [0.101, 0.0])

    def test_str_has_status_value_bound_gap(self, result: cg.Result) -> None:
        text = str(result)
        for part in (
            result.status.name,
            result.message,
            f"{result.value:.12g}",
            f"{result.lower_bound:.12g}",
            f"{result.gap:.3g}",
            f"{result.iterations} iterations",
        ):
            assert part in text
        assert max(map(len, text.splitlines())) <= 120

    def test_repr_is_short(self, result: cg.Result) -> None:
        text = repr(result)
        assert text.startswith(f"Result({result.status.name}, value=")
        assert len(text) <= 100
        assert "\n" not in text

    def test_status_reads_as_its_name_and_carries_a_sentence(self) -> None:
        limits = ("ITERATION_LIMIT", "TIME_LIMIT", "STALLED", "INTERRUPTED", "STOPPED_BY_CALLBACK")
        assert tuple(str(status) for status in Status) == ("CONVERGED", "STATIONARY", *limits)
        assert all(" " in status.value for status in Status)

    def test_messages_of_unfinished_runs_tell_the_measure(self) -> None:
        r = cg.minimize(F, G, tol=0.0, max_iter=3)
        assert Status.ITERATION_LIMIT.value in r.message
        assert f"gap / scale of F is {r.trace['measure'][-1]:.3g}" in r.message

    def test_who_proved_it(self) -> None:
        r = cg.minimize(F, G, tol=0.0, max_iter=3)
        assert r.certificate.bound_from == f"iterate {int(np.argmax(r.trace['lower_bound']))}"
        assert r.certificate.value_from.split()[-1].isdigit()

    def test_is_frozen(self, result: cg.Result) -> None:
        with pytest.raises(FrozenInstanceError):
            result.message = "better"  # type: ignore[misc]


class TestProgressLine:
    """`progress=True`: a line on stderr, nothing on stdout."""

    def test_writes_to_stderr_only(self, capsys: pytest.CaptureFixture[str]) -> None:
        cg.minimize(F, G, progress=True)
        out, err = capsys.readouterr()
        assert out == ""
        assert "gap" in err
        assert "iteration" in err
        assert err.endswith("\n")

    def test_silent_by_default(self, capsys: pytest.CaptureFixture[str]) -> None:
        cg.minimize(F, G)
        assert capsys.readouterr() == ("", "")

    def test_the_last_line_is_the_last_iteration(self, capsys: pytest.CaptureFixture[str]) -> None:
        r = cg.minimize(F, G, progress=True)
        last = capsys.readouterr().err.strip().splitlines()[-1].split()
        assert last[last.index("iteration") + 1] == str(r.iterations)
        assert last[last.index("gap") + 1] == f"{r.gap:.2e}"

    def test_goes_with_a_callback(self, capsys: pytest.CaptureFixture[str]) -> None:
        r = cg.minimize(F, G, tol=0.0, progress=True, callback=lambda now: now.iteration == 4)
        assert r.status is Status.STOPPED_BY_CALLBACK
        assert r.iterations == 4
        assert "gap" in capsys.readouterr().err

    def test_changes_nothing_in_the_answer(self) -> None:
        loud, silent = cg.minimize(F, G, progress=True), cg.minimize(F, G)
        np.testing.assert_array_equal(loud.x, silent.x)
        assert loud.iterations == silent.iterations

    def test_survives_an_error(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(LookupError, match="mine, at 0"):
            cg.minimize(F, G, progress=True, callback=fail)
        assert "gap" in capsys.readouterr().err


def test_a_gap_is_not_excused_by_the_rounding_of_another_iterate() -> None:
    """Where F is 0 at the answer and at the null point, only the rounding of the bound itself is nothing."""
    C = np.array([[19.24610710144043], [-19.42987823486328]], np.float32)
    Xs = np.array([[-16.67948341369629], [8.041677474975586]], np.float32)
    L = np.array([[1.0, -1.0], [-1.0, 1.0]], np.float32)
    graph = cg.smooth.TransportLaplacian(
        Xs, np.array([[7858.82275390625]], np.float32), L, np.zeros((1, 1), np.float32)
    )
    g = cg.simple.L1Norm(0.217, on=cg.sets.L1Ball(8.67))
    r = cg.minimize(
        2.0 * cg.smooth.Linear(C) + 0.8 * graph, g, step="open-loop", tol=1e-9, max_iter=30
    )
    assert r.value == 0.0
    assert not r.success

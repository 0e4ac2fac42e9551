"""Figure 1: its runs on a tiny problem against other solvers, and its verdicts on curves made up here."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import cvxpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from experiments import transport_solvers
from experiments.paper.chapter import JudgedClaim, Verdict
from experiments.paper.figures import STYLES
from experiments.paper.tasks import Curve, Scale, thinned
from experiments.paper.transport import (
    FULL,
    QUICK,
    RUNS,
    TRANSPORT,
    Caps,
    gaps_of,
    sizes_of,
    solved,
    tasks,
)
from experiments.paper.wording import plain
from experiments.problems import ENTROPY, TransportProblem
from experiments.transport_solvers import COLUMNS, run_in_child

pytestmark = pytest.mark.slow  # the paper's report, which `make run` makes

N = 12
TINY = {N: Caps(cgs=0.4, cg=1.0, pot=0.3, newton=20.0)}
NAMES = ("certificate", "classical", "time", "objective", "growth", "mosek", "cvxopt")


@pytest.fixture(scope="module")
def curves() -> list[Curve]:
    """All tasks of the tiny experiment."""
    return [task.work() for task in tasks(Scale(), TINY)]


def verdicts(curves: Sequence[Curve], *, quick: bool = False) -> dict[str, Verdict]:
    return {name: claim.verdict for name, claim in claims(curves, quick=quick).items()}


def claims(curves: Sequence[Curve], *, quick: bool = False) -> dict[str, JudgedClaim]:
    return dict(zip(NAMES, TRANSPORT.chapter(curves, quick=quick).claims, strict=True))


# The runs -------------------------------------------------------------------------------------------------------------


def test_tasks_have_names_of_their_own_and_cgs_never_more_time_than_cg() -> None:
    """Else 'reaches better values' would be no wonder."""
    for scale, caps in ((Scale(), FULL), (Scale(quick=True), QUICK)):
        every = TRANSPORT.tasks(scale)
        assert len({task.name for task in every}) == len(every) == 2 * len(RUNS) + 1
        assert all(cap.cgs <= cap.cg for cap in caps.values())


def test_curves_have_the_promised_columns_and_start_at_the_product_of_the_weights(
    curves: list[Curve],
) -> None:
    by_solver = {curve.solver: curve for curve in curves[:-1]}
    assert set(by_solver) == set(RUNS)
    for solver, curve in by_solver.items():
        assert set(curve.columns) == set(COLUMNS) - (
            {"lower_bound"} if solver == "pot-gcg" else set()
        )
        assert bool(curve.columns["value"]) == (curve.status != "SKIPPED")
        assert curve.note or curve.status != "SKIPPED"
        if curve.columns["value"]:
            assert curve["value"][0] == pytest.approx(curve.facts["start_value"], rel=1e-12)
    assert by_solver["newton"].status == "CONVERGED"
    assert all(
        by_solver[solver].columns["value"]
        for solver in ("cg-emd", "cg-highs", "cg-cvxopt", "pot-gcg")
    )


def test_the_reference_agrees_with_another_solver(curves: list[Curve]) -> None:
    """F* by CVXPY from the problem's definition, written again."""
    problem = TransportProblem.of(N, 0)
    omega: Any = problem.omega
    G = cvxpy.Variable((N, N), nonneg=True)
    dense = [L.toarray() if hasattr(L, "toarray") else np.asarray(L) for L in (omega.Ls, omega.Lt)]
    roots = [np.linalg.cholesky(L + 1e-13 * np.eye(N)) for L in dense]
    smooth = cvxpy.sum_squares(roots[0].T @ G @ omega.Xt) + cvxpy.sum_squares(
        roots[1].T @ G.T @ omega.Xs
    )
    F = (
        cvxpy.sum(cvxpy.multiply(problem.cost, G))
        + 1e3 * smooth
        - ENTROPY * cvxpy.sum(cvxpy.entr(G))
    )
    task = cvxpy.Problem(
        cvxpy.Minimize(F), [cvxpy.sum(G, axis=1) == 1 / N, cvxpy.sum(G, axis=0) == 1 / N]
    )
    judged = task.solve(solver=cvxpy.CLARABEL)
    [size] = sizes_of(curves)
    assert size.slack <= 1e-11
    assert size.best == pytest.approx(judged, abs=1e-6)


def test_the_classical_gap_is_the_surrogate_gap(curves: list[Curve]) -> None:
    """At the start, against <grad F(x), x - s> with s from SciPy's assignment: for equal weights a permutation."""
    problem, gaps = TransportProblem.of(N, 0), curves[-1]
    x = np.full((N, N), 1.0 / N**2)
    slope = problem.f.at(x).gradient + ENTROPY * (np.log(x) + 1.0)
    rows, columns = linear_sum_assignment(slope)
    surrogate = float((slope * x).sum() - slope[rows, columns].sum() / N)
    assert gaps["value"][0] - gaps["classical_lower_bound"][0] == pytest.approx(surrogate, rel=1e-9)
    error = gaps["value"] - sizes_of(curves)[0].best
    assert all((gap >= error - 1e-12).all() for gap in gaps_of(gaps))


def test_rivals_are_judged_at_rounded_plans() -> None:
    """A plan off the polytope gets the value of its rounding."""
    problem = TransportProblem.of(N, 0)
    inside = np.full((N, N), 1.0 / N**2)
    assert problem.value(0.5 * inside) == pytest.approx(problem.value(inside), rel=1e-12)
    assert problem.value(inside) == pytest.approx(
        problem.f.at(inside).value + problem.g.value(inside), rel=1e-12
    )


def test_a_linear_program_that_takes_too_long_is_killed() -> None:
    """CVXOPT needs minutes for this one; a curve with a value would mean that somebody waited for it."""
    curve = solved(400, "cg-cvxopt", cap=0.2)
    assert (curve.status, curve.facts["reason"], curve.columns["value"]) == (
        "SKIPPED",
        "too slow",
        [],
    )
    assert "0.2 s" in curve.note


def _dies(*_: object) -> None:
    raise SystemExit(7)


def test_a_child_that_breaks_or_dies_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    make = partial(TransportProblem.of, N, 0)
    run = run_in_child("abacus", make, 5.0)
    assert (run.columns["value"], run.status) == ([], "FAILED")
    assert "abacus" in run.note
    monkeypatch.setattr(transport_solvers, "child_main", _dies)
    dead = run_in_child("highs", make, 5.0)
    assert (dead.status, dead.note) == ("FAILED", "its process ended early with exit code 7")


@pytest.mark.parametrize(
    ("solver", "module"), [("cg-emd", "ot"), ("pot-gcg", "ot"), ("cg-mosek", "mosek")]
)
def test_a_missing_library_is_a_sentence(
    solver: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    curve = solved(N, solver, cap=0.1)
    assert (curve.status, curve.facts["reason"]) == ("SKIPPED", "missing")
    assert f"needs {module}, which is not installed" in curve.note


# The chapter ----------------------------------------------------------------------------------------------------------


@settings(max_examples=12)
@given(kept=st.sets(st.integers(0, len(RUNS))))
def test_any_part_of_the_curves_makes_a_chapter(curves: list[Curve], kept: set[int]) -> None:
    chapter = TRANSPORT.chapter([curve for i, curve in enumerate(curves) if i in kept])
    assert len(chapter.claims) == len(NAMES)
    assert all(line.solver in STYLES for figure in chapter.figures for line in figure.legend)
    assert all(len(row) == len(table.columns) for table in chapter.tables for row in table.rows)
    if not kept:
        assert {claim.verdict for claim in chapter.claims} == {Verdict.UNTESTED}


def test_the_chapter_of_all(curves: list[Curve]) -> None:
    chapter = TRANSPORT.chapter(curves)
    assert [figure.name for figure in chapter.figures] == [
        "figure-1-suboptimality",
        "figure-1",
        "figure-1-gaps",
    ]
    assert [claim.verdict for claim in chapter.claims[:2]] == [Verdict.HOLDS, Verdict.HOLDS]
    assert f"n = {N}, errors divided by F_0 - F*: Newton is below 10⁻⁸ after" in plain(
        chapter.summary
    )
    shown = {row[0]: row for row in chapter.tables[0].rows}
    assert shown["Newton"][4] != "-"
    assert len(shown) == len(RUNS)


@given(count=st.integers(1, 5000), most=st.integers(2, 300))
def test_thinning_keeps_both_ends(count: int, most: int) -> None:
    kept = thinned(count, most)
    assert (kept[0], kept[-1]) == (0, count - 1)
    assert len(kept) <= most
    assert (np.diff(kept) > 0).all()


# Verdicts are functions of the numbers --------------------------------------------------------------------------------


def falling(solver: str, n: int, rate: float, *, seconds: float = 0.1, rows: int = 40) -> Curve:
    """F falls from 1 towards 0 by `rate` a row, a row each `seconds`."""
    value = (rate ** np.arange(rows)).tolist()
    times = (seconds * np.arange(1, rows + 1)).tolist()
    columns = {
        "iteration": list(range(rows)),
        "seconds": times,
        "value": value,
        "best_value": value,
    }
    facts = {"n": n, "cap": 1.0, "start_value": 1.0}
    return Curve(
        f"n = {n}", solver, 0, {**columns, "lower_bound": [0.0] * rows}, "TIME_LIMIT", facts=facts
    )


def skipped(solver: str, n: int, reason: str) -> Curve:
    facts = {"n": n, "cap": 1.0, "start_value": 1.0, "reason": reason}
    return Curve(
        f"n = {n}",
        solver,
        0,
        {name: [] for name in COLUMNS},
        "SKIPPED",
        f"{solver} was {reason}.",
        facts,
    )


def exact(n: int) -> Curve:
    return falling("newton", n, 0.0)


def duel(cgs: str, cg_solver: str) -> list[Curve]:
    """A fast and a slow curve at two sizes, the difference growing."""
    pairs = ((100, 0.9), (500, 0.97))
    return [
        c
        for n, slow in pairs
        for c in (exact(n), falling(cgs, n, 0.4), falling(cg_solver, n, slow))
    ]


def swapped(curves: Sequence[Curve], one: str, other: str) -> list[Curve]:
    names = {one: other, other: one}
    return [replace(curve, solver=names.get(curve.solver, curve.solver)) for curve in curves]


def test_swapped_labels_turn_the_verdicts() -> None:
    told = duel("cgs-exact", "cg-mosek")
    before, after = verdicts(told), verdicts(swapped(told, "cgs-exact", "cg-mosek"))
    for claim in ("time", "objective", "mosek"):
        assert (before[claim], after[claim]) == (Verdict.HOLDS, Verdict.FAILS)
    assert before["growth"] is Verdict.HOLDS


def test_a_quick_run_says_where_it_is_too_short_to_judge() -> None:
    found = verdicts(duel("cgs-exact", "cg-mosek"), quick=True)
    assert {found[name] for name in ("time", "growth", "mosek", "cvxopt")} == {Verdict.TOO_SHORT}
    assert found["certificate"] is found["objective"] is Verdict.HOLDS


def test_growth_needs_a_growing_gain_or_an_engine_that_no_longer_finishes() -> None:
    shrinking = [
        replace(c, facts={**c.facts, "n": 600 - c.facts["n"]}) for c in duel("cgs-exact", "cg-emd")
    ]
    assert verdicts(shrinking)["growth"] is Verdict.FAILS
    told = duel("cgs-exact", "cg-highs")[:-1]
    assert verdicts([*told, skipped("cg-highs", 500, "too slow")])["growth"] is Verdict.HOLDS
    assert verdicts([*told, skipped("cg-highs", 500, "missing")])["growth"] is Verdict.UNTESTED


def test_ahead_at_the_end_alone_is_in_part() -> None:
    """CG that is faster down to 10^-1 and then stands still."""
    slow_start = falling("cg-emd", 100, 0.5, seconds=0.01)
    late = [*np.maximum(slow_start.columns["value"], 0.05).tolist()[:-1], 0.049]
    cg_curve = replace(
        slow_start, columns={**slow_start.columns, "value": late, "best_value": late}
    )
    found = verdicts([exact(100), falling("cgs-exact", 100, 0.4, seconds=0.05), cg_curve])
    assert (found["time"], found["objective"]) == (Verdict.IN_PART, Verdict.HOLDS)


def test_all_cases_are_not_all_where_an_engine_is_missing() -> None:
    told = duel("cgs-exact", "cg-highs")
    assert verdicts([*told, skipped("cg-cvxopt", 500, "too slow")])["time"] is Verdict.HOLDS
    missing = replace(skipped("cg-emd", 100, "missing"), note="engine='emd' < nothing")
    claim = claims([*told, missing])["time"]
    assert claim.verdict is Verdict.IN_PART
    assert (
        "Not all cases were tested: CG, network simplex: engine='emd' < nothing." in claim.measured
    )


def test_mosek_is_untested_without_a_licence_and_judged_with_one() -> None:
    without = [*duel("cgs-exact", "cg-emd"), skipped("cg-mosek", 100, "missing")]
    claim = claims(without)["mosek"]
    assert (claim.verdict, claim.why) == (Verdict.UNTESTED, "cg-mosek was missing.")
    assert "network simplex" in claim.measured
    ours = [exact(100), falling("cgs-exact", 100, 0.4)]
    assert verdicts([*ours, falling("cg-mosek", 100, 0.3)])["mosek"] is Verdict.FAILS
    assert verdicts([*ours, falling("cg-mosek", 100, 0.5)])["mosek"] is Verdict.IN_PART


def test_cvxopt_at_500() -> None:
    ours = [exact(500), falling("cgs-exact", 500, 0.4)]
    assert verdicts([*ours, skipped("cg-cvxopt", 500, "too slow")])["cvxopt"] is Verdict.HOLDS
    assert verdicts([*ours, skipped("cg-cvxopt", 500, "missing")])["cvxopt"] is Verdict.UNTESTED
    assert verdicts([*ours, falling("cg-cvxopt", 500, 0.5)])["cvxopt"] is Verdict.FAILS
    assert (
        verdicts([exact(100), skipped("cg-cvxopt", 100, "too slow")])["cvxopt"] is Verdict.UNTESTED
    )


def test_doctored_bounds_turn_the_verdicts_on_certificates(curves: list[Curve]) -> None:
    first, gaps = curves[0], curves[-1]
    assert verdicts(curves)["certificate"] is verdicts(curves)["classical"] is Verdict.HOLDS
    high = replace(
        first, columns={**first.columns, "lower_bound": (first["lower_bound"] + 1e-3).tolist()}
    )
    assert verdicts([high, *curves[1:]])["certificate"] is Verdict.FAILS
    other = {
        "lower_bound": gaps.columns["classical_lower_bound"],
        "classical_lower_bound": gaps.columns["lower_bound"],
    }
    exchanged = replace(gaps, columns={**gaps.columns, **other})
    assert verdicts([*curves[:-1], exchanged])["classical"] is Verdict.FAILS

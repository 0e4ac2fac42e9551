"""Figure 1: its pieces on tiny problems against another solver, and its verdicts on curves made up here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cvxpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condgrad as cg
from condgrad.paper import transport_child
from condgrad.paper.chapters import Chapter, Verdict
from condgrad.paper.pieces import Curve, Experiment, Scale
from condgrad.paper.reading import thinned
from condgrad.paper.solvers import STYLES
from condgrad.paper.transport import TRANSPORT, Caps, Plan, TransportExperiment
from condgrad.paper.transport_chapter import transport_chapter
from condgrad.paper.transport_child import ROW, main, streamed_cg
from condgrad.paper.transport_claims import gaps_of, transport_claims
from condgrad.paper.transport_problem import ENTROPY, TransportProblem
from condgrad.paper.transport_reading import sizes_of
from condgrad.paper.transport_runs import RUNS, Run, run_engine, run_network_simplex, run_pot

N = 12
TINY = TransportExperiment(full=Plan((N,), (Caps(cgs=0.4, cg=1.0, pot=0.3, newton=20.0),)))
CLAIMS = ("certificate", "classical", "time", "objective", "growth", "mosek", "cvxopt")


@pytest.fixture(scope="module")
def curves() -> list[Curve]:
    """All pieces of the tiny experiment."""
    return [piece.work() for piece in TINY.pieces(Scale())]


def verdicts(curves: Sequence[Curve]) -> dict[str, Verdict]:
    return dict(zip(CLAIMS, (claim.verdict for claim in transport_claims(sizes_of(curves))), strict=True))


def check_lines(chapter: Chapter) -> None:
    for figure in chapter.figures:
        for line in (line for row in figure.rows for panel in row for line in panel.lines):
            assert line.solver in STYLES
            assert len(line.x) == len(line.y)
    for table in chapter.tables:
        assert all(len(row) == len(table.columns) for row in table.rows)


# The pieces -----------------------------------------------------------------------------------------------------------


def test_the_experiment_is_one_and_its_pieces_have_names_of_their_own() -> None:
    experiment: Experiment = TRANSPORT
    assert experiment.name == "figure-1"
    for scale, sizes in ((Scale(), (100, 500)), (Scale(quick=True), (100, 200))):
        pieces = experiment.pieces(scale)
        assert len({piece.name for piece in pieces}) == len(pieces) == 2 * len(RUNS) + 1
        assert {piece.settings["n"] for piece in pieces} == set(sizes)
        assert all(piece.seconds > 0.0 for piece in pieces)


def test_cgs_never_has_more_time_than_cg() -> None:
    """Else 'reaches better values' would be no wonder."""
    assert all(caps.cgs <= caps.cg for plan in (TRANSPORT.full, TRANSPORT.quick) for caps in plan.caps)


def test_curves_have_the_promised_columns(curves: list[Curve]) -> None:
    by_solver = {curve.solver: curve for curve in curves[:-1]}
    assert set(by_solver) == set(RUNS)
    for solver, curve in by_solver.items():
        wanted = set(ROW) - {"lower_bound"} if solver == "pot-gcg" else set(ROW)
        assert set(curve.columns) == wanted
        assert len({len(column) for column in curve.columns.values()}) == 1
        assert bool(curve.columns["value"]) == (curve.status != "SKIPPED")
        assert curve.note or curve.status != "SKIPPED"
        assert curve.seed == 0
    assert by_solver["newton"].status == "CONVERGED"
    assert all(by_solver[solver].columns["value"] for solver in ("cg-emd", "cg-highs", "cg-cvxopt", "pot-gcg"))


def test_all_start_at_the_product_of_the_weights(curves: list[Curve]) -> None:
    for curve in curves:
        if curve.columns["value"]:
            assert curve.columns["value"][0] == pytest.approx(curve.facts["start_value"], rel=1e-12)


def test_the_reference_agrees_with_another_solver(curves: list[Curve]) -> None:
    """F* by CVXPY from the problem's definition, written again."""
    problem = TransportProblem.of(N, 0)
    omega: Any = problem.omega
    G = cvxpy.Variable((N, N), nonneg=True)
    roots = [np.linalg.cholesky(_dense(L) + 1e-13 * np.eye(N)) for L in (omega.Ls, omega.Lt)]
    smooth = cvxpy.sum_squares(roots[0].T @ G @ omega.Xt) + cvxpy.sum_squares(roots[1].T @ G.T @ omega.Xs)
    F = cvxpy.sum(cvxpy.multiply(problem.cost, G)) + 1e3 * smooth - ENTROPY * cvxpy.sum(cvxpy.entr(G))
    task = cvxpy.Problem(cvxpy.Minimize(F), [cvxpy.sum(G, axis=1) == 1 / N, cvxpy.sum(G, axis=0) == 1 / N])
    judged = task.solve(solver=cvxpy.CLARABEL)
    reference = sizes_of(curves)[0].reference
    assert reference.slack <= 1e-11
    assert reference.value == pytest.approx(judged, abs=1e-6)
    assert all(max(c.columns["lower_bound"]) <= judged + 1e-6 for c in curves if c.columns.get("lower_bound"))


def _dense(L: Any) -> Any:
    return L.toarray() if hasattr(L, "toarray") else np.asarray(L)


def test_the_classical_gap_is_the_surrogate_gap(curves: list[Curve]) -> None:
    """At the start, against <grad F(x), x - s> with s from SciPy's assignment: for equal weights a permutation."""
    from scipy.optimize import linear_sum_assignment

    problem, gaps = TransportProblem.of(N, 0), curves[-1]
    x = np.full((N, N), 1.0 / N**2)
    slope = problem.f.at(x).gradient + ENTROPY * (np.log(x) + 1.0)
    rows, columns = linear_sum_assignment(slope)
    surrogate = float((slope * x).sum() - slope[rows, columns].sum() / N)
    assert gaps.columns["value"][0] - gaps.columns["classical_lower_bound"][0] == pytest.approx(surrogate, rel=1e-9)
    ours, classical = gaps_of(gaps)
    error = np.array(gaps.columns["value"]) - sizes_of(curves)[0].reference.value
    assert (ours >= error - 1e-12).all()
    assert (classical >= error - 1e-12).all()


# What cannot run ------------------------------------------------------------------------------------------------------


def test_a_linear_program_that_takes_too_long_is_killed() -> None:
    """CVXOPT needs minutes for this one; a curve with a value would mean that somebody waited for it."""
    curve = run_engine(Run("cg-cvxopt", 400, 0, cap=0.2))
    assert (curve.status, curve.facts["reason"]) == ("SKIPPED", "too slow")
    assert "0.2 s" in curve.note
    assert not curve.columns["value"]


def test_a_broken_child_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    request = {"n": N, "seed": 0, "engine": "abacus", "cap": 1.0, "tol": 1e-6}
    monkeypatch.setattr(sys, "argv", ["-c", json.dumps(request)])
    main()
    told = json.loads(capsys.readouterr().out)
    assert told["status"] == "FAILED"
    assert "abacus" in told["note"]


def test_a_child_that_dies_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_child, "PROGRAM", "raise SystemExit(7)")
    stream = streamed_cg(N, 0, "highs", 5.0, 1e-6)
    assert (stream.rows, stream.status) == ([], "FAILED")
    assert "exit code 7" in stream.note


def test_a_script_without_a_guard_can_run_an_engine(tmp_path: Path) -> None:
    """The child must not run the caller's script again, nor take modules from its folder."""
    script = tmp_path / "caller.py"
    (tmp_path / "condgrad.py").write_text("raise SystemExit('the wrong module')")
    script.write_text(
        "import sys; sys.path.pop(0)\n"
        "from condgrad.paper.transport_runs import Run, run_engine\n"
        f"print(len(run_engine(Run('cg-highs', {N}, 0, cap=0.2)).columns['value']))\n"
    )
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert int(done.stdout) > 1


@pytest.mark.parametrize(
    ("solver", "module", "run"),
    [("cg-emd", "ot", run_network_simplex), ("pot-gcg", "ot", run_pot), ("cg-mosek", "mosek", run_engine)],
)
def test_a_missing_library_is_a_sentence(solver: str, module: str, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    curve = run(Run(solver, N, 0, cap=0.1))
    assert (curve.status, curve.facts["reason"]) == ("SKIPPED", "missing")
    assert f"needs {module}, which is not installed" in curve.note


# The chapter ----------------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(kept=st.sets(st.integers(0, len(RUNS))))
def test_any_part_of_the_curves_makes_a_chapter(curves: list[Curve], kept: set[int]) -> None:
    chapter = transport_chapter([curve for i, curve in enumerate(curves) if i in kept])
    check_lines(chapter)
    assert len(chapter.claims) == len(CLAIMS)
    if not kept:
        assert all(claim.verdict is Verdict.UNTESTED for claim in chapter.claims)


def test_the_chapter_of_all(curves: list[Curve]) -> None:
    chapter = TINY.chapter(curves)
    check_lines(chapter)
    assert [figure.name for figure in chapter.figures] == ["figure-1", "figure-1-suboptimality", "figure-1-gaps"]
    assert [claim.verdict for claim in chapter.claims[:2]] == [Verdict.HOLDS, Verdict.HOLDS]
    shown = {row[0]: row for row in chapter.tables[0].rows}
    assert shown["Newton"][4] != "-"
    assert len(shown) == len(RUNS)


@given(count=st.integers(1, 5000), most=st.integers(2, 300))
def test_thinning_keeps_both_ends(count: int, most: int) -> None:
    kept = thinned(count, most)
    assert kept[0] == 0
    assert kept[-1] == count - 1
    assert len(kept) <= max(most, 1)
    assert (np.diff(kept) > 0).all()


# Verdicts are functions of the numbers --------------------------------------------------------------------------------


def falling(solver: str, n: int, rate: float, *, seconds: float = 0.1, rows: int = 40, bound: float = 0.0) -> Curve:
    """F falls from 1 towards 0 by `rate` a row, a row each `seconds`."""
    value = (rate ** np.arange(rows)).tolist()
    columns = {
        "iteration": list(range(rows)),
        "seconds": (seconds * np.arange(1, rows + 1)).tolist(),
        "value": value,
        "best_value": value,
        "lower_bound": [bound] * rows,
    }
    return Curve(f"n = {n}", solver, 0, columns, "TIME_LIMIT", facts={"n": n, "cap": 1.0, "start_value": 1.0})


def exact(n: int) -> Curve:
    return falling("newton", n, 0.0, bound=0.0)


def skipped(solver: str, n: int, reason: str) -> Curve:
    columns: dict[str, list[float]] = {name: [] for name in ROW}
    facts = {"n": n, "cap": 1.0, "start_value": 1.0, "reason": reason}
    return Curve(f"n = {n}", solver, 0, columns, "SKIPPED", f"{solver} was {reason}.", facts)


def duel(cgs: str, cg_solver: str) -> list[Curve]:
    """A fast and a slow curve at two sizes, the difference growing."""
    return [
        curve
        for n, slow in ((100, 0.9), (500, 0.97))
        for curve in (exact(n), falling(cgs, n, 0.4), falling(cg_solver, n, slow))
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


def test_a_gain_that_shrinks_is_not_amplified() -> None:
    told = [replace(c, facts={**c.facts, "n": 600 - c.facts["n"]}) for c in duel("cgs-exact", "cg-emd")]
    assert verdicts(told)["growth"] is Verdict.FAILS


def test_an_engine_that_no_longer_finishes_counts_as_amplified() -> None:
    told = [*duel("cgs-exact", "cg-highs")[:-1], skipped("cg-highs", 500, "too slow")]
    assert verdicts(told)["growth"] is Verdict.HOLDS
    missing = [*told[:-1], skipped("cg-highs", 500, "missing")]
    assert verdicts(missing)["growth"] is Verdict.UNTESTED


def test_ahead_at_the_end_alone_is_in_part() -> None:
    """CG that is faster down to 10^-1 and then stands still."""
    slow_start = falling("cg-emd", 100, 0.5, seconds=0.01)
    value = np.maximum(slow_start.columns["value"], 0.05).tolist()
    late = [*value[:-1], 0.049]
    cg_curve = replace(slow_start, columns={**slow_start.columns, "value": late, "best_value": late})
    found = verdicts([exact(100), falling("cgs-exact", 100, 0.4, seconds=0.05), cg_curve])
    assert found["time"] is Verdict.IN_PART
    assert found["objective"] is Verdict.HOLDS


def test_all_cases_are_not_all_where_an_engine_is_missing() -> None:
    told = duel("cgs-exact", "cg-highs")
    assert verdicts(told)["time"] is Verdict.HOLDS
    late = transport_claims(sizes_of([*told, skipped("cg-cvxopt", 500, "too slow")]))[CLAIMS.index("time")]
    assert late.verdict is Verdict.HOLDS
    claim = transport_claims(sizes_of([*told, skipped("cg-emd", 100, "missing")]))[CLAIMS.index("time")]
    assert claim.verdict is Verdict.IN_PART
    assert "Not all cases were tested: CG, network simplex: cg-emd was missing." in claim.measured
    worse = [*swapped(told, "cgs-exact", "cg-highs"), skipped("cg-emd", 100, "missing")]
    assert verdicts(worse)["time"] is Verdict.FAILS


def test_mosek_is_untested_without_a_licence_and_judged_with_one() -> None:
    without = [*duel("cgs-exact", "cg-emd"), skipped("cg-mosek", 100, "missing")]
    claim = transport_claims(sizes_of(without))[CLAIMS.index("mosek")]
    assert claim.verdict is Verdict.UNTESTED
    assert "network simplex" in claim.measured
    assert claim.why == "cg-mosek was missing."
    near = [exact(100), falling("cgs-exact", 100, 0.4), falling("cg-mosek", 100, 0.3)]
    assert verdicts(near)["mosek"] is Verdict.FAILS
    close = [exact(100), falling("cgs-exact", 100, 0.4), falling("cg-mosek", 100, 0.5)]
    assert verdicts(close)["mosek"] is Verdict.IN_PART


def test_cvxopt_at_500() -> None:
    ours = [exact(500), falling("cgs-exact", 500, 0.4)]
    assert verdicts([*ours, skipped("cg-cvxopt", 500, "too slow")])["cvxopt"] is Verdict.HOLDS
    assert verdicts([*ours, skipped("cg-cvxopt", 500, "missing")])["cvxopt"] is Verdict.UNTESTED
    assert verdicts([*ours, falling("cg-cvxopt", 500, 0.5)])["cvxopt"] is Verdict.FAILS
    assert verdicts([exact(100), skipped("cg-cvxopt", 100, "too slow")])["cvxopt"] is Verdict.UNTESTED


def test_a_bound_above_a_value_fails_the_certificate(curves: list[Curve]) -> None:
    assert verdicts(curves)["certificate"] is Verdict.HOLDS
    first = curves[0]
    too_high = [bound + 1e-3 for bound in first.columns["lower_bound"]]
    doctored = replace(first, columns={**first.columns, "lower_bound": too_high})
    assert verdicts([doctored, *curves[1:]])["certificate"] is Verdict.FAILS


def test_exchanged_gaps_turn_the_verdict(curves: list[Curve]) -> None:
    gaps = curves[-1]
    other = {"lower_bound": gaps.columns["classical_lower_bound"], "classical_lower_bound": gaps.columns["lower_bound"]}
    exchanged = replace(gaps, columns={**gaps.columns, **other})
    assert verdicts(curves)["classical"] is Verdict.HOLDS
    assert verdicts([*curves[:-1], exchanged])["classical"] is Verdict.FAILS


def test_pot_is_judged_at_rounded_plans() -> None:
    """A plan off the polytope gets the value of its rounding, which no plan of the polytope beats unduly."""
    problem = TransportProblem.of(N, 0)
    inside = np.full((N, N), 1.0 / N**2)
    assert problem.value(0.5 * inside) == pytest.approx(problem.value(inside), rel=1e-12)
    assert problem.value(inside) == pytest.approx(problem.f.at(inside).value + problem.g.value(inside), rel=1e-12)
    assert cg.sets.Transport(problem.polytope.a, problem.polytope.b).contains(problem.polytope.rounded(0.5 * inside))

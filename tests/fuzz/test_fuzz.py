"""Some hundred problems of the campaign, and proof that each of its checks can fail."""

from __future__ import annotations

import math
from functools import cache
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from tests.fuzz import __main__ as campaign
from tests.fuzz import checks, judges, models, plans
from tests.fuzz.families import FAMILIES, drawn, family_of
from tests.fuzz.problems import Case, Claim, Target, minimized, reference_case


@pytest.mark.parametrize(
    "first",
    [*range(0, 72, 18), *(pytest.param(k, marks=pytest.mark.slow) for k in range(72, 144, 18))],
)
def test_problems_of_the_campaign(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is wrong with any answer; what depends on the speed of the machine is left to the campaign."""
    monkeypatch.setattr(
        checks, "HANG", 300.0
    )  # the first problems of a fresh machine compile kernels
    report = campaign.check_chunk(4, first, 18)
    failures = [failure for failure in report.failures if failure.kind not in checks.NOTED]
    assert report.problems == 18
    assert [f"{failure.kind}: {failure.detail}\n{failure.reproducer}" for failure in failures] == []


# The checks can fail --------------------------------------------------------------------------------------------------


def lasso() -> Target:
    """min 1/2 (2 x - 2)^2 + 1/2 (y - 2)^2 + 1/2 |(x, y)|^2 over |x| + |y| <= 1, as in the docstring of minimize."""
    A, y = np.diag([2.0, 1.0]), np.array([2.0, 2.0])
    parts = (judges.Loss(judges.squares, A, y, np.ones(2)), judges.Norm("squared", 0.5))

    def source(c: float) -> str:
        return f"f = {c!r} * cg.smooth.LeastSquares(A, y)\ng = cg.simple.Ridge({0.5 * c!r}, on=cg.sets.L1Ball(1.0))\n"

    kinds = ("LeastSquares", "Ridge", "L1Ball")
    return Target(
        judges.Total((1.0, 1.0), parts),
        judges.NormBall("l1", 1.0),
        (2,),
        {"A": A, "y": y},
        source,
        kinds,
    )


def case_of(target: Target, code: str, **options: Any) -> Case:
    """A call with source of its own."""
    kinds = ("minimize", *target.kinds, "cgs exact", "float64")
    return Case(
        kinds, target.values, lambda c: target.source(c) + code, minimized(target), **options
    )


def kinds_of(target: Target, claim: Claim, **options: Any) -> set[str]:
    """What the judge has against a claim."""
    case = case_of(target, "answer = None", **options)
    failures, _ = checks.check_target(target, [(case, claim)], ask_cvxpy=False)
    return {failure.kind for failure in failures}


@pytest.fixture
def target() -> Target:
    return lasso()


@pytest.fixture
def claim(target: Target) -> Claim:
    """A claim that is true."""
    (claim,) = checks.run(reference_case(target)).claims
    assert claim.value - claim.lower_bound <= 1e-12
    return claim


def test_a_true_claim_passes(target: Target, claim: Claim) -> None:
    assert kinds_of(target, claim) == set()


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("false certificate", lambda claim: {"lower_bound": claim.value + 1e-9}),
        ("above by rounding", lambda claim: {"lower_bound": claim.value + 1e-14}),
        ("wrong value", lambda claim: {"value": claim.value + 1e-9}),
        ("wrong value", lambda claim: {"x": 0.99 * claim.x}),
        ("infeasible", lambda claim: {"x": (1.0 + 1e-9) * claim.x}),
        ("not finite", lambda claim: {"x": claim.x + np.nan}),
        ("not finite", lambda _: {"value": np.inf}),
        ("not finite", lambda _: {"lower_bound": -np.inf}),
        ("wrong status", lambda claim: {"lower_bound": claim.value - 1.0}),
        ("wrong status", lambda _: {"relative_gap": 1e-3}),
        ("wrong status", lambda _: {"status": "ITERATION_LIMIT"}),
        ("wrong status", lambda _: {"status": "TIME_LIMIT"}),
        ("wrong status", lambda _: {"status": "INTERRUPTED"}),
        ("wrong status", lambda claim: {"status": "STALLED", "x": 0.9 * claim.x}),
    ],
)
def test_a_false_claim_is_found(target: Target, claim: Claim, kind: str, change: Any) -> None:
    assert kind in kinds_of(target, claim._replace(**change(claim)))


JUDGED_FAMILIES = [name for name in FAMILIES if name != "wrong input"]


@cache
def solved(family: str) -> tuple[Target, Case, Claim]:
    """A problem of a family whose answer is close to the optimum, and other than 0."""
    for index in range(4000):
        if family_of(21, index) != family:
            continue
        case = drawn(21, index)[0]
        outcome = checks.run(case)
        for claim in outcome.claims[:1]:
            close = claim.value - claim.lower_bound <= 1e-4 * abs(claim.value)
            if close and np.abs(checks.host(claim.x)).max() > 0.0 and case.time_limit is None:
                return claim.target, case, claim
    raise AssertionError(f"no problem of {family} was solved")


@pytest.mark.parametrize("family", JUDGED_FAMILIES)
def test_a_false_claim_of_each_family_is_found(family: str) -> None:
    """True as it is; false with a bound above the value, another value, or a point outside."""
    target, case, claim = solved(family)
    x = checks.host(claim.x)
    size = float(target.objective.at(judges.wide(x)).size)
    share = 1e-3 if x.dtype == np.float32 else 1e-7

    def kinds(**change: Any) -> set[str]:
        changed = claim._replace(**change)
        failures, _ = checks.check_target(target, [(case, changed)], ask_cvxpy=False)
        return {failure.kind for failure in failures}

    assert kinds() == set()
    assert "false certificate" in kinds(lower_bound=claim.value + share * size)
    assert "wrong value" in kinds(value=claim.value + share * size)
    if target.region == judges.Everywhere(positive=False):
        return
    outside = x.copy()
    outside.flat[0] -= x.dtype.type(2.0 * (target.region.scale or float(np.abs(x).max())))
    assert "infeasible" in kinds(x=outside)


def test_an_oracle_with_a_wrong_bound_is_found() -> None:
    """At the start F is 4 and 2.5 at the oracle's point, the bound 0.5, and the minimum 1.857; the oracle adds 1.9."""
    target = lasso()
    code = """
def lying(c):
    point = cg.simple.Ridge(0.5, on=cg.sets.L1Ball(1.0)).argmin(c).point
    return cg.Answer(point, float(c @ point) + 0.5 * float(point @ point) + 1.9)

g = cg.simple.Oracle(lambda x: 0.5 * float(x @ x), lying, on=cg.sets.L1Ball(1.0))
answer = cg.minimize(f, g, max_iter=0)
"""
    outcome = checks.run(case_of(target, code, max_iter=0))
    assert outcome.error is None
    assert "false certificate" in kinds_of(target, outcome.claims[0])


def test_a_bound_of_float32_is_judged_by_float64() -> None:
    """Entropies of weight 1e5 on a mass of 4: the minimum of F is 4.499775."""
    A, on = np.array([[0.0, 1.0, 2.0, 3.0]]), judges.ScaledSimplex(4.0)
    parts = (
        judges.Loss(judges.squares, A, np.array([3.0]), np.ones(1)),
        judges.NegativeEntropy(1e5),
    )
    source = "f = cg.smooth.LeastSquares(A, [3.0])\ng = cg.simple.Entropy(1e5, on=cg.sets.Simplex(4, 4.0))\n"
    kinds = ("LeastSquares", "Entropy", "Simplex")
    target = Target(judges.Total((1.0, 1.0), parts), on, (4,), {"A": A}, lambda _c: source, kinds)
    claim = Claim(target, np.ones(4, np.float32), 4.5, 4.5, "CONVERGED", 1)
    assert kinds_of(target, claim) == {"above by rounding"}
    assert "false certificate" in kinds_of(target, claim._replace(x=np.ones(4)))


@pytest.mark.parametrize(
    ("code", "options", "kind"),
    [
        ("raise RuntimeError('no')", {}, "exception"),
        ("raise ValueError('no')", {}, "exception"),
        ("raise cg.MissingAbility('no')", {}, "exception"),
        ("raise cg.MissingAbility('no')", {"may_refuse": True}, None),
        ("raise ValueError('no')", {"hostile": True}, None),
        ("raise cg.ContradictionError('no')", {"hostile": True}, "exception"),
        ("raise IndexError('no')", {"hostile": True}, "exception"),
        ("np.float64(1.0) / np.float64(0.0)\nanswer = cg.minimize(f, g)", {}, "warning"),
        ("import warnings\nwarnings.warn('short')\nanswer = cg.minimize(f, g)", {}, None),
    ],
)
def test_exceptions_and_warnings(
    target: Target, code: str, options: dict[str, Any], kind: str | None
) -> None:
    failures = list(checks.outcome_failures(checks.run(case_of(target, code, **options))))
    assert [failure.kind for failure in failures] == ([] if kind is None else [kind])


def test_slow_runs_and_overrun_limits(target: Target) -> None:
    outcome = checks.run(case_of(target, "answer = cg.minimize(f, g)", time_limit=0.1))
    assert list(checks.outcome_failures(outcome._replace(wall=0.5, processor=0.5))) == []
    late = checks.outcome_failures(outcome._replace(wall=0.7, processor=0.7))
    assert [failure.kind for failure in late] == ["time limit"]
    slow = checks.outcome_failures(outcome._replace(wall=3.0, processor=3.0))
    assert [failure.kind for failure in slow] == ["slow", "time limit"]
    # waiting for the processor is no fault of the library's
    assert list(checks.outcome_failures(outcome._replace(wall=3.0, processor=0.1))) == []


def test_what_hangs_is_ended(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "HANG", 0.05)
    outcome = checks.run(case_of(target, "while True: pass"))
    assert [failure.kind for failure in checks.outcome_failures(outcome)] == ["slow"]


@pytest.mark.parametrize(
    ("code", "exact", "found"),
    [
        ("answer = cg.minimize(f, g, max_iter=3, tol=0.0)", True, []),
        (
            "answer = cg.minimize(f, g, max_iter=3 if g.weight > 1.0 else 4, tol=0.0)",
            True,
            ["iterations"],
        ),
        ("answer = cg.minimize(f, g, max_iter=3 if g.weight > 1.0 else 4, tol=0.0)", False, []),
        (
            "answer = cg.minimize(f, g, max_iter=3 if g.weight > 1.0 else 5, tol=0.0)",
            False,
            ["iterations"],
        ),
        (
            "answer = cg.minimize(f, g, max_iter=1, tol=0.0 if g.weight > 1.0 else 1e9)",
            False,
            ["status"],
        ),
        (
            "answer = cg.minimize(f, g, [0.0, 0.1 if g.weight > 1.0 else 0.2], max_iter=1, tol=0.0)",
            True,
            ["x"],
        ),
        ("assert g.weight < 1.0\nanswer = cg.minimize(f, g)", True, ["exception"]),
    ],
)
def test_the_law_of_units(target: Target, code: str, exact: bool, found: list[str]) -> None:
    outcome = checks.run(case_of(target, code, tol=0.0, max_iter=3))
    assert [
        failure.group[0] for failure in checks.unit_failures(outcome, 1024.0, exact=exact)
    ] == found


def test_a_run_of_a_hundred_times_the_median_is_slow() -> None:
    kinds = ("minimize", "f", "g", "P", "cgs exact", "float64")
    quick, slow_one = checks.Timing(kinds, 0.001, 0.0, ""), checks.Timing(kinds, 0.4, 0.3, "text")
    report = checks.Report(timings=[quick] * 10 + [slow_one])
    (slow,) = campaign.relatively_slow(report)
    assert slow.reproducer == "text"


def test_products_that_are_not_those_of_the_plan_are_found() -> None:
    """A plan of 2 x 2 that says what it should, and one thing after the other that is wrong."""
    G = np.array([[0.3, 0.2], [0.1, 0.4]])
    region, Y = judges.Plans(G.sum(axis=1), G.sum(axis=0)), np.array([[1.0], [-2.0]])
    truth = {
        "dense": lambda: G,
        "apply": lambda Y: G @ Y,
        "apply_transpose": lambda Y: G.T @ Y,
        "rows": lambda some: G[some],
    }
    assert plans.product_findings(SimpleNamespace(**truth), region, Y, 1.0) == []
    for name, kinds in (
        ("apply", {"wrong value", "infeasible"}),
        ("apply_transpose", {"wrong value", "infeasible"}),
        ("rows", {"wrong value"}),
        ("dense", {"wrong value"}),
    ):
        lie = truth | {name: lambda *given, name=name: (1.0 + 1e-9) * truth[name](*given)}
        found = plans.product_findings(SimpleNamespace(**lie), region, Y, 1.0)
        assert {one.kind for one in found} == kinds


@pytest.mark.parametrize(
    ("interval", "found"),
    [
        ((1.0, 0.9, 1.1), set()),
        ((1.0, 1.0 + 1e-9, 1.1), {"false certificate", "wrong value"}),
        ((1.0, 0.9, 1.0 - 1e-9), {"false certificate", "wrong value"}),
        ((1.0, 1.0 + 1e-15, 1.1), {"above by rounding", "wrong value"}),
        ((1.0 + 1e-9, 0.9, 1.1), {"wrong value"}),
        ((0.0, 0.0, 1.1), {"wrong value"}),
    ],
)
def test_a_false_interval_is_found(interval: tuple[float, float, float], found: set[str]) -> None:
    """The minima are 2, 1 and 1, so that the divergence is 1."""
    value, lower, upper = interval
    answer = SimpleNamespace(value=value, lower_bound=lower, upper_bound=upper)
    values = [judges.Wide(x) for x in (2.0, 1.0, 1.0)]
    minima = [judges.Bracket(x, x, judges.Wide(1.0)) for x in values]
    assert {one.kind for one in plans.interval_findings(answer, minima, values, 0.0)} == found


@pytest.mark.parametrize("formula", ["Loss", "Softmax"])
def test_a_wrong_intercept_is_found(formula: str) -> None:
    K, x = np.array([[0.0], [1.0], [2.0]]), np.ones((1, 2) if formula == "Softmax" else 1)
    y, w = np.array([1.0, 4.0, 7.0]), np.ones(3)
    loss: Any = judges.Loss(judges.squares, K, y, w, intercept=True)
    b: Any = np.array(3.0)
    if formula == "Softmax":
        loss = judges.Softmax(K, np.array([0, 1, 1]), 2, w, intercept=True)
        b = np.log([1.0, 2.0])
    value = float(loss.at(judges.wide(x)).value)
    one = models.Solution(np.zeros(3), 1.0, 0.0, x, b, value, 0.0, 1)
    ridge = judges.Norm("squared", 0.0)
    assert models.intercept_findings(loss, ridge, judges.wide(x), one) == []
    # the same number for all classes would change nothing
    wrong = one._replace(intercept=b + (np.array([0.1, 0.0]) if b.ndim else 0.1))
    (found,) = models.intercept_findings(loss, ridge, judges.wide(x), wrong)
    assert found.kind == "wrong value"


# The judge ------------------------------------------------------------------------------------------------------------


def some_targets() -> list[Target]:
    """The targets of some problems, among them one of each family."""
    indices = [index for index in range(40) if family_of(3, index) != "dask"]
    cases = [case for index in indices for case in drawn(3, index)[:1]]
    found = [run.claims[0].target for run in map(checks.run, cases) if run.claims]
    return found + [solved(family)[0] for family in JUDGED_FAMILIES]


def test_formulas_agree_with_cvxpy_and_points_are_made_feasible() -> None:
    targets = some_targets()
    rng = np.random.default_rng(0)
    compared = 0
    for target in targets:
        point = target.region.feasible(judges.wide(rng.standard_normal(target.shape)))
        assert target.region.violation(point) <= 100 * judges.EXTENDED_UNIT * target.region.scale
        x = cp.Variable(target.shape)
        x.value = point.astype(np.float64)
        expected = target.objective.expression(x).value
        if expected is None:  # an intercept is a variable of its own
            continue
        here = target.objective.at(judges.wide(x.value))
        np.testing.assert_allclose(
            float(here.value), expected, rtol=0, atol=1e-12 * float(here.size) + 1e-300
        )
        compared += 1
    assert compared >= 25


def test_the_best_intercept() -> None:
    rng = np.random.default_rng(0)
    K, w = rng.standard_normal((9, 3)), rng.uniform(0.5, 2.0, 9)
    y = np.where(np.arange(9) % 2 == 0, 1.0, -1.0)
    x = judges.wide(rng.standard_normal(3))
    for loss in (judges.squares, judges.logistic, judges.squared_hinge):
        formula = judges.Loss(loss, K, y, w, intercept=True)
        v = cp.Variable(3)
        problem = cp.Problem(cp.Minimize(formula.expression(v)), [v == x.astype(float)])
        assert float(formula.at(x).value) == pytest.approx(
            problem.solve(solver="CLARABEL"), rel=1e-6
        )


def test_the_best_intercepts_of_classes() -> None:
    """Also where the classes lie so far apart that their probabilities round to 0 and 1."""
    rng = np.random.default_rng(0)
    K, w, codes = rng.standard_normal((9, 3)), rng.uniform(0.5, 2.0, 9), np.arange(9) % 3
    formula = judges.Softmax(K, codes, 3, w, intercept=True)
    for size in (1.0, 300.0):
        x = judges.wide(size * rng.standard_normal((3, 3)))
        best = formula.at(x).value
        b = formula._best_intercept(judges.wide(K) @ x)
        for step in np.vstack([np.eye(3), -np.eye(3)]):
            assert formula.beside(x, b + 1e-3 * step).value >= best
        shares = formula._rows(judges.wide(K) @ x + b)[1]
        mass = np.bincount(codes, weights=w)
        np.testing.assert_allclose((w @ shares).astype(float), mass, rtol=1e-9)


def test_scaling_finds_the_relaxed_plan_of_one_entry() -> None:
    """F' = C + e log(x/R) + p log(x/a) + q log(x/b) vanishes at a weighted geometric mean."""
    C, a, b, e, p, q = 0.3, 2.0, 5.0, 0.1, 1.0, 3.0
    formula = judges.Relaxed(np.array([[C]]), np.array([a]), np.array([b]), e, p, q)
    logs = e * 0.5 * math.log(a * b) + p * math.log(a) + q * math.log(b) - C
    expected = math.exp(logs / (e + p + q))
    assert float(formula.by_scaling()[0, 0]) == pytest.approx(expected, rel=1e-12)
    pairs = ((e, math.sqrt(a * b)), (p, a), (q, b))
    value = C * expected + sum(price * divergence_of(expected, y) for price, y in pairs)
    assert float(formula.at(judges.wide([[expected]])).value) == pytest.approx(value, rel=1e-12)


def divergence_of(x: float, y: float) -> float:
    return x * math.log(x / y) - x + y


def test_a_bracket_holds_the_entropic_minimum() -> None:
    """Two points at distance 1: the plan is [[1, k], [k, 1]] / (2 + 2k) with k = exp(-1/e)."""
    X, half, e = np.array([[0.0], [1.0]]), np.full(2, 0.5), 0.25
    k = math.exp(-1.0 / e)
    plan = judges.wide([[1.0, k], [k, 1.0]]) / (2.0 + 2.0 * k)
    bracket = judges.entropic_bracket(judges.PointsCost(X, X), half, half, e, plan)
    expected = -e * math.log(2.0 + 2.0 * k)
    assert float(bracket.low) == pytest.approx(expected, abs=1e-15)
    assert float(bracket.high) == pytest.approx(expected, abs=1e-15)
    product = judges.wide(np.full((2, 2), 0.25))
    rough = judges.entropic_bracket(judges.PointsCost(X, X), half, half, e, product, 1)
    assert float(rough.low) <= expected <= float(rough.high)


def test_clarabel_finds_the_minimum(target: Target, claim: Claim) -> None:
    point = judges.by_cvxpy(target.objective, target.region, target.shape)
    assert float(target.objective.at(point).value) == pytest.approx(claim.value, rel=1e-6)


# The campaign ---------------------------------------------------------------------------------------------------------


def test_problems_are_the_same_each_time() -> None:
    for index in range(20):
        once, again = drawn(7, index), drawn(7, index)
        assert [checks.reproducer(case, "") for case in once] == [
            checks.reproducer(case, "") for case in again
        ]


@pytest.mark.slow
def test_a_reproducer_does_what_its_case_did(capsys: pytest.CaptureFixture[str]) -> None:
    compared = 0
    for index in range(30):
        case = drawn(9, index)[0]
        outcome = checks.run(case)
        if outcome.error is not None or outcome.warned or case.time_limit is not None:
            continue
        names: dict[str, Any] = {}
        exec(checks.reproducer(case, "a finding\nof two lines"), names)
        # that of a divergence is made of the values of its claims
        if hasattr(names["answer"], "value") and case.kinds[0] != "divergence":
            assert np.ravel(names["answer"].value)[0] == outcome.claims[0].value
            compared += 1
    assert compared >= 10
    assert capsys.readouterr().out


def test_same_failures_are_one_finding(tmp_path: Any) -> None:
    kinds = ("minimize", "f", "g", "P", "cgs exact", "float64")
    failures = [
        checks.Failure("exception", ("RuntimeError", "a.py:1"), kinds, "no", "x" * k)
        for k in (3, 1, 2, 4)
    ]
    failures.append(checks.Failure("false certificate", ("by", "g"), kinds, "by 1", "text"))
    text = campaign.write(checks.Report(failures=failures), tmp_path / "out")
    assert len(text.splitlines()) == 4
    assert text.splitlines()[0].endswith("false certificate x 1 (1 kinds): by | g")
    written = sorted(path.name for path in (tmp_path / "out").glob("*.py"))
    assert written == [
        "001a-false-certificate.py",
        "002a-exception.py",
        "002b-exception.py",
        "002c-exception.py",
    ]
    assert (tmp_path / "out" / "002a-exception.py").read_text() == "x"


def test_a_campaign_counts_its_problems() -> None:
    report = campaign.campaign(0, 1, seconds=0.0, problems=3)
    assert report.problems == 3
    assert report.runs >= 3
    assert set(report.counted()) == set(checks.COUNTS)
    assert sum(tally.problems for tally in report.families.values()) == 3
    assert len(campaign.by_family(report)) == len(report.families)


def test_families_have_shares_of_one_and_are_drawn() -> None:
    assert sum(share for share, _ in FAMILIES.values()) == pytest.approx(1.0)
    assert {family_of(0, index) for index in range(1000)} == set(FAMILIES)

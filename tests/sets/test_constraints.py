"""Polytopes by constraints: oracles, bounds and proofs, judged by HiGHS in other words and by CVXPY."""

from __future__ import annotations

from typing import Any

import cvxpy
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import condgrad as cg


def constraints(seed: int, *, unit: float = 1.0) -> dict[str, Any]:
    """Random constraints around a known point, which is feasible."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    p = int(rng.integers(0, 6))
    q = int(rng.integers(0, max(1, n // 2)))
    inside = unit * rng.random(n)
    A_ub = rng.standard_normal((p, n)) * (rng.random((p, n)) < 0.7)
    A_eq = rng.standard_normal((q, n))
    made: dict[str, Any] = {"bounds": [(0.0, 2.0 * unit)] * n}
    if p:
        made |= {"A_ub": A_ub, "b_ub": A_ub @ inside + unit * rng.random(p)}
    if q:
        made |= {"A_eq": scipy.sparse.csr_array(A_eq), "b_eq": A_eq @ inside}
    return made


def by_cvxpy(made: dict[str, Any], objective: Any, x: Any) -> float:
    """The least value of an objective over the same constraints, by Clarabel."""
    asked = [x >= [low for low, _ in made["bounds"]], x <= [high for _, high in made["bounds"]]]
    if "A_ub" in made:
        asked.append(made["A_ub"] @ x <= made["b_ub"])
    if "A_eq" in made:
        asked.append(made["A_eq"] @ x == made["b_eq"])
    return float(cvxpy.Problem(cvxpy.Minimize(objective), asked).solve(solver="CLARABEL"))


@settings(max_examples=12)
@given(seed=st.integers(0, 10_000), power=st.sampled_from([-6, 0, 6]))
def test_the_oracle_is_exact_feasible_and_proved(seed: int, power: int) -> None:
    """In every unit; the judge is an interior-point method, where the oracle is a simplex method."""
    unit = 10.0**power
    made = constraints(seed, unit=unit)
    P = cg.sets.Polytope(**made)
    c = np.random.default_rng(seed + 1).standard_normal(len(made["bounds"]))
    answer = P.linear_argmin(c)
    x = cvxpy.Variable(len(c))
    best = unit * by_cvxpy(constraints(seed), c @ x, x)
    size = unit * float(np.abs(c).sum())
    assert P.violation(answer.point) <= 1e-11 * P.scale
    assert answer.bound <= best + 1e-6 * size
    assert answer.bound <= c @ answer.point + 1e-12 * size
    assert c @ answer.point <= answer.bound + 1e-9 * size
    assert P.contains(P.start(cg.smooth.Linear(c).space))


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000))
def test_minima_lie_between_the_two_numbers(seed: int) -> None:
    made = constraints(seed)
    n = len(made["bounds"])
    rng = np.random.default_rng(seed + 2)
    A = rng.standard_normal((n + 2, n))
    y = 3.0 * rng.standard_normal(n + 2)
    x = cvxpy.Variable(n)
    best = by_cvxpy(made, 0.5 * cvxpy.sum_squares(A @ x - y), x)
    g = cg.simple.Zero(on=cg.sets.Polytope(**made))
    r = cg.minimize(cg.smooth.LeastSquares(A, y), g, memory=5, tol=1e-5, max_iter=500)
    slack = 1e-6 * (1.0 + abs(best))
    assert r.lower_bound <= best + slack
    assert best - slack <= r.value
    assert r.relative_gap <= 1e-3


@settings(max_examples=12)
@given(seed=st.integers(0, 10_000))
def test_bounds_that_nobody_gave_are_found(seed: int) -> None:
    """A polytope by its inequalities alone: all of its vertices are within the bounds found."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 5))
    A = np.vstack([np.eye(n), -np.eye(n)]) + 0.3 * rng.standard_normal((2 * n, n))
    b = 1.0 + rng.random(2 * n)
    ends = [
        scipy.optimize.linprog(c, A_ub=A, b_ub=b, bounds=(None, None))
        for c in (*np.eye(n), *-np.eye(n))
    ]
    assume(all(end.success for end in ends))
    P = cg.sets.Polytope(A_ub=A, b_ub=b, bounds=(None, None))
    for _ in range(3):
        c = rng.standard_normal(n)
        vertex = scipy.optimize.linprog(c, A_ub=A, b_ub=b, bounds=(None, None)).x
        assert np.abs(vertex).max() <= P.largest_entry
        assert vertex.min() >= P.smallest_entry
        assert P.linear_argmin(c).bound <= c @ vertex + 1e-9


@settings(max_examples=12)
@given(seed=st.integers(0, 10_000), excess=st.sampled_from([1e-8, 1e-3, 1.0, 1e3]))
def test_sets_without_points_are_refused_with_a_proof(seed: int, excess: float) -> None:
    """Two inequalities that contradict each other by a known sum."""
    made = constraints(seed)
    n = len(made["bounds"])
    row = np.random.default_rng(seed + 3).standard_normal((1, n))
    A = np.vstack([made.get("A_ub", np.zeros((0, n))), row, -row])
    b = np.concatenate([made.get("b_ub", np.zeros(0)), [0.0], [-excess]])
    with pytest.raises(
        ValueError, match=r"the constraints have no solution: .* violates them by "
    ) as caught:
        cg.sets.Polytope(**made | {"A_ub": A, "b_ub": b})
    told = float(str(caught.value).split(" violates them by ")[1].split(" ")[0])
    assert told >= 0.3 * excess / float(np.linalg.norm(row))  # rows count as of length 1, about


@settings(max_examples=12)
@given(seed=st.integers(0, 10_000), width=st.sampled_from([0.0, 1e-9, 1e-7]))
def test_thin_sets_are_taken_as_they_are(seed: int, width: float) -> None:
    """A slab around a known point, of less width than the tolerances of HiGHS."""
    made = constraints(seed)
    n = len(made["bounds"])
    inside = np.random.default_rng(seed).random(n)
    row = np.random.default_rng(seed + 3).standard_normal((1, n))
    P = cg.sets.Polytope(
        A_ub=np.vstack([row, -row]), b_ub=[row[0] @ inside, width - row[0] @ inside], bounds=(0, 1)
    )
    c = np.random.default_rng(seed + 1).standard_normal(n)
    answer = P.linear_argmin(c)
    assert P.violation(answer.point) <= 1e-12
    assert answer.bound <= c @ inside + 1e-12


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), far=st.sampled_from([1e3, 1e9, 1e14]))
def test_rows_that_nothing_comes_near_change_no_bit(seed: int, far: float) -> None:
    """Almost empty rows among them: the set stays as small, and is met as well."""
    rng = np.random.default_rng(seed)
    n = 6
    E = rng.standard_normal((2, n))
    made = {"A_eq": E, "b_eq": E @ rng.random(n), "bounds": (0.0, 1.0)}
    rows = rng.standard_normal((3, n))
    one = cg.sets.Polytope(**made)
    other = cg.sets.Polytope(A_ub=rows / far, b_ub=np.full(3, 30.0), **made)
    costs = rng.standard_normal(n)
    there = other.linear_argmin(costs)
    assert there.point.tolist() == one.linear_argmin(costs).point.tolist()
    assert np.abs(E @ there.point - made["b_eq"]).max() <= 1e-12


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), share=st.sampled_from([1e-8, 1e-10, 1e-12, 1e-15]))
def test_equations_that_are_met_but_for_rounding_are_taken(seed: int, share: float) -> None:
    """At its least tolerances HiGHS calls some of these sets empty."""
    rng = np.random.default_rng(seed)
    E = rng.standard_normal((3, 8))
    E[2] = E[1] + share * E[2]
    inside = 0.2 + 0.6 * rng.random(8)
    on = cg.sets.Polytope(A_eq=E, b_eq=E @ inside, bounds=(0.0, 1.0))
    costs = rng.standard_normal(8)
    answer = on.linear_argmin(costs)
    assert on.violation(answer.point) <= 1e-9
    assert answer.bound <= costs @ inside + 1e-12


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "A_ub, A_eq or a pair of bounds for each coordinate is needed"),
        ({"A_ub": [[1.0, 1.0]]}, "b_ub is missing where A_ub is given"),
        (
            {"A_eq": [[1.0, 1.0]], "b_eq": [1.0, 2.0]},
            "b_eq must have one entry for each of the 1 rows",
        ),
        (
            {"A_eq": [[1.0, 1.0]], "b_eq": [1.0], "bounds": [(0, 1)] * 3},
            "the number of coordinates must be the same, got 2 in A_eq, 3 in bounds",
        ),
        ({"bounds": [(0, 1), (2, 1), (0, 1)]}, r"lower <= upper, got \(2, 1\) for x\[1\]"),
        ({"A_ub": [[1.0, np.nan]], "b_ub": [1.0]}, "A_ub must be finite"),
        (
            {"A_ub": [[1.0, -1.0]], "b_ub": [1.0]},
            r"not bounded: x\[0\] may be as large as one likes",
        ),
    ],
)
def test_bad_input_gets_a_sentence_that_names_it(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        cg.sets.Polytope(**arguments)

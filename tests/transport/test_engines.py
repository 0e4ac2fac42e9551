"""The engines of linear programs over plans: one optimum, exact marginals, bounds that hold and are tight."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, linprog

import condgrad as cg
from condgrad import MissingExtra
from condgrad.errors import install_command
from condgrad.problem import Answer
from condgrad.sets import Transport
from tests.transport import Array, cloud, marginal_error, within

ENGINES = ("emd", "highs", "cvxopt")
TIGHT = {"emd": 1e-12, "highs": 1e-8, "cvxopt": 1e-6}
"""Gap to expect of an engine, relative to the largest cost times the mass."""
every_engine = pytest.mark.parametrize("engine", ENGINES)


def judged(C: Array, a: Array, b: Array, engine: str) -> float:
    """The optimum by a library other than the engine's own."""
    if engine == "emd":
        n, m = C.shape
        rows = np.kron(np.eye(n), np.ones(m))
        columns = np.kron(np.ones(n), np.eye(m))
        solution = linprog(
            C.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.concatenate([a, b]), method="highs"
        )
        return float(solution.fun)
    # POT's network simplex finds problems of negative cost infeasible
    return float(ot.emd2(a, b, C - C.min()) + C.min() * a.sum())


def asked(engine: str, C: Array, a: Array, b: Array) -> Answer:
    """An answer that is a plan, with a bound below its cost and tight."""
    before = C.copy()
    with within(20):
        answer = Transport(a, b, engine=engine).linear_argmin(C)
    np.testing.assert_array_equal(C, before)
    size = float(abs(C).max() * np.sum(a))
    assert marginal_error(answer.point, a, b) <= 1e-12
    assert -1e-13 * size <= np.vdot(C, answer.point) - answer.bound <= TIGHT[engine] * size
    return answer


@every_engine
@pytest.mark.parametrize(("n", "m"), [(6, 6), (4, 9), (9, 4), (1, 5), (5, 1), (1, 1), (15, 12)])
def test_every_engine_finds_the_optimum(engine: str, n: int, m: int) -> None:
    data = cloud(n, m, seed=n + m)
    answer = asked(engine, data.C, data.a, data.b)
    best = judged(data.C, data.a, data.b, engine)
    assert np.vdot(data.C, answer.point) == pytest.approx(best, rel=0, abs=1e-6)
    assert answer.bound == pytest.approx(best, rel=0, abs=1e-6)
    assert answer.bound <= best + 1e-9


@every_engine
def test_uniform_weights_are_an_assignment(engine: str) -> None:
    C = np.random.default_rng(0).random((8, 8))
    answer = asked(engine, C, np.ones(8), np.ones(8))
    assert np.vdot(C, answer.point) == pytest.approx(C[linear_sum_assignment(C)].sum(), abs=1e-5)


@every_engine
@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 6), m=st.integers(1, 6))
def test_bounds_hold_against_every_plan(engine: str, seed: int, n: int, m: int) -> None:
    """Costs of both signs, some of them equal, against random plans and the network simplex."""
    rng = np.random.default_rng(seed)
    C, a, b = (
        rng.integers(-3, 4, (n, m)).astype(float),
        rng.dirichlet(np.ones(n)),
        rng.dirichlet(np.ones(m)),
    )
    answer = asked(engine, C, a, b)
    plan = ot.emd(a, b, rng.random((n, m)))
    assert answer.bound <= min(np.vdot(C, plan), np.vdot(C, np.outer(a, b))) + 1e-12
    assert answer.bound == pytest.approx(judged(C, a, b, engine), abs=1e-5)


@every_engine
@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e-3, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("mass", [1.0, 1e-6, 1e6])
def test_units_are_of_no_consequence(engine: str, scale: float, mass: float) -> None:
    data = cloud(8, 6, seed=3)
    answer = asked(engine, scale * data.C, mass * data.a, mass * data.b)
    best = (
        float(ot.emd2(data.a, data.b, data.C))
        if engine != "emd"
        else judged(data.C, data.a, data.b, "emd")
    )
    assert np.vdot(scale * data.C, answer.point) == pytest.approx(best * scale * mass, rel=1e-5)
    assert answer.bound == pytest.approx(best * scale * mass, rel=1e-5)


@every_engine
def test_points_without_weight_take_no_part(engine: str) -> None:
    data, keep_a, keep_b = cloud(7, 6, seed=4), np.arange(7) % 3 != 0, np.arange(6) % 2 == 1
    a, b = np.where(keep_a, data.a, 0.0), np.where(keep_b, data.b, 0.0)
    a, b = a / a.sum(), b / b.sum()
    answer = asked(engine, data.C, a, b)
    assert not answer.point[~keep_a].any()
    assert not answer.point[:, ~keep_b].any()
    best = judged(data.C[np.ix_(keep_a, keep_b)], a[keep_a], b[keep_b], engine)
    assert answer.bound == pytest.approx(best, abs=1e-6)


@every_engine
@pytest.mark.parametrize("constant", [0.0, 2.0, -3.0])
def test_constant_costs(engine: str, constant: float) -> None:
    """Every plan is best, and costs the constant."""
    data = cloud(5, 4, seed=5)
    answer = asked(engine, np.full((5, 4), constant), data.a, data.b)
    assert answer.bound == pytest.approx(constant, abs=1e-6)


@every_engine
def test_weights_over_six_decades(engine: str) -> None:
    rng = np.random.default_rng(6)
    data = cloud(10, 8, seed=6)
    a, b = 10.0 ** rng.uniform(-6, 0, 10), 10.0 ** rng.uniform(-6, 0, 8)
    answer = asked(engine, data.C, a / a.sum(), b / b.sum())
    assert answer.bound == pytest.approx(judged(data.C, a / a.sum(), b / b.sum(), engine), abs=1e-6)


@every_engine
def test_engines_take_and_give_tensors(engine: str, torch: Any) -> None:
    data = cloud(6, 5, seed=7)
    P = Transport(torch.asarray(data.a), torch.asarray(data.b), engine=engine)
    answer = P.linear_argmin(torch.asarray(data.C))
    assert isinstance(answer.point, torch.Tensor)
    assert marginal_error(answer.point.numpy(), data.a, data.b) <= 1e-12
    assert answer.bound == pytest.approx(judged(data.C, data.a, data.b, engine), abs=1e-6)


@every_engine
def test_engines_are_quiet(engine: str, capfd: pytest.CaptureFixture[str]) -> None:
    data = cloud(6, 5, seed=8)
    Transport(data.a, data.b, engine=engine).linear_argmin(data.C)
    assert capfd.readouterr() == ("", "")


def test_mosek_up_to_its_licence() -> None:
    """The right answer, or a sentence about the licence."""
    data = cloud(6, 5, seed=9)
    try:
        answer = Transport(data.a, data.b, engine="mosek").linear_argmin(data.C)
    except MissingExtra as error:
        assert "licence" in str(error)  # noqa: PT017
        assert "engine='emd'" in str(error)  # noqa: PT017
        return
    assert marginal_error(answer.point, data.a, data.b) <= 1e-12
    assert answer.bound == pytest.approx(ot.emd2(data.a, data.b, data.C), abs=1e-6)


@pytest.mark.parametrize(
    ("engine", "module", "extra"),
    [("emd", "ot", "pot"), ("cvxopt", "cvxopt", "cvxopt"), ("mosek", "mosek", "mosek")],
)
def test_a_missing_extra_says_what_to_install(
    engine: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When called, not when the set is made: an entropic problem needs no engine."""
    data = cloud(6, 5, seed=10)
    monkeypatch.setitem(sys.modules, module, None)
    P = Transport(data.a, data.b, engine=engine)
    assert P.entropic_argmin(data.C, 0.1, accuracy=1e-6).bound < np.inf
    with pytest.raises(MissingExtra) as caught:
        P.linear_argmin(data.C)
    sentence = str(caught.value)
    assert f"engine='{engine}' needs {module}" in sentence
    assert sentence.endswith(install_command(extra))
    assert "\n" not in sentence


def test_highs_needs_no_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default engine works where no extra is installed."""
    data = cloud(6, 5, seed=11)
    best = float(ot.emd2(data.a, data.b, data.C))
    for module in ("ot", "cvxopt", "mosek"):
        monkeypatch.setitem(sys.modules, module, None)
    assert cg.transport.solve(data.C, data.a, data.b, entropy=0.0).value == pytest.approx(
        best, abs=1e-8
    )


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"one of 'auto', 'emd', 'highs', 'cvxopt', 'mosek', got 'abacus'"
    ):
        Transport([1.0], [1.0], engine="abacus")

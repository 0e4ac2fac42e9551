"""The fast way along a path: whatever it returns is proved, and where it fails the path goes on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

import condgrad as cg
from condgrad import kernels
from condgrad.errors import ContradictionError, NotFiniteError
from condgrad.linear_model import follower as follower_module
from condgrad.linear_model import path, path_models, solver
from condgrad.linear_model.follower import HINGE_MODELS, PathFollower
from condgrad.linear_model.path_models import ColumnModels, SparseModels
from condgrad.methods.certified_point import Certifier, ObjectivePoint, Tally
from tests.linear_model import drawn

LOSSES = {
    "logistic": cg.smooth.Logistic,
    "least-squares": cg.smooth.LeastSquares,
    "squared-hinge": cg.smooth.SquaredHinge,
}


def simple_part(ridge: float, radius: float) -> Any:
    return solver.simple_part(ridge, cg.sets.L1Ball(radius))


every_loss = pytest.mark.parametrize("loss", LOSSES)


@every_loss
@pytest.mark.parametrize("features", [6, 200])
@pytest.mark.parametrize("ridge", [0.0, 1e-4, 0.5])
def test_guesses_are_proved(loss: str, features: int, ridge: float) -> None:
    """Against a run of another method: the bound is below its value, and the value above its bound."""
    X, y = drawn(3, samples=40, features=features)
    f = LOSSES[loss](X, y, intercept=True)
    follower = PathFollower(f)
    x = np.zeros(features)
    for radius in (0.05, 0.2, 0.4):
        on = cg.sets.L1Ball(radius)
        g = cg.simple.Ridge(ridge, on=on) if ridge else cg.simple.Zero(on=on)
        found = follower.follow(g, ridge, on.project(x), tol=1e-9)
        judged = cg.minimize(f, g, method="cgs", memory=5, tol=1e-5)
        assert found.proof.lower_bound <= judged.value
        assert judged.lower_bound <= found.proof.value
        assert on.contains(found.point.x)
        x = found.point.x


@every_loss
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("features", "is_sparse"), [(30, False), (400, False), (400, True)])
@pytest.mark.parametrize("positive", [False, True])
def test_several_radii_at_once_are_those_one_after_the_other(
    loss: str, intercept: bool, features: int, is_sparse: bool, positive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = drawn(11, samples=40, features=features)
    if is_sparse:
        X = scipy.sparse.csr_array(X * (np.abs(X) > 1.0))
    options: dict[str, Any] = {"loss": loss, "ridge": 0.3, "fit_intercept": intercept, "tol": 1e-8}
    options["positive"] = positive
    counts: list[int] = []
    solve_radii = PathFollower.solve_radii

    def counted(self: PathFollower, *args: Any, **more: Any) -> Any:
        found = solve_radii(self, *args, **more)
        counts.append(len(found))
        return found

    monkeypatch.setattr(PathFollower, "solve_radii", counted)
    at_once = path(X, y, n_radii=40, **options)
    assert sum(counts) >= 15
    monkeypatch.setattr(PathFollower, "solve_radii", lambda *_, **__: [])
    one_by_one = path(X, y, radii=at_once.radii, **options)
    for each in (at_once, one_by_one):
        assert (each.gaps <= 2e-8 * one_by_one.values[0]).all()
        assert (np.abs(each.coefs).sum(axis=1) <= at_once.radii * (1.0 + 1e-12)).all()
    lower_bounds = np.maximum(at_once.values - at_once.gaps, one_by_one.values - one_by_one.gaps)
    assert (lower_bounds <= np.minimum(at_once.values, one_by_one.values)).all()
    steepest = one_by_one.multipliers.max()
    np.testing.assert_allclose(at_once.multipliers, one_by_one.multipliers, atol=1e-3 * steepest)


@every_loss
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_several_radii_are_proved_as_each_of_them_is(loss: str, intercept: bool, ridge: float) -> None:
    """The bounds of one compiled call are those of a certifier, which takes one point after the other."""
    X, y = drawn(11, samples=40, features=30)
    f = LOSSES[loss](X, y, sample_weight=np.linspace(0.5, 2.0, 40), intercept=intercept)
    radii = np.geomspace(0.01, 1.0, 10)
    with kernels.within_run(used=True):
        solutions = PathFollower(f).solve_radii(simple_part(ridge, radii[0]), radii, ridge, tol=1e-8)
        assert len(solutions) == len(radii)
        for radius, found in zip(radii, solutions, strict=True):
            g = simple_part(ridge, radius)
            point = ObjectivePoint(f, g, found.x, Tally())
            proved = Certifier(f, g, Tally()).iterate(point, 1.0)
            assert found.value == pytest.approx(proved.value, rel=1e-12)
            # what is given away for rounding is in both: the difference is rounding itself, a small part of it
            assert found.gap == pytest.approx(proved.value - proved.lower_bound, abs=0.3 * proved.noise)
            assert found.gap >= 0.7 * proved.noise
            assert found.intercept == pytest.approx(point.smooth.intercept, abs=1e-9)
            assert found.multiplier == pytest.approx(solver.multiplier_at(point, ridge, g.on), rel=1e-6)


@every_loss
def test_solutions_that_are_not_proved_are_solved_again(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a compiled call takes for solved is an answer only with its certificate."""
    X, y = drawn(11, samples=40, features=100)
    options: dict[str, Any] = {"loss": loss, "ridge": 0.3, "n_radii": 12, "tol": 1e-8}
    expected, certified = path(X, y, **options), PathFollower._certified

    def half(self: PathFollower, *args: Any) -> Any:
        found = certified(self, *args)
        return found[: len(found) // 2]

    monkeypatch.setattr(PathFollower, "_certified", half)
    found = path(X, y, **options)
    assert (found.gaps <= 2e-8 * expected.values[0]).all()
    np.testing.assert_allclose(found.values, expected.values, atol=2e-8 * expected.values[0])


def test_out_of_time_no_radii_are_followed_at_once() -> None:
    X, y = drawn(11, samples=40, features=30)
    with kernels.within_run(used=True), cg.deadline.within(0.0):
        follower = PathFollower(cg.smooth.Logistic(X, y))
        assert follower.solve_radii(simple_part(0.1, 0.1), np.array([0.1, 0.2]), 0.1, tol=1e-6) == []


@pytest.mark.parametrize(
    "error",
    [NotFiniteError("F turned nan"), ContradictionError("bound above value"), np.linalg.LinAlgError("singular")],
)
@pytest.mark.parametrize("loss", ["logistic", "least-squares"])
def test_a_radius_whose_guess_fails_is_minimised(loss: str, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """As single fits go on where one method has a dead end; SLSQP on the parts of x above and below 0 judges."""
    X, y = drawn(11, samples=40, features=8)
    radii, ridge = np.array([0.1, 0.3, 0.6]), 0.3

    class Failing(Certifier):
        def iterate(self, point: ObjectivePoint, step: float) -> Any:
            raise error

    monkeypatch.setattr(follower_module, "Certifier", Failing)
    monkeypatch.setattr(PathFollower, "solve_radii", lambda *_, **__: [])
    found = path(X, y, loss=loss, radii=radii, ridge=ridge, fit_intercept=False, tol=1e-8)
    f = LOSSES[loss](X, y)
    for radius, value, gap in zip(radii, found.values, found.gaps, strict=True):
        judged = scipy.optimize.minimize(
            lambda parts: f.at(parts[:8] - parts[8:]).value + ridge * float(((parts[:8] - parts[8:]) ** 2).sum()),
            np.full(16, radius / 32),
            method="SLSQP",
            bounds=[(0.0, None)] * 16,
            constraints={"type": "ineq", "fun": lambda parts, radius=radius: radius - parts.sum()},
            options={"ftol": 1e-12, "maxiter": 1000},
        )
        assert judged.fun == pytest.approx(value, rel=1e-5)
        assert value - gap <= judged.fun * (1.0 + 1e-9)


@every_loss
@pytest.mark.parametrize("layout", [np.asarray, scipy.sparse.csr_array])
def test_few_iterations_limit_what_runs_and_change_nothing_else(loss: str, layout: Any) -> None:
    X, y = drawn(11, samples=40, features=60)
    options: dict[str, Any] = {"loss": loss, "ridge": 0.3, "n_radii": 12}
    whole = path(layout(X), y, **options)
    most = int(whole.n_iters.max())
    assert 1 <= most < 100
    np.testing.assert_array_equal(path(layout(X), y, max_iter=most, **options).coefs, whole.coefs)
    for limit in range(most):
        with pytest.warns(ConvergenceWarning, match="iteration limit"):
            short = path(layout(X), y, max_iter=limit, **options)
        assert short.n_iters.max() <= limit
        assert (short.values - short.gaps <= whole.values).all()
        assert (short.values >= whole.values - whole.gaps).all()


@pytest.mark.parametrize("value", [-1, 1.5, "many"])
def test_limits_of_paths_are_checked(value: Any) -> None:
    X, y = drawn(11, samples=40, features=8)
    with pytest.raises((TypeError, ValueError), match="max_iter must be"):
        path(X, y, max_iter=value)


@every_loss
def test_radii_that_are_far_apart_are_bridged(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From few coefficients to more than samples: the compiled call goes by radii in between."""
    X, y = drawn(11, samples=40, features=100)
    f, radii = LOSSES[loss](X, y, intercept=True), np.array([0.3, 0.4, 3.0, 20.0])
    g, counts = simple_part(0.1, radii[0]), []
    for bridges in (0, 3):
        monkeypatch.setattr(path_models, "BRIDGES", bridges)
        with kernels.within_run(used=True):
            counts.append(len(PathFollower(f).solve_radii(g, radii, 0.1, tol=1e-6)))
    assert counts[0] < counts[1] == len(radii)


@every_loss
@pytest.mark.parametrize("layout", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("positive", [False, True])
def test_most_of_a_path_needs_no_other_method(
    loss: str, layout: Any, positive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = drawn(5, samples=40, features=60)
    whole = path(layout(X), y, loss=loss, n_radii=20, positive=positive)
    calls: list[Any] = []

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(args)
        return cg.minimize(*args, **options)

    monkeypatch.setattr(solver, "minimize", counted)
    again = path(layout(X), y, loss=loss, radii=whole.radii, positive=positive)
    assert len(calls) <= 4
    np.testing.assert_allclose(again.coefs, whole.coefs, atol=1e-3)


@pytest.mark.parametrize("intercept", [False, True])
def test_interpolation_without_a_ridge_needs_no_other_method(intercept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Least squares reach a loss of 0, from where on the solution stays."""
    X, y = drawn(7, samples=30, features=400)
    calls: list[Any] = []

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(args)
        return cg.minimize(*args, **options)

    monkeypatch.setattr(solver, "minimize", counted)
    options: dict[str, Any] = {"loss": "least-squares", "ridge": 0.0, "fit_intercept": intercept}
    found = path(X, y, radii=np.geomspace(0.02, 20.0, 60), **options)
    null = path(X, y, radii=[0.0], **options).values[0]
    assert len(calls) <= 4
    assert (found.gaps <= 1e-6 * null).all()
    assert (np.diff(found.values) <= 1e-6 * null).all()
    assert found.values[-1] <= 1e-6 * null
    assert found.multipliers[-1] == 0.0
    some_solution = np.linalg.lstsq(X, y)[0]
    assert np.abs(found.coefs[-1]).sum() <= np.abs(some_solution).sum() * (1.0 + 1e-6)


@every_loss
@pytest.mark.parametrize("positive", [False, True])
def test_a_path_goes_on_where_it_fails(loss: str, positive: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last radius, which leaves the constraint idle."""
    X, y = drawn(5, samples=40, features=60)
    options: dict[str, Any] = {"loss": loss, "radii": [0.05, 0.3, 1.0, 100.0], "positive": positive, "tol": 1e-8}
    easy = path(X, y, **options)
    monkeypatch.setattr(PathFollower, "solve_radii", lambda *_, **__: [])
    monkeypatch.setattr(ColumnModels, "least", lambda *_, **__: None)
    hard = path(X, y, **options)
    np.testing.assert_allclose(hard.coefs, easy.coefs, atol=1e-3)
    assert (hard.gaps <= 1e-8 * hard.values[0]).all()


def test_out_of_time_it_keeps_its_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that jumps after the first certificate: the fit ends with it, not with nothing."""
    X, y = drawn(5, samples=40, features=60)
    taken = ColumnModels.least

    def slow(self: ColumnModels, *args: Any, **options: Any) -> Any:
        now = cg.deadline.clock()
        monkeypatch.setattr(cg.deadline, "clock", lambda: now + 1e6)
        return taken(self, *args, **options)

    monkeypatch.setattr(PathFollower, "solve_radii", lambda *_, **__: [])
    monkeypatch.setattr(ColumnModels, "least", slow)
    with pytest.warns(UserWarning, match="the time limit was reached"):
        found = path(X, y, radii=[0.5], time_limit=1e3, tol=1e-12)
    assert np.isfinite(found.gaps[0])


@every_loss
def test_single_precision_is_valued_in_double(loss: str) -> None:
    X, y = drawn(5, samples=40, features=60)
    found = path(X.astype(np.float32), y, loss=loss, n_radii=6, tol=1e-4)
    exact = LOSSES[loss](X.astype(np.float32).astype(np.float64), y, intercept=True)
    for k in range(6):
        x = found.coefs[k].astype(np.float64)
        assert found.values[k] == pytest.approx(exact.at(x).value + 0.5 * x @ x, rel=1e-9)


def test_a_sparse_hinge_of_many_coordinates_is_left_to_its_dual(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hardly a ridge: models of more coordinates than samples take dozens of products of conjugate gradients each."""
    rng = np.random.default_rng(0)
    X = scipy.sparse.csc_array(rng.standard_normal((60, 500)) * (rng.random((60, 500)) < 0.5))
    y = np.where(rng.random(60) < 0.5, 1.0, -1.0)
    models, least = [], SparseModels.least

    def counted(self: SparseModels, *args: Any, **more: Any) -> Any:
        models.append(1)
        return least(self, *args, **more)

    monkeypatch.setattr(SparseModels, "least", counted)
    found = path(X, y, loss="squared-hinge", ridge=1e-8, fit_intercept=False, radii=[5.0, 10.0, 20.0, 40.0, 80.0])
    assert (found.gaps <= 1e-6 * found.values[0] + 1e-6 * 60.0).all()
    assert len(models) <= 5 * (HINGE_MODELS + 1)

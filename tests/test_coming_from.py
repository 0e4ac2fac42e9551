"""The tables for those who come from another package say what is true: both sides of a row are run as they stand."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import ot
import ot.partial
import pytest
import skglm
from scipy.spatial.distance import cdist
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression
from sklearn.svm import LinearSVC

import condgrad as cg
import condgrad.compat.pot as cg_pot
from condgrad import linear_model

PAGE = (Path(__file__).parents[1] / "docs" / "coming_from.md").read_text()


def rows(section: str) -> list[tuple[str, str]]:
    """The code of both sides of each row of a section."""
    part = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(.*?)` \| `(.*?)` \|", part, re.MULTILINE)


POT, SKLEARN, SKGLM = rows("POT"), rows("scikit-learn"), rows("skglm")


def names_for_pot() -> dict[str, Any]:
    """What the rows speak of."""
    rng = np.random.default_rng(0)
    Xs, Xt = rng.random((20, 2)), rng.random((25, 2)) + 0.2
    A, b = rng.random((25, 2)), rng.random(25)
    return {
        **{"ot": ot, "cg": cg, "cg_pot": cg_pot, "Xs": Xs, "Xt": Xt, "ys": np.arange(20) % 3},
        **{
            "a": np.full(20, 1 / 20),
            "b": b / b.sum(),
            "M": cdist(Xs, Xt, "sqeuclidean"),
            "reg": 0.05,
            "eta": 0.1,
        },
        **{"A": A / A.sum(axis=0), "C": cdist(Xt, Xt, "sqeuclidean")},
        **{"C1": cdist(Xs, Xs), "C2": cdist(Xt, Xt)},
        **{"f": lambda G: 5.0 * (G**2).sum(), "df": lambda G: 10.0 * G},
    }


def objective_of_gcg(names: dict[str, Any], G: Any) -> float:
    return float(
        (names["M"] * G).sum() + names["reg"] * (G * np.log(G)).sum() + names["eta"] * names["f"](G)
    )


def objective_of_groups(names: dict[str, Any], G: Any) -> float:
    norms = sum(np.linalg.norm(G[names["ys"] == label], axis=0).sum() for label in range(3))
    return float(
        (names["M"] * G).sum() + names["reg"] * (G * np.log(G)).sum() + names["eta"] * norms
    )


def loss_of_gromov(names: dict[str, Any], G: Any) -> float:
    """POT's entropic objective at a plan: there are several stationary ones."""
    C1, C2, a, b = names["C1"], names["C2"], names["a"], names["b"]
    return cg.transport.gromov_gap(G, C1, C2, a, b, entropy=names["reg"]).value


NO_HIGHER: dict[str, Callable[[dict[str, Any], Any], float]] = {
    "ot.gromov_wasserstein2": lambda _, value: float(value),
    "ot.gromov.entropic_gromov_wasserstein": loss_of_gromov,
}
"""Where there are several answers: what ours has no more of, up to its tolerance."""
LOWER: dict[str, Callable[[dict[str, Any], Any], float]] = {
    "ot.optim.gcg": objective_of_gcg,
    "ot.da.sinkhorn_l1l2_gl": objective_of_groups,
}
"""Where POT's answer is no minimum: what ours has less of."""
CLOSE = {
    "ot.sinkhorn(": 1e-5,
    "ot.unbalanced": 5e-3,
    "ot.da.emd_laplace": 0.05,
    "ot.da.sinkhorn_lpl1_mm": 0.1,
}
"""How far apart the two may be, in units of the largest entry; 1e-3 for all others."""
OTHER_PROBLEM = {
    "ot.da.SinkhornL1l2Transport": "POT's steps miss the minimum",
    "ot.da.EMDLaplaceTransport": "ours has an entropy",
    "ot.lp.free_support_barycenter": "ours has an entropy",
    "ot.bregman.empirical_sinkhorn_divergence": "ours has the entropies in it",
    'ot.sinkhorn(a, b, M, reg, log=True)[1]["niter"]': "iterations of different methods",
}


@pytest.mark.parametrize(
    ("theirs", "ours"), POT, ids=[theirs.partition("(")[0] for theirs, _ in POT]
)
def test_row_of_pot(theirs: str, ours: str) -> None:
    names = names_for_pot()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # limits on iterations, which POT's defaults have us meet
        expected, found = (np.asarray(eval(code, names)) for code in (theirs, ours))
    assert found.shape == expected.shape
    assert np.isfinite(found).all()
    judge = next((value for name, value in LOWER.items() if theirs.startswith(name)), None)
    no_higher = next((value for name, value in NO_HIGHER.items() if theirs.startswith(name)), None)
    if judge is not None:
        assert judge(names, found) < judge(names, expected)
    elif no_higher is not None:
        assert no_higher(names, found) <= no_higher(names, expected) + 1e-5
    elif not any(theirs.startswith(name) for name in OTHER_PROBLEM):
        far = next((value for name, value in CLOSE.items() if theirs.startswith(name)), 1e-3)
        np.testing.assert_allclose(found, expected, rtol=0, atol=far * np.abs(expected).max())


def test_the_divergence_of_pot_is_that_of_the_costs_alone() -> None:
    names = names_for_pot()
    ours = cg.transport.divergence(names["Xs"], names["Xt"], entropy=names["reg"])
    costs = ours.between.cost - 0.5 * ours.source.cost - 0.5 * ours.target.cost
    theirs = names["ot"].bregman.empirical_sinkhorn_divergence(
        names["Xs"], names["Xt"], names["reg"]
    )
    assert costs == pytest.approx(float(theirs), rel=1e-4)


def same_solution(theirs: str, ours: str, **packages: Any) -> None:
    """Fit ours, hand its multiplier to theirs, and compare the coefficients."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 30))
    y = X[:, :3] @ [1.0, -2.0, 3.0] + 0.3 * rng.standard_normal(60)
    if "Logistic" in ours or "SVC" in ours:
        y = np.where(y > 0.0, 1, -1)
    names = {**vars(linear_model), **packages, "n": len(X), "radius": 2.0, "ridge": 0.5}
    model = eval(ours, names).set_params(tol=1e-10).fit(X, y)
    names["mu"] = float(np.ravel(model.multiplier_)[0])
    assert names["mu"] > 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what numba says of skglm's loops
        other = eval(theirs, names).set_params(tol=1e-8, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(np.ravel(model.coef_), np.ravel(other.coef_), atol=1e-5)


@pytest.mark.parametrize(("theirs", "ours"), SKLEARN, ids=[ours for _, ours in SKLEARN])
def test_row_of_scikit_learn(theirs: str, ours: str) -> None:
    own = {
        "Lasso": Lasso,
        "ElasticNet": ElasticNet,
        "LogisticRegression": LogisticRegression,
        "LinearSVC": LinearSVC,
    }
    same_solution(theirs, ours, **own)


@pytest.mark.slow  # skglm compiles for each of its models
@pytest.mark.parametrize(("theirs", "ours"), SKGLM, ids=[ours for _, ours in SKGLM])
def test_row_of_skglm(theirs: str, ours: str) -> None:
    same_solution(theirs, ours, skglm=skglm)


def test_there_are_rows() -> None:
    assert (len(POT), len(SKLEARN), len(SKGLM)) == (24, 5, 3)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`cg\.((?:\w+\.)*\w+)", PAGE))))
def test_names_of_ours_are_there(name: str) -> None:
    value: Any = cg
    for part in name.split("."):
        value = getattr(value, part)

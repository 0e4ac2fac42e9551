"""The regularisers of plans: dense formulas, naive loops and finite differences as judges."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import laplacian
from sklearn.neighbors import NearestNeighbors

import condgrad as cg
from condgrad.search.restriction import Restriction
from condgrad.smooth import GroupLasso, TransportLaplacian
from condgrad.transport import GroupLasso as GroupRegularizer
from condgrad.transport import Laplacian
from tests.transport import Array, within

seeds = st.integers(0, 10_000)
LAW = settings(max_examples=12)


def graph(X: Array, neighbors: int) -> Array:
    """The symmetric 0/1 nearest-neighbour graph, a point at a time."""
    W = np.zeros((len(X), len(X)))
    for i, x in enumerate(X):
        distances = ((X - x) ** 2).sum(axis=1)
        distances[i] = np.inf
        W[i, np.argsort(distances)[:neighbors]] = 1.0
    return np.maximum(W, W.T)


def raw(W: Array) -> Array:
    return np.diag(W.sum(axis=1)) - W


def normalised(W: Array) -> Array:
    root = np.diag(1.0 / np.sqrt(W.sum(axis=1)))
    return np.eye(len(W)) - root @ W @ root


class Dense:
    """The regulariser by its formula, everything dense."""

    def __init__(
        self, n: int, m: int, d: int = 2, seed: int = 0, ls: float = 1.3, lt: float = 0.4
    ) -> None:
        rng = np.random.default_rng(seed)
        self.Xs, self.Xt = rng.standard_normal((n, d)), rng.standard_normal((m, d))
        self.Ls, self.Lt = (raw(graph(X, min(3, len(X) - 1))) for X in (self.Xs, self.Xt))
        self.ls, self.lt, self.shape = ls, lt, (n, m)
        self.rng = rng

    def value(self, G: Array) -> float:
        source = np.trace(self.Xt.T @ G.T @ self.Ls @ G @ self.Xt)
        target = np.trace(self.Xs.T @ G @ self.Lt @ G.T @ self.Xs)
        return float(self.ls * source + self.lt * target)

    def gradient(self, G: Array) -> Array:
        source = self.Ls @ G @ (self.Xt @ self.Xt.T)
        target = (self.Xs @ self.Xs.T) @ G @ self.Lt
        return 2.0 * (self.ls * source + self.lt * target)

    def ours(self, kind: Callable[[Array], Any] = np.asarray) -> TransportLaplacian:
        return TransportLaplacian(
            self.Xs,
            self.Xt,
            kind(self.Ls),
            kind(self.Lt),
            source_weight=self.ls,
            target_weight=self.lt,
        )

    def point(self) -> Array:
        return self.rng.random(self.shape)


KINDS = {
    "dense": np.asarray,
    "csr": scipy.sparse.csr_array,
    "csc": scipy.sparse.csc_array,
    "coo": scipy.sparse.coo_array,
    "old sparse matrix": scipy.sparse.csr_matrix,
    "list": lambda L: L.tolist(),
    "whole numbers": lambda L: L.astype(int),
}


# --- the Laplacian ---


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
@pytest.mark.parametrize(("n", "m", "d"), [(6, 6, 2), (7, 4, 3), (4, 9, 1)])
def test_laplacian_is_its_formula(kind: Callable[[Array], Any], n: int, m: int, d: int) -> None:
    dense = Dense(n, m, d)
    G = dense.point()
    here = dense.ours(kind).at(G)
    assert here.value == pytest.approx(dense.value(G), rel=1e-12)
    np.testing.assert_allclose(here.gradient, dense.gradient(G), rtol=1e-11, atol=1e-11)
    assert here.offset == pytest.approx(here.value - np.vdot(dense.gradient(G), G), rel=1e-11)


@pytest.mark.parametrize(("ls", "lt"), [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)])
def test_laplacian_with_a_term_switched_off(ls: float, lt: float) -> None:
    dense = Dense(6, 5, ls=ls, lt=lt)
    G = dense.point()
    value, gradient = dense.ours(scipy.sparse.csr_array).value_and_gradient(G)
    assert value == pytest.approx(dense.value(G), rel=1e-12, abs=1e-13)
    np.testing.assert_allclose(gradient, dense.gradient(G), rtol=1e-11, atol=1e-12)


def test_clouds_may_live_in_different_spaces() -> None:
    """The formula never compares a source with a target."""
    dense = Dense(6, 5)
    dense.Xt = np.random.default_rng(1).standard_normal((5, 3))
    G = dense.point()
    value, gradient = dense.ours().value_and_gradient(G)
    assert value == pytest.approx(dense.value(G), rel=1e-12)
    np.testing.assert_allclose(gradient, dense.gradient(G), rtol=1e-11, atol=1e-11)


def test_laplacian_gradient_by_differences() -> None:
    dense = Dense(5, 4)
    G, direction = dense.point(), dense.point()
    slope = np.vdot(dense.ours().at(G).gradient, direction)
    # a quadratic has no third derivative: the central difference is exact
    difference = (dense.value(G + direction) - dense.value(G - direction)) / 2.0
    assert slope == pytest.approx(difference, rel=1e-11)


def restriction_follows(
    restriction: Restriction, F: Callable[[Array], float], G: Array, directions: Array
) -> None:
    """Value, slope and curvature of a restriction against F itself and finite differences."""
    k, rng = len(directions), np.random.default_rng(0)
    step = 1e-4

    def along(a: Array) -> float:
        return F(G + np.tensordot(a, directions, axes=1))

    for a in (np.zeros(k), rng.dirichlet(np.ones(k + 1))[:k], np.full(k, 1.0 / k)):
        here = restriction.local(a)
        assert here.value == pytest.approx(along(a), rel=1e-11)
        assert restriction.value(a) == pytest.approx(along(a), rel=1e-11)
        basis = step * np.eye(k)
        slope = [(along(a + e) - along(a - e)) / (2 * step) for e in basis]
        np.testing.assert_allclose(here.slope, slope, rtol=1e-5, atol=1e-6 * abs(along(a)))
        curvature = [
            [
                (along(a + e + f) - along(a + e - f) - along(a - e + f) + along(a - e - f))
                / (4 * step**2)
                for f in basis
            ]
            for e in basis
        ]
        np.testing.assert_allclose(here.curvature, curvature, rtol=1e-3, atol=1e-5 * abs(along(a)))


@pytest.mark.parametrize("k", [1, 3])
def test_laplacian_along_directions(k: int) -> None:
    dense = Dense(6, 5)
    f, G, points = (
        dense.ours(scipy.sparse.csr_array),
        dense.point(),
        [dense.point() for _ in range(k)],
    )
    directions = np.stack([p - G for p in points])
    restriction = f.at(G).along([f.at(p) for p in points], directions)
    restriction_follows(restriction, dense.value, G, directions)


@pytest.mark.parametrize("k", [1, 3])
def test_laplacian_moved(k: int) -> None:
    """The evaluation carried along is the evaluation made afresh."""
    dense = Dense(6, 5)
    f, G, points = dense.ours(), dense.point(), [dense.point() for _ in range(k)]
    a = np.random.default_rng(1).dirichlet(np.ones(k + 1))[:k]
    x = (1.0 - a.sum()) * G + sum(t * p for t, p in zip(a, points, strict=True))
    there = f.at(G).moved(x, [f.at(p) for p in points], a)
    assert there.value == pytest.approx(dense.value(x), rel=1e-12)
    np.testing.assert_allclose(there.gradient, dense.gradient(x), rtol=1e-10, atol=1e-11)
    assert there.offset == pytest.approx(-dense.value(x), rel=1e-12)


@LAW
@given(n=st.integers(1, 7), m=st.integers(1, 7), d=st.integers(1, 3), seed=seeds)
def test_laplacian_is_convex_and_smooth(n: int, m: int, d: int, seed: int) -> None:
    """0 <= f(y) - f(x) - <grad f(x), y - x> <= L/2 |y - x|^2, and the gradient is L-Lipschitz."""
    dense = Dense(n, m, d, seed=seed)
    f, x, y = dense.ours(), dense.point(), dense.point()
    here, there = f.at(x), f.at(y)
    divergence = there.value - here.value - np.vdot(here.gradient, y - x)
    scale = 1.0 + abs(there.value) + abs(here.value)
    assert f.smoothness is not None
    assert -1e-11 * scale <= divergence <= 0.5 * f.smoothness * np.sum((y - x) ** 2) + 1e-11 * scale
    change = np.linalg.norm(there.gradient - here.gradient)
    assert change <= f.smoothness * np.linalg.norm(y - x) * (1 + 1e-12)


def test_laplacian_smoothness_is_not_much_too_large() -> None:
    """Within a small factor of the largest eigenvalue of the Hessian."""
    dense = Dense(6, 5)
    f = dense.ours(scipy.sparse.csr_array)
    H = 2.0 * (
        dense.ls * np.kron(dense.Ls, dense.Xt @ dense.Xt.T)
        + dense.lt * np.kron(dense.Xs @ dense.Xs.T, dense.Lt)
    )
    largest = np.linalg.eigvalsh(H).max()
    assert f.smoothness is not None
    assert largest * (1 - 1e-12) <= f.smoothness <= 4.0 * largest


@LAW
@given(seeds, st.sampled_from([0.0, 1e2, 1e5]), st.booleans())
def test_laplacian_is_as_exact_as_its_magnitude_says(
    seed: int, offset: float, balanced: bool
) -> None:
    """Extended precision as judge, at points whose entries have any sign: they cancel in the moments and sums."""
    dense = Dense(6, 5, seed=seed)
    dense.Xs = dense.Xs + offset
    dense.Xt = dense.Xt - offset
    f = dense.ours()
    x, y = dense.rng.standard_normal((2, *dense.shape))
    if balanced:
        x -= x.mean(axis=1, keepdims=True)
        y -= y.mean(axis=0)
    here, there = f.at(x), f.at(y)
    moved = here.moved(0.75 * x + 0.25 * y, [there], np.array([0.25]))
    units = 4.0 * np.finfo(float).eps
    for one, point in ((here, x), (moved, 0.75 * x + 0.25 * y)):
        product = np.longdouble(2.0) * extended_form(dense, point, y)
        assert abs(np.vdot(one.gradient, y) - product) <= units * one.magnitude(there)
        assert abs(one.value - extended_form(dense, point, point)) <= units * one.magnitude(one)


def extended_form(dense: Dense, x: Array, y: Array) -> Any:
    """The bilinear form of f, in extended precision."""
    x, y, Xs, Xt, Ls, Lt = (
        np.asarray(A, np.longdouble) for A in (x, y, dense.Xs, dense.Xt, dense.Ls, dense.Lt)
    )
    return (
        dense.ls * ((Ls @ (x @ Xt)) * (y @ Xt)).sum()
        + dense.lt * ((Lt @ (x.T @ Xs)) * (y.T @ Xs)).sum()
    )


@pytest.mark.parametrize("kind", [raw, normalised])
@pytest.mark.parametrize("apart", [1.0, 1e3, 1e6])
def test_the_value_is_as_exact_as_it_says(kind: Callable[[Array], Any], apart: float) -> None:
    """Fractions as judge: clusters far apart, whose graph has a part each, moved as they are."""
    rng = np.random.default_rng(0)
    labels = np.arange(12) % 3
    centres = apart * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])[labels]
    Xs, Xt = (centres + rng.standard_normal((12, 2)) for _ in range(2))
    L = kind((labels[:, None] == labels[None, :]) - np.eye(12))
    plan = np.kron(np.full((4, 4), 1.0), np.eye(3)) / 48.0
    here = TransportLaplacian(Xs, Xt, L, L).at(plan)
    exact = sum(
        exact_quadratic(L, moment)
        for moment in (exact_product(plan, Xt), exact_product(plan.T, Xs))
    )
    rounding = 4.0 * np.finfo(float).eps * here.value_size(here)
    assert abs(Fraction(here.value) - exact) <= Fraction(rounding)
    if (
        kind is raw
    ):  # neighbours go to the same place: nothing is left of how far apart the clusters are
        assert rounding <= 1e-13 * (1.0 + np.finfo(float).eps * apart**2)


def exact_product(A: Array, B: Array) -> list[list[Fraction]]:
    """A B without rounding."""
    left, right = ([[Fraction(x) for x in row] for row in X.tolist()] for X in (A, B.T))
    return [
        [sum(map(Fraction.__mul__, row, column), Fraction(0)) for column in right] for row in left
    ]


def exact_quadratic(L: Array, P: list[list[Fraction]]) -> Fraction:
    """tr(P' L P) without rounding."""
    size = range(len(P))
    return sum(
        (
            Fraction(L[i, j]) * P[i][k] * P[j][k]
            for i in size
            for j in size
            for k in range(len(P[0]))
        ),
        Fraction(0),
    )


def ring(n: int) -> Any:
    """The Laplacian of a ring of n points."""
    ones = np.ones(n)
    W = scipy.sparse.diags_array([ones[:-1], ones[:-1]], offsets=[-1, 1]).tocsr()
    return scipy.sparse.csr_array(laplacian(W))


def test_laplacian_never_forms_an_n_by_n_matrix() -> None:
    """n = 20000 sources, three targets: an n x n array would take 3.2 GB, the plan takes 0.5 MB."""
    n, rng = 20_000, np.random.default_rng(0)
    Xs, Xt, G = rng.random((n, 2)), rng.random((3, 2)), rng.random((n, 3))
    tracemalloc.start()
    f = TransportLaplacian(Xs, Xt, ring(n), ring(3))
    here = f.at(G)
    value, gradient = here.value, here.gradient
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 40 * G.nbytes
    # the ring's quadratic form is a sum over its edges
    P, Q = G @ Xt, G.T @ Xs
    assert value == pytest.approx(
        (np.diff(P, axis=0) ** 2).sum() + (np.diff(Q, axis=0) ** 2).sum(), rel=1e-10
    )
    assert np.vdot(gradient, G) == pytest.approx(2.0 * value, rel=1e-10)
    assert f.smoothness is not None


BAD = {
    "Ls of the wrong size": (
        lambda d: TransportLaplacian(d.Xs, d.Xt, d.Lt, d.Lt),
        r"Ls must have shape \(6, 6\)",
    ),
    "Lt of the wrong size": (
        lambda d: TransportLaplacian(d.Xs, d.Xt, d.Ls, d.Ls),
        r"Lt must have shape \(5, 5\)",
    ),
    "negative weight": (
        lambda d: TransportLaplacian(d.Xs, d.Xt, d.Ls, d.Lt, source_weight=-1.0),
        r"source_weight must be finite and >= 0, got -1",
    ),
    "NaN in Ls": (
        lambda d: TransportLaplacian(d.Xs, d.Xt, d.Ls * np.nan, d.Lt),
        r"Ls must be finite",
    ),
    "NaN in Xs": (
        lambda d: TransportLaplacian(d.Xs * np.nan, d.Xt, d.Ls, d.Lt),
        r"Xs must be finite",
    ),
    "points in a vector": (
        lambda d: TransportLaplacian(d.Xs[:, 0], d.Xt, d.Ls, d.Lt),
        r"Xs must have 2 dim",
    ),
}


@pytest.mark.parametrize(("make", "match"), BAD.values(), ids=BAD.keys())
def test_laplacian_bad_input(make: Callable[[Dense], Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        make(Dense(6, 5))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_laplacian_of_tensors(kind: Callable[[Array], Any], dtype: str, torch: Any) -> None:
    dense = Dense(6, 5)
    to = getattr(torch, dtype)
    Xs, Xt, G = (torch.asarray(x).to(to) for x in (dense.Xs, dense.Xt, dense.point()))
    f = TransportLaplacian(
        Xs, Xt, kind(dense.Ls), kind(dense.Lt), source_weight=dense.ls, target_weight=dense.lt
    )
    value, gradient = f.value_and_gradient(G)
    relative = 1e-5 if dtype == "float32" else 1e-11
    assert value == pytest.approx(dense.value(G.double().numpy()), rel=relative)
    assert gradient.dtype == to
    expected = dense.gradient(G.double().numpy())
    np.testing.assert_allclose(
        gradient.numpy(), expected, rtol=0, atol=relative * abs(expected).max()
    )
    assert f.smoothness == pytest.approx(dense.ours().smoothness, rel=1e-5)


# --- neighbour graphs ---


def cloud_of(n: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).random((n, 2))


@pytest.mark.parametrize("neighbors", [1, 3, 10])
@pytest.mark.parametrize("normed", [True, False])
def test_graphs_are_those_of_scikit_learn_and_scipy(neighbors: int, normed: bool) -> None:
    """Symmetric 0/1 nearest neighbours, and SciPy's Laplacian of them."""
    Xs, Xt = cloud_of(25), cloud_of(15, seed=1)
    f = Laplacian(Xs, Xt, 2.0, neighbors=neighbors, normalized=normed).smooth_part()
    for X, L in ((Xs, f.Ls), (Xt, f.Lt)):
        half = NearestNeighbors(n_neighbors=neighbors).fit(X).kneighbors_graph().toarray()
        W = np.maximum(half, half.T)
        np.testing.assert_allclose(L.toarray(), laplacian(W, normed=normed), atol=1e-14)
        np.testing.assert_allclose(
            L.toarray(), (normalised if normed else raw)(graph(X, neighbors)), atol=1e-14
        )
        assert np.linalg.eigvalsh(L.toarray()).min() >= -1e-12


def test_more_neighbours_than_points_is_the_complete_graph() -> None:
    Xs, Xt = cloud_of(4), cloud_of(1, seed=1)
    f = Laplacian(Xs, Xt, 1.0, neighbors=10, normalized=False).smooth_part()
    np.testing.assert_allclose(f.Ls.toarray(), 4.0 * np.eye(4) - 1.0)
    np.testing.assert_array_equal(f.Lt.toarray(), [[0.0]])


@pytest.mark.parametrize("normed", [True, False])
@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_similarities_and_laplacians_may_be_given(
    kind: Callable[[Array], Any], normed: bool
) -> None:
    Xs, Xt, rng = cloud_of(6), cloud_of(5, seed=1), np.random.default_rng(2)
    Ws, Wt = (np.triu(rng.random((k, k)), 1) for k in (6, 5))
    Ws, Wt = Ws + Ws.T, Wt + Wt.T
    make = normalised if normed else raw
    G = rng.random((6, 5))
    by_similarity = (
        Laplacian(Xs, Xt, 3.0, normalized=normed, Ws=kind(Ws), Wt=kind(Wt)).smooth_part().at(G)
    )
    by_laplacian = Laplacian(Xs, Xt, 3.0, Ls=kind(make(Ws)), Lt=kind(make(Wt))).smooth_part().at(G)
    dense = Dense(6, 5, ls=3.0, lt=3.0)
    dense.Xs, dense.Xt, dense.Ls, dense.Lt = Xs, Xt, make(Ws), make(Wt)
    for here in (by_similarity, by_laplacian):
        assert here.value == pytest.approx(dense.value(G), rel=1e-12)
        np.testing.assert_allclose(here.gradient, dense.gradient(G), rtol=1e-11, atol=1e-12)


def test_source_and_target_weigh_the_terms() -> None:
    Xs, Xt, G = cloud_of(6), cloud_of(5, seed=1), cloud_of(6, seed=2) @ np.ones((2, 5))
    both = Laplacian(Xs, Xt, 2.0, neighbors=2).smooth_part().at(G).value
    source = Laplacian(Xs, Xt, 2.0, neighbors=2, target=0.0).smooth_part().at(G).value
    target = Laplacian(Xs, Xt, 2.0, neighbors=2, source=0.0).smooth_part().at(G).value
    assert source > 0.0
    assert source + target == pytest.approx(both, rel=1e-12)
    assert Laplacian(Xs, Xt, 2.0, neighbors=2, source=5.0, target=0.5).smooth_part().at(
        G
    ).value == pytest.approx(5.0 * source + 0.5 * target, rel=1e-12)


BAD_GRAPHS = {
    "both Ls and Ws": ({"Ls": np.eye(6), "Ws": np.ones((6, 6))}, r"give Ls or Ws, not both"),
    "both Lt and Wt": ({"Lt": np.eye(5), "Wt": np.ones((5, 5))}, r"give Lt or Wt, not both"),
    "negative similarities": ({"Ws": -np.ones((6, 6))}, r"similarities must be >= 0, got -1"),
    "lopsided similarities": ({"Ws": np.triu(np.ones((6, 6)))}, r"square and symmetric"),
    "oblong similarities": ({"Ws": np.ones((6, 5))}, r"square and symmetric, got shape \(6, 5\)"),
    "a Laplacian of the wrong sign": ({"Ls": -raw(np.ones((6, 6)))}, r"its diagonal has -5"),
    "similarities for a Laplacian": (
        {"Ls": np.ones((6, 6)) - np.eye(6)},
        r"semidefinite.*off-diagonal",
    ),
    "similarities of another size": ({"Ws": np.ones((4, 4))}, r"\(6, 6\).*\(4, 4\)"),
    "negative weight": ({"weight": -1.0}, r"weight must be finite and >= 0"),
    "negative source": ({"source": -1.0}, r"source must be finite and >= 0"),
    "no neighbours": ({"neighbors": 0}, r"neighbors must be >= 1, got 0"),
}


@pytest.mark.parametrize(("options", "match"), BAD_GRAPHS.values(), ids=BAD_GRAPHS.keys())
def test_bad_graphs(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Laplacian(cloud_of(6), cloud_of(5), **{"weight": 1.0, **options}).smooth_part()


# --- groups ---

LABELS = np.array([0, 1, 0, 2, 1, 0, 2])


def group_value(G: Array, labels: Any, weight: float) -> float:
    """A column and a class at a time."""
    total = 0.0
    for j in range(G.shape[1]):
        for label in set(labels):
            total += np.sqrt(sum(G[i, j] ** 2 for i in range(len(G)) if labels[i] == label))
    return weight * total


def group_gradient(G: Array, labels: Any, weight: float) -> Array:
    gradient = np.zeros_like(G)
    for i in range(len(G)):
        for j in range(G.shape[1]):
            norm = np.sqrt(sum(G[k, j] ** 2 for k in range(len(G)) if labels[k] == labels[i]))
            gradient[i, j] = weight * G[i, j] / norm if norm > 0 else 0.0
    return gradient


LABEL_KINDS = {
    "numbers": LABELS,
    "strings": np.array(["cat", "dog", "cat", "eel", "dog", "cat", "eel"]),
    "a list": LABELS.tolist(),
    "a list of strings": ["cat", "dog", "cat", "eel", "dog", "cat", "eel"],
    "one class": np.zeros(7, dtype=int),
    "a class each": np.arange(7),
    "truths": LABELS > 0,
}


@pytest.mark.parametrize("labels", LABEL_KINDS.values(), ids=LABEL_KINDS.keys())
@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_groups_are_their_formula(labels: Any, weight: float) -> None:
    G = np.random.default_rng(3).random((7, 4))
    for f in (GroupLasso(labels, weight=weight), GroupRegularizer(labels, weight).smooth_part()):
        here = f.at(G)
        assert here.value == pytest.approx(group_value(G, labels, weight), rel=1e-12)
        np.testing.assert_allclose(here.gradient, group_gradient(G, labels, weight), rtol=1e-12)
        assert here.offset == pytest.approx(here.value - np.vdot(here.gradient, G), abs=1e-13)


def test_groups_gradient_by_differences() -> None:
    rng = np.random.default_rng(4)
    G, direction, f = (
        rng.random((7, 4)) + 0.1,
        rng.standard_normal((7, 4)),
        GroupLasso(LABELS, weight=0.7),
    )
    difference = (f.at(G + 1e-5 * direction).value - f.at(G - 1e-5 * direction).value) / 2e-5
    assert np.vdot(f.at(G).gradient, direction) == pytest.approx(difference, rel=1e-8)


@pytest.mark.parametrize("k", [1, 3])
def test_groups_along_directions(k: int) -> None:
    rng = np.random.default_rng(5)
    f, G, points = GroupLasso(LABELS, weight=0.7), rng.random((7, 4)), rng.random((k, 7, 4))
    directions = points - G
    restriction = f.at(G).along([f.at(p) for p in points], directions)
    restriction_follows(restriction, lambda x: group_value(x, LABELS, 0.7), G, directions)


def test_groups_moved() -> None:
    rng = np.random.default_rng(6)
    f, G, p = GroupLasso(LABELS, weight=0.7), rng.random((7, 4)), rng.random((7, 4))
    x = 0.3 * G + 0.7 * p
    there = f.at(G).moved(x, [f.at(p)], np.array([0.7]))
    assert there.value == pytest.approx(group_value(x, LABELS, 0.7), rel=1e-12)
    np.testing.assert_allclose(there.gradient, group_gradient(x, LABELS, 0.7), rtol=1e-12)


@LAW
@given(seed=seeds, n=st.integers(1, 8), m=st.integers(1, 5), zeros=st.floats(0.0, 1.0))
def test_groups_are_convex_even_where_some_vanish(seed: int, n: int, m: int, zeros: float) -> None:
    """f(y) >= f(x) + <grad f(x), y - x>, with whole groups of zeros in x or y."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    x, y = (rng.random((n, m)) * (rng.random((n, m)) >= zeros) for _ in range(2))
    f = GroupLasso(labels, weight=0.7)
    value, gradient = f.value_and_gradient(x)
    assert np.isfinite(gradient).all()
    np.testing.assert_allclose(gradient, group_gradient(x, labels, 0.7), rtol=1e-12)
    assert group_value(y, labels, 0.7) >= value + np.vdot(gradient, y - x) - 1e-12
    # the gradient in a group is at most a unit vector
    assert abs(np.vdot(gradient, y)) <= f.at(x).magnitude(f.at(y)) + 1e-12


def test_groups_leave_memory_alone() -> None:
    """A few copies of the plan, whatever the number of classes (POT takes a plan for each)."""
    rng = np.random.default_rng(7)
    n, classes = 600, 100
    G, S = rng.random((n, n)), rng.random((n, n))
    f = GroupLasso(np.arange(n) % classes, weight=1.0)
    tracemalloc.start()
    here = f.at(G)
    assert here.gradient.shape == G.shape
    here.along([f.at(S)], (S - G)[None]).local(np.array([0.5]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 5 * G.nbytes


BAD_LABELS = {
    "too few labels": (
        lambda: GroupLasso([0, 1]).at(np.ones((3, 2))),
        r"labels must have one entry for each of the 3 rows of the plan, got 2",
    ),
    "no labels": (lambda: GroupLasso([]), r"labels must have one class for each row"),
    "labels in a matrix": (
        lambda: GroupLasso(np.ones((3, 2))),
        r"labels must have one class for each row.*\(3, 2\)",
    ),
    "negative weight": (
        lambda: GroupLasso([0, 1], weight=-0.1),
        r"weight must be finite and >= 0, got -0.1",
    ),
}


@pytest.mark.parametrize(("make", "match"), BAD_LABELS.values(), ids=BAD_LABELS.keys())
def test_groups_bad_input(make: Callable[[], Any], match: str) -> None:
    with within(5), pytest.raises(ValueError, match=match):
        make()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_groups_of_tensors(dtype: str, torch: Any) -> None:
    G = np.random.default_rng(8).random((7, 4))
    tensor = torch.asarray(G).to(getattr(torch, dtype))
    for labels in (LABELS, torch.asarray(LABELS)):
        value, gradient = GroupLasso(labels, weight=0.7).value_and_gradient(tensor)
        assert gradient.dtype == tensor.dtype
        assert value == pytest.approx(group_value(G, LABELS, 0.7), rel=1e-6)
        np.testing.assert_allclose(gradient.numpy(), group_gradient(G, LABELS, 0.7), atol=1e-6)


@pytest.mark.slow
def test_the_value_at_an_oracle_point_has_the_rounding_of_its_own_terms() -> None:
    """F of the oracle's point is a small rest of huge terms, where those at the iterate are small.

    It came out below the lower bound, by far more than the rounding of the iterate.
    """
    Xs = np.array([[0.06536449522467029], [0.5200833400288847], [0.7044218980103075]])
    Xt = 1e5 * np.array([[0.54], [1.94], [3.41], [-1.11], [-1.92], [0.79]])
    Ls = np.array([[1.0, 0.0, -1.0], [0.0, 0.0, 0.0], [-1.0, 0.0, 1.0]])
    graph = cg.smooth.TransportLaplacian(
        Xs, Xt, Ls, np.zeros((6, 6)), source_weight=3.3, target_weight=0.0
    )
    for seed in range(40):
        C = 4e-3 * np.random.default_rng(seed).standard_normal((3, 6))
        g = cg.simple.Ridge(1.38e-5, on=cg.sets.GroupBall(4.89, [1, 1, 0]))
        f = cg.smooth.Linear(C) + graph
        r = cg.minimize(f, g, step="short", max_iter=30)
        x = np.asarray(r.x, np.longdouble)
        moments = (x @ Xt)[:, 0]
        exact = (C * x).sum() + 3.3 * (moments[0] - moments[2]) ** 2 + 1.38e-5 * (x * x).sum()
        assert abs(float(exact) - r.value) <= r.certificate.noise
        assert r.lower_bound <= float(exact)

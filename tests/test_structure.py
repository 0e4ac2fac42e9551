"""What a problem of transport is made of, however f is written."""

from __future__ import annotations

import re

import numpy as np
import pytest

import condgrad as cg
from condgrad.structure import LossOnPolytope, LossOnSet, NoStructure, structure

C = np.arange(6.0).reshape(2, 3)
PLANS = cg.sets.Transport(np.full(2, 0.5), np.full(3, 1.0 / 3.0))
ENTROPY = cg.simple.Entropy(0.1, on=PLANS)
LAPLACIAN = cg.transport.Laplacian(np.eye(2), np.eye(3), 1.0, neighbors=1).smooth_part()
GROUPS = cg.smooth.GroupLasso([0, 1])


def test_terms_are_told_apart() -> None:
    own = cg.smooth.Function(lambda x: (0.0, np.zeros_like(x)))
    found = structure(2.0 * (cg.smooth.Linear(C) + 3.0 * LAPLACIAN) + GROUPS + own, ENTROPY)
    assert found is not None
    assert (found.on, found.entropy) == (PLANS, 0.1)
    assert found.laplacians == ((6.0, LAPLACIAN),)
    assert found.laplacian is LAPLACIAN
    assert found.groups == ((1.0, GROUPS),)
    assert found.others == ((1.0, own),)
    assert not found.is_plain
    np.testing.assert_array_equal(found.cost, 2.0 * C)


def test_costs_add_up_and_one_is_not_copied() -> None:
    linear = cg.smooth.Linear(C)
    alone = structure(linear, ENTROPY)
    assert alone is not None
    assert alone.cost is linear.C
    assert alone.is_plain
    both = structure(linear + 2.0 * cg.smooth.Linear(C[::-1]), cg.simple.Zero(on=PLANS))
    assert both is not None
    assert both.entropy == 0.0
    np.testing.assert_array_equal(both.cost, C + 2.0 * C[::-1])
    plan = np.full((2, 3), 1.0 / 6.0)
    assert both.cost_of(plan) == pytest.approx(float(np.sum(both.cost * plan)), rel=1e-15)


SQUARES = cg.smooth.LeastSquares(np.eye(2), [1.0, 2.0])
BALL = cg.sets.L1Ball(1.0)


@pytest.mark.parametrize(
    "g", [cg.simple.Ridge(1.0, on=BALL), cg.simple.Zero(on=BALL), cg.simple.ElasticNet(0.1, 0.2)]
)
def test_losses_are_folded_with_their_linear_terms(g: cg.problem.Simple) -> None:
    found = structure(2.0 * SQUARES + 3.0 * cg.smooth.Linear([1.0, -1.0]), g)
    assert isinstance(found, LossOnSet)
    assert found.g is g
    assert found.loss is not None
    assert found.loss.weight == 2.0
    np.testing.assert_array_equal(found.loss.tilt, [3.0, -3.0])


def test_several_classes_know_their_own_hessian() -> None:
    f = cg.smooth.Multinomial(np.eye(3), [0, 1, 2])
    found = structure(f, cg.simple.Ridge(1.0, on=BALL))
    assert isinstance(found, LossOnSet)
    assert found.loss is None


def test_a_polytope_is_a_structure_of_its_own() -> None:
    on = cg.sets.Polytope(A_eq=[[1.0, 1.0]], b_eq=[1.0], bounds=(0, None))
    assert isinstance(structure(SQUARES, cg.simple.Zero(on=on)), LossOnPolytope)


@pytest.mark.parametrize(
    ("f", "g", "reason"),
    [
        (SQUARES, cg.simple.L1Norm(0.1, on=BALL), "L1Norm.* is not quadratic"),
        (SQUARES + SQUARES, cg.simple.Zero(on=BALL), "is not a multiple of one loss"),
        (cg.smooth.Linear([1.0]), cg.simple.Zero(on=BALL), "is not a loss"),
    ],
)
def test_others_say_why_they_have_none(f: object, g: object, reason: str) -> None:
    found = structure(f, g)
    assert isinstance(found, NoStructure)
    assert re.search(reason, found.reason)


def test_results_keep_it() -> None:
    found = cg.transport.solve(C, entropy=0.1, regularizers=[LAPLACIAN])
    assert found.structure.laplacian is LAPLACIAN
    assert found.cost == pytest.approx(float(np.sum(C * found.plan)), rel=1e-12)

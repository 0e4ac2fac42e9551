"""The benchmark of domain adaptation: its problems are what they say, and a table has a row for each estimator."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.benchmarks.domain_adaptation import PROBLEMS, Domains, estimators, table

pytestmark = pytest.mark.slow  # the paper's report, which `make run` makes


@pytest.mark.parametrize("name", PROBLEMS)
def test_problems_follow_their_seed(name: str) -> None:
    once, again, other = (PROBLEMS[name](40, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(once.Xs, again.Xs)
    np.testing.assert_array_equal(once.yt, again.yt)
    assert (once.Xt != other.Xt).any()
    assert len(once.Xs) == len(once.ys) == len(once.Xt) == len(once.yt) == 40
    assert set(once.yt) <= set(range(10))


def test_halves_of_the_digits_share_no_image() -> None:
    data = PROBLEMS["digits"](1000, 0)
    assert len(data.Xs) + len(data.Xt) == 1797
    assert data.Xt.std() < data.Xs.std()  # the blurred half


def test_accuracy() -> None:
    X = np.array([[0.0], [1.0]])
    data = Domains(X, np.array([0, 1]), X + 0.6, np.array([0, 1]))
    assert data.accuracy(X) == 0.5
    assert data.accuracy(X + 0.6) == 1.0
    assert np.isnan(data.accuracy(np.full((2, 1), np.nan)))


def test_a_table() -> None:
    rows = {row["estimator"]: row for row in table("moons", seeds=2, size=60, scaled=True)}
    assert rows.keys() == {"no transport", *estimators(scaled=True)}
    assert rows["LaplaceTransport()"]["mean"] > rows["no transport"]["mean"]
    assert all(0.0 <= row["mean"] <= 1.0 and row["sd"] >= 0.0 for row in rows.values())

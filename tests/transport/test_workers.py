"""Products on a dask cluster of processes, against those of this one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import distributed
import numpy as np
import pytest

import condgrad as cg
from condgrad.kernels import streamed
from condgrad.kernels.streamed import Score
from condgrad.transport.workers import Workers
from tests import host
from tests.kernels.test_streamed import dense_score


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(params=["numpy", "torch"])
def score(request: Any) -> Score:
    dense = dense_score(61, 47, 4)
    return dense.score(
        np.asarray if request.param == "numpy" else request.getfixturevalue("torch").asarray
    )


@pytest.mark.parametrize("turned", [False, True])
def test_workers_answer_as_this_process_does(client: Any, score: Score, turned: bool) -> None:
    workers, rng = Workers(client), np.random.default_rng(0)
    workers.log_row_sums(
        score
    )  # now its rows are there, and the turned score is asked of the same blocks
    asked = score.turned() if turned else score
    n, m = asked.shape

    def like_score(*shape: int) -> Any:
        values = rng.random(shape)
        return (
            values
            if isinstance(score.left, np.ndarray)
            else type(score.left)(values.tolist()).to(score.left.dtype)
        )

    R, delta_left, delta_right = like_score(m, 3), like_score(n, 2), like_score(m, 2)
    kept, row_rest, column_rest = like_score(m), like_score(n), like_score(m)
    both = [
        (f.log_row_sums(asked), f.times(asked, R, precision="float64")) for f in (workers, streamed)
    ]
    weighted = [f.weighted_times(asked, delta_left, delta_right, R) for f in (workers, streamed)]
    entropies = [
        f.entropy_row_sums(asked, kept, row_rest, column_rest) for f in (workers, streamed)
    ]
    for found, expected in (*zip(*both, strict=True), weighted, entropies):
        assert type(found) is type(expected)
        np.testing.assert_allclose(host(found), host(expected), rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(
        host(workers.rows(asked, slice(2, 5))), host(streamed.rows(asked, slice(2, 5)))
    )


def test_rows_stay_on_the_workers_while_the_score_is_the_same(client: Any) -> None:
    score, workers = dense_score(20, 10, 2).score(np.asarray), Workers(client)
    workers.times(score, np.ones((10, 1)))
    blocks = workers._held.blocks
    assert {block.worker for block in blocks} == set(client.nthreads())
    assert sum(block.rows.stop - block.rows.start for block in blocks) == 20
    workers.times(score.turned(), np.ones((20, 1)))
    assert workers._held.blocks is blocks
    other = Score(score.left + 1.0, score.right, score.row, score.column)
    np.testing.assert_allclose(
        workers.times(other, np.ones((10, 1))), streamed.times(other, np.ones((10, 1)))
    )
    assert workers._held.blocks is not blocks


def test_a_solve_on_workers_has_the_same_certificate(client: Any) -> None:
    data = cg.datasets.make_clusters(60)
    cost = cg.transport.SquaredEuclidean(data.Xs, data.Xt)
    terms = [cg.transport.Laplacian(data.Xs, data.Xt, 10.0)]
    found = cg.transport.solve(cost, entropy=0.05, regularizers=terms, workers=client, tol=1e-8)
    assert found.streamed
    workers = Workers(client)
    with streamed.computed_by(workers):
        moved = found.apply(data.Xt)
    assert workers._held is not None
    alone = cg.transport.solve(cost, entropy=0.05, regularizers=terms, plan="streamed", tol=1e-8)
    assert found.success
    assert abs(found.value - alone.value) <= found.gap + alone.gap
    np.testing.assert_allclose(moved, alone.apply(data.Xt), atol=1e-6)


def test_fewer_rows_than_workers(client: Any) -> None:
    score = dense_score(1, 10, 2).score(np.asarray)
    np.testing.assert_allclose(
        Workers(client).times(score, np.eye(10)), streamed.times(score, np.eye(10))
    )


def test_a_cluster_without_workers_is_named() -> None:
    class Nobody:
        def nthreads(self) -> dict[str, int]:
            return {}

    with pytest.raises(RuntimeError, match="has no workers"):
        Workers(Nobody()).log_row_sums(dense_score(3, 3, 1).score(np.asarray))


def test_workers_need_a_cost_between_points(client: Any) -> None:
    with pytest.raises(ValueError, match="give a cost between points"):
        cg.transport.solve(np.ones((3, 3)), entropy=0.1, workers=client)


def test_workers_are_those_of_a_client() -> None:
    X = np.arange(6.0).reshape(3, 2)
    with pytest.raises(
        TypeError, match=r"workers must be a distributed\.Client, got 'tcp://here:8786'"
    ):
        cg.transport.solve(
            cg.transport.SquaredEuclidean(X, X), entropy=0.1, workers="tcp://here:8786"
        )


def test_a_cluster_that_loses_worker_after_worker_is_given_up(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*_: Any, **__: Any) -> None:
        raise OSError("the connection is closed")

    monkeypatch.setattr(Workers, "_asked", lose)
    with pytest.raises(RuntimeError, match="lost workers 10 times in a row"):
        Workers(client).log_row_sums(dense_score(3, 3, 1).score(np.asarray))


def test_a_worker_that_is_killed_during_a_solve(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver cuts the rows anew for those who are left, and the solve ends as if nothing had happened."""
    data = cg.datasets.make_clusters(60)
    cost = cg.transport.SquaredEuclidean(data.Xs, data.Xt)
    asked, questions, killed = Workers._asked, [], []

    def during(self: Workers, *arguments: Any, **options: Any) -> Any:
        questions.append(len(self._held.blocks))
        if len(questions) == 5:
            killed.extend(list(client.run(os.getpid).values())[:1])
            os.kill(killed[0], signal.SIGKILL)
        return asked(self, *arguments, **options)

    monkeypatch.setattr(Workers, "_asked", during)
    found = cg.transport.solve(cost, entropy=0.05, workers=client, tol=1e-8)
    assert killed
    assert len(questions) > 5
    alone = cg.transport.solve(cost, entropy=0.05, plan="streamed", tol=1e-8)
    assert found.success
    assert abs(found.value - alone.value) <= found.gap + alone.gap


def test_a_worker_that_the_scheduler_has_struck_off_counts_as_lost(client: Any) -> None:
    with pytest.raises(ConnectionError, match="is gone"):
        Workers(client)._sent(np.ones(3), "tcp://127.0.0.1:1")


def test_a_closed_client_is_said_to_be_closed(client: Any) -> None:
    closed = distributed.Client(client.scheduler.address, set_as_default=False)
    closed.close()
    X = np.random.default_rng(0).standard_normal((5, 2))
    with pytest.raises(ValueError, match=r"workers is .* that is closed: open one"):
        cg.transport.solve(cg.transport.SquaredEuclidean(X, X), entropy=0.1, workers=closed)


def test_a_client_that_is_closed_meanwhile_is_said_to_be_closed(client: Any) -> None:
    leaving = distributed.Client(client.scheduler.address, set_as_default=False)
    X = np.random.default_rng(0).standard_normal((5, 2))
    cost = cg.transport.SquaredEuclidean(X, X)
    with pytest.raises(ValueError, match=r"workers is .* that is closed: open one"):
        cg.transport.solve(cost, entropy=0.01, workers=leaving, callback=lambda _: leaving.close())

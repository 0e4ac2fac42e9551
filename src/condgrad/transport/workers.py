"""Products with exp(score) on several machines: rows of the score live on the workers of a dask
cluster.

`Workers(client)` answers the questions of `condgrad.kernels.streamed` under the same names, and
whatever runs inside `with streamed.computed_by(Workers(client))` asks it instead of this machine, a
whole solve as well.

The driver holds the score itself, O((n + m) r) numbers. Each worker thread has a block of its rows,
and keeps it while the same score, or the same score transposed, is asked about: then only R travels
there and the products back.

    sum_j exp(score_ij) R_j for rows i       block by block, put one below the other;
    sum_i exp(score_ij) R_i for columns j    a sum over the blocks, in their order, so that it is
    the same every time.

A worker that is lost takes its block with it. The driver has what the block was made of: it cuts
the rows anew for the workers that are there, and asks again.

A client is a `distributed.Client` (the extra `workers`). Where the score is made of CUDA tensors,
so is what travels, and a worker computes on its own GPU; this has not been tried with more than
one.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import reduce
from typing import Any

from condgrad.arrays import Array, namespace
from condgrad.kernels import streamed
from condgrad.kernels.streamed import Score

LOST = (CancelledError, OSError)
"""The errors of distributed if a worker is gone: tasks that depended on it are cancelled, and its
connections are closed.
"""
CLOSED = ("closing", "closed")
"""The states of a client that does not answer any more, as distributed names them."""
MOST_LOSSES = 10
"""The cluster is given up after this many losses of workers during one question."""
SECONDS_TO_RETURN = 60.0
"""The cluster is given up if it has no workers for longer than this."""


@dataclass(frozen=True)
class Block:
    """Some rows of a score on a worker."""

    rows: slice
    worker: str
    score: Any
    """A future of the score of these rows."""


@dataclass(frozen=True)
class Held:
    """A score whose rows are on the workers."""

    score: Score
    blocks: list[Block]

    def has(self, score: Score) -> bool:
        return _same_arrays(self.score, score)

    def has_turned(self, score: Score) -> bool:
        return _same_arrays(self.score.turned(), score)


def _same_arrays(one: Score, other: Score) -> bool:
    pairs = [
        (one.left, other.left),
        (one.right, other.right),
        (one.row, other.row),
        (one.column, other.column),
    ]
    return all(x is y for x, y in pairs)


class Workers:
    """The functions of `condgrad.kernels.streamed`, computed by the workers of a
    `distributed.Client`.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self._require_open()
        self._held: Held | None = None

    def log_row_sums(self, score: Score) -> Array:
        """As `streamed.log_row_sums`."""
        held = self._hold(score)
        if held.has(score):
            return self._rows(held, streamed.log_row_sums)
        return reduce(namespace(score.left).logaddexp, self._ask(held, _turned_log_row_sums))

    def times(self, score: Score, R: Array, precision: str = "float64") -> Array:
        """As `streamed.times`."""
        held = self._hold(score)
        if held.has(score):
            return self._rows(held, streamed.times, everywhere=[R], precision=precision)
        return sum(self._ask(held, _turned_times, by_rows=[R], precision=precision))

    def weighted_times(
        self,
        score: Score,
        delta_left: Array,
        delta_right: Array,
        R: Array,
        precision: str = "float64",
    ) -> Array:
        """As `streamed.weighted_times`."""
        held = self._hold(score)
        if held.has(score):
            everywhere = [delta_right, R]
            by_rows = [delta_left]
            return self._rows(
                held, _weighted_times, by_rows=by_rows, everywhere=everywhere, precision=precision
            )
        by_rows = [delta_right, R]
        everywhere = [delta_left]
        return sum(
            self._ask(
                held, _turned_weighted, by_rows=by_rows, everywhere=everywhere, precision=precision
            )
        )

    def entropy_row_sums(
        self, score: Score, kept: Array, row_rest: Array, column_rest: Array
    ) -> Array:
        """As `streamed.entropy_row_sums`."""
        held = self._hold(score)
        if held.has(score):
            return self._rows(
                held, _entropy_row_sums, by_rows=[row_rest], everywhere=[kept, column_rest]
            )
        return sum(
            self._ask(
                held, _turned_entropy_row_sums, by_rows=[kept, column_rest], everywhere=[row_rest]
            )
        )

    def rows(self, score: Score, indices: Array) -> Array:
        """As `streamed.rows`, by the driver: they are few."""
        return streamed.rows(score, indices)

    def _hold(self, score: Score) -> Held:
        """The score of which the workers are asked: the last one, if this is it or its transpose,
        else this one.

        It is sent to them with the first question.
        """
        held = self._held
        if held is None or not (held.has(score) or held.has_turned(score)):
            held = self._held = Held(score, [])
        return held

    def _require_open(self) -> None:
        status = getattr(self.client, "status", None)
        if status in CLOSED:
            raise ValueError(
                f"workers is a distributed.Client that is {status}: open one with "
                "distributed.Client(address), and close it after the solve"
            )

    def _scattered(self, score: Score) -> list[Block]:
        """A block of rows for each thread of each worker, which is where it stays."""
        places = [
            worker for worker, threads in self.client.nthreads().items() for _ in range(threads)
        ]
        if not places:
            raise RuntimeError(
                "the Dask cluster has no workers: start some, or wait with client.wait_for_workers(1)"
            )
        n = score.shape[0]
        count = min(len(places), max(1, score.shape[0]))
        blocks = []
        for b, worker in enumerate(places[:count]):
            rows = slice(b * n // count, (b + 1) * n // count)
            piece = Score(score.left[rows], score.right, score.row[rows], score.column)
            blocks.append(Block(rows, worker, self._sent(piece, worker)))
        return blocks

    def _sent(self, value: Any, worker: str) -> Any:
        try:
            return self.client.scatter(value, workers=[worker], hash=False)
        except (
            KeyError
        ) as error:  # what the scheduler says of a worker that it has struck off already
            raise ConnectionError(f"the worker {worker} is gone") from error

    def _ask(self, held: Held, question: Callable[..., Array], **arguments: Any) -> list[Array]:
        """The answers of all blocks, in their order; where a worker is lost, those of new ones."""
        self._require_open()
        for _ in range(MOST_LOSSES):
            try:
                if not held.blocks:
                    held = self._held = Held(held.score, self._scattered(held.score))
                return self._asked(held, question, **arguments)
            except LOST:
                self._require_open()
                held = Held(held.score, [])
                self.client.wait_for_workers(1, timeout=SECONDS_TO_RETURN)
        raise RuntimeError(
            f"the Dask cluster lost workers {MOST_LOSSES} times in a row: read their logs"
        )

    def _asked(
        self,
        held: Held,
        question: Callable[..., Array],
        *,
        by_rows: list[Array] | None = None,
        everywhere: list[Array] | None = None,
        **options: str,
    ) -> list[Array]:
        """The answers of all blocks, which get their rows of some arrays and the whole of others."""
        # to one worker after the other: a broadcast waits for ever for one that is lost meanwhile
        addresses = dict.fromkeys(block.worker for block in held.blocks)
        whole = {
            worker: [self._sent(array, worker) for array in everywhere or []]
            for worker in addresses
        }
        futures = []
        for block in held.blocks:
            own = [self._sent(array[block.rows], block.worker) for array in by_rows or []]
            arguments = (block.score, *own, *whole[block.worker])
            future = self.client.submit(
                question, *arguments, **options, workers=[block.worker], pure=False
            )
            futures.append(future)
        answers: list[Array] = self.client.gather(futures)
        return answers

    def _rows(self, held: Held, question: Callable[..., Array], **arguments: Any) -> Array:
        return namespace(held.score.left).concat(self._ask(held, question, **arguments), axis=0)


def _weighted_times(
    block: Score, delta_left: Array, delta_right: Array, R: Array, *, precision: str
) -> Array:
    return streamed.weighted_times(block, delta_left, delta_right, R, precision=precision)


def _entropy_row_sums(block: Score, row_rest: Array, kept: Array, column_rest: Array) -> Array:
    return streamed.entropy_row_sums(block, kept, row_rest, column_rest)


def _turned_log_row_sums(block: Score) -> Array:
    return streamed.log_row_sums(block.turned())


def _turned_times(block: Score, R: Array, *, precision: str) -> Array:
    return streamed.times(block.turned(), R, precision=precision)


def _turned_weighted(
    block: Score, delta_right: Array, R: Array, delta_left: Array, *, precision: str
) -> Array:
    return streamed.weighted_times(block.turned(), delta_left, delta_right, R, precision=precision)


def _turned_entropy_row_sums(
    block: Score, kept: Array, column_rest: Array, row_rest: Array
) -> Array:
    return streamed.entropy_row_sums(block.turned(), kept, row_rest, column_rest)

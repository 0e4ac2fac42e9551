"""Pairs a second and errors of the kernels that multiply with exp(score), on whatever device there is.

Run: python -m experiments bench streamed_kernels [-- --n 100000 --unrolled 0 8 16]

Beside each speed: its share of what the machine could do if it computed nothing but the exponentials, and nothing but
the multiply-adds of score and product. On a CPU both limits are measured (a loop of powers in the cache, a square
product by BLAS), and speeds are per core, by CPU time. On a GPU they are those of the chip: 16 powers a clock and
multiprocessor in float32, 13 multiply-adds for a power in float64; 64 (float64) or 128 (float32) multiply-adds by the
scalar units, 128 in float64 by the tensor cores. Errors are the largest of 256 rows, over the largest
entry of the dense answer in float64. --unrolled: GPU only, up to which rank scores are multiply-adds rather than dots.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from condgrad.arrays import Array, host, namespace
from condgrad.kernels import streamed
from condgrad.kernels.streamed import Score

RANKS, WIDTHS = (4, 6, 64), (1, 16, 32, 64)
EXP_MULTIPLY_ADDS = 13
"""Of a power of 2 in float64."""


@dataclass(frozen=True)
class Limits:
    """What the machine does in a second: powers of 2, multiply-adds of scores, multiply-adds of products."""

    powers: float
    scores: float
    products: float


@dataclass(frozen=True)
class Machine:
    """Where the kernels run and how time is taken there."""

    name: str
    device: str

    def seconds(self, work: Callable[[], object]) -> float:
        """The least of several runs, the first of which compiles."""
        work()
        times: list[float] = []
        while len(times) < 2 or (sum(times) < 0.3 and len(times) < 10):
            begin = self.clock()
            work()
            times.append(self.clock() - begin)
        return min(times)

    def clock(self) -> float:
        if self.device == "cpu":
            return time.process_time()  # of all threads: speeds are per core
        import torch

        torch.cuda.synchronize()
        return time.perf_counter()

    def array(self, values: Any) -> Array:
        if self.device == "cpu":
            return np.asarray(values)
        import torch

        return torch.asarray(values, device=self.device)


def this_machine() -> Machine:
    try:
        import torch
    except ImportError:
        return Machine("CPU", "cpu")
    return (
        Machine(torch.cuda.get_device_name(), "cuda")
        if torch.cuda.is_available()
        else Machine("CPU", "cpu")
    )


def limits(machine: Machine) -> dict[str, Limits]:
    """By precision."""
    if machine.device == "cpu":
        return {"float64": cpu_limits(machine)}
    import torch

    chip = torch.cuda.get_device_properties(0)
    clocks = chip.multi_processor_count * 1e3 * float(getattr(chip, "clock_rate", 1_980_000))
    return {
        "float64": Limits(64 * clocks / EXP_MULTIPLY_ADDS, 64 * clocks, 128 * clocks),
        "mixed": Limits(16 * clocks, 128 * clocks, 128 * clocks),
    }


def cpu_limits(machine: Machine) -> Limits:
    import numba

    from condgrad.kernels.streamed_numba import raise_to_powers

    @numba.njit  # type: ignore[untyped-decorator]
    def powers(S: Array, repeats: int) -> None:
        for _ in range(repeats):
            raise_to_powers(S, S.shape[1])

    A, tile, repeats = np.ones((1000, 1000)), np.zeros((4, 256)), 20_000
    multiply_adds = A.size * 1000 / machine.seconds(lambda: A @ A)
    return Limits(
        tile.size * repeats / machine.seconds(lambda: powers(tile, repeats)),
        multiply_adds,
        multiply_adds,
    )


def bare_score(machine: Machine, n: int, rank: int) -> Score:
    """Inner products of normal points, of the size of 3."""
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((n, rank)), 3.0 * rng.standard_normal((n, rank)) / rank**0.5
    nothing = machine.array(np.zeros(n))
    return Score(machine.array(left), machine.array(right), nothing, nothing)


def plan(machine: Machine, n: int, rank: int) -> Score:
    """The same with row sums of 1."""
    score = bare_score(machine, n, rank)
    return Score(score.left, score.right, -streamed.log_row_sums(score), score.column)


def error(found: Array, expected: Array) -> float:
    return float(abs(host(found) - host(expected)).max() / abs(host(expected)).max())


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="streamed_kernels", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--n", type=int, help="points on each side; 4000 on a CPU, 100000 on a GPU")
    parser.add_argument(
        "--unrolled", type=int, nargs="+", help="GPU: ranks up to which scores are multiply-adds"
    )
    arguments = parser.parse_args()
    machine = this_machine()
    n = arguments.n or (4000 if machine.device == "cpu" else 100_000)
    if arguments.unrolled is None or machine.device == "cpu":
        measure(machine, n)
        return
    from condgrad.kernels import streamed_triton

    for unrolled in arguments.unrolled:
        print(f"scores by multiply-adds up to rank {unrolled}")
        streamed_triton.UNROLLED = unrolled
        measure(machine, n)


def measure(machine: Machine, n: int) -> None:
    most = limits(machine)
    print(f"{machine.name}, {n} x {n}")
    print("rank kernel         precision        ms   pairs/s  powers  products    error")

    def line(
        kernel: str,
        precision: str,
        score: Score,
        terms: tuple[int, int],
        run: Callable[[], Array],
        expected: Array,
    ) -> None:
        """Speed and error of one kernel; terms are the multiply-adds of score and product."""
        seconds, limit = machine.seconds(run), most[precision]
        speed = n * n / seconds
        products = speed * (terms[0] / limit.scores + terms[1] / limit.products)
        wrong = error(run()[: expected.shape[0]], expected)
        print(
            f"{score.left.shape[1]:4} {kernel:14} {precision:>9} {1e3 * seconds:9.2f} {speed:9.2e} "
            f"{speed / limit.powers:7.0%} {products:9.0%} {wrong:8.0e}",
            flush=True,
        )

    rng = np.random.default_rng(1)
    for rank in RANKS:
        bare, score = bare_score(machine, n, rank), plan(machine, n, rank)
        xp, ones = namespace(score.left), machine.array(np.ones(n))
        log_sums = xp.log(xp.sum(streamed.rows(bare, slice(0, 256)), axis=1))
        line(
            "log row sums",
            "float64",
            score,
            (rank, 0),
            partial(streamed.log_row_sums, bare),
            log_sums,
        )
        first = streamed.rows(score, slice(0, 256))
        entropies = xp.sum(first * xp.log(xp.where(first > 0.0, first, 1.0)), axis=1)
        run = partial(streamed.entropy_row_sums, score, ones, 0.0 * ones, ones)
        line("entropy", "float64", score, (rank, 0), run, entropies)
        for width in WIDTHS if rank == RANKS[0] else (16,):
            R = machine.array(rng.standard_normal((n, width)))
            for precision in most:
                run = partial(streamed.times, score, R, precision=precision)
                line(f"times {width}", precision, score, (rank, width), run, first @ R)
        weighted = first * (score.left[:256] @ score.right.T)
        R = machine.array(rng.standard_normal((n, 16)))
        for precision in most:
            run = partial(
                streamed.weighted_times, score, score.left, score.right, R, precision=precision
            )
            line("weighted 16", precision, score, (2 * rank, 16), run, weighted @ R)


if __name__ == "__main__":
    main()

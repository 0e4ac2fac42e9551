"""Transport by plans that are never formed: seconds, memory, passes and the certified gap against n.

Run: python -m experiments bench transport_streamed [-- --sizes 2000 20000 --device cuda --tol 1e-8 --kinds clusters]

Problems: `clusters` (the paper's, normalised Laplacian, weight 2 n), `square` (uniform square, raw Laplacian, weight
2 n), `small` (the same with entropy 3e-3) and `entropy` (clusters, entropy alone). Graphs are made outside the clock. A
pass goes over all pairs with at most 32 columns; a gap is over |value|, at the plan rounded to exact marginals.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import numpy as np

import condgrad as cg
from experiments.problems import ENTROPY

KINDS = ("clusters", "square", "small", "entropy")


def points(kind: str, n: int) -> tuple[Any, Any]:
    if kind in ("clusters", "entropy"):
        data = cg.datasets.make_clusters(n)
        return data.Xs, data.Xt
    rng = np.random.default_rng(0)
    Xs, Xt = rng.random((n, 2)), rng.random((n, 2))
    return Xs, Xt + 0.1 * np.sin(6.0 * Xt[:, ::-1]) + [0.5, 0.2]


def measured(kind: str, n: int, device: str, tol: float, plan: str) -> dict[str, Any]:
    """A row of the table."""
    Xs, Xt = points(kind, n)
    cuda: Any = None
    if device != "numpy":
        import torch

        Xs, Xt = torch.as_tensor(Xs, device=device), torch.as_tensor(Xt, device=device)
        cuda = torch.cuda if device.startswith("cuda") else None
    terms: list[Any] = []
    begin = time.perf_counter()
    if kind != "entropy":
        terms = [cg.transport.Laplacian(Xs, Xt, weight=2.0 * n, normalized=kind == "clusters")]
        terms[0].smooth_part()  # makes the graphs, outside the clock
    graphs = time.perf_counter() - begin
    if cuda is not None:
        cuda.reset_peak_memory_stats()
        cuda.synchronize()
    begin = time.perf_counter()
    entropy = 3e-3 if kind == "small" else ENTROPY
    cost = cg.transport.SquaredEuclidean(Xs, Xt)
    result = cg.transport.solve(
        cost, entropy=entropy, regularizers=terms, method="newton", plan=plan, tol=tol
    )
    if cuda is not None:
        cuda.synchronize()
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "kind": kind,
        "n": n,
        "seconds": seconds,
        "graphs": graphs,
        "GB": peak if cuda is None else cuda.max_memory_allocated() / 2**30,
        "passes": result.passes,
        "iterations": result.iterations,
        "gap": result.gap / abs(result.value),
        "status": str(result.status),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[2000, 10_000, 20_000])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--device", default="numpy", help="numpy, cpu or cuda (torch)")
    parser.add_argument("--tol", type=float, default=1e-8)
    parser.add_argument("--plan", default="streamed", choices=("streamed", "dense", "auto"))
    options = parser.parse_args()
    measured(
        "clusters", 300, options.device, 1e-3, options.plan
    )  # the first run pays for loading kernels
    print(
        f"{'kind':10}{'n':>9}{'seconds':>10}{'graphs':>9}{'GB':>8}{'passes':>8}{'iterations':>12}{'gap':>10}  status"
    )
    for kind in options.kinds:
        for n in options.sizes:
            row = measured(kind, n, options.device, options.tol, options.plan)
            numbers = f"{row['seconds']:10.2f}{row['graphs']:9.2f}{row['GB']:8.2f}{row['passes']:8}{row['iterations']:12}"
            print(
                f"{row['kind']:10}{row['n']:9}{numbers}{row['gap']:10.1e}  {row['status']}",
                flush=True,
            )


if __name__ == "__main__":
    main()

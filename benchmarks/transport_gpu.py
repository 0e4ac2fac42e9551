"""Newton on the certificate on a GPU: seconds and memory to a certified relative gap of 1e-10, in float64.

Run: python benchmarks/transport_gpu.py [--sizes 2000 10000 20000 40000] [--device cuda] [--out out]
     python benchmarks/transport_gpu.py --draw out/transport_gpu.json     (the picture alone, from an earlier run)

Beside it, for pure entropy, POT's torch Sinkhorn (log domain, which is the one that survives small entropies, and
plain) to a marginal error of 1e-9 on the same device, if POT is there. Saves the table as JSON, and time and memory
against n as a log-log plot where matplotlib is installed.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ENTROPY, WEIGHT = 1.7e-2, 1e3


def timed(run: Callable[[], Any], device: str) -> tuple[Any, float, float]:
    """What run returns, seconds, and peak gigabytes on the device."""
    import torch

    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
    begin = time.perf_counter()
    result = run()
    if device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    return result, seconds, torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else float("nan")


def measured(n: int, device: str, *, warm: bool) -> list[dict[str, Any]]:
    """A row for each problem and solver."""
    import torch

    import condgrad as cg

    data = cg.datasets.make_clusters(n)
    Xs, Xt = (torch.as_tensor(X, device=device) for X in (data.Xs, data.Xt))
    C = torch.cdist(Xs, Xt) ** 2
    problems: dict[str, list[Any]] = {
        "normalised Laplacian": [cg.transport.Laplacian(Xs, Xt, weight=WEIGHT)],
        "raw Laplacian": [cg.transport.Laplacian(Xs, Xt, weight=WEIGHT, normalized=False)],
        "entropy alone": [],
    }
    rows = []
    for kind, regularizers in problems.items():

        def solve(regularizers: list[Any] = regularizers) -> Any:
            return cg.transport.solve(C, entropy=ENTROPY, regularizers=regularizers, method="newton", tol=1e-10)

        if not warm:
            solve()  # the first run pays for loading kernels
        result, seconds, peak = timed(solve, device)
        products = int(result.trace["inner_iterations"][-1])
        accuracy = result.gap / max(1.0, abs(result.value))
        rows.append(_row(n, kind, str(result.status), accuracy, result.iterations, products, seconds, peak))
        del result
    for name in ("sinkhorn_log", "sinkhorn"):
        rows += _pot(C, device, name)
    return rows


def _row(
    n: int, kind: str, status: str, accuracy: float, iterations: int, products: int, seconds: float, gigabytes: float
) -> dict[str, Any]:
    row: dict[str, Any] = {"n": n, "kind": kind, "status": status, "accuracy": accuracy, "iterations": iterations}
    row |= {"products": products, "seconds": seconds, "gigabytes": gigabytes}
    print(
        f"{n:7} {kind:22}{status:>12}{accuracy:10.1e}{iterations:11}{products:10}{seconds:9.2f}{gigabytes:7.1f}",
        flush=True,
    )
    return row


def _pot(C: Any, device: str, method: str) -> list[dict[str, Any]]:
    try:
        import ot
    except ImportError:
        return []
    import torch

    n = C.shape[0]
    a = torch.full((n,), 1.0 / n, dtype=C.dtype, device=C.device)

    def sinkhorn() -> Any:
        options = {"numItermax": 20_000, "stopThr": 1e-9, "log": True, "warn": False}
        return ot.sinkhorn(a, a, C, ENTROPY, method=method, **options)

    (plan, log), seconds, peak = timed(sinkhorn, device)
    error = float((plan.sum(1) - a).abs().sum() + (plan.sum(0) - a).abs().sum())
    return [_row(n, f"POT {method}", "", error, int(log["niter"]), 0, seconds, peak)]


def draw(rows: list[dict[str, Any]], title: str, to: Path) -> None:
    """Time and memory against n, log-log."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), constrained_layout=True)
    for kind, marker in zip(dict.fromkeys(row["kind"] for row in rows), "osD^v<", strict=False):
        mine = [row for row in rows if row["kind"] == kind]
        for axis, column in zip(axes, ("seconds", "gigabytes"), strict=True):
            axis.loglog([r["n"] for r in mine], [r[column] for r in mine], marker=marker, label=kind)
    sizes = sorted({row["n"] for row in rows})
    plan = [8 * n * n / 2**30 for n in sizes]
    axes[1].loglog(sizes, plan, ":", color="gray", label="one plan in float64")
    for axis, name in zip(axes, ("seconds", "peak memory, GB"), strict=True):
        axis.set(xlabel="points on each side, n", ylabel=name)
        axis.set_xticks(sizes, [f"{n:,}" for n in sizes])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[1].legend(frameon=False)
    figure.suptitle(title)
    figure.savefig(to, dpi=150)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[2000, 10_000, 20_000])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--draw", type=Path, help="draw this table instead of measuring")
    options = parser.parse_args()
    if options.draw is not None:
        table = json.loads(options.draw.read_text())
        draw(table["rows"], table["title"], options.draw.with_suffix(".png"))
        return
    import torch

    title = f"{torch.cuda.get_device_name() if options.device == 'cuda' else 'CPU'}, float64, tol 1e-10"
    print(title)
    columns = f"{'status':>12}{'accuracy':>10}{'iterations':>11}{'products':>10}{'seconds':>9}{'GB':>7}"
    print(f"{'n':>7} {'problem':22}{columns}")
    rows = []
    options.out.mkdir(parents=True, exist_ok=True)
    saved = options.out / "transport_gpu.json"
    for n in options.sizes:
        rows += measured(n, options.device, warm=bool(rows))
        saved.write_text(json.dumps({"title": title, "rows": rows}, indent=1))
    try:
        draw(rows, title, saved.with_suffix(".png"))
    except ImportError:
        print(f"no matplotlib here: draw {saved} elsewhere with --draw")


if __name__ == "__main__":
    main()

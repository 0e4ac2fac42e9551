"""Resume after a kill
===================

A process is killed twice, and its run continues from a checkpoint. This run is compared with one without interruption.

Run it by ``python examples/resume_after_kill.py --out out``.
`checkpoint=` names a file. From time to time the run writes its state there: its point, bound, oracle points and trace.
The file is never half written. If you start the same call again, the run continues from the file. It keeps the lower
bound only if the problem is the same, because the bound of another problem proves nothing. Checksums of f, g, the set
and their data show whether the problem is the same.
"""

from __future__ import annotations

import argparse
import inspect
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

import condgrad as cg

KILLED_AT = (50, 150)
TOL = 1e-6


def problem() -> tuple[cg.smooth.Smooth, cg.simple.Entropy]:
    """Transport between two clouds, with an entropy and a Laplacian: some hundred iterations of CGS."""
    d = cg.datasets.make_clusters(200)
    f = cg.smooth.Linear(cg.transport.SquaredEuclidean(d.Xs, d.Xt).dense())
    f = f + cg.transport.Laplacian(d.Xs, d.Xt, weight=3000.0).smooth_part()
    return f, cg.simple.Entropy(
        0.02, on=cg.sets.Transport(np.full(200, 1 / 200), np.full(200, 1 / 200))
    )


def work(checkpoint: Path) -> cg.Result:
    """What the process does. It prints which iteration it has reached."""

    def report(now: cg.Progress) -> None:
        print(now.iteration, flush=True)

    return cg.minimize(
        *problem(), tol=TOL, checkpoint=checkpoint, checkpoint_every=0.1, callback=report
    )


def killed_at(iteration: int, checkpoint: Path) -> None:
    """Starts the work in a new process, and kills this process at an iteration."""
    command = [sys.executable, inspect.getfile(killed_at), "--work", str(checkpoint)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if int(line) >= iteration and checkpoint.exists():
                process.kill()
                break


def gap(trace: cg.Trace) -> np.ndarray:
    return trace["best_value"] - trace["lower_bound"]


def main(out: Path) -> None:
    undisturbed = cg.minimize(*problem(), tol=TOL)
    figure, axes = plt.subplots(figsize=(8, 4.6), layout="constrained")
    axes.plot(
        undisturbed.trace["iteration"],
        gap(undisturbed.trace),
        color="#BBBBBB",
        linewidth=6,
        label="without interruption",
    )
    colours = ["#0072B2", "#E69F00", "#009E73"]
    with tempfile.TemporaryDirectory() as folder:
        checkpoint, first = Path(folder) / "run.npz", 0
        for part, iteration in enumerate([*KILLED_AT, None]):
            if iteration is None:
                r = cg.minimize(*problem(), tol=TOL, checkpoint=checkpoint)
            else:
                killed_at(iteration, checkpoint)
                r = cg.load(checkpoint)
                print(f"killed at iteration {iteration} or later; the file has {r!r}")
                axes.axvline(r.iterations, color="black", linewidth=0.8, linestyle=":")
                axes.annotate(
                    " killed ", (r.iterations, 0.97), xycoords=("data", "axes fraction"), va="top"
                )
            here = r.trace["iteration"] >= first
            axes.plot(
                r.trace["iteration"][here],
                gap(r.trace)[here],
                color=colours[part],
                label=f"process {part + 1}",
            )
            first = r.iterations
    print(f"end of the third process: {r!r}")
    print(f"without interruption:     {undisturbed!r}")
    axes.set(
        yscale="log", xlabel="iteration", ylabel="certified gap", title="One run in three processes"
    )
    axes.grid(alpha=0.3)
    figure.legend(frameon=False, loc="outside lower center", ncols=2)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "resume_after_kill.png", dpi=130)
    print(f"Picture: {out / 'resume_after_kill.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument(
        "--work", type=Path, help="be the process that is killed, with this checkpoint"
    )
    arguments = parser.parse_args()
    matplotlib.use("Agg")
    if arguments.work is None:
        main(arguments.out)
    else:
        work(arguments.work)

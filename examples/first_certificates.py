"""First certificates
==================

Solve two problems with a proof: a constrained elastic net, and an unmixing problem with an entropy.

Run it by ``python examples/first_certificates.py --out out``.
In the second problem, a measured spectrum is a mixture of known spectra, and the program finds their shares. It prints
a table of certified results, and saves a picture of their gaps in the output folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import condgrad as cg

RUNS = [
    ("cgs", "exact", 5, "CGS memory 5", "#0072B2", "-"),
    ("cgs", "exact", 0, "CGS exact", "#56B4E9", "-"),
    ("cgs", "armijo", 0, "CGS Armijo", "#009E73", "--"),
    ("cgs", "open-loop", 0, "CGS 2/(k+2)", "#E69F00", "--"),
    ("cg", "exact", 0, "CG exact", "#D55E00", ":"),
]
"""method, step, memory, label, colour, line"""
HEADINGS = ["method", "value", "lower bound", "rel. gap", "steps", "seconds", "status"]


def elastic_net(rng: np.random.Generator) -> tuple[cg.smooth.Logistic, cg.simple.Ridge]:
    """Few samples, many features: logistic loss and a ridge on an l1 ball (section 3.2 of the paper)."""
    samples, features, relevant = 100, 1000, 10
    Z = rng.standard_normal((samples, features))
    truth = np.zeros(features)
    truth[:relevant] = rng.choice([-1.0, 1.0], relevant)
    y = np.sign(Z @ truth + 0.5 * rng.standard_normal(samples))
    return cg.smooth.Logistic(Z, y), cg.simple.Ridge(1.0, on=cg.sets.L1Ball(4.0))


def unmixing(rng: np.random.Generator) -> tuple[cg.smooth.LeastSquares, cg.simple.Entropy]:
    """Which mixture of known spectra was measured? Least squares and an entropy on the simplex."""
    bands, spectra = 200, 60
    wavelengths = np.linspace(0.0, 1.0, bands)[:, None]
    centres = rng.uniform(0.0, 1.0, spectra)
    library = np.exp(-0.5 * ((wavelengths - centres) / 0.05) ** 2)
    mixture = rng.dirichlet(np.full(spectra, 0.1))
    measured = library @ mixture + 0.01 * rng.standard_normal(bands)
    return cg.smooth.LeastSquares(library, measured), cg.simple.Entropy(
        1e-2, on=cg.sets.Simplex(spectra)
    )


def solve_all(out: Path) -> None:
    console = Console()
    rng = np.random.default_rng(0)
    problems = {
        "elastic net, 100 x 1000": elastic_net(rng),
        "entropic unmixing, 200 x 60": unmixing(rng),
    }
    figure, panels = plt.subplots(
        1, len(problems), figsize=(10, 4.2), layout="constrained", sharey=True
    )
    for axes, (name, (f, g)) in zip(panels, problems.items(), strict=True):
        table = Table(
            *HEADINGS, title=name, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
        )
        for column in table.columns:
            column.no_wrap = True
        for column in table.columns[1:-1]:
            column.justify = "right"
        for method, step, memory, label, colour, line in RUNS:
            with console.status(f"{name}: {label}"):
                r = cg.minimize(
                    f, g, method=method, step=step, memory=memory, tol=1e-8, max_iter=1000
                )
            relative = (r.trace["best_value"] - r.trace["lower_bound"]) / r.scale
            axes.plot(r.trace["iteration"] + 1, relative, color=colour, ls=line, label=label)
            numbers = (
                f"{r.value:.7f}",
                f"{r.lower_bound:.7f}",
                f"{relative[-1]:.1e}",
                str(r.iterations),
                f"{r.seconds:.3f}",
            )
            table.add_row(label, *numbers, "proved" if r.success else "limit")
        console.print(table)
        axes.set(title=name, xlabel="iteration + 1", xscale="log", yscale="log")
        axes.grid(alpha=0.3)
    panels[0].set_ylim(bottom=1e-9)
    panels[0].set_ylabel("certified gap / scale of F")
    panels[0].legend(frameon=False, fontsize=9, loc="lower left")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "first_certificates.png", dpi=150)
    console.print("In every row F* lies between the lower bound and the value.")
    console.print(f"Picture: {out / 'first_certificates.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture")
    matplotlib.use("Agg")
    solve_all(parser.parse_args().out)

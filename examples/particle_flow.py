"""A flow of particles
===================

Points move to a target, along the gradient of the Sinkhorn divergence.

Run it by ``python examples/particle_flow.py --out out``.
It needs torch. The plain transport loss pulls the particles together, because its entropy blurs the plan. The Sinkhorn
divergence subtracts this effect. Each gradient comes from a certified solution, by the envelope theorem.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import torch
from sklearn.datasets import make_moons

from condgrad import transport

PARTICLES, STEPS, STEP, ENTROPY = 120, 30, 0.25, 0.2
SHOWN = (0, 3, 10, STEPS)


def flow(target: torch.Tensor, *, debiased: bool) -> tuple[list[torch.Tensor], list[float]]:
    """The particles at the steps that are shown, and their divergence from the target."""
    generator = torch.Generator().manual_seed(0)
    X = 0.2 * torch.randn(PARTICLES, 2, generator=generator, dtype=torch.float64) + torch.tensor(
        [0.5, 1.6]
    )
    shown, divergences = [], []
    for step in range(STEPS + 1):
        if step in SHOWN:
            shown.append(X.clone())
            divergences.append(transport.divergence(X, target, entropy=ENTROPY, tol=1e-5).value)
        X.requires_grad_()
        value = transport.loss(X, target, entropy=ENTROPY, tol=1e-5)
        if debiased:
            # the third term, of the target alone, is constant
            value = value - 0.5 * transport.loss(X, X, entropy=ENTROPY, tol=1e-5)
        (gradient,) = torch.autograd.grad(value, X)
        # weights are 1/n, so n times the gradient is the speed of a particle
        X = (X - STEP * PARTICLES * gradient).detach()
    return shown, divergences


def main(out: Path) -> None:
    target = torch.tensor(make_moons(PARTICLES, noise=0.05, random_state=0)[0])
    figure, panels = plt.subplots(
        2, len(SHOWN), figsize=(10, 5.4), layout="constrained", sharex=True, sharey="row"
    )
    names = {"transport loss": False, "Sinkhorn divergence": True}
    for row, (name, debiased) in zip(panels, names.items(), strict=True):
        shown, divergences = flow(target, debiased=debiased)
        for axes, step, X, value in zip(row, SHOWN, shown, divergences, strict=True):
            print(f"{name:20} step {step:3}: divergence {value:.5f}")
            axes.scatter(*target.T, s=10, color="#999999", label="target")
            axes.scatter(*X.T, s=10, color="#0072B2", label="particles")
            axes.set(
                title=f"step {step}:\ndivergence {value:.4f}",
                xticks=[],
                yticks=[],
                aspect="equal",
            )
        row[0].set_ylabel(name)
    figure.legend(
        *panels[0, 0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=2,
        frameon=False,
    )
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "particle_flow.png", dpi=130)
    print(f"Picture: {out / 'particle_flow.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("out"))
    matplotlib.use("Agg")
    main(parser.parse_args().out)

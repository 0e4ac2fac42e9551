"""Adaptation in a network
=======================

A small network learns from sources with labels and targets without labels. A transport loss connects the two clouds.

Run it by ``python examples/adaptation_network.py --out out``.
It needs torch. The sources are two moons with labels. The targets are the same moons after a turn, without labels. The
loss has two terms: the classification error on the sources, and the cost of a transport from sources to targets. The
transport compares pairs: (point, label) for a source, (point, prediction) for a target, as in Courty et al. (NeurIPS
2017). Every value of the transport is certified. Its gradient reaches the network through the predictions.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import make_moons

from condgrad import transport

POINTS, STEPS, ENTROPY, WEIGHT = 100, 60, 0.05, 1.0


def rotated_moons(angle: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    X, y = make_moons(POINTS, noise=0.05, random_state=seed)
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return torch.tensor((X - X.mean(axis=0)) @ rotation.T), torch.tensor(y)


def trained(
    Xs: torch.Tensor, ys: torch.Tensor, Xt: torch.Tensor, *, weight: float
) -> tuple[torch.nn.Module, list[float]]:
    """The network, and the transport loss at each step."""
    torch.manual_seed(0)
    layers = (
        torch.nn.Linear(2, 32),
        torch.nn.Tanh(),
        torch.nn.Linear(32, 8),
        torch.nn.Tanh(),
        torch.nn.Linear(8, 2),
    )
    network = torch.nn.Sequential(*layers).double()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.03)
    labels, values = torch.nn.functional.one_hot(ys, 2).double(), []
    for _ in range(STEPS):
        objective = torch.nn.functional.cross_entropy(network(Xs), ys)
        pairs = torch.cat([Xs, labels], 1), torch.cat([Xt, network(Xt).softmax(1)], 1)
        moved = transport.loss(*pairs, entropy=ENTROPY, tol=1e-3)
        values.append(moved.item())
        if weight > 0.0:
            objective = objective + weight * moved
        optimizer.zero_grad()
        objective.backward()
        optimizer.step()
    return network, values


def main(out: Path) -> None:
    Xs, ys = rotated_moons(0.0, seed=0)
    Xt, yt = rotated_moons(np.deg2rad(40.0), seed=1)
    figure, panels = plt.subplots(1, 3, figsize=(10.5, 3.7), layout="constrained")
    grid = torch.stack(
        torch.meshgrid(*[torch.linspace(-2.2, 2.2, 120, dtype=torch.float64)] * 2, indexing="xy"),
        -1,
    )
    colours = np.array(["#0072B2", "#D55E00"])
    for axes, (name, weight) in zip(
        panels, {"sources alone": 0.0, "with transport": WEIGHT}.items(), strict=False
    ):
        network, values = trained(Xs, ys, Xt, weight=weight)
        with torch.no_grad():
            accuracy = (network(Xt).argmax(1) == yt).double().mean().item()
            shares = network(grid.reshape(-1, 2)).softmax(1)[:, 1].reshape(120, 120)
        print(
            f"{name:16} accuracy on the target {accuracy:.3f}, "
            f"transport loss {values[0]:.3f} -> {values[-1]:.3f}"
        )
        axes.contourf(
            *grid.permute(2, 0, 1),
            shares,
            levels=[0.0, 0.5, 1.0],
            colors=["#0072B2", "#D55E00"],
            alpha=0.18,
        )
        axes.scatter(*Xs.T, c=colours[ys], s=12, marker="x", alpha=0.7, label="sources")
        axes.scatter(*Xt.T, c=colours[yt], s=14, label="targets (labels not used)")
        axes.set(title=f"{name}: accuracy {accuracy:.2f}", xticks=[], yticks=[], aspect="equal")
        panels[2].plot(values, color=colours[int(weight > 0.0)], label=name)
    # a colour is a class, so the marks of both clouds are grey
    for mark in panels[0].legend(loc="lower left", fontsize=9).legend_handles:
        mark.set_color("#666666")
    panels[2].set(title="transport loss while training", xlabel="step")
    panels[2].legend(frameon=False)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "adaptation_network.png", dpi=130)
    print(f"Picture: {out / 'adaptation_network.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("out"))
    matplotlib.use("Agg")
    main(parser.parse_args().out)

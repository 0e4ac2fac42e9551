"""Your own f, g and set
=====================

Where should a depot be built? This program writes its own smooth f, its own g with an oracle, and its own set, a polygon.

Run it by ``python examples/own_problem.py --out out``.
f is the sum of the (smoothed) distances to all customers. g is the price of being far from the harbour. The depot must
lie in a district. The second panel shows Lemma 2 of the paper: f lies above its tangent, so F = f + g lies above the
tangent plus g. The oracle computes the minimum of this sum over the district. No depot in the district can have an F
below this minimum.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import ConvexHull

import condgrad as cg

HARBOUR, PRICE, ROUND = np.array([-1.6, -1.0]), 0.5, 0.05


class Polygon(cg.sets.Set):
    """A convex polygon by its corners: where to start, how far a point is outside, and a projection."""

    def __init__(self, corners: np.ndarray) -> None:
        hull = ConvexHull(corners)
        self.corners, self.shape = corners[hull.vertices], (2,)
        self.normals, self.offsets = hull.equations[:, :2], hull.equations[:, 2]

    def start(self, space: Any) -> np.ndarray:
        return self.corners.mean(axis=0)

    def violation(self, x: np.ndarray) -> float:
        return max(0.0, float((self.normals @ x + self.offsets).max()))

    def project(self, x: np.ndarray) -> np.ndarray:
        if self.violation(x) == 0.0:
            return x
        ends = np.roll(self.corners, -1, axis=0)
        sides = ends - self.corners
        shares = np.clip(
            ((x - self.corners) * sides).sum(axis=1) / (sides**2).sum(axis=1), 0.0, 1.0
        )
        nearest = self.corners + shares[:, None] * sides
        return nearest[np.argmin(((nearest - x) ** 2).sum(axis=1))]


def way_to(customers: np.ndarray) -> cg.smooth.Function:
    """f(x) = sum_i sqrt(|x - customer_i|^2 + ROUND^2), by its value and gradient."""

    def value_and_gradient(x: np.ndarray) -> tuple[float, np.ndarray]:
        away = x - customers
        ways = np.sqrt((away**2).sum(axis=1) + ROUND**2)
        return float(ways.sum()), (away / ways[:, None]).sum(axis=0)

    return cg.smooth.Function(value_and_gradient)


def near_the_harbour(district: Polygon) -> cg.simple.Oracle:
    """g(x) = PRICE |x - harbour|^2; its argmin of <c, s> + g(s) is a projection onto the district."""
    return cg.simple.Oracle(
        lambda x: PRICE * float(((x - HARBOUR) ** 2).sum()),
        lambda c: district.project(HARBOUR - c / (2.0 * PRICE)),
        on=district,
        gradient=lambda x: 2.0 * PRICE * (x - HARBOUR),
    )


def main(out: Path) -> None:
    rng = np.random.default_rng(0)
    towns = [([0.7, 0.4], 0.5, 9), ([-0.2, -0.9], 0.35, 5), ([0.1, 0.9], 0.3, 4)]
    customers = np.concatenate(
        [rng.normal(centre, spread, (count, 2)) for centre, spread, count in towns]
    )
    district = Polygon(
        np.array([[-1.5, 0.2], [-0.9, 1.3], [0.1, 1.2], [0.15, 0.4], [-0.2, -0.5], [-0.9, -0.7]])
    )
    f, g = way_to(customers), near_the_harbour(district)
    visited: list[np.ndarray] = []
    x0 = np.array([-1.2, 0.6])
    r = cg.minimize(
        f,
        g,
        x0,
        step="open-loop",
        tol=1e-6,
        max_iter=200,
        callback=lambda now: visited.append(now.x),
    )
    best = cg.minimize(f, g, x0, memory=3, tol=1e-10)
    print(f"2/(k+2) steps:\n{r}\n\nexact steps with a memory of 3:\n{best}")

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(10.5, 4.4), layout="constrained")
    across, up = np.meshgrid(np.linspace(-2.0, 2.0, 120), np.linspace(-1.8, 1.8, 120))
    places = np.stack([across.ravel(), up.ravel()], axis=1)
    heights = np.array([f.at(x).value + g.value(x) for x in places]).reshape(across.shape)
    left.contour(across, up, heights, levels=18, colors="#888888", alpha=0.5, linewidths=0.8)
    left.fill(*district.corners.T, color="#56B4E9", alpha=0.25, label="district P")
    left.scatter(*customers.T, marker="^", color="#D55E00", label="customers")
    left.scatter(*HARBOUR, marker="s", color="black", label="harbour")
    path = np.array([x0, *visited[:30]])
    left.plot(*path.T, ".-", color="#0072B2", markersize=5, linewidth=1.0, label="iterates")
    left.scatter(*best.x, marker="*", s=160, color="#009E73", zorder=5, label="best depot")
    left.set(title="F and the iterates", xticks=[], yticks=[], aspect="equal")
    left.legend(fontsize=9, frameon=False, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=3)

    here = f.at(x0)
    s = g.argmin(here.gradient).point
    shares = np.linspace(-0.15, 1.25, 200)
    line = x0 + shares[:, None] * (s - x0)
    above = np.array([f.at(x).value + g.value(x) for x in line])
    below = np.array([here.value + here.gradient @ (x - x0) + g.value(x) for x in line])
    middle.plot(shares, above, color="#0072B2", label="F = f + g")
    middle.plot(shares, below, color="#D55E00", label="g + tangent of f")
    middle.axhline(
        below[np.argmin(np.abs(shares - 1.0))], color="#D55E00", linestyle=":", label="lower bound"
    )
    middle.axhline(best.value, color="#009E73", linestyle="--", label=r"$F^\star$")
    middle.axvspan(0.0, 1.0, color="#56B4E9", alpha=0.15)
    middle.set(title="The first certificate", xticks=[0.0, 1.0], xticklabels=["x", "s"])
    middle.legend(fontsize=9)

    k = r.trace["iteration"] + 1
    right.fill_between(k, r.trace["lower_bound"], r.trace["best_value"], color="#56B4E9", alpha=0.3)
    right.plot(k, r.trace["best_value"], color="#0072B2", label="best value")
    right.plot(k, r.trace["lower_bound"], color="#D55E00", label="best lower bound")
    right.set(title=r"$F^\star$ lies in between", xlabel="iteration + 1", xscale="log")
    right.legend(fontsize=9)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "own_problem.png", dpi=130)
    print(f"Picture: {out / 'own_problem.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("out"))
    matplotlib.use("Agg")
    main(parser.parse_args().out)

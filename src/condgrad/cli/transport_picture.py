"""The picture of a plan: who goes where, and how the certified gap fell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from condgrad.cli.files import shortened
from condgrad.cli.pictures import COLORS, empty_figure, save
from condgrad.cli.transport_problem import Problem
from condgrad.errors import require_extra
from condgrad.result import Trace

SOURCE, TARGET, MAPPED = COLORS[:3]
COUPLING = "#555555"
POINTS_SHOWN = 5_000
LINES_SHOWN = 400
PIXELS_SHOWN = 1_000


def draw(path: Path, problem: Problem, plan: Any, mapped: Any, trace: Trace, tol: float) -> None:
    """Writes the picture: clouds or plan on the left, certified gap against time on the right."""
    figure = empty_figure(12.0, 5.2, purpose="the picture")
    left, right = figure.subplots(1, 2, width_ratios=(1.35, 1.0))
    source, target = problem.source, problem.target
    if source is None or target is None or source.values.shape[1] != target.values.shape[1]:
        _draw_plan(left, plan)
    else:
        _draw_clouds(left, source.values, target.values, plan, mapped)
        if target.names is not None and len(target.names) == 2:
            left.set_xlabel(shortened(target.names[0]), parse_math=False)
            left.set_ylabel(shortened(target.names[1]), parse_math=False)
    _draw_gap(right, trace, tol)
    save(figure, path)


def _draw_clouds(ax: Any, Xs: Any, Xt: Any, plan: Any, mapped: Any) -> None:
    project, view, labels = _view(Xs, Xt)
    origin, aim = project(Xs), project(Xt)
    image = project(np.where(np.isnan(mapped), 0.0, mapped))[~np.isnan(mapped).any(axis=1)]
    if Xs.shape[1] == 1:
        origin, aim, image = (np.c_[x[:, 0], np.full(len(x), y)] for x, y in ((origin, 1.0), (aim, 0.0), (image, 0.0)))
    most = max(len(origin), len(aim))
    size = 26.0 if most <= 300 else 9.0 if most <= 1000 else 3.0
    for points, color, marker, label in (
        (origin, SOURCE, "o", f"sources ({_how_many(len(origin))})"),
        (aim, TARGET, "^", f"targets ({_how_many(len(aim))})"),
        (image, MAPPED, "x", "mapped sources"),
    ):
        shown = points[_some(len(points), POINTS_SHOWN)]
        ax.scatter(
            *shown.T, s=size, c=color, marker=marker, label=label, linewidths=0.2 * size**0.5, zorder=2, alpha=0.85
        )
    _draw_couplings(ax, origin, aim, plan)
    ax.set(title=view, xlabel=labels[0], ylabel=labels[1])
    if Xs.shape[1] == 1:
        ax.set_yticks([0.0, 1.0], ["targets", "sources"])
        ax.set_ylim(-0.15, 1.15)
    else:
        ax.set_aspect("equal", adjustable="datalim")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.11), ncols=4, frameon=False, markerscale=(26.0 / size) ** 0.5)


def _view(Xs: Any, Xt: Any) -> tuple[Any, str, tuple[str, str]]:
    """How points become points of the plane, with a title and names of the axes."""
    dimension = Xs.shape[1]
    if dimension == 1:
        return (lambda X: X), "The plan: sources above, targets below", ("coordinate", "")
    if dimension == 2:
        return (lambda X: X), "The plan", ("first coordinate", "second coordinate")
    both = np.concatenate([Xs, Xt])
    center = both.mean(axis=0)
    _, scales, axes = np.linalg.svd(both - center, full_matrices=False)
    share = (scales[:2] ** 2).sum() / max((scales**2).sum(), np.finfo(float).tiny)
    title = f"The plan on the first two principal axes of {dimension} ({share:.0%} of the variance)"
    return (lambda X: (X - center) @ axes[:2].T), title, ("first principal axis", "second principal axis")


def _draw_couplings(ax: Any, origin: Any, aim: Any, plan: Any) -> None:
    """Lines for the strongest coupling of each source and of each target, the heavier the darker."""
    collections = require_extra("matplotlib.collections", extra="plot", purpose="the picture")
    n, m = plan.shape
    rows = np.r_[np.arange(n), plan.argmax(axis=0)]
    columns = np.r_[plan.argmax(axis=1), np.arange(m)]
    rows, columns = np.unique(np.c_[rows, columns], axis=0).T
    heaviest = np.argsort(-plan[rows, columns], kind="stable")[:LINES_SHOWN]
    rows, columns = rows[heaviest], columns[heaviest]
    mass = plan[rows, columns]
    opacity = 0.15 + 0.55 * mass / mass.max()
    lines = np.stack([origin[rows], aim[columns]], axis=1)
    ax.add_collection(
        collections.LineCollection(
            lines, colors=COUPLING, alpha=opacity, linewidths=0.8, zorder=1, label="strongest couplings"
        )
    )


def _draw_plan(ax: Any, plan: Any) -> None:
    """The plan as an image; a large one by the sums of its blocks."""
    shown, note = plan, ""
    if max(plan.shape) > PIXELS_SHOWN:
        starts = [np.arange(0, size, -(-size // PIXELS_SHOWN)) for size in plan.shape]
        shown = np.add.reduceat(np.add.reduceat(plan, starts[0], axis=0), starts[1], axis=1)
        note = ", summed over blocks"
    n, m = plan.shape
    image = ax.imshow(
        shown, cmap="cividis", aspect="auto", interpolation="nearest", extent=(0.5, m + 0.5, n + 0.5, 0.5), vmin=0.0
    )
    ax.figure.colorbar(image, ax=ax, label="mass")
    ax.set(title=f"The plan{note}", xlabel="target", ylabel="source")


def _draw_gap(ax: Any, trace: Trace, tol: float) -> None:
    seconds, gap = trace["seconds"], trace["best_value"] - trace["lower_bound"]
    known = np.isfinite(gap) & (gap > 0)
    ax.plot(seconds[known], gap[known], color=SOURCE, marker="o", markersize=3.5, label="certified gap")
    if known.any():
        ax.set_yscale("log")
        last = np.flatnonzero(known)[-1]
        if trace["measure"][last] > 0 and tol > 0:
            goal = tol * gap[last] / trace["measure"][last]
            ax.axhline(goal, color=TARGET, ls="--", lw=1.2, label=f"asked for (--tol {tol:g})")
    else:
        ax.text(0.5, 0.5, "optimal from the start: the gap is 0", ha="center", transform=ax.transAxes)
    ax.set(title="Certified distance to the optimum", xlabel="seconds", ylabel="gap")
    ax.grid(alpha=0.3)
    ax.set_xlim(left=0.0)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.11), ncols=2, frameon=False)


def _how_many(count: int) -> str:
    return f"{count}" if count <= POINTS_SHOWN else f"{POINTS_SHOWN} of {count}"


def _some(count: int, most: int) -> Any:
    """All of the indices, or an even choice of them."""
    return np.arange(count) if count <= most else np.linspace(0, count - 1, most).astype(int)

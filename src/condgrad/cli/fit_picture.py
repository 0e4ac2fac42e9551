"""The picture of a fit: coefficients against the radius, the chosen radius marked."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path as File
from typing import Any

import numpy as np

from condgrad.cli.files import shortened
from condgrad.cli.fit_design import Design
from condgrad.cli.fit_solve import Fitted, Options
from condgrad.cli.model_file import SQUARES
from condgrad.cli.pictures import COLORS, empty_figure, save
from condgrad.linear_model import Path, path

OTHERS = "#B8B8B8"
MOST_OTHERS = 200
"""Grey lines; more would be a smear."""

POINTS = 37
DRAWING_TOL = 1e-6
MOST_PANELS = 6
BEYOND = 1.5
"""How far the picture goes past the chosen radius, which is one of its points."""


def draw_path(file: File, problem: Design, fitted: Fitted, options: Options) -> None:
    """A panel for each problem, the first `MOST_PANELS` of them."""
    panels = min(len(fitted.proofs), MOST_PANELS)
    columns = min(panels, 2)
    lines = math.ceil(panels / columns)
    figure = empty_figure(7.6 if columns == 1 else 13.0, 0.4 + 4.4 * lines, purpose="the picture of a fit")
    grid = np.ravel(figure.subplots(lines, columns, squeeze=False))
    for k in range(panels):
        _draw_panel(grid[k], _path(problem, fitted, options, k), problem, fitted, options, k)
    for spare in grid[panels:]:
        spare.set_axis_off()
    figure.suptitle(_title(problem, fitted, panels), fontsize=12, parse_math=False)
    save(figure, file)


def _title(problem: Design, fitted: Fitted, panels: int) -> str:
    rest = len(fitted.proofs) - panels
    more = f" (the first {panels} of {panels + rest} classes)" if rest else ""
    return f"{shortened(problem.target)}: coefficients against the radius{more}"


def _path(problem: Design, fitted: Fitted, options: Options, k: int) -> Path:
    """The solutions for radii from 0 past the chosen one; the target of a class is set against the rest."""
    y = problem.y if problem.kind == SQUARES else np.where(problem.y == fitted.proofs[k].label, 1.0, -1.0)
    norm = float(np.abs(fitted.model.coef[k]).sum())  # below an idle radius, where all has happened
    top = BEYOND * (min(fitted.model.radius, norm) or fitted.model.radius or 1.0) / problem.target_scale
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit itself has its own proof; here a line is drawn
        return path(
            problem.X,
            y,
            loss=problem.kind,
            radii=np.linspace(0.0, top, POINTS),
            ridge=fitted.model.ridge / problem.weight_unit,
            fit_intercept=options.intercept,
            sample_weight=problem.weights,
            tol=max(options.tol, DRAWING_TOL),
            max_iter=options.max_iter,
        )


def _draw_panel(axes: Any, found: Path, problem: Design, fitted: Fitted, options: Options, k: int) -> None:
    radii, coefs = problem.target_scale * found.radii, problem.target_scale * found.coefs
    chosen = np.abs(np.array(fitted.model.coef[k]))
    peak = np.abs(coefs).max(axis=0)
    size = chosen if chosen.any() else peak
    top = [j for j in np.argsort(-size, kind="stable")[: len(COLORS)] if size[j] > 0.0]
    others = [j for j in np.argsort(-peak, kind="stable")[:MOST_OTHERS] if peak[j] > 0.0 and j not in top]
    for j in others:
        axes.plot(radii, coefs[:, j], color=OTHERS, lw=0.7, zorder=1)
    for j, color in zip(top, COLORS, strict=False):
        axes.plot(radii, coefs[:, j], color=color, lw=1.8, zorder=3)
    axes.axhline(0.0, color="#444444", lw=0.6, zorder=2)
    _mark_radius(axes, fitted.model.radius, radii[-1])
    name = "standardised coefficient" if options.standardize else "coefficient"
    axes.set(xlim=(radii[0], radii[-1]), xlabel="radius, the bound on |coef|_1", ylabel=name)
    axes.margins(y=0.08)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    if len(fitted.proofs) > 1:
        title = f"{shortened(str(fitted.proofs[k].label))} against the rest"
        axes.set_title(title, fontsize=11, loc="left", pad=16, parse_math=False)
    _label(axes, [problem.features[j] for j in top], [float(coefs[-1, j]) for j in top])


def _mark_radius(axes: Any, radius: float, last: float) -> None:
    """A line at the chosen radius, or a word where it lies beyond the picture."""
    beyond = radius > last
    if not beyond:
        axes.axvline(radius, color="#444444", lw=1.0, ls="--", zorder=2)
    axes.annotate(
        f"radius {radius:.4g}{', beyond the picture' if beyond else ''}",
        (min(radius, last), 1.0), xycoords=("data", "axes fraction"), xytext=(0, 3), textcoords="offset points",
        ha="right" if beyond else "center", va="bottom", fontsize=9, color="#444444",
    )  # fmt: skip


def _label(axes: Any, names: Sequence[str], ends: Sequence[float]) -> None:
    """Names at the right end of their lines, moved apart where lines end close together."""
    low, high = axes.get_ylim()
    heights = apart([(end - low) / (high - low) for end in ends], distance=0.055)
    for name, end, height, color in zip(names, ends, heights, COLORS, strict=False):
        axes.annotate(
            shortened(name, 26),
            (1.0, (end - low) / (high - low)), xycoords="axes fraction",
            xytext=(1.045, height), textcoords="axes fraction", va="center", fontsize=9, color=color,
            parse_math=False, annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": color, "lw": 0.6, "shrinkA": 1, "shrinkB": 0, "relpos": (0, 0.5)},
        )  # fmt: skip


def apart(places: Sequence[float], *, distance: float) -> list[float]:
    """The places in [0, 1] nearest to the given ones, in their order, that keep a distance from each other.

    With t_i = place_i - i distance in rising order, distances are kept exactly where the t_i rise: an isotonic fit.
    """
    if not places:
        return []
    order = np.argsort(places, kind="stable")
    steps = distance * np.arange(len(places))
    blocks: list[list[float]] = []
    for wanted in np.asarray(places)[order] - steps:
        blocks.append([float(wanted)])
        while len(blocks) > 1 and np.mean(blocks[-2]) >= np.mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    fitted = np.concatenate([np.full(len(block), np.mean(block)) for block in blocks])
    moved = np.clip(fitted, 0.0, max(0.0, 1.0 - steps[-1])) + steps
    result = np.empty(len(places))
    result[order] = moved
    return [float(place) for place in result]

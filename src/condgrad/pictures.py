"""Pictures of plans, paths and cross-validations, on axes of matplotlib."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from condgrad.errors import require_extra

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's, which colour-blind readers tell apart."""

POINTS_SHOWN, COUPLINGS_SHOWN, PIXELS_SHOWN = 5_000, 400, 1_000
"""The most that a picture of a plan has of each."""

BELOW = {
    "loc": "upper center",
    "bbox_to_anchor": (0.5, -0.11),
    "frameon": False,
    "columnspacing": 1.0,
}
"""A legend under its axes, where it hides nothing."""

LONGEST_SIDE = 900
"""Pixels of the longest side of an image in a picture; larger images are thinned."""

NORM = r"$|\mathrm{coef}|_1$"
MEANINGS = {
    "radius": f"radius, the bound on {NORM}",
    "alpha": "alpha, the penalty",
    "C": "C, the inverse of the penalty",
}
"""What a search tries, in words."""

COUNTS_SHOWN = 9
"""Numbers of coefficients above the curve of a cross-validation."""

MOST_LINES = 200
"""The most coefficients that a picture of a path has."""


def empty_figure(width: float, height: float, *, purpose: str, dpi: int = 150) -> Any:
    """A figure of so many inches, which needs no display."""
    module = require_extra("matplotlib.figure", extra="plot", purpose=purpose)
    return module.Figure(figsize=(width, height), dpi=dpi, layout="constrained")


def save_figure(figure: Any, file: Path) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Glyph", category=UserWarning
        )  # a name in a script the font lacks
        figure.savefig(file)


def save_images(file: Path, images: Mapping[str, Any]) -> None:
    """Writes images side by side, each under its title."""
    tallest = max(pixels.shape[0] / pixels.shape[1] for pixels in images.values())
    figure = empty_figure(
        5.0 * len(images), 0.5 + 5.0 * min(2.0, max(0.3, tallest)), purpose="a picture", dpi=120
    )
    for axes, (title, pixels) in zip(figure.subplots(1, len(images)), images.items(), strict=True):
        step = -(-max(pixels.shape[:2]) // LONGEST_SIDE)
        axes.imshow(pixels[::step, ::step])
        axes.set_title(title)
        axes.set_axis_off()
    save_figure(figure, file)


def draw_clouds(axes: Any, plan: Any, Xs: Any, Xt: Any, mapped: Any, names: Sequence[str]) -> None:
    """Sources, targets, where the plan sends the sources, and its strongest couplings.

    Points on a line are drawn as two lines, and points of more than two coordinates on their
    principal axes.
    """
    title = "The plan"
    labels = [*names, ""][:2]
    clouds = [Xs, Xt, mapped[~np.isnan(mapped).any(axis=1)]]
    if len(names) == 1:
        title = "The plan: sources above, targets below"
        clouds = [
            np.c_[cloud, np.full(len(cloud), height)]
            for cloud, height in zip(clouds, (1, 0, 0), strict=True)
        ]
        axes.set_yticks([0.0, 1.0], ["targets", "sources"])
        axes.set_ylim(-0.15, 1.15)
    else:
        axes.set_aspect("equal", adjustable="datalim")
    if len(names) > 2:
        from sklearn.decomposition import PCA  # `import condgrad` should not wait for it

        plane = PCA(2).fit(np.concatenate([Xs, Xt]))
        share = plane.explained_variance_ratio_.sum()
        title = f"The plan on the first two principal axes of {len(names)} ({share:.0%} of the variance)"
        labels = ["first principal axis", "second principal axis"]
        clouds = [plane.transform(c) for c in clouds]
    most = max(len(Xs), len(Xt))
    size = 26.0 if most <= 300 else 9.0 if most <= 1000 else 3.0
    style = {"s": size, "alpha": 0.85, "linewidths": 0.2 * size**0.5, "zorder": 2}
    for cloud, color, marker, what in zip(
        clouds, COLORS, "o^x", ("sources", "targets", "mapped sources"), strict=False
    ):
        some = cloud[:: -(-len(cloud) // POINTS_SHOWN)]
        part = f"{len(some)} of {len(cloud)}" if len(some) < len(cloud) else f"{len(cloud)}"
        axes.scatter(*some.T, c=color, marker=marker, label=f"{what} ({part})", **style)
    _draw_couplings(axes, plan, *clouds[:2])
    axes.set_title(title)
    axes.set_xlabel(labels[0], parse_math=False)
    axes.set_ylabel(labels[1], parse_math=False)
    axes.legend(markerscale=(26.0 / size) ** 0.5, ncols=4, **BELOW)


def _draw_couplings(axes: Any, plan: Any, Xs: Any, Xt: Any) -> None:
    """Lines for the strongest coupling of each source and of each target, the heavier the darker."""
    collections = require_extra("matplotlib.collections", extra="plot", purpose="a picture")
    best_of_rows = np.c_[np.arange(len(Xs)), plan.argmax(axis=1)]
    best_of_columns = np.c_[plan.argmax(axis=0), np.arange(len(Xt))]
    rows, columns = np.unique(np.r_[best_of_rows, best_of_columns], axis=0).T
    heaviest = np.argsort(-plan[rows, columns], kind="stable")[:COUPLINGS_SHOWN]
    rows = rows[heaviest]
    columns = columns[heaviest]
    mass = plan[rows, columns]
    lines = np.stack([Xs[rows], Xt[columns]], axis=1)
    style = {"colors": "#555555", "linewidths": 0.8, "zorder": 1, "label": "strongest couplings"}
    axes.add_collection(
        collections.LineCollection(lines, alpha=0.15 + 0.55 * mass / mass.max(), **style)
    )


def draw_matrix(axes: Any, plan: Any) -> None:
    """The plan as a picture; a large one by the sums of its blocks."""
    (n, m), shown, note = plan.shape, plan, ""
    if max(n, m) > PIXELS_SHOWN:
        starts = [np.arange(0, size, -(-size // PIXELS_SHOWN)) for size in plan.shape]
        shown = np.add.reduceat(np.add.reduceat(plan, starts[0], axis=0), starts[1], axis=1)
        note = ", summed over blocks"
    style = {"cmap": "cividis", "aspect": "auto", "interpolation": "nearest", "vmin": 0.0}
    drawn = axes.imshow(shown, extent=(-0.5, m - 0.5, n - 0.5, -0.5), **style)
    axes.figure.colorbar(drawn, ax=axes, label="mass")
    axes.set(title=f"The plan{note}", xlabel="target", ylabel="source")


def draw_path(axes: Any, radii: Any, coefs: Any, names: Sequence[str], *, chosen: Any) -> None:
    """Coefficients (radii x features) against the radius; those largest in `chosen` have names, and
    colors by rank.
    """
    peak = np.abs(coefs).max(axis=0)
    by_size = np.argsort(-(np.abs(chosen) if np.any(chosen) else peak), kind="stable")
    for place, j in enumerate(by_size[:MOST_LINES]):
        if peak[j] == 0.0:
            continue
        named = {"color": "#B8B8B8", "lw": 0.7, "zorder": 1}
        if place < len(COLORS):
            named = {"color": COLORS[place], "lw": 1.8, "zorder": 3, "label": names[j]}
        axes.plot(radii, coefs[:, j], **named)
    axes.axhline(0.0, color="#444444", lw=0.6, zorder=2)
    if radii[-1] > radii[0]:
        axes.set(xlim=(radii[0], radii[-1]))
    _bare(axes)
    name_lines(axes, loc="center left", bbox_to_anchor=(1.0, 0.5))


def name_lines(axes: Any, **place: Any) -> None:
    """The legend, in which the names of columns are no formulas."""
    for text in axes.legend(frameon=False, fontsize=9, **place).get_texts():
        text.set_parse_math(False)


def draw_scores(axes: Any, chooser: Any, counts: Any) -> None:
    """What a cross-validation found, with standard errors, against the radius or the strength of a
    penalty that it chose; above the curve the numbers of coefficients that are not 0.

    `chooser` is a fitted estimator whose name ends in CV. Losses are drawn as such, not as scores
    below 0. What else it chose is fixed at the choice.
    """
    fixed, tried = chooser._selected
    table = chooser.cv_table()
    curve = table[table[fixed] == chooser._selected[fixed]]
    sizes = curve[tried].to_numpy()
    sign = -1.0 if (chooser.scoring or chooser.default_scoring).startswith("neg_") else 1.0
    style = {
        "color": COLORS[0],
        "ecolor": COLORS[5],
        "capsize": 2,
        "marker": ".",
        "label": "mean, 1 standard error",
    }
    axes.errorbar(sizes, sign * curve["mean_test_score"], curve["standard_error"], **style)
    axes.set(xscale="log" if sizes.min() > 0.0 else "linear")
    name = tried.removeprefix("param_")
    mark_chosen(axes, chooser._selected[tried], name)
    axes.set(xlabel=MEANINGS[name])
    if name == "alpha":  # as along the others, there is more and more room from left to right
        axes.invert_xaxis()
    _bare(axes)
    axes.legend(frameon=False, fontsize=9)
    above = axes.secondary_xaxis("top")
    some = np.unique(np.linspace(0, len(sizes) - 1, COUNTS_SHOWN).round().astype(int))
    above.set_xticks(sizes[some], [str(counts[k]) for k in some])
    above.minorticks_off()
    above.spines["top"].set_visible(False)
    above.tick_params(length=0, labelsize=9)
    above.set_xlabel(
        f"coefficients other than 0, at {fixed.removeprefix('param_')} {chooser._selected[fixed]:.4g}",
        fontsize=9,
    )


def mark_chosen(axes: Any, place: float, name: str, note: str = "") -> None:
    """A line at what was chosen."""
    label = f"{name} {place:.4g}{note}"
    axes.axvline(place, color="#444444", lw=1.0, ls="--", zorder=2, label=label)


def _bare(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)

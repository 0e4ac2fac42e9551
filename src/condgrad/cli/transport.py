"""`condgrad transport`: a certified plan between two point clouds, or for a matrix of costs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from scipy import sparse
from scipy.spatial.distance import cdist

from condgrad.cli import files, report
from condgrad.cli.files import DropColumns, Header, IdColumn, Table, read_column, read_table
from condgrad.cli.report import COLORS, BadInput, checked, counted, shortened
from condgrad.transport import GroupLasso, Laplacian, TransportResult, solve

PRODUCTS = ("plan.npy", "plan.csv", "mapped.csv", "certificate.json", "trace.csv", "picture.png")
ENTRIES_IN_CSV = 50_000
"""A plan up to this size is written as a table too, for spreadsheets."""

ENTROPY_SHARE = 0.02
"""The default entropy, as a share of the median cost: plans stay sharp and are found in seconds."""

LARGEST = 1e300
"""Beyond this, sums of costs leave the range of floats."""

METRICS = ("sqeuclidean", "euclidean", "cityblock", "chebyshev", "cosine")
METHODS = ("auto", "newton", "cgs", "cg")
POINTS_SHOWN, COUPLINGS_SHOWN, PIXELS_SHOWN = 5_000, 400, 1_000
"""The most that a picture has of each."""


@dataclass(frozen=True, eq=False)
class PointCloud:
    """Points, a row each, and the table that they come from."""

    table: Table
    columns: tuple[str, ...]
    points: Any


def transport(
    source: Annotated[Path | None, typer.Argument(metavar="SOURCE", help="Source points, a row each.")] = None,
    target: Annotated[Path | None, typer.Argument(metavar="TARGET", help="Target points, a row each.")] = None,
    cost: Annotated[Path | None, typer.Option(metavar="FILE", help="A matrix of costs instead of distances.")] = None,
    entropy: Annotated[
        float | None,
        typer.Option(metavar="W", help="Weight of the entropy, 0 for none.", show_default="0.02 x median cost"),
    ] = None,
    laplacian: Annotated[
        float | None, typer.Option(metavar="W", help="Weight of the Laplacian: neighbours move alike.")
    ] = None,
    neighbors: Annotated[int, typer.Option(metavar="K", min=1, help="Neighbours of a point, for --laplacian.")] = 10,
    drop: DropColumns = None,
    row_id: IdColumn = None,
    header: Header = None,
    labels: Annotated[Path | None, typer.Option(metavar="FILE", help="Class of each source, for --groups.")] = None,
    groups: Annotated[
        float | None, typer.Option(metavar="W", help="Weight of class groups: a target receives one class.")
    ] = None,
    source_weights: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Weights of the sources.", show_default="equal")
    ] = None,
    target_weights: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Weights of the targets.", show_default="equal")
    ] = None,
    metric: Annotated[str, typer.Option(metavar="NAME", help=f"Cost between points: {', '.join(METRICS)}.")] = METRICS[
        0
    ],
    tol: Annotated[float, typer.Option(metavar="GAP", help="Gap / scale of F to reach, certified.")] = 1e-6,
    time_limit: Annotated[float | None, typer.Option(metavar="SECONDS", help="Stop after this time.")] = None,
    method: Annotated[str, typer.Option(metavar="NAME", help=f"One of {', '.join(METHODS)}.")] = METHODS[0],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to write.")] = Path("condgrad-transport"),
    no_picture: Annotated[bool, typer.Option("--no-picture", help="Draw nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the certificate as JSON.")] = False,
) -> None:
    """Move one point cloud onto another by optimal transport, with a proof of optimality.

    Files are CSV, TSV (.gz too), parquet, NPY, or NPZ (file.npz:name for one array
    of several). The folder of results gets plan.npy, plan.csv (plans of up to
    50,000 entries), mapped.csv (where each source goes, led by its id or its row
    counted from 0), certificate.json, trace.csv, picture.png.

    [bold]Examples[/bold]
      condgrad transport before.csv after.csv --id cell
      condgrad transport cells.npz:day1 cells.npz:day2 --laplacian 100
      condgrad transport --cost distances.npy --entropy 0 --json

    Exit codes: 0 certified, 2 bad input, 3 not converged within its limits.
    """
    limits = {"entropy": entropy, "laplacian": laplacian, "groups": groups, "tol": tol, "time-limit": time_limit}
    for option, value in limits.items():
        if value is not None:
            checked(option, value, at_least=0.0)
    report.one_of("metric", metric, METRICS)
    report.one_of("method", method, METHODS)
    _check_combination(source, target, cost, laplacian=laplacian, labels=labels, groups=groups, columns=drop or row_id)
    clouds = _clouds(source, target, drop=drop or [], row_id=row_id, header=header)
    costs = _distances(clouds, metric) if cost is None else _given_costs(cost, clouds, header)
    a, b = _weights(source_weights, target_weights, costs)
    chosen_entropy, entropy_from = (entropy, "as asked") if entropy is not None else _default_entropy(costs)
    regularizers: list[Laplacian | GroupLasso] = []
    if laplacian and clouds:
        ends = (clouds[0].points, clouds[1].points)
        regularizers.append(Laplacian(*ends, weight=laplacian, neighbors=neighbors))
    if labels is not None:
        classes = np.asarray(read_column(labels, len(costs), "sources"))
        regularizers += [GroupLasso(classes, weight=groups)] if groups else []
    inputs = {
        "source": source, "target": target, "cost": cost, "source_weights": source_weights,
        "target_weights": target_weights, "labels": labels,
    }  # fmt: skip
    named = {name: files.file_of(path) for name, path in inputs.items() if path is not None}
    again = os.path.exists(out / "certificate.json")
    with files.written_whole(out, PRODUCTS, read=list(named.values())) as folder:
        answer = solve(
            costs, a, b, entropy=chosen_entropy, regularizers=regularizers, method=method, tol=tol,
            time_limit=time_limit, progress=sys.stderr.isatty() and not as_json,
        )  # fmt: skip
        mapped = answer.barycenters(clouds[1].points) if clouds else None
        facts = report.certificate_facts(answer.result) | {
            "transport_cost": float(answer.cost),
            "sources": len(a),
            "targets": len(b),
            "mass": float(a.sum()),
            "settings": {
                "metric": metric if cost is None else None,
                "entropy": chosen_entropy,
                "entropy_from": entropy_from,
                "laplacian": laplacian,
                "neighbors": neighbors if laplacian else None,
                "groups": groups,
                "drop": drop or [],
                "tol": tol,
                "time_limit": time_limit,
                "method": method,
            },
            "inputs": {name: {"file": str(inputs[name]), "bytes": path.stat().st_size} for name, path in named.items()},
            "read_as": {cloud.table.source: cloud.table.read_as for cloud in clouds},
            "versions": report.versions(),
        }
        _write(folder, answer, clouds, mapped, facts)
        if not no_picture:
            with report.working("drawing"):
                draw(folder / "picture.png", answer, clouds, mapped)
        written = sorted(file.name for file in folder.iterdir())
    for name in set(PRODUCTS) - set(written) if again else ():
        (out / name).unlink(missing_ok=True)  # of an earlier run: it would pass for a part of this one
    if as_json:
        report.print_json(facts | {"out": str(out), "files": written})
    else:
        _print(answer, facts, f"{', '.join(written)} in {out}")
    raise typer.Exit(report.exit_code(answer.status))


# --- from files to a problem


def _check_combination(
    source: Path | None, target: Path | None, cost: Path | None, *, laplacian: float | None, labels: Path | None,
    groups: float | None, columns: Any,
) -> None:  # fmt: skip
    if (source is None) != (target is None):
        raise BadInput("TARGET is missing: give two point clouds, SOURCE and TARGET, or one matrix, --cost COST")
    if source is None and cost is None:
        raise BadInput("nothing to transport: give two point clouds, SOURCE and TARGET, or one matrix, --cost COST")
    if laplacian is not None and source is None:
        raise BadInput("--laplacian needs to know which points are neighbours: give SOURCE and TARGET beside --cost")
    if (labels is None) != (groups is None):
        raise BadInput("--labels FILE and --groups WEIGHT go together: give both or neither")
    if columns and source is None:
        raise BadInput("--drop and --id are for columns of SOURCE and TARGET: give both, or leave them out")


def _clouds(
    source: Path | None, target: Path | None, *, drop: Sequence[str], row_id: str | None, header: bool | None
) -> tuple[PointCloud, ...]:
    """Both clouds, or none; a column to leave out, or with the names of the points, need be in one of them only."""
    if source is None or target is None:
        return ()
    tables = [read_table(path, header=header) for path in (source, target)]
    if row_id is not None:
        tables = [table.with_ids(name) if (name := _column(table, row_id)) else table for table in tables]
    for option, name in [("--id", row_id), *(("--drop", name) for name in drop)]:
        if name is not None and not any(_column(table, name) for table in tables):
            raise BadInput(f"{option} {name or repr('')}: neither {source} nor {target} has such a column")
    return tuple(_cloud(table, {_column(table, name) for name in drop}) for table in tables)


def _column(table: Table, wanted: str) -> str | None:
    try:
        return table.resolve(wanted, option="--drop")
    except BadInput:
        return None


def _cloud(table: Table, left_out: set[str | None]) -> PointCloud:
    kept = tuple(name for name in table.names if name not in left_out)
    if not kept:
        raise BadInput(f"{table.source} has no column left: --drop fewer of its {len(table.names)}")
    points = table.features(kept)
    return PointCloud(table, kept, points.toarray() if sparse.issparse(points) else points)


def _distances(clouds: Sequence[PointCloud], metric: str) -> Any:
    source, target = clouds
    if len(source.columns) != len(target.columns):
        said = (f"{cloud.table.source} has {counted(len(cloud.columns), 'column')}" for cloud in clouds)
        read = "; ".join(f"{cloud.table.source}: {cloud.table.read_as}" for cloud in clouds)
        raise BadInput(f"{' and '.join(said)}: both clouds must have the same coordinates ({read})")
    _check_room(len(source.points), len(target.points))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        costs = cdist(source.points, target.points, metric=metric)
    if not (costs <= LARGEST).all():
        i, j = np.argwhere(~(costs <= LARGEST))[0]
        ends = (
            f"{cloud.table.where(int(row))} of {cloud.table.source}" for cloud, row in zip(clouds, (i, j), strict=True)
        )
        raise BadInput(
            f"the {metric} cost from {' to '.join(ends)} is {costs[i, j]}: "
            "rescale the coordinates or choose another --metric"
        )
    return costs


def _given_costs(path: Path, clouds: Sequence[PointCloud], header: bool | None) -> Any:
    table = read_table(path, header=header)
    costs = table.features(table.names)
    for axis, (cloud, what) in enumerate(zip(clouds, ("rows", "columns"), strict=False)):
        if len(cloud.points) != costs.shape[axis]:
            raise BadInput(
                f"{path} has {costs.shape[axis]} {what} and {cloud.table.source} has {len(cloud.points)} points: "
                f"a cost has a row for each source and a column for each target ({table.read_as})"
            )
    _check_room(*costs.shape)
    costs = costs.toarray() if sparse.issparse(costs) else costs
    if np.abs(costs).max() > LARGEST:
        raise BadInput(f"{path} holds costs beyond {LARGEST:g}: choose a larger unit")
    return costs


def _check_room(n: int, m: int) -> None:
    files.require_memory_for_plan(n, m, "give fewer points, a random sample of each cloud for example")


def _weights(source: Path | None, target: Path | None, costs: Any) -> tuple[Any, Any]:
    """Both weights; a side without a file is uniform, with the mass of the other."""
    n, m = costs.shape
    a = None if source is None else _read_weights(source, n, "sources")
    b = None if target is None else _read_weights(target, m, "targets")
    if a is None:
        a = np.full(n, (1.0 if b is None else b.sum()) / n)
    if b is None:
        b = np.full(m, a.sum() / m)
    if abs(a.sum() - b.sum()) > 1e-6 * max(a.sum(), b.sum()):
        raise BadInput(
            f"{source} sums to {a.sum():.10g} and {target} to {b.sum():.10g}: "
            "scale one of them, a plan moves the same mass from sources to targets"
        )
    return a, b


def _read_weights(path: Path, count: int, what: str) -> Any:
    weights = read_column(path, count, what)
    if isinstance(weights, list) or not np.isfinite(weights).all() or (weights < 0).any():
        raise BadInput(f"{path}: weights must be finite numbers >= 0")
    if not 0.0 < weights.sum() < np.inf:
        raise BadInput(f"{path} sums to {weights.sum():g}: give one or more weights > 0, none of them huge")
    return weights


def _default_entropy(costs: Any) -> tuple[float, str]:
    """A weight of the entropy in the unit of the costs, and where it comes from."""
    above = costs - costs.min()
    for of, size in (("median", float(np.median(above))), ("largest", float(above.max()))):
        if size > 0:
            return ENTROPY_SHARE * size, f"{ENTROPY_SHARE:g} x the {of} cost"
    return 1.0, "1, as all costs are equal"


# --- results


def _write(
    folder: Path, answer: TransportResult, clouds: Sequence[PointCloud], mapped: Any, facts: Mapping[str, Any]
) -> None:
    np.save(folder / "plan.npy", answer.plan)
    if answer.plan.size <= ENTRIES_IN_CSV:
        np.savetxt(folder / "plan.csv", answer.plan, fmt="%.17g", delimiter=",")
    if clouds:
        files.write_rows(folder / "mapped.csv", dict(zip(clouds[1].columns, mapped.T, strict=True)), clouds[0].table)
    answer.trace.to_csv(folder / "trace.csv")
    (folder / "certificate.json").write_text(report.json_text(facts), encoding="utf-8")


def _print(answer: TransportResult, facts: Mapping[str, Any], written: str) -> None:
    mass = "" if abs(facts["mass"] - 1.0) <= 1e-9 else f", mass {facts['mass']:.6g}"  # costs and gaps grow with it
    settings = facts["settings"]
    report.print_report(
        report.verdict(answer.result, "this plan", settings["tol"]),
        {
            **facts["read_as"],
            "plan": f"{facts['sources']} sources to {facts['targets']} targets{mass}, transport cost {answer.cost:.6g}",
            "entropy": f"{settings['entropy']:.4g} ({settings['entropy_from']})",
            "value": f"{answer.value:.10g}, cost with entropy and regularisers",
            "lower bound": f"{answer.lower_bound:.10g}, no plan is below",
            "effort": f"{counted(answer.iterations, 'iteration')} in {facts['seconds']:.2g} s",
            "written": written,
        },
    )


def draw(file: Path, answer: TransportResult, clouds: Sequence[PointCloud], mapped: Any) -> None:
    """Writes the picture: clouds or plan on the left, certified gap against time on the right."""
    figure = report.empty_figure(12.0, 5.2, purpose="the picture")
    left, right = figure.subplots(1, 2, width_ratios=(1.35, 1.0))
    if clouds and len(clouds[0].columns) == len(clouds[1].columns):
        _draw_clouds(left, clouds, answer.plan, mapped)
    else:
        _draw_plan(left, answer.plan)
    answer.trace.plot(against="seconds", ax=right)
    right.set(title="Certified distance to the optimum")
    report.save_figure(figure, file)


def _draw_clouds(axes: Any, clouds: Sequence[PointCloud], plan: Any, mapped: Any) -> None:
    ends = [cloud.points for cloud in clouds]
    shown = [*ends, mapped[~np.isnan(mapped).any(axis=1)]]
    dimension, names = ends[0].shape[1], clouds[1].columns
    title, labels = "The plan", [shortened(name) for name in names[:2]]
    if dimension == 1:
        title, labels = "The plan: sources above, targets below", [shortened(names[0]), ""]
        shown = [
            np.c_[points, np.full(len(points), height)] for points, height in zip(shown, (1.0, 0.0, 0.0), strict=True)
        ]
        axes.set_yticks([0.0, 1.0], ["targets", "sources"])
        axes.set_ylim(-0.15, 1.15)
    elif dimension > 2:
        both = np.concatenate(ends)
        center = both.mean(axis=0)
        _, scales, principal = np.linalg.svd(both - center, full_matrices=False)
        share = (scales[:2] ** 2).sum() / max((scales**2).sum(), np.finfo(float).tiny)
        title = f"The plan on the first two principal axes of {dimension} ({share:.0%} of the variance)"
        labels = ["first principal axis", "second principal axis"]
        shown = [(points - center) @ principal[:2].T for points in shown]
    most = max(map(len, ends))
    size = 26.0 if most <= 300 else 9.0 if most <= 1000 else 3.0
    for points, color, marker, label in zip(
        shown, COLORS, "o^x", ("sources", "targets", "mapped sources"), strict=False
    ):
        some = np.unique(np.linspace(0, len(points) - 1, min(len(points), POINTS_SHOWN)).astype(int))
        part = f"{len(some)} of {len(points)}" if len(some) < len(points) else f"{len(points)}"
        axes.scatter(
            *points[some].T, s=size, c=color, marker=marker, label=f"{label} ({part})", zorder=2, alpha=0.85,
            linewidths=0.2 * size**0.5,
        )  # fmt: skip
    _draw_couplings(axes, shown[0], shown[1], plan)
    axes.set_title(title)
    axes.set_xlabel(labels[0], parse_math=False)
    axes.set_ylabel(labels[1], parse_math=False)
    if dimension > 1:
        axes.set_aspect("equal", adjustable="datalim")
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.11), ncols=4, frameon=False, markerscale=(26.0 / size) ** 0.5
    )


def _draw_couplings(axes: Any, origin: Any, aim: Any, plan: Any) -> None:
    """Lines for the strongest coupling of each source and of each target, the heavier the darker."""
    from matplotlib.collections import LineCollection

    rows = np.r_[np.arange(len(origin)), plan.argmax(axis=0)]
    columns = np.r_[plan.argmax(axis=1), np.arange(len(aim))]
    rows, columns = np.unique(np.c_[rows, columns], axis=0).T
    heaviest = np.argsort(-plan[rows, columns], kind="stable")[:COUPLINGS_SHOWN]
    rows, columns = rows[heaviest], columns[heaviest]
    mass = plan[rows, columns]
    lines = np.stack([origin[rows], aim[columns]], axis=1)
    opacity = 0.15 + 0.55 * mass / mass.max()
    axes.add_collection(
        LineCollection(lines, colors="#555555", alpha=opacity, linewidths=0.8, zorder=1, label="strongest couplings")
    )


def _draw_plan(axes: Any, plan: Any) -> None:
    """The plan as an image; a large one by the sums of its blocks."""
    shown, note = plan, ""
    if max(plan.shape) > PIXELS_SHOWN:
        starts = [np.arange(0, size, -(-size // PIXELS_SHOWN)) for size in plan.shape]
        shown = np.add.reduceat(np.add.reduceat(plan, starts[0], axis=0), starts[1], axis=1)
        note = ", summed over blocks"
    n, m = plan.shape
    image = axes.imshow(
        shown, cmap="cividis", aspect="auto", interpolation="nearest", extent=(-0.5, m - 0.5, n - 0.5, -0.5), vmin=0.0
    )
    axes.figure.colorbar(image, ax=axes, label="mass")
    axes.set(title=f"The plan{note}", xlabel="target", ylabel="source")

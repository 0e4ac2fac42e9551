"""`condgrad transport`: a certified plan between two point clouds, or for a matrix of costs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.decomposition import PCA

from condgrad.cli import files, report
from condgrad.cli.files import DropColumns, Header, IdColumn, Table, read_column, read_table
from condgrad.cli.report import COLORS, BadInput, counted, option, shortened
from condgrad.errors import require_extra
from condgrad.transport import GroupLasso, Laplacian, TransportResult, solve
from condgrad.transport.regularizers import Regularizer

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


INPUTS = ("source", "target", "cost", "source_weights", "target_weights", "labels")
WEIGHTS = ("entropy", "laplacian", "groups", "tol", "time_limit")
"""Options that are numbers >= 0."""


def transport(
    source: Annotated[Path | None, typer.Argument(metavar="SOURCE", help="Source points, a row each.")] = None,
    target: Annotated[Path | None, typer.Argument(metavar="TARGET", help="Target points, a row each.")] = None,
    cost: Annotated[Path | None, option("FILE", "A matrix of costs instead of distances.")] = None,
    entropy: Annotated[float | None, option("W", "Weight of the entropy, 0 for none.", "0.02 x median cost")] = None,
    laplacian: Annotated[float | None, option("W", "Weight of the Laplacian: neighbours move alike.")] = None,
    neighbors: Annotated[int, option("K", "Neighbours of a point, for --laplacian.", least=1)] = 10,
    drop: DropColumns = None,
    row_id: IdColumn = None,
    header: Header = None,
    labels: Annotated[Path | None, option("FILE", "Class of each source, for --groups.")] = None,
    groups: Annotated[float | None, option("W", "Weight of class groups: a target receives one class.")] = None,
    source_weights: Annotated[Path | None, option("FILE", "Weights of the sources.", "equal")] = None,
    target_weights: Annotated[Path | None, option("FILE", "Weights of the targets.", "equal")] = None,
    metric: Annotated[str, option("NAME", f"Cost between points: {', '.join(METRICS)}.")] = METRICS[0],
    tol: report.Tolerance = 1e-6,
    time_limit: Annotated[float | None, option("SECONDS", "Stop after this time.")] = None,
    method: Annotated[str, option("NAME", f"One of {', '.join(METHODS)}.")] = METHODS[0],
    out: report.Folder = Path("condgrad-transport"),
    no_picture: Annotated[bool, typer.Option("--no-picture", help="Draw nothing.")] = False,
    as_json: report.AsJson = False,
) -> None:
    """Move one point cloud onto another by optimal transport, with a proof of optimality.

    Files are CSV, TSV (.gz too), parquet, NPY or NPZ (file.npz:name for one array
    of several). The folder of results gets plan.npy, plan.csv (plans of up to
    50,000 entries), mapped.csv (where each source goes, led by its id or its row
    from 0), certificate.json, trace.csv, picture.png.

    [bold]Examples[/bold]
      condgrad transport before.csv after.csv --id cell
      condgrad transport cells.npz:day1 cells.npz:day2 --laplacian 100
      condgrad transport --cost distances.npy --entropy 0 --json

    Exit codes: 0 certified, 2 bad input, 3 not converged within its limits.
    """
    asked: dict[str, Any] = dict(locals())
    for name in WEIGHTS:
        if asked[name] is not None:
            report.checked(name.replace("_", "-"), asked[name], at_least=0.0)
    report.check_one_of("metric", metric, METRICS)
    report.check_one_of("method", method, METHODS)
    _check_combination(asked)
    clouds = _clouds(source, target, drop or [], row_id, header) if source and target else ()
    points = [_points(cloud) for cloud in clouds]
    costs = _given_costs(cost, clouds, header) if cost else _distances(clouds, points, metric)
    a, b = _weights(source_weights, target_weights, costs)
    asked["entropy"], asked["entropy_from"] = (entropy, "as asked") if entropy is not None else _default_entropy(costs)
    regularizers: list[Regularizer] = []
    if laplacian:
        regularizers.append(Laplacian(points[0], points[1], weight=laplacian, neighbors=neighbors))
    if labels:
        classes = np.asarray(read_column(labels, len(costs), "sources"))
        regularizers += [GroupLasso(classes, weight=groups)] if groups else []
    asked |= {"metric": None if cost else metric, "neighbors": neighbors if laplacian else None, "drop": drop or []}
    inputs = {name: asked[name] for name in INPUTS if asked[name] is not None}
    again = os.path.exists(out / "certificate.json")
    with files.written_whole(out, PRODUCTS, read=[files.file_of(path) for path in inputs.values()]) as folder:
        answer = solve(
            costs, a, b, entropy=asked["entropy"], regularizers=regularizers, method=method, tol=tol,
            time_limit=time_limit, progress=report.errors.is_terminal,
        )  # fmt: skip
        settings = ("metric", "entropy_from", "neighbors", "drop", "method", *WEIGHTS)
        sizes = {
            name: {"file": str(path), "bytes": files.file_of(path).stat().st_size} for name, path in inputs.items()
        }
        facts = report.certificate_facts(answer.result) | {
            "transport_cost": float(answer.cost),
            "sources": len(a),
            "targets": len(b),
            "mass": float(a.sum()),
            "settings": {name: asked[name] for name in settings},
            "inputs": sizes,
            "read_as": {cloud.source: cloud.read_as for cloud in clouds},
            "versions": report.versions(),
        }
        mapped: Any = answer.barycenters(points[1]) if points else None
        np.save(folder / "plan.npy", answer.plan)
        if answer.plan.size <= ENTRIES_IN_CSV:
            np.savetxt(folder / "plan.csv", answer.plan, fmt="%.17g", delimiter=",")
        if clouds:
            files.write_rows(folder / "mapped.csv", dict(zip(clouds[1].names, mapped.T, strict=True)), clouds[0])
        answer.trace.to_csv(folder / "trace.csv")
        (folder / "certificate.json").write_text(report.json_text(facts), encoding="utf-8")
        if not no_picture:
            draw(folder / "picture.png", answer, tol, clouds, points, mapped)
        written = sorted(file.name for file in folder.iterdir())
    for name in set(PRODUCTS) - set(written) if again else ():
        (out / name).unlink(missing_ok=True)  # of an earlier run: it would pass for a part of this one
    if as_json:
        report.print_json(facts | {"out": str(out), "files": written})
    else:
        _print(answer, facts, f"{', '.join(written)} in {out}")
    raise typer.Exit(report.ExitCode.CERTIFIED if answer.success else report.ExitCode.NOT_CONVERGED)


# --- from files to a problem


def _check_combination(asked: Mapping[str, Any]) -> None:
    clouds = asked["source"] is not None
    if clouds != (asked["target"] is not None):
        raise BadInput("TARGET is missing: give two point clouds, SOURCE and TARGET, or one matrix, --cost COST")
    if not clouds and asked["cost"] is None:
        raise BadInput("nothing to transport: give two point clouds, SOURCE and TARGET, or one matrix, --cost COST")
    if not clouds and asked["laplacian"] is not None:
        raise BadInput("--laplacian needs to know which points are neighbours: give SOURCE and TARGET beside --cost")
    if not clouds and (asked["drop"] or asked["row_id"] is not None):
        raise BadInput("--drop and --id are for columns of SOURCE and TARGET: give both, or leave them out")
    if (asked["labels"] is None) != (asked["groups"] is None):
        raise BadInput("--labels FILE and --groups WEIGHT go together: give both or neither")


def _clouds(source: Path, target: Path, drop: Sequence[str], row_id: str | None, header: bool | None) -> list[Table]:
    """Both tables; a column to leave out, or with the names of the points, need be in one of them only."""
    tables = [read_table(path, header=header) for path in (source, target)]
    for wanted, name in [("--drop", name) for name in drop] + [
        ("--id", name) for name in (row_id,) if name is not None
    ]:
        if not any(table.has(name) for table in tables):
            raise BadInput(f"{wanted} {name or repr('')}: neither {source} nor {target} has such a column")
    clouds = []
    for table in tables:
        left_out = {table.resolve(name, option="--drop") for name in drop if table.has(name)}
        if row_id is not None and table.has(row_id):
            table = table.with_ids(table.resolve(row_id, option="--id"))
        clouds.append(table.without(left_out))
    return clouds


def _points(table: Table) -> Any:
    points = table.features(table.names)
    return points.toarray() if sparse.issparse(points) else points


def _distances(clouds: Sequence[Table], points: Sequence[Any], metric: str) -> Any:
    if points[0].shape[1] != points[1].shape[1]:
        read = "; ".join(f"{cloud.source} has {cloud.read_as}" for cloud in clouds)
        raise BadInput(f"both clouds must have the same coordinates: {read}")
    _check_room(len(points[0]), len(points[1]))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        costs = cdist(*points, metric=metric)
    if not (costs <= LARGEST).all():
        worst = np.argwhere(~(costs <= LARGEST))[0]
        ends = [f"{cloud.where(row)} of {cloud.source}" for cloud, row in zip(clouds, worst, strict=True)]
        raise BadInput(
            f"the {metric} cost from {ends[0]} to {ends[1]} is {costs[tuple(worst)]}: "
            "rescale the coordinates or choose another --metric"
        )
    return costs


def _given_costs(path: Path, clouds: Sequence[Table], header: bool | None) -> Any:
    table = read_table(path, header=header)
    _check_room(table.rows, len(table.names))
    costs = _points(table)
    for cloud, size, what in zip(clouds, costs.shape, ("rows", "columns"), strict=False):
        if cloud.rows != size:
            raise BadInput(
                f"{path} has {size} {what} and {cloud.source} has {cloud.rows} points: "
                f"a cost has a row for each source and a column for each target ({table.read_as})"
            )
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


def draw(
    file: Path, answer: TransportResult, tol: float, clouds: Sequence[Table], points: Sequence[Any], mapped: Any
) -> None:
    """Writes the picture: clouds or plan on the left, certified gap against time on the right."""
    figure = report.empty_figure(12.0, 5.2, purpose="the picture")
    left, right = figure.subplots(1, 2, width_ratios=(1.35, 1.0))
    if points and points[0].shape[1] == points[1].shape[1]:
        _draw_clouds(left, clouds[1].names, points, answer.plan, mapped)
    else:
        _draw_plan(left, answer.plan)
    answer.trace.plot(against="seconds", ax=right)
    if tol > 0.0:
        right.axhline(tol * answer.result.scale, color=COLORS[2], ls=":", lw=1.2, label=f"asked for (--tol {tol:g})")
    right.set(title="Certified distance to the optimum")
    right.locator_params(axis="x", nbins=5)
    right.legend(frameon=False)
    report.save_figure(figure, file)


def _draw_clouds(axes: Any, names: Sequence[str], ends: Sequence[Any], plan: Any, mapped: Any) -> None:
    shown = [*ends, mapped[~np.isnan(mapped).any(axis=1)]]
    dimension = len(names)
    title, labels = "The plan", [f"column {name}" if name.isdecimal() else shortened(name) for name in names] + [""]
    if dimension == 1:
        title = "The plan: sources above, targets below"
        shown = [np.c_[line, np.full(len(line), height)] for line, height in zip(shown, (1.0, 0.0, 0.0), strict=True)]
        axes.set_yticks([0.0, 1.0], ["targets", "sources"])
        axes.set_ylim(-0.15, 1.15)
    else:
        axes.set_aspect("equal", adjustable="datalim")
    if dimension > 2:
        plane = PCA(2).fit(np.concatenate(ends))
        share = plane.explained_variance_ratio_.sum()
        title = f"The plan on the first two principal axes of {dimension} ({share:.0%} of the variance)"
        labels = ["first principal axis", "second principal axis"]
        shown = [plane.transform(cloud) for cloud in shown]
    most = max(map(len, ends))
    size = 26.0 if most <= 300 else 9.0 if most <= 1000 else 3.0
    legend = ("sources", "targets", "mapped sources")
    for cloud, color, marker, label in zip(shown, COLORS, "o^x", legend, strict=False):
        some = cloud[:: -(-len(cloud) // POINTS_SHOWN)]
        part = f"{len(some)} of {len(cloud)}" if len(some) < len(cloud) else f"{len(cloud)}"
        style = {"s": size, "c": color, "marker": marker, "alpha": 0.85, "linewidths": 0.2 * size**0.5, "zorder": 2}
        axes.scatter(*some.T, label=f"{label} ({part})", **style)
    _draw_couplings(axes, shown[0], shown[1], plan)
    axes.set_title(title)
    axes.set_xlabel(labels[0], parse_math=False)
    axes.set_ylabel(labels[1], parse_math=False)
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.11), "ncols": 4, "frameon": False, "columnspacing": 1.0}
    axes.legend(markerscale=(26.0 / size) ** 0.5, **below)


def _draw_couplings(axes: Any, origin: Any, aim: Any, plan: Any) -> None:
    """Lines for the strongest coupling of each source and of each target, the heavier the darker."""
    collections = require_extra("matplotlib.collections", extra="cli", purpose="the picture")
    rows = np.r_[np.arange(len(origin)), plan.argmax(axis=0)]
    columns = np.r_[plan.argmax(axis=1), np.arange(len(aim))]
    rows, columns = np.unique(np.c_[rows, columns], axis=0).T
    heaviest = np.argsort(-plan[rows, columns], kind="stable")[:COUPLINGS_SHOWN]
    rows, columns = rows[heaviest], columns[heaviest]
    mass = plan[rows, columns]
    lines = np.stack([origin[rows], aim[columns]], axis=1)
    opacity = 0.15 + 0.55 * mass / mass.max()
    axes.add_collection(
        collections.LineCollection(
            lines, colors="#555555", alpha=opacity, linewidths=0.8, zorder=1, label="strongest couplings"
        )
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

"""`condgrad transport`: a certified plan between two point clouds, or for a matrix of costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from scipy import sparse
from scipy.spatial.distance import cdist

from condgrad import pictures
from condgrad.cli import files, report
from condgrad.cli.files import DropColumns, Header, IdColumn, Table, read_column, read_table
from condgrad.cli.report import BadInput, counted, option, require, shortened
from condgrad.progress import ShareLine
from condgrad.rounding import SAME_MASS
from condgrad.transport import GroupLasso, Laplacian, TransportResult, solve
from condgrad.transport.regularizers import Regularizer

TRANSPORT_FILES = (
    "plan.npy",
    "plan.csv",
    "mapped.csv",
    "certificate.json",
    "trace.csv",
    "picture.png",
)
ENTRIES_IN_CSV = 50_000  # a plan up to this size is written as a table too, for spreadsheets
# the default entropy, as a share of the median cost: plans stay sharp and are found in seconds
ENTROPY_SHARE = 0.02
LARGEST_COST = 1e300  # beyond this, sums of costs leave the range of floats
METRICS = ("sqeuclidean", "euclidean", "cityblock", "chebyshev", "cosine")
TRANSPORT_METHODS = ("auto", "newton", "cgs", "cg")
FEWER = "give fewer points, a random sample of each cloud for example"


def weight(text: str, default: str | None = None, metavar: str = "W") -> Any:
    """An option that is a number >= 0."""
    return option(metavar, text, default, at_least=0.0)


def transport(
    source: Annotated[
        Path | None, typer.Argument(metavar="SOURCE", help="Source points, one in each row.")
    ] = None,
    target: Annotated[
        Path | None, typer.Argument(metavar="TARGET", help="Target points, one in each row.")
    ] = None,
    cost: Annotated[Path | None, option("FILE", "A matrix of costs, in place of points.")] = None,
    entropy: Annotated[
        float | None, weight("Weight of the entropy; 0 means none.", "0.02 x median cost")
    ] = None,
    laplacian: Annotated[
        float | None, weight("Weight of the Laplacian: neighbours move together.")
    ] = None,
    neighbors: Annotated[
        int, option("K", "Number of neighbours of a point, for --laplacian.", least=1)
    ] = 10,
    drop: DropColumns = None,
    row_id: IdColumn = None,
    header: Header = None,
    labels: Annotated[
        Path | None, option("FILE", "The class of each source, for --groups.")
    ] = None,
    groups: Annotated[
        float | None, weight("Weight of class groups: a target gets mass from one class.")
    ] = None,
    source_weights: Annotated[
        Path | None, option("FILE", "Weights of the sources.", "equal")
    ] = None,
    target_weights: Annotated[
        Path | None, option("FILE", "Weights of the targets.", "equal")
    ] = None,
    metric: Annotated[
        str, option("NAME", f"Cost between points: {', '.join(METRICS)}.", among=METRICS)
    ] = METRICS[0],
    tol: report.Tolerance = 1e-6,
    time_limit: Annotated[float | None, weight("Stop after this time.", metavar="SECONDS")] = None,
    method: Annotated[
        str, option("NAME", f"One of {', '.join(TRANSPORT_METHODS)}.", among=TRANSPORT_METHODS)
    ] = TRANSPORT_METHODS[0],
    out: files.ResultFolder = Path("condgrad-transport"),
    no_picture: Annotated[bool, typer.Option("--no-picture", help="Draw nothing.")] = False,
    as_json: report.AsJson = False,
) -> None:
    """Move one point cloud onto another by optimal transport.

    The plan comes with a proof of optimality.

    Files are CSV, TSV (also .gz), parquet, NPY or NPZ (file.npz:name for one
    array of several). The folder of results gets plan.npy, plan.csv (for plans
    of up to 50,000 entries), mapped.csv (where each source goes, with its id or
    its row number from 0), certificate.json, trace.csv, picture.png.

    [bold]Examples[/bold]
      condgrad transport before.csv after.csv --id cell
      condgrad transport cells.npz:day1 cells.npz:day2 --laplacian 100
      condgrad transport --cost distances.npy --entropy 0 --json

    Exit codes: 0 certified, 2 bad input, 3 not converged within its limits, 130 stopped by Ctrl-C.
    """
    what = "give two point clouds, SOURCE and TARGET, or one matrix, --cost COST"
    require((source is None) == (target is None), f"TARGET is missing: {what}")
    require(source is not None or cost is not None, f"nothing to transport: {what}")
    near = "give SOURCE and TARGET beside --cost"
    require(
        bool(source) or laplacian is None,
        f"--laplacian needs to know which points are neighbours: {near}",
    )
    columns = "--drop and --id are for columns of SOURCE and TARGET: give both, or leave them out"
    require(bool(source) or (not drop and row_id is None), columns)
    require(
        (labels is None) == (groups is None),
        "--labels FILE and --groups WEIGHT go together: give both or neither",
    )

    clouds = _clouds((source, target), drop or [], row_id, header) if source and target else []
    points = [_points_of_table(cloud) for cloud in clouds]
    costs = _given_costs(cost, clouds, header) if cost else _point_costs(clouds, points, metric)
    a, b = _weights_of_clouds(source_weights, target_weights, costs)
    strength, strength_from = (
        (entropy, "as asked") if entropy is not None else _default_entropy(costs)
    )
    regularizers: list[Regularizer] = []
    if laplacian:
        regularizers.append(Laplacian(points[0], points[1], weight=laplacian, neighbors=neighbors))
    if labels:
        classes = np.asarray(read_column(labels, len(costs), "sources"))
        regularizers += [GroupLasso(classes, weight=groups)] if groups else []
    given = {"source": source, "target": target, "cost": cost, "labels": labels}
    given |= {"source_weights": source_weights, "target_weights": target_weights}
    inputs = {name: path for name, path in given.items() if path is not None}
    settings = {
        "metric": None if cost else metric, "entropy_from": strength_from,
        "neighbors": neighbors if laplacian else None, "drop": drop or [], "method": method, "entropy": strength,
        "laplacian": laplacian, "groups": groups, "tol": tol, "time_limit": time_limit,
    }  # fmt: skip
    with files.written_whole(
        out, TRANSPORT_FILES, read=[files.file_of(path) for path in inputs.values()]
    ) as folder:
        answer = solve(
            costs, a, b, entropy=strength, regularizers=regularizers, method=method, tol=tol, time_limit=time_limit,
            progress=report.errors.is_terminal,
        )  # fmt: skip
        answer.result.uninterrupted()  # Ctrl-C asks for no files of a run that was cut short
        facts = report.certificate_facts(answer.result) | {
            "transport_cost": float(answer.cost),
            "sources": len(a),
            "targets": len(b),
            "mass": float(a.sum()),
            "settings": settings,
            "inputs": {name: files.described(path) for name, path in inputs.items()},
            "read_as": {cloud.source: cloud.read_as for cloud in clouds},
            "versions": report.versions(),
        }
        _write(folder, answer, facts, clouds, points)
        if not no_picture:
            with ShareLine("the picture is drawn", shown=report.errors.is_terminal):
                draw_transport(folder / "picture.png", answer, tol, clouds, points)
        written = sorted(file.name for file in folder.iterdir())
    if as_json:
        report.print_json(facts | {"out": str(out), "files": written})
    else:
        _print_answer(answer, facts, f"{', '.join(written)} in {out}")
    raise typer.Exit(report.ExitCode.CERTIFIED if answer.success else report.ExitCode.NOT_CONVERGED)


# --- from files to a problem


def _clouds(
    paths: Sequence[Path], drop: Sequence[str], row_id: str | None, header: bool | None
) -> list[Table]:
    """Both tables; a column to leave out, or with the names of the points, need be in one of them
    only.
    """
    tables = [read_table(path, header=header) for path in paths]
    asked = [("--drop", name) for name in drop] + ([] if row_id is None else [("--id", row_id)])
    for by, name in asked:
        neither = f"{by} {name or repr('')}: neither {paths[0]} nor {paths[1]} has such a column"
        require(any(table.find(name) is not None for table in tables), neither)
    clouds = []
    for table in tables:
        left_out = [column for column in map(table.find, drop) if column is not None]
        ids = None if row_id is None else table.find(row_id)
        clouds.append((table if ids is None else table.with_ids(ids)).without(left_out))
    return clouds


def _points_of_table(table: Table) -> Any:
    points = table.features(table.names)
    return points.toarray() if sparse.issparse(points) else points


def _point_costs(clouds: Sequence[Table], points: Sequence[Any], metric: str) -> Any:
    read = "; ".join(f"{cloud.source} has {cloud.read_as}" for cloud in clouds)
    require(
        points[0].shape[1] == points[1].shape[1],
        f"both clouds must have the same coordinates: {read}",
    )
    files.require_memory_for_plan(len(points[0]), len(points[1]), FEWER)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        costs = cdist(*points, metric=metric)
    for worst in np.argwhere(~(costs <= LARGEST_COST))[:1]:
        ends = " to ".join(
            f"{cloud.where(row)} of {cloud.source}"
            for cloud, row in zip(clouds, worst, strict=True)
        )
        remedy = "rescale the coordinates or choose another --metric"
        raise BadInput(f"the {metric} cost from {ends} is {costs[tuple(worst)]}: {remedy}")
    return costs


def _given_costs(path: Path, clouds: Sequence[Table], header: bool | None) -> Any:
    table = read_table(path, header=header)
    files.require_memory_for_plan(table.rows, len(table.names), FEWER)
    costs = _points_of_table(table)
    for cloud, size, what in zip(clouds, costs.shape, ("rows", "columns"), strict=False):
        rule = f"a cost has a row for each source and a column for each target ({table.read_as})"
        require(
            cloud.rows == size,
            f"{path} has {size} {what} and {cloud.source} has {cloud.rows} points: {rule}",
        )
    require(
        np.abs(costs).max() <= LARGEST_COST,
        f"{path} holds costs beyond {LARGEST_COST:g}: choose a larger unit",
    )
    return costs


def _weights_of_clouds(source: Path | None, target: Path | None, costs: Any) -> tuple[Any, Any]:
    """Both weights; a side without a file is uniform, with the mass of the other."""
    n, m = costs.shape
    a = None if source is None else _read_weights(source, n, "sources")
    b = None if target is None else _read_weights(target, m, "targets")
    if a is None:
        a = np.full(n, (1.0 if b is None else b.sum()) / n)
    if b is None:
        b = np.full(m, a.sum() / m)
    sums = f"{source} sums to {a.sum():.10g} and {target} to {b.sum():.10g}"
    balanced = abs(a.sum() - b.sum()) <= SAME_MASS * max(a.sum(), b.sum())
    require(
        balanced, f"{sums}: scale one of them, a plan moves the same mass from sources to targets"
    )
    return a, b


def _read_weights(path: Path, count: int, what: str) -> Any:
    weights = read_column(path, count, what)
    plain = not isinstance(weights, list) and np.isfinite(weights).all() and (weights >= 0).all()
    require(plain, f"{path}: weights must be finite numbers >= 0")
    total = weights.sum()
    require(
        0.0 < total < np.inf,
        f"{path} sums to {total:g}: give one or more weights > 0, none of them huge",
    )
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
    folder: Path,
    answer: TransportResult,
    facts: Mapping[str, Any],
    clouds: Sequence[Table],
    points: Sequence[Any],
) -> None:
    np.save(folder / "plan.npy", answer.plan)
    if answer.plan.size <= ENTRIES_IN_CSV:
        np.savetxt(folder / "plan.csv", answer.plan, fmt="%.17g", delimiter=",")
    if clouds:
        columns = dict(zip(clouds[1].names, answer.barycenters(points[1]).T, strict=True))
        files.write_columns(folder / "mapped.csv", columns, clouds[0])
    answer.trace.to_csv(folder / "trace.csv")
    (folder / "certificate.json").write_text(report.json_text(facts), encoding="utf-8")


def draw_transport(
    file: Path, answer: TransportResult, tol: float, clouds: Sequence[Table], points: Sequence[Any]
) -> None:
    """Writes the picture: clouds or plan on the left, certified gap against time on the right."""
    figure = pictures.empty_figure(12.0, 5.2, purpose="the picture")
    left, right = figure.subplots(1, 2, width_ratios=(1.35, 1.0))
    if points and points[0].shape[1] == points[1].shape[1]:
        names = [
            f"column {name}" if name.isdecimal() else shortened(name) for name in clouds[1].names
        ]
        pictures.draw_clouds(
            left, answer.plan, points[0], points[1], answer.barycenters(points[1]), names
        )
    else:
        pictures.draw_matrix(left, answer.plan)
    answer.trace.plot(against="seconds", ax=right)
    if tol > 0.0:
        asked = {
            "color": pictures.COLORS[2],
            "ls": ":",
            "lw": 1.2,
            "label": f"--tol {tol:g}, times the scale of F",
        }
        right.axhline(tol * answer.result.scale, **asked)
    right.set(title="Certified distance to the optimum")
    right.locator_params(axis="x", nbins=5)
    right.legend(ncols=2, **pictures.BELOW)
    pictures.save_figure(figure, file)


def _print_answer(answer: TransportResult, facts: Mapping[str, Any], written: str) -> None:
    mass = (
        "" if abs(facts["mass"] - 1.0) <= 1e-9 else f", mass {facts['mass']:.6g}"
    )  # costs and gaps grow with it
    settings = facts["settings"]
    sentences = {
        **facts["read_as"],
        "plan": f"{facts['sources']} sources to {facts['targets']} targets{mass}, transport cost {answer.cost:.6g}",
        "entropy": f"{settings['entropy']:.4g} ({settings['entropy_from']})",
        "value": f"{answer.value:.10g}, cost with entropy and regularisers",
        "lower bound": f"{answer.lower_bound:.10g}, no plan has a smaller value",
        "effort": f"{counted(answer.iterations, 'iteration')} in {facts['seconds']:.2g} s",
        "written": written,
    }
    report.print_report(report.verdict(answer.result, "this plan", settings["tol"]), sentences)

"""`condgrad recolor`: an image in the colours of another, by certified transport of its colours."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from sklearn.exceptions import ConvergenceWarning

from condgrad.cli.memory import require_memory_for_plan
from condgrad.cli.outcome import exit_code, print_json
from condgrad.cli.recolor_images import check_writable, read_image, write_image
from condgrad.cli.recolor_picture import draw
from condgrad.cli.report import certificate_facts, print_report, verdict
from condgrad.cli.staging import check_new_file, staged
from condgrad.cli.transport_problem import checked
from condgrad.paper.machine import versions
from condgrad.transport.color import Recoloring, recoloring


def recolor(
    image: Annotated[Path, typer.Argument(metavar="IMAGE", help="The image to repaint: PNG, JPEG, WebP, TIFF.")],
    palette: Annotated[Path, typer.Argument(metavar="PALETTE", help="The image whose colours it gets.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write.", show_default="IMAGE-recolored.png")
    ] = None,
    samples: Annotated[int, typer.Option(metavar="N", min=2, help="Pixels of each image to match.")] = 500,
    entropy: Annotated[float, typer.Option(metavar="W", help="Weight of the entropy: larger is smoother.")] = 1e-3,
    laplacian: Annotated[
        float, typer.Option(metavar="W", help="Weight of the Laplacian: like colours move alike.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Which pixels are drawn.")] = 0,
    tol: Annotated[float, typer.Option(metavar="GAP", help="Relative certified gap to reach.")] = 1e-4,
    compare: Annotated[bool, typer.Option("--compare", help="Draw image, palette and result in one picture.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the certificate as JSON.")] = False,
) -> None:
    """Give an image the colours of another, by optimal transport between their colours.

    Colours are measured from 0 to 1. Transparency and size stay as they are.

    [bold]Examples[/bold]
      condgrad recolor temple.jpg flower.jpg
      condgrad recolor temple.jpg flower.jpg --laplacian 1000 --compare
      condgrad recolor logo.png sunset.jpg --out logo-warm.webp --samples 1000

    Exit codes: 0 certified, 2 bad input, 3 not converged within its limits.
    """
    for option, weight in (("entropy", entropy), ("laplacian", laplacian), ("tol", tol)):
        checked(option, weight)
    require_memory_for_plan(samples, samples, "ask for fewer --samples")
    out = Path(f"{image.stem}-recolored.png") if out is None else out
    pixels, colors = read_image(image), read_image(palette)
    check_writable(out, pixels)
    files = [out, _comparison(out)] if compare else [out]
    for file in files:
        check_new_file(file, image, palette)
    with staged(out.parent) as folder:
        painted = _painted(pixels, colors, samples=samples, entropy=entropy, weight=laplacian, seed=seed, tol=tol)
        write_image(folder / out.name, painted.image)
        if compare:
            draw(folder / _comparison(out).name, pixels, colors, painted.image)
    settings = {"samples": samples, "entropy": entropy, "laplacian": laplacian, "seed": seed, "tol": tol}
    if as_json:
        print_json(_facts(painted, image, palette, settings) | {"files": [str(file) for file in files]})
    else:
        _print(painted, files, tol)
    raise typer.Exit(exit_code(painted.result.status))


def _painted(
    pixels: Any, colors: Any, *, samples: int, entropy: float, weight: float, seed: int, tol: float
) -> Recoloring:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the certificate says it, and the exit code
        return recoloring(pixels, colors, entropy=entropy, weight=weight, samples=samples, seed=seed, tol=tol)


def _comparison(out: Path) -> Path:
    return out.with_name(f"{out.stem}-compare.png")


def _facts(painted: Recoloring, image: Path, palette: Path, settings: dict[str, Any]) -> dict[str, Any]:
    height, width, channels = painted.image.shape
    return certificate_facts(painted.result.result) | {
        "transport_cost": float(painted.result.cost),
        "width": width,
        "height": height,
        "transparent": channels == 4,
        "settings": settings,
        "inputs": {
            name: {"file": str(path), "bytes": path.stat().st_size}
            for name, path in (("image", image), ("palette", palette))
        },
        "versions": versions(),
    }


def _print(painted: Recoloring, written: list[Path], tol: float) -> None:
    answer, (height, width) = painted.result, painted.image.shape[:2]
    n, m = answer.plan.shape
    print_report(
        verdict(answer.result, "the plan between the colours", tol),
        {
            "image": f"{width} x {height} pixels, {n} of its pixels matched to {m} of the palette",
            "value": f"{answer.value:.10g}",
            "lower bound": f"{answer.lower_bound:.10g}, no plan is below",
            "written": ", ".join(map(str, written)),
        },
    )

"""`condgrad recolor`: an image in the colours of another, by certified transport of its colours."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from PIL import Image, ImageCms, ImageOps, UnidentifiedImageError
from sklearn.exceptions import ConvergenceWarning

from condgrad import pictures
from condgrad.cli import files, report
from condgrad.cli.report import BadInput, option, require
from condgrad.progress import ShareLine
from condgrad.transport.color import recoloring

BYTES_A_PIXEL = 24  # memory a pixel takes while it is decoded, rotated, converted and copied
IMAGE_FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    ".png": ("PNG", {}),
    **dict.fromkeys((".jpg", ".jpeg"), ("JPEG", {"quality": 95, "subsampling": 0})),
    ".webp": ("WEBP", {"lossless": True}),
    **dict.fromkeys((".tif", ".tiff"), ("TIFF", {"compression": "tiff_deflate"})),
}
"""What can be written, by ending; lossless but for JPEG."""
SIXTEEN = 16  # the 25th byte of a PNG says how many bits a channel has; Pillow reads 8 of colours


def recolor(
    image: Annotated[
        Path, typer.Argument(metavar="IMAGE", help="The image to repaint: PNG, JPEG, WebP, TIFF.")
    ],
    palette: Annotated[
        Path, typer.Argument(metavar="PALETTE", help="The image whose colours it gets.")
    ],
    out: Annotated[
        Path,
        option(
            "PATH",
            "A .png, .jpg, .webp or .tif file, or a folder for IMAGE-recolored.png.",
            "this folder",
        ),
    ] = Path("."),
    samples: Annotated[int, option("N", "Pixels of each image to match.", least=2)] = 1000,
    entropy: Annotated[
        float | None,
        option(
            "W",
            "Weight of the entropy: larger is smoother.",
            "by the spread of colours",
            at_least=0.0,
        ),
    ] = None,
    laplacian: Annotated[
        float, option("W", "Weight of the Laplacian: similar colours move together.", at_least=0.0)
    ] = 0.0,
    smooth: Annotated[
        float,
        option(
            "PIXELS", "Average changes of colour over this radius; edges stay sharp.", at_least=0.0
        ),
    ] = 0.0,
    strength: Annotated[
        float, option("S", "How far colours move, from 0 to 1.", at_least=0.0)
    ] = 1.0,
    seed: Annotated[int, option("N", "Seed for the choice of the pixels.", least=0)] = 0,
    tol: report.Tolerance = 1e-4,
    compare: Annotated[
        bool, typer.Option("--compare", help="Draw image, palette and result in one picture.")
    ] = False,
    as_json: report.AsJson = False,
) -> None:
    """Give an image the colours of another, by optimal transport.

    Colours are matched in Lab units divided by 100. Transparency, size and colour
    profile do not change.

    [bold]Examples[/bold]
      condgrad recolor temple.jpg flower.jpg
      condgrad recolor temple.jpg flower.jpg --smooth 8 --strength 0.8 --compare
      condgrad recolor logo.png sunset.jpg --out logo-warm.webp --samples 1000

    Exit codes: 0 certified, 2 bad input, 3 not converged within its limits, 130 stopped by Ctrl-C.
    """
    files.require_memory_for_plan(samples, samples, "ask for fewer --samples")
    require(strength <= 1.0, f"--strength must be from 0 to 1, got {strength:g}")
    pixels = read_image(image)
    colors = read_image(palette)
    out = files.file_to_write(out, f"{image.stem}-recolored.png", IMAGE_FORMATS)
    ending, options = IMAGE_FORMATS[out.suffix.lower()]
    holds = pixels.shape[2] == 3 or ending != "JPEG"
    require(
        holds,
        f"--out {out} is a JPEG, and a JPEG cannot be transparent like the image: choose .png or .webp",
    )
    written = [out, out.with_name(f"{out.stem}-compare.png")][: 1 + compare]
    with files.written_whole(
        out.parent, [file.name for file in written], read=[image, palette]
    ) as folder:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", ConvergenceWarning
            )  # the certificate says it, and the exit code
            painted = recoloring(
                pixels, colors, entropy="auto" if entropy is None else entropy, weight=laplacian, samples=samples,
                smooth=smooth, strength=strength, seed=seed, tol=tol, progress=report.errors.is_terminal,
            )  # fmt: skip
        with ShareLine(f"{out.name} is written", shown=report.errors.is_terminal):
            _in_profile(Image.fromarray(painted.image), image).save(
                folder / out.name, format=ending, **options
            )
        if compare:
            shown = {
                "image": pixels,
                "palette": colors,
                "image in the colours of the palette": painted.image,
            }
            with ShareLine(f"{written[1].name} is written", shown=report.errors.is_terminal):
                pictures.save_images(folder / written[1].name, shown)
    answer, (height, width, channels) = painted.result, painted.image.shape
    n, m = answer.shape
    if as_json:
        facts = {
            "transport_cost": float(answer.cost),
            "width": width,
            "height": height,
            "transparent": channels == 4,
            "settings": {
                "samples": samples,
                "entropy": painted.entropy,
                "laplacian": laplacian,
                "smooth": smooth,
                "strength": strength,
                "seed": seed,
                "tol": tol,
            },
            "inputs": {"image": files.described(image), "palette": files.described(palette)},
            "versions": report.versions(),
            "files": list(map(str, written)),
        }
        report.print_json(report.certificate_facts(answer.result) | facts)
    else:
        sentences = {
            "image": f"{width} x {height} pixels, {n} of its colours matched to {m} of the palette",
            "value": f"{answer.value:.10g}",
            "lower bound": f"{answer.lower_bound:.10g}, no plan has a smaller value",
            "written": ", ".join(map(str, written)),
        }
        report.print_report(
            report.verdict(answer.result, "the plan between the colours", tol), sentences
        )
    raise typer.Exit(report.ExitCode.CERTIFIED if answer.success else report.ExitCode.NOT_CONVERGED)


def read_image(path: Path) -> Any:
    """The pixels as they are meant to be seen: uint8, (height, width, 3), or 4 where something is
    transparent.
    """
    content = files.read_bytes(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", Image.DecompressionBombWarning
            )  # memory is asked below, exactly
            warnings.filterwarnings("ignore", module=r"PIL\.")  # damaged metadata does not matter
            with Image.open(io.BytesIO(content)) as image:
                width, height = image.size
                size = f"{path}, {width:,} x {height:,} pixels,"
                files.require_memory(BYTES_A_PIXEL * width * height, size, "scale it down")
                frames = getattr(image, "n_frames", 1)
                if frames > 1:
                    report.errors.print(
                        f"condgrad: {path} has {frames} frames: the first is taken", markup=False
                    )
                if image.mode.startswith("I;16") or (
                    image.format == "PNG" and content[24] == SIXTEEN
                ):
                    report.errors.print(
                        f"condgrad: {path} has 16 bits a channel: the upper 8 are read",
                        markup=False,
                    )
                return _pixels(path, ImageOps.exif_transpose(image))
    except BadInput:
        raise
    except Image.DecompressionBombError as error:
        most = 2 * (Image.MAX_IMAGE_PIXELS or 0) // 1_000_000
        raise BadInput(
            f"{path} claims more than {most} million pixels, as hostile files do: scale it down"
        ) from error
    except UnidentifiedImageError as error:
        raise BadInput(f"{path} is not an image: give PNG, JPEG, WebP or TIFF") from error
    except Exception as error:  # decoders fail on damaged files in every way there is
        raise BadInput(f"{path} is damaged and cannot be decoded: save it again") from error


def _pixels(path: Path, image: Image.Image) -> Any:
    if image.mode.startswith("I") or image.mode == "F":
        return np.repeat(_gray_bytes(path, np.asarray(image))[..., None], 3, axis=2)
    transparent = image.has_transparency_data
    pixels = np.asarray(_standard_colors(image).convert("RGBA" if transparent else "RGB"))
    return pixels[..., :3] if transparent and pixels[..., 3].min() == 255 else pixels


def _gray_bytes(path: Path, values: Any) -> Any:
    """Gray values of 16 bits, or fractions of 1, in 8 bits."""
    full = 1.0 if values.dtype.kind == "f" else 65535.0
    inside = bool(np.isfinite(values).all() and values.min() >= 0 and values.max() <= full)
    require(
        inside, f"{path} has gray values outside 0 .. {full:g}: save it with 8 or 16 bits a channel"
    )
    return np.rint(values * (255.0 / full)).astype(np.uint8)


def _standard_colors(image: Image.Image) -> Image.Image:
    """The image in sRGB where it carries another colour profile: numbers of two profiles cannot be
    matched.
    """
    profile = image.info.get("icc_profile")
    if not profile or image.mode not in ("RGB", "RGBA", "CMYK"):
        return image
    try:
        own = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        if image.mode == "RGBA":
            opaque = (
                ImageCms.profileToProfile(image.convert("RGB"), own, ImageCms.createProfile("sRGB"))
                or image
            )
            opaque.putalpha(image.getchannel("A"))
            return opaque
        return (
            ImageCms.profileToProfile(image, own, ImageCms.createProfile("sRGB"), outputMode="RGB")
            or image
        )
    except (ImageCms.PyCMSError, OSError):
        return image


def _in_profile(result: Image.Image, path: Path) -> Image.Image:
    """The result, which is in sRGB, in the colour profile that the image came with."""
    with Image.open(path) as image:
        profile = image.info.get("icc_profile")
        if not profile or image.mode not in ("RGB", "RGBA"):
            return result
    try:
        own = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        converted = (
            ImageCms.profileToProfile(result.convert("RGB"), ImageCms.createProfile("sRGB"), own)
            or result
        )
    except (ImageCms.PyCMSError, OSError):
        return result
    if result.mode == "RGBA":
        converted.putalpha(result.getchannel("A"))
    converted.info["icc_profile"] = profile
    return converted

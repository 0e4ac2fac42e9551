"""Image files as pixels and back: every mode becomes 8-bit colours, with opacity where there is some."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageCms, ImageOps, UnidentifiedImageError

from condgrad.cli.files import check_file
from condgrad.cli.memory import require_memory
from condgrad.cli.outcome import BadInput

BYTES_A_PIXEL = 24
"""Memory a pixel takes while it is decoded, turned, converted and copied."""

FORMATS: dict[str, tuple[str, dict[str, Any]]] = {
    ".png": ("PNG", {}),
    ".jpg": ("JPEG", {"quality": 95, "subsampling": 0}),
    ".jpeg": ("JPEG", {"quality": 95, "subsampling": 0}),
    ".webp": ("WEBP", {"lossless": True}),
    ".tif": ("TIFF", {"compression": "tiff_deflate"}),
    ".tiff": ("TIFF", {"compression": "tiff_deflate"}),
}
"""What can be written, by ending; lossless but for JPEG."""


def read_image(path: Path) -> Any:
    """The pixels as they are meant to be seen: uint8, (height, width, 3), or 4 where something is transparent."""
    check_file(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # memory is asked below, exactly
            warnings.filterwarnings("ignore", module=r"PIL\.")  # damaged metadata does not matter
            with Image.open(path) as image:
                width, height = image.size
                require_memory(
                    BYTES_A_PIXEL * width * height, f"{path}, {width:,} x {height:,} pixels,", "scale it down"
                )
                return _pixels(path, ImageOps.exif_transpose(image))
    except BadInput:
        raise
    except Image.DecompressionBombError as error:
        most = 2 * (Image.MAX_IMAGE_PIXELS or 0) // 1_000_000
        raise BadInput(f"{path} claims more than {most} million pixels, as hostile files do: scale it down") from error
    except UnidentifiedImageError as error:
        raise BadInput(f"{path} is not an image: give PNG, JPEG, WebP or TIFF") from error
    except PermissionError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from error
    except Exception as error:  # decoders fail on damaged files in every way there is
        raise BadInput(f"{path} is damaged and cannot be decoded: save it again") from error


def write_image(path: Path, pixels: Any) -> None:
    """The pixels in the format of the ending."""
    format_, options = FORMATS[path.suffix.lower()]
    Image.fromarray(pixels).save(path, format=format_, **options)


def check_writable(path: Path, pixels: Any) -> None:
    """A sentence where the ending of `path` cannot hold the pixels."""
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise BadInput(f"--out {path} ends in {ending!r}: choose one of {', '.join(FORMATS)}")
    if pixels.shape[2] == 4 and FORMATS[ending][0] == "JPEG":
        raise BadInput(f"--out {path} is a JPEG, which cannot be transparent as the image is: choose .png or .webp")


def _pixels(path: Path, image: Image.Image) -> Any:
    if image.mode.startswith("I") or image.mode == "F":
        return np.repeat(_gray_bytes(path, np.asarray(image))[..., None], 3, axis=2)
    transparent = image.has_transparency_data
    image = _standard_colors(image)
    pixels = np.asarray(image.convert("RGBA" if transparent else "RGB"))
    return pixels[..., :3] if transparent and pixels[..., 3].min() == 255 else pixels


def _gray_bytes(path: Path, values: Any) -> Any:
    """Gray values of 16 bits, or fractions of 1, in 8 bits."""
    full = 1.0 if values.dtype.kind == "f" else 65535.0
    if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= full):
        raise BadInput(f"{path} has gray values outside 0 .. {full:g}: save it with 8 or 16 bits a channel")
    return np.rint(values * (255.0 / full)).astype(np.uint8)


def _standard_colors(image: Image.Image) -> Image.Image:
    """The image in sRGB where it carries another colour profile: numbers of two profiles cannot be matched."""
    profile = image.info.get("icc_profile")
    if not profile or image.mode not in ("RGB", "CMYK"):
        return image
    try:
        return (
            ImageCms.profileToProfile(
                image, ImageCms.ImageCmsProfile(io.BytesIO(profile)), ImageCms.createProfile("sRGB"), outputMode="RGB"
            )
            or image
        )
    except (ImageCms.PyCMSError, OSError):
        return image

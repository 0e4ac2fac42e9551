"""Image, palette and result side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from condgrad.cli.pictures import empty_figure

LONGEST_SIDE = 900
"""Pixels of the longest side shown; larger images are thinned."""


def draw(path: Path, image: Any, palette: Any, result: Any) -> None:
    """Writes the three pictures in one."""
    shown = (("image", image), ("palette", palette), ("image in the colours of the palette", result))
    tallest = max(pixels.shape[0] / pixels.shape[1] for _, pixels in shown)
    figure = empty_figure(15.0, 0.5 + 5.0 * min(2.0, max(0.3, tallest)), purpose="--compare", dpi=120)
    for ax, (title, pixels) in zip(figure.subplots(1, 3), shown, strict=True):
        step = -(-max(pixels.shape[:2]) // LONGEST_SIDE)
        ax.imshow(pixels[::step, ::step])
        ax.set_title(title)
        ax.set_axis_off()
    figure.savefig(path)

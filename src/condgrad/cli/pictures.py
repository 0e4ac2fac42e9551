"""What the pictures of all commands share: an empty figure, and colours."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from condgrad.errors import require_extra

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's, which colour-blind readers tell apart."""


def empty_figure(width: float, height: float, *, purpose: str, dpi: int = 150) -> Any:
    """A figure of so many inches, which needs no display."""
    module = require_extra("matplotlib.figure", extra="plot", purpose=purpose)
    return module.Figure(figsize=(width, height), dpi=dpi, layout="constrained")


def save(figure: Any, file: Path) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)  # a name in a script the font lacks
        figure.savefig(file)

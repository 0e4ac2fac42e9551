"""The pictures of the site for light and dark pages, wide and narrow screens.

Sphinx knows one picture, `name.png`. The build draws its variants into a folder of its own: `name.dark.png`, and
`name.1.png`, `name.1.dark.png`, ... for its panels. The hooks here write all of them into the page, and the style sheet
shows the one that fits.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import Collection
from matplotlib.colors import hsv_to_rgb, rgb_to_hsv, to_rgba
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text
from sphinx_gallery.scrapers import matplotlib_scraper

from experiments.site import drawings, kept

IMAGE = re.compile(
    r'<img (?P<before>[^>]*?)src="(?P<folder>[^"]*_images/)(?P<name>[^"/]+)"(?P<after>[^>]*?)/?>'
)
FOLDER = Path(__file__).parent / "_build" / "variants"
PAPER, INK = "#14181e", "#ced6dd"
"""The background and the text of the site's dark pages."""
PALE, DARK = 0.12, 0.45
"""A colour of less saturation is a grey and is turned over; a colour darker than DARK is lightened."""
FEW_COLOURS = 6
"""Points of more colours than this show the colours themselves."""
ROOM = 0.06
"""Inches around a panel."""


def scrape(block: Any, variables: Any, gallery: Any, **options: Any) -> str:
    """What sphinx-gallery's own scraper does, with the variants of each figure beside its picture."""
    import matplotlib.pyplot as plt

    paths = variables["image_path_iterator"]
    first = len(paths) + 1
    figures = [plt.figure(number) for number in plt.get_fignums()]
    written = matplotlib_scraper(block, variables, gallery, **options)
    for number, figure in enumerate(figures, first):
        save_variants(figure, FOLDER / Path(paths.image_path.format(number)).name, dpi=figure.dpi)
    return written


def draw_measured(app: Any) -> None:
    """The variants of the pictures that `python -m experiments site` has drawn, from the same numbers."""
    for name, figure in drawings(kept()):
        save_variants(figure, FOLDER / f"{name}.svg", format="svg", metadata={"Date": None})


def variants_of(picture: Path) -> dict[str, Path]:
    """The variants of a picture, by what stands before their suffix: "dark", "1", "1.dark", ..."""
    stem, suffix = picture.stem, picture.suffix
    found = {
        path.name[len(stem) + 1 : -len(suffix)]: path
        for path in picture.parent.glob(f"{stem}.*{suffix}")
    }
    return {
        name: path
        for name, path in sorted(found.items())
        if re.fullmatch(r"dark|\d(\.dark)?", name)
    }


def show_variants(app: Any, page: str, template: str, context: Any, doctree: Any) -> None:
    """Writes the variants of each picture of a page beside it."""

    def every(found: re.Match[str]) -> str:
        variants = variants_of(FOLDER / found["name"])
        if "dark" not in variants:
            return found[0]
        target = Path(app.outdir) / "_images"
        target.mkdir(exist_ok=True)
        for path in variants.values():
            shutil.copyfile(path, target / path.name)
        panels = [name for name in variants if name.isdecimal()]
        wide = " wide-screen" if panels else ""
        shown = [
            _image(found, found["name"], f"only-light{wide}"),
            _image(found, variants["dark"].name, f"only-dark{wide}"),
        ]
        for panel in panels:
            shown += [
                _image(found, variants[panel].name, "only-light narrow-screen"),
                _image(found, variants[f"{panel}.dark"].name, "only-dark narrow-screen"),
            ]
        return "".join(shown)

    if "body" in context:
        context["body"] = IMAGE.sub(every, context["body"])


def _image(found: re.Match[str], name: str, classes: str) -> str:
    """The element again with another picture and further classes; a browser loads it when it is shown."""
    attributes = f"{found['before']} {found['after']}"
    own = re.search(r'class\s*=\s*"([^"]*)"', attributes)
    attributes = re.sub(r'\s*(class|srcset)\s*=\s*"[^"]*"', "", attributes).strip()
    classes = f"{own[1]} {classes}" if own else classes
    return f'<img {attributes} src="{found["folder"]}{name}" class="{classes}" loading="lazy">'


# How a variant is drawn ------------------------------------------------------------


def save_variants(figure: Figure, path: Path, **options: Any) -> list[Path]:
    """Saves `name.dark.ext`, and `name.1.ext`, `name.1.dark.ext`, ... where there are panels, for `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    FigureCanvasAgg(figure)  # measures what it draws, which not every canvas does
    made = [path.with_suffix(f".dark{path.suffix}")]
    with in_dark(figure):
        figure.savefig(made[0], facecolor=PAPER, **options)
    # the panels change the figure, so they come last
    made += _save_panels(figure, path, "", options)
    with in_dark(figure):
        made += _save_panels(figure, path, ".dark", options)
    return made


@contextmanager
def in_dark(figure: Figure) -> Iterator[None]:
    """The figure in the colours of a dark page, for as long as the context lasts."""
    # all colours are read before the first is set: that of a marker may follow that of its line
    before = [
        (getattr(artist, f"set_{kind}"), getattr(artist, f"get_{kind}")())
        for artist in figure.findobj()
        for kind in _colours_of(artist)
    ]
    for setter, colour in before:
        setter(_turned(colour))
    try:
        yield
    finally:
        for setter, colour in before:
            setter(colour)


def _colours_of(artist: Any) -> tuple[str, ...]:
    """The properties of an artist that are colours; not those of points that show colours, such as a palette."""
    if isinstance(artist, Text):
        return ("color",)
    if isinstance(artist, Line2D):
        return ("color", "markerfacecolor", "markeredgecolor")
    if isinstance(artist, Patch):
        return ("facecolor", "edgecolor")
    if isinstance(artist, Collection) and artist.get_array() is None:
        colours = {tuple(colour) for colour in artist.get_facecolor()}
        return ("facecolor", "edgecolor") if len(colours) <= FEW_COLOURS else ()
    return ()


def _turned(colour: Any) -> Any:
    """A grey by its opposite on the way from PAPER to INK; a dark colour lighter; other colours as they are."""
    if isinstance(colour, str) and colour in ("none", "auto"):
        return colour
    if isinstance(colour, np.ndarray) and colour.ndim == 2:
        return [_turned(each) for each in colour]
    *rgb, alpha = to_rgba(colour)
    hue, saturation, value = rgb_to_hsv(rgb)
    luminance = 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]
    if saturation < PALE:
        shades = zip(to_rgba(PAPER)[:3], to_rgba(INK)[:3], strict=True)
        return (*((1 - luminance) * ink + luminance * paper for paper, ink in shades), alpha)
    if luminance < DARK:
        lighter = hsv_to_rgb((hue, saturation * 0.7, min(1.0, max(value + 0.25, 0.85))))
        return (*lighter, alpha)
    return (*rgb, alpha)


def _save_panels(figure: Figure, path: Path, dark: str, options: dict[str, Any]) -> Iterator[Path]:
    """Each panel of a figure by itself, with its numbers at both axes; then the legend, in two columns."""
    panels = [axes for axes in figure.axes if axes.get_subplotspec() is not None]
    if len(panels) < 2 or len(panels) > 8:
        return
    for axes in panels:
        axes.tick_params(labelleft=bool(len(axes.get_yticks())), labelbottom=True)
        if not axes.get_ylabel():
            axes.set_ylabel(_shared_label(axes, panels))
    figure.canvas.draw()
    figure.set_layout_engine("none")  # a layout of what is saved alone would be another one
    parts = [*panels, *(_narrow(figure, legend) for legend in [*figure.legends])]
    for number, part in enumerate(parts, 1):
        for other in [*figure.axes, *figure.legends, *figure.texts]:
            other.set_visible(other is part or getattr(other, "_colorbar", None) is not None)
        inches = part.get_tightbbox(figure.canvas.get_renderer()).transformed(  # type: ignore[attr-defined]
            figure.dpi_scale_trans.inverted()
        )
        name = path.with_suffix(f".{number}{dark}{path.suffix}")
        background = {"facecolor": PAPER} if dark else {}
        figure.savefig(name, bbox_inches=inches.padded(ROOM), **background, **options)
        yield name
    for other in [*figure.axes, *figure.legends, *figure.texts]:
        other.set_visible(True)


def _narrow(figure: Figure, legend: Legend) -> Legend:
    """The legend again, no wider than a phone."""
    texts = [text.get_text() for text in legend.get_texts()]
    again = figure.legend(
        legend.legend_handles, texts, ncols=2, loc="lower center", frameon=False, handlelength=3.0
    )
    for old, new in zip(legend.get_texts(), again.get_texts(), strict=True):
        new.set_color(old.get_color())
    legend.remove()
    return again


def _shared_label(axes: Any, panels: list[Any]) -> str:
    """The label of the panel whose vertical axis this one shares."""
    siblings = axes.get_shared_y_axes().get_siblings(axes)
    return next((one.get_ylabel() for one in panels if one in siblings and one.get_ylabel()), "")

"""The pictures of the site for light and dark pages, wide and narrow screens.

Sphinx knows one picture, `name.png`. The build draws its variants into a folder of its own: `name.dark.png`, and
`name.1.png`, `name.1.dark.png`, ... for its panels. The hooks here write all of them into the page, and the style sheet
shows the one that fits.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import Collection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text
from PIL import Image, ImageOps
from sphinx_gallery.scrapers import matplotlib_scraper

from experiments.site import drawings, kept

IMAGE = re.compile(
    r'<img (?P<before>[^>]*?)src="(?P<folder>[^"]*_images/)(?P<name>[^"/]+)"(?P<after>[^>]*?)/?>'
)
FOLDER = Path(__file__).parent / "_build" / "variants"
PAPER, INK = "#14181e", "#ced6dd"
"""The background and the text of the site's dark pages."""
BACKGROUNDS = {"light": "#ffffff", "dark": PAPER}
PALE, CONTRAST = 0.12, 4.0
"""A colour whose channels differ by less is a grey and is turned over; another one is lightened until it has this
contrast with PAPER: WCAG asks for 3, and thin lines for a little more. All lightened alike would make two blues one."""
LINES, DIMMEST = 0.8, 0.55
"""Greys darker than LINES draw something: they come no nearer to PAPER than DIMMEST, where the contrast is above 3."""
FEW_COLOURS = 6
"""Points of more colours than this show the colours themselves."""
ROOM, PHONE = 0.06, 3.9
"""Inches around a panel, and those of a panel by itself: ten points are then 13 pixels on a screen of 390."""
LEAST_HEIGHT = 0.75
"""Of a panel by itself, in its widths."""
DPI, SHARP = 200, 2
"""Dots per inch, and of how many of them one pixel of a page is made: screens of phones have two and more."""
THUMBNAIL = (SHARP * 400, SHARP * 280)


def scrape(block: Any, variables: Any, gallery: Any, **options: Any) -> str:
    """What sphinx-gallery's own scraper does, with the variants of each figure beside its picture."""
    import matplotlib.pyplot as plt

    paths = variables["image_path_iterator"]
    first = len(paths) + 1
    figures = [plt.figure(number) for number in plt.get_fignums()]
    written = matplotlib_scraper(block, variables, gallery, dpi=DPI, **options)
    for number, figure in enumerate(figures, first):
        picture = FOLDER / Path(paths.image_path.format(number)).name
        save_variants(figure, picture, dpi=DPI)
        if number == 1:
            _save_thumbnails(figure, picture, Path(paths.image_path.format(number)))
    return written


def _save_thumbnails(figure: Figure, picture: Path, light: Path) -> None:
    """The picture itself where its shape allows, or its last panel: a small strip of panels shows nothing."""
    width, height = figure.get_size_inches()
    is_strip = not 1.0 <= width / height <= 1.8
    panels = len(_panels_of(figure))
    last = f".{panels}" if is_strip and panels > 1 else ""
    sources = {"light": picture.with_suffix(f"{last}.png") if last else light}
    sources["dark"] = picture.with_suffix(f"{last}.dark.png")
    for theme, source in sources.items():
        with Image.open(source) as image:
            small = ImageOps.pad(image.convert("RGB"), THUMBNAIL, color=BACKGROUNDS[theme])
        small.save(FOLDER / picture.name.replace("_001", f"_thumb.{theme}"))


def draw_measured(app: Any) -> None:
    """The variants of the pictures that `python -m experiments site` has drawn, from the same numbers."""
    for name, figure in drawings(kept()):
        save_variants(figure, FOLDER / f"{name}.svg", format="svg", metadata={"Date": None})


def variants_of(picture: Path) -> dict[str, Path]:
    """The variants of a picture, by what stands before their suffix: "light", "dark", "1", "1.dark", ..."""
    stem, suffix = picture.stem, picture.suffix
    found = {
        path.name[len(stem) + 1 : -len(suffix)]: path
        for path in picture.parent.glob(f"{stem}.*{suffix}")
    }
    return {
        name: path
        for name, path in sorted(found.items())
        if re.fullmatch(r"light|dark|\d(\.dark)?", name)
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
        light = variants["light"].name if "light" in variants else found["name"]
        width = _width_of(variants["dark"])
        shown = [
            _image(found, light, f"only-light{wide}", width),
            _image(found, variants["dark"].name, f"only-dark{wide}", width),
        ]
        for number, panel in enumerate(panels):
            words = "" if number else None
            dark = variants[f"{panel}.dark"].name
            shown += [
                _image(found, variants[panel].name, "only-light narrow-screen", words=words),
                _image(found, dark, "only-dark narrow-screen", words=words),
            ]
        # an element of their own: the theme hides captions beside a picture of the other theme
        return f"<span>{''.join(shown)}</span>"

    if "body" in context:
        context["body"] = IMAGE.sub(every, context["body"])


def _width_of(picture: Path) -> str:
    """The width of a figure where there is room for it: its letters are then as large as those of others."""
    if picture.suffix != ".png" or "_thumb." in picture.name:
        return ""
    with Image.open(picture) as image:
        return f' width="{image.width // SHARP}"'


def _image(
    found: re.Match[str], name: str, classes: str, width: str = "", words: str | None = None
) -> str:
    """The element again with another picture and further classes; a browser loads it when it is shown.

    `words` stands in place of its own: the first panel has those of the whole picture, which need be said only once.
    """
    attributes = f"{found['before']} {found['after']}"
    if words is not None:
        attributes = re.sub(r'alt\s*=\s*"[^"]*"', f'alt="{words}"', attributes)
    own = re.search(r'class\s*=\s*"([^"]*)"', attributes)
    attributes = re.sub(r'\s*(class|srcset)\s*=\s*"[^"]*"', "", attributes).strip()
    classes = f"{own[1]} {classes}" if own else classes
    source = f"{found['folder']}{name}"
    return f'<img {attributes} src="{source}"{width} class="{classes}" loading="lazy">'


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
    before = [pair for artist in _artists_of(figure) for pair in _colours_of(artist)]
    for setter, colour in before:
        setter(_turned(colour))
    try:
        yield
    finally:
        for setter, colour in before:
            setter(colour)


def _artists_of(figure: Figure) -> list[Any]:
    """All artists but dark backgrounds, on which colours are shown on light pages too."""
    dark = [axes.patch for axes in figure.axes if _light(axes.get_facecolor()) < 0.2]
    found = [artist for artist in figure.findobj() if artist not in dark]
    for axes in figure.axes:
        if hasattr(axes, "zaxis"):  # matplotlib does not count the walls of three dimensions
            for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
                found += [axis.pane, axis.line]
    return found


def _colours_of(artist: Any) -> Iterator[tuple[Callable[[Any], None], Any]]:
    """What sets each colour of an artist, and the colour; not those of points that show colours, such as a palette."""
    if isinstance(artist, Text):
        yield artist.set_color, artist.get_color()
    elif isinstance(artist, Line2D):
        yield artist.set_color, artist.get_color()
        yield artist.set_markerfacecolor, artist.get_markerfacecolor()
        yield artist.set_markeredgecolor, artist.get_markeredgecolor()
    elif isinstance(artist, Patch):
        yield artist.set_facecolor, artist.get_facecolor()
        yield artist.set_edgecolor, artist.get_edgecolor()
    elif isinstance(artist, Collection) and artist.get_array() is None:
        # a scatter in three dimensions sorts what its own methods return by depth, and takes it in the order of points
        faces = Collection.get_facecolor(artist)
        if len(np.unique(faces, axis=0)) <= FEW_COLOURS:
            yield artist.set_facecolor, faces
            # edges that follow the faces are a word; edges of the same colour do not follow
            if not isinstance(artist._edgecolors, str):
                yield artist.set_edgecolor, Collection.get_edgecolor(artist)


def _turned(colour: Any) -> Any:
    """A grey by its opposite on the way from PAPER to INK; another colour with white until it stands out from PAPER."""
    if isinstance(colour, str) and colour in ("none", "auto"):
        return colour
    if isinstance(colour, np.ndarray) and colour.ndim == 2:
        return [_turned(each) for each in colour]
    *rgb, alpha = to_rgba(colour)
    if max(rgb) - min(rgb) < PALE:
        shade = float(np.dot((0.2126, 0.7152, 0.0722), rgb))
        shade = min(shade, DIMMEST) if shade < LINES else shade
        return (*_mixed(to_rgba(INK), to_rgba(PAPER), shade), alpha)
    shares = np.linspace(0.0, 1.0, 21)
    lighter = (_mixed(rgb, (1.0, 1.0, 1.0), share) for share in shares)
    return (*next(one for one in lighter if _contrast(one) >= CONTRAST), alpha)


def _mixed(one: Sequence[float], other: Sequence[float], share: float) -> tuple[float, ...]:
    return tuple((1.0 - share) * a + share * b for a, b in zip(one[:3], other[:3], strict=True))


def _light(colour: Any) -> float:
    """The relative luminance of WCAG."""
    rgb = np.array(to_rgba(colour)[:3])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def _contrast(colour: Any) -> float:
    return (_light(colour) + 0.05) / (_light(PAPER) + 0.05)


def _save_panels(figure: Figure, path: Path, dark: str, options: dict[str, Any]) -> Iterator[Path]:
    """Each panel of a figure by itself, with its numbers at both axes; then the legend, in two columns."""
    panels = _panels_of(figure)
    if len(panels) > 8:
        return
    for axes in panels:
        axes.tick_params(labelleft=bool(len(axes.get_yticks())), labelbottom=True)
        if not axes.get_ylabel():
            axes.set_ylabel(_shared_label(axes, panels))
    background = {"facecolor": PAPER} if dark else {}
    size, layout = figure.get_size_inches(), figure.get_layout_engine()
    parts = [*panels, *(_narrow(figure, legend) for legend in [*figure.legends])]
    for number, part in enumerate(parts, 1):
        if part in panels:
            _make_wide(figure, part, PHONE)
        figure.set_layout_engine("none")  # a layout of what is saved alone would be another one
        for other in [*figure.axes, *figure.legends, *figure.texts]:
            other.set_visible(other is part or getattr(other, "_colorbar", None) is not None)
        name = path.with_suffix(f".{number}{dark}{path.suffix}")
        inches = _inches_of(figure, part).padded(ROOM)
        beside = max(0.0, PHONE + 2 * ROOM - inches.width) / 2
        inches = inches.padded(beside, 0.0)  # letters of a small legend are no larger than others
        figure.savefig(name, bbox_inches=inches, **background, **options)
        yield name
        for other in [*figure.axes, *figure.legends, *figure.texts]:
            other.set_visible(True)
        figure.set_layout_engine(layout)
        figure.set_size_inches(size)


def _panels_of(figure: Figure) -> list[Any]:
    return [axes for axes in figure.axes if axes.get_subplotspec() is not None]


def _make_wide(figure: Figure, part: Any, inches: float) -> None:
    """Gives the figure another size, so that one of its panels is so wide; letters do not shrink with it."""
    # a long title does not make a small panel
    titles = [one for one in part.get_children() if isinstance(one, Text) and one not in part.texts]
    for title in titles:
        title.set_in_layout(False)
    for _ in range(3):  # what is around a panel keeps its size
        figure.canvas.draw()
        box = _inches_of(figure, part)
        least = LEAST_HEIGHT * box.width if part.get_aspect() == "auto" else 0.0
        scale = np.array([1.0, max(box.height, least) / box.height]) * inches / box.width
        figure.set_size_inches(figure.get_size_inches() * scale)
    for title in titles:
        title.set_in_layout(True)
    figure.canvas.draw()


def _inches_of(figure: Figure, part: Any) -> Any:
    box = part.get_tightbbox(figure.canvas.get_renderer())  # type: ignore[attr-defined]
    return box.transformed(figure.dpi_scale_trans.inverted())


def _narrow(figure: Figure, legend: Legend) -> Legend:
    """The legend again, no wider than a phone."""
    texts = [text.get_text() for text in legend.get_texts()]
    for columns in (2, 1):
        again = figure.legend(
            legend.legend_handles, texts, ncols=columns, loc="lower center", frameon=False
        )
        if _inches_of(figure, again).width <= PHONE or columns == 1:
            break
        again.remove()
    for old, new in zip(legend.get_texts(), again.get_texts(), strict=True):
        new.set_color(old.get_color())
    legend.remove()
    return again


def _shared_label(axes: Any, panels: list[Any]) -> str:
    """The label of the panel whose vertical axis this one shares."""
    siblings = axes.get_shared_y_axes().get_siblings(axes)
    return next((one.get_ylabel() for one in panels if one in siblings and one.get_ylabel()), "")

"""Colour transfer: give an image the colours of another."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import null_space
from scipy.ndimage import map_coordinates, uniform_filter
from scipy.spatial.distance import cdist

from condgrad import _checks
from condgrad.progress import ShareLine
from condgrad.transport.estimators import ENTROPY, EntropicTransport, LaplaceTransport
from condgrad.transport.solve import TransportResult

XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
"""The matrix from linear sRGB to CIE XYZ, white D65."""
WHITE = XYZ.sum(axis=1)
CHANNELS = 3
SRGB_GAMMA, SRGB_OFFSET, SRGB_DARK, SRGB_SLOPE = 2.4, 0.055, 0.04045, 12.92
"""sRGB: a power of `SRGB_OFFSET` more than the value, below `SRGB_DARK` a line of slope
1/`SRGB_SLOPE` instead."""
CUBE_FROM = 6.0 / 29.0
"""CIE Lab: cube roots, below this one their tangent instead."""
TANGENT = 3.0 * CUBE_FROM * CUBE_FROM
TANGENT_FROM = CUBE_FROM / 1.5
"""The slope of the cube there, and the root where the tangent is 0."""
BLACK = 0.16
"""How far lightness begins below 0."""
RED, BLUE = 5.0, 2.0
"""What the two differences of Lab are multiplied by."""
FULL = {
    np.dtype(np.uint8): 255.0,
    np.dtype(np.uint16): 65535.0,
    np.dtype(np.float32): 1.0,
    np.dtype(np.float64): 1.0,
}
"""The value of white in each type of array."""

SHARPNESS = 0.25
"""entropy="auto" is this times the automatic entropy of `EntropicTransport`. The spline smooths
already, and entropy only washes colours out.
"""
STIFFNESS = 0.3
"""The weight of the spline's bending energy. It is so large that skies have no seams and
compression does not show.
"""
DAMPING = 5e-3
"""The weight of the slopes of the affine part. It keeps them small in directions in which colours
hardly differ, as in sepia.
"""
KNOTS = 200
"""The spline bends at this many colours at most."""
VIVID = 1.25
"""The spread of a channel is stretched by at most this factor, to give back what entropy and spline
took.
"""
CUBE = 65
"""The table of new colours has this many grid points on each side. Between them it is interpolated.
"""
EDGES = 0.05
"""Smoothing in space does not change differences of lightness well above this, on a scale from 0 to
1.
"""
NEXT_TO_NOTHING = 1e-6
"""A smaller spread of colours counts as none: nobody sees it, and rounding may have made it."""
PIXELS_TOGETHER = 1 << 18
"""The number of pixels that are handled at a time."""


@dataclass(frozen=True, repr=False, eq=False)
class Recoloring:
    """An image in new colours, and the certified transport plan of the sampled colours.

    Attributes
    ----------
    image : array
        The new image, with the shape and type of the given image.
    result : TransportResult
        The plan between sampled colours, with its certificate.
    entropy : float
        The weight of the entropy in the plan.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> rng = np.random.default_rng(0)
    >>> sea = (rng.random((20, 30, 3)) * [60, 120, 255]).astype(np.uint8)  # blues
    >>> sunset = (rng.random((25, 25, 3)) * [255, 120, 60]).astype(np.uint8)  # reds
    >>> found = cg.transport.recoloring(sea, sunset, samples=100)
    >>> found.image.shape, found.result.shape, found.result.success
    ((20, 30, 3), (100, 100), True)
    """

    image: Any
    result: TransportResult
    entropy: float


def recolor(
    image: Any,
    palette: Any,
    *,
    entropy: float | str = "auto",
    weight: float | str = 0.0,
    samples: int = 1000,
    smooth: float = 0.0,
    strength: float = 1.0,
    seed: int = 0,
    tol: float = 1e-4,
    time_limit: float | None = None,
    progress: bool = False,
) -> Any:
    """Give an image the colours of a palette.

    First, regularised transport matches a sample of pixels of each image, in Lab colours (divided
    by 100, so the distance from black to white is 1). This moves the sampled colours. Then a
    smooth map is fitted to these moves: an affine map that bends a little (a smoothing spline). It
    moves every colour of the image. So similar colours stay similar, and compression artefacts, for
    example in a sky, do not grow. Fully transparent pixels are not sampled.

    Parameters
    ----------
    image, palette : arrays, shapes (height, width), (height, width, 3) or (height, width, 4)
        sRGB or grey values: uint8, uint16, or floats from 0 to 1. A fourth channel (opacity) does
        not change. A grey image gets the lightness of the palette.
    entropy : float or "auto"
        Weight of the entropy. "auto" is a quarter of the value that entropy="auto" has in
        `EntropicTransport`. So it is proportional to the spread of the cost between the colours.
    weight : float or "auto"
        Weight of the Laplacian regulariser, as in `LaplaceTransport`. It keeps similar colours
        similar.
    samples : int
        The number of pixels to match in each image. If the plan does not fit into memory, it is not
        stored (streamed).
    smooth : float
        Changes of colour are averaged over this radius in pixels. Edges stay sharp. 0 means no
        averaging.
    strength : float
        How far colours move, from 0 (not at all) to 1 (to the new colour).
    seed : int
        The seed of the sampling.
    tol : float
        The transport problem ends when its certified gap divided by the scale of its objective is
        at most this number, as in `transport.solve`.
    time_limit : float, optional
        Limit for the transport problem in seconds. At the limit, the best plan so far is used, with
        a warning.
    progress : bool
        Show a live line on the terminal.

    Returns
    -------
    array
        The new image, with the shape and type of `image`.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> rng = np.random.default_rng(0)
    >>> sea = (rng.random((20, 30, 3)) * [60, 120, 255]).astype(np.uint8)  # blues
    >>> sunset = (rng.random((25, 25, 3)) * [255, 120, 60]).astype(np.uint8)  # reds
    >>> painted = cg.transport.recolor(sea, sunset, samples=100)
    >>> # more red than blue now
    >>> painted.shape, painted.dtype, bool(painted[..., 0].mean() > painted[..., 2].mean())
    ((20, 30, 3), dtype('uint8'), True)
    """
    return recoloring(
        image,
        palette,
        entropy=entropy,
        weight=weight,
        samples=samples,
        smooth=smooth,
        strength=strength,
        seed=seed,
        tol=tol,
        time_limit=time_limit,
        progress=progress,
    ).image


def recoloring(
    image: Any,
    palette: Any,
    *,
    entropy: float | str = "auto",
    weight: float | str = 0.0,
    samples: int = 1000,
    smooth: float = 0.0,
    strength: float = 1.0,
    seed: int = 0,
    tol: float = 1e-4,
    time_limit: float | None = None,
    progress: bool = False,
) -> Recoloring:
    """Like `recolor`, but it also returns the certified transport plan of the sampled colours.

    Parameters
    ----------
    image, palette, entropy, weight, samples, smooth, strength, seed, tol, time_limit, progress
        As in `recolor`.

    Returns
    -------
    Recoloring
        The new image, the plan and the entropy.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> rng = np.random.default_rng(0)
    >>> sea = (rng.random((20, 30, 3)) * [60, 120, 255]).astype(np.uint8)  # blues
    >>> sunset = (rng.random((25, 25, 3)) * [255, 120, 60]).astype(np.uint8)  # reds
    >>> found = cg.transport.recoloring(sea, sunset, samples=100)
    >>> found.result.lower_bound <= found.result.value, found.result.relative_gap <= 1e-4
    (True, True)
    """
    image = _checked_image("image", image)
    palette = _checked_image("palette", palette)
    _checks.whole("samples", samples, at_least=2)
    _checks.number("smooth", smooth, at_least=0.0)
    if not 0.0 <= _checks.number("strength", strength) <= 1.0:
        raise ValueError(f"strength must be from 0 to 1, got {strength!r}")
    if not isinstance(weight, str):
        _checks.number("weight", weight, at_least=0.0)
    rng = np.random.default_rng(seed)
    Xs = _sample(image, samples, rng)
    Xt = _sample(palette, samples, rng)
    plain = weight == 0.0
    estimator: Any = EntropicTransport(entropy) if plain else LaplaceTransport(entropy, weight)
    if entropy == "auto":
        estimator.set_params(entropy=SHARPNESS * _automatic_entropy(Xs, Xt))
    estimator.set_params(tol=tol, time_limit=time_limit, verbose=progress)
    moved = estimator.fit(Xs, Xt=Xt).transform(Xs)
    spline = ColorSpline.through(Xs, moved, rng)
    mean, stretch = _stretch(spline(Xs), Xt)

    def new_colors(X: Any) -> Any:
        vivid = mean + stretch * (spline(X) - mean)
        return X + strength * (vivid - X)

    with ShareLine("a table of all colours is made", shown=progress):
        table = _table(new_colors, grey=image.ndim == 2)
    with ShareLine("the image is painted", shown=progress) as line:
        painted = _repainted(image, table, smooth, line)
    return Recoloring(painted, estimator.result_, estimator.entropy_)


def _automatic_entropy(Xs: Any, Xt: Any) -> float:
    """What `EntropicTransport` would take: of covariances, so all colours may be asked."""
    Ss = np.cov(Xs.T, bias=True)
    St = np.cov(Xt.T, bias=True)
    return 2.0 * ENTROPY * math.sqrt(float(np.sum(Ss * St))) or 1.0


@dataclass(frozen=True)
class ColorSpline:
    """A smoothing spline in three dimensions: an affine map, and a multiple of -|x - knot| for each
    knot.

    It minimises the mean squared distance to given colours plus STIFFNESS times the bending energy,
    in units of the spread of the colours, so that no unit of colour decides. Affine maps have no
    energy, and next to no penalty.
    """

    center: Any
    spread: float
    knots: Any
    constant: Any
    linear: Any
    bends: Any

    @classmethod
    def through(cls, X: Any, Y: Any, rng: np.random.Generator) -> ColorSpline:
        """The spline for colours X that move to Y, a row each."""
        center = X.mean(axis=0)
        spread = math.sqrt(float(X.var(axis=0).sum()))
        spread = spread if spread > NEXT_TO_NOTHING else 1.0
        Z = (X - center) / spread
        distinct = np.unique(Z, axis=0)
        knots = distinct[np.sort(rng.permutation(len(distinct))[:KNOTS])]
        # coefficients that are orthogonal to affine functions, in a basis where the energy is the
        # sum of squares
        free = null_space(np.column_stack([np.ones(len(knots)), knots]).T)
        energy, modes = np.linalg.eigh(-free.T @ cdist(knots, knots) @ free)
        bending = energy > 1e-10 * max(energy.max(initial=0.0), 1e-300)
        basis = free @ (modes[:, bending] / np.sqrt(energy[bending]))
        count = basis.shape[1]
        design = np.column_stack([np.ones(len(Z)), Z, -cdist(Z, knots) @ basis])
        affine = 1 + CHANNELS
        weights = np.repeat([0.0, DAMPING, STIFFNESS], [1, CHANNELS, count])
        penalties = np.sqrt(len(Z) * weights)
        wanted = np.vstack([Y, np.zeros((affine + count, CHANNELS))])
        fitted, *_ = np.linalg.lstsq(np.vstack([design, np.diag(penalties)]), wanted, rcond=None)
        return cls(center, spread, knots, fitted[0], fitted[1:affine], basis @ fitted[affine:])

    def __call__(self, X: Any) -> Any:
        Z = (X - self.center) / self.spread
        return self.constant + Z @ self.linear - cdist(Z, self.knots) @ self.bends


def _stretch(moved: Any, palette: Any) -> tuple[Any, Any]:
    """The mean of moved colours and what gives each channel the spread of the palette again, up to
    a limit.
    """
    spread = moved.std(axis=0)
    wanted = palette.std(axis=0)
    varies = spread > NEXT_TO_NOTHING
    return moved.mean(axis=0), np.where(
        varies, np.clip(wanted / np.where(varies, spread, 1.0), 1.0, VIVID), 1.0
    )


def _table(new_colors: Any, *, grey: bool) -> Any:
    """New sRGB colours on a grid of the cube of old ones."""
    axis = np.linspace(0.0, 1.0, CUBE)
    old = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, CHANNELS)
    lab = np.concatenate(
        [
            new_colors(lab_of(old[begin : begin + PIXELS_TOGETHER]))
            for begin in range(0, len(old), PIXELS_TOGETHER)
        ]
    )
    if grey:
        lab[:, 1:] = 0.0
    return srgb_of(lab).reshape(CUBE, CUBE, CUBE, CHANNELS)


def _repainted(image: Any, table: Any, smooth: float, line: ShareLine) -> Any:
    """The image with each colour looked up, in blocks, and where asked the change of colour
    smoothed in space.
    """
    full = FULL[image.dtype]
    grey = image.ndim == 2
    result = image.copy()
    count = 1 if grey else CHANNELS
    moves = np.empty((*image.shape[:2], count), dtype=np.float32) if smooth > 0.0 else None
    blocks = list(_rows_of_pixels(image))
    looked_up = 1.0 if moves is None else 0.25  # about this share of the time
    lit = 0.1
    for k, rows in enumerate(blocks, 1):
        old = _three_channels(image[rows]) / full
        places = (CUBE - 1) * np.moveaxis(old, -1, 0)
        new = np.stack(
            [map_coordinates(table[..., c], places, order=1, mode="nearest") for c in range(count)],
            axis=-1,
        )
        if moves is not None:
            moves[rows] = new - old[..., : new.shape[-1]]
        else:
            _put(result, rows, new, full)
        line.reached(looked_up * k / len(blocks))
    if moves is not None:
        old = _three_channels(image) / full
        lightness = np.empty(image.shape[:2])
        for k, rows in enumerate(blocks, 1):
            lightness[rows] = lab_of(old[rows])[..., 0]
            line.reached(looked_up + lit * k / len(blocks))
        changes = []
        for c in range(count):
            changes.append(_edge_preserving(lightness, moves[..., c], smooth))
            line.reached(looked_up + lit + (1.0 - looked_up - lit) * (c + 1) / count)
        _put(result, slice(None), old[..., :count] + np.stack(changes, axis=-1), full)
    return result


def _put(result: Any, rows: slice, colors: Any, full: float) -> None:
    values = full * np.clip(colors, 0.0, 1.0)
    values = np.rint(values) if result.dtype.kind == "u" else values
    if result.ndim == 2:
        result[rows] = values[..., 0].astype(result.dtype)
    else:
        result[rows, :, :CHANNELS] = values.astype(result.dtype)


def _edge_preserving(guide: Any, values: Any, radius: float) -> Any:
    """The guided filter (He, Sun, Tang 2010): around each pixel values become an affine function of
    the guide.
    """
    size = 2 * max(1, round(radius)) + 1

    def mean(x: Any) -> Any:
        return uniform_filter(x, size, mode="nearest")

    of_guide = mean(guide)
    of_values = mean(values)
    slope = (mean(guide * values) - of_guide * of_values) / (
        mean(guide * guide) - of_guide**2 + EDGES**2
    )
    return mean(slope) * guide + mean(of_values - slope * of_guide)


def lab_of(srgb: Any) -> Any:
    """CIE Lab, in hundreds of its units, of sRGB values from 0 to 1."""
    powers = ((srgb + SRGB_OFFSET) / (1.0 + SRGB_OFFSET)) ** SRGB_GAMMA
    linear = np.where(srgb <= SRGB_DARK, srgb / SRGB_SLOPE, powers)
    t = (linear @ XYZ.T) / WHITE
    roots = np.cbrt(t)
    x, y, z = np.moveaxis(np.where(roots > CUBE_FROM, roots, t / TANGENT + TANGENT_FROM), -1, 0)
    return np.stack([(1.0 + BLACK) * y - BLACK, RED * (x - y), BLUE * (y - z)], axis=-1)


def srgb_of(lab: Any) -> Any:
    """sRGB values from 0 to 1 of Lab colours in hundreds; what no screen shows is clipped."""
    lightness, a, b = np.moveaxis(lab, -1, 0)
    y = (lightness + BLACK) / (1.0 + BLACK)
    roots = np.stack([y + a / RED, y, y - b / BLUE], axis=-1)
    t = np.where(roots > CUBE_FROM, roots * roots * roots, TANGENT * (roots - TANGENT_FROM))
    linear = np.clip((t * WHITE) @ np.linalg.inv(XYZ).T, 0.0, 1.0)
    powers = (1.0 + SRGB_OFFSET) * linear ** (1.0 / SRGB_GAMMA) - SRGB_OFFSET
    return np.where(linear <= SRGB_DARK / SRGB_SLOPE, SRGB_SLOPE * linear, powers)


def _rows_of_pixels(image: Any) -> Iterator[slice]:
    height, width = image.shape[:2]
    step = max(1, PIXELS_TOGETHER // width)
    return (slice(start, start + step) for start in range(0, height, step))


def _three_channels(pixels: Any) -> Any:
    if pixels.ndim == 2:
        return np.repeat(pixels[..., None], CHANNELS, axis=-1)
    return pixels[..., :CHANNELS]


def _checked_image(name: str, image: Any) -> Any:
    image = np.asarray(image)
    shaped = image.ndim == 2 or image.shape[2:] in ((CHANNELS,), (CHANNELS + 1,))
    if image.dtype not in FULL or not shaped or image.size == 0:
        raise ValueError(
            f"{name} must be an array of uint8, uint16 or floats, of shape (height, width) or (height, width, 3 or 4), "
            f"got {image.dtype} of shape {image.shape}"
        )
    if image.dtype.kind == "f" and not (
        np.isfinite(image).all() and image.min() >= 0.0 and image.max() <= 1.0
    ):
        raise ValueError(f"{name} has floats outside 0 .. 1: divide them by the value of white")
    return image


def _sample(image: Any, samples: int, rng: np.random.Generator) -> Any:
    """Lab colours of some pixels, of those that can be seen where the image says so."""
    pixels = _three_channels(image).reshape(-1, CHANNELS)
    count = len(pixels)
    visible = None
    if image.shape[2:] == (CHANNELS + 1,) and image[..., CHANNELS].any():
        visible = np.flatnonzero(image[..., CHANNELS])
        count = len(visible)
    chosen = rng.choice(count, size=min(samples, count), replace=False)
    return lab_of(pixels[chosen if visible is None else visible[chosen]] / FULL[image.dtype])

"""Colour transfer: give an image the palette of another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsRegressor

from condgrad import _checks
from condgrad.transport.estimators import EntropicTransport, LaplaceTransport
from condgrad.transport.solve import TransportResult

COLORS = 1 << 24
BLOCK = 1 << 18
"""Pixels or colours handled at a time."""
NEIGHBORS = 8
"""Sampled colours that a pixel listens to: with one alone, smooth skies fall apart into patches."""


@dataclass(frozen=True, repr=False, eq=False)
class Recoloring:
    """An image in new colours, and the certified plan between sampled colours that they come from."""

    image: Any
    result: TransportResult


def recolor(
    image: Any,
    palette: Any,
    *,
    entropy: float = 1e-3,
    weight: float = 0.0,
    samples: int = 500,
    seed: int = 0,
    tol: float = 1e-4,
    time_limit: float | None = None,
    progress: bool = False,
) -> Any:
    """The image in the colours of the palette.

    Some pixels of each image are matched by regularised transport in RGB space (coordinates in [0, 1], so entropies are
    in those units squared); every pixel of the image then moves as the sampled colours near its own do on average. What
    is wholly transparent is not sampled.

    Parameters
    ----------
    image, palette : uint8 arrays, shapes (height, width, 3) or (height, width, 4)
        A fourth channel (opacity) is left as it is.
    entropy, weight : float
        Weights of the entropy and of the Laplacian, which keeps similar colours similar.
    samples : int
        Pixels of each image to match.
    seed : int
    tol : float
        The certified gap of the transport problem, over the scale of its objective; as in `transport.solve`.
    time_limit : float, optional
        Seconds for the transport problem; at the limit its best plan so far paints the image, with a warning.
    progress : bool
        Show a live line on the terminal.

    Returns
    -------
    uint8 array of the shape of `image`
    """
    return recoloring(
        image,
        palette,
        entropy=entropy,
        weight=weight,
        samples=samples,
        seed=seed,
        tol=tol,
        time_limit=time_limit,
        progress=progress,
    ).image


def recoloring(
    image: Any,
    palette: Any,
    *,
    entropy: float,
    weight: float,
    samples: int,
    seed: int,
    tol: float,
    time_limit: float | None = None,
    progress: bool = False,
) -> Recoloring:
    """What `recolor` does, with the certified transport of the sampled colours beside the image."""
    image, palette = _pixels("image", image), _pixels("palette", palette)
    _checks.whole("samples", samples, at_least=2)
    _checks.number("weight", weight, at_least=0.0)
    rng = np.random.default_rng(seed)
    Xs = _sample(image, samples, rng)
    Xt = _sample(palette, samples, rng)
    estimator: Any = LaplaceTransport(entropy, weight) if weight > 0 else EntropicTransport(entropy)
    estimator.set_params(tol=tol, time_limit=time_limit, verbose=progress)
    estimator.fit(Xs, Xt=Xt)
    moves = estimator.result_.barycenters(Xt) - Xs
    nearby = KNeighborsRegressor(min(NEIGHBORS, len(Xs)), weights="distance").fit(Xs, moves)
    return Recoloring(_repainted(image, nearby), estimator.result_)


def _repainted(image: Any, nearby: Any) -> Any:
    """The image with each of its colours moved once, in blocks: beside the image it takes 150 MB at most."""
    present = np.zeros(COLORS, dtype=np.bool_)
    for rows in _blocks(image):
        present[_codes(image[rows])] = True
    codes = np.flatnonzero(present)
    table = np.zeros((COLORS, 3), dtype=np.uint8)
    for start in range(0, len(codes), BLOCK):
        some = codes[start : start + BLOCK]
        colors = np.stack([some >> 16, some >> 8 & 255, some & 255], axis=1) / 255.0
        table[some] = np.rint(255.0 * np.clip(colors + nearby.predict(colors), 0.0, 1.0))
    result = image.copy()
    for rows in _blocks(image):
        result[rows, :, :3] = table[_codes(image[rows])]
    return result


def _blocks(image: Any) -> Iterator[slice]:
    height, width = image.shape[:2]
    step = max(1, BLOCK // width)
    return (slice(start, start + step) for start in range(0, height, step))


def _codes(pixels: Any) -> Any:
    """One number for each colour."""
    red, green, blue = (pixels[..., channel].astype(np.int32) for channel in range(3))
    return red << 16 | green << 8 | blue


def _pixels(name: str, image: Any) -> Any:
    image = np.asarray(image)
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] not in (3, 4) or image.size == 0:
        raise ValueError(
            f"{name} must be a uint8 array of shape (height, width, 3 or 4), got {image.dtype} of shape {image.shape}"
        )
    return image


def _sample(image: Any, samples: int, rng: np.random.Generator) -> Any:
    """Colours of some pixels, of those that can be seen where the image says so."""
    pixels = image.reshape(-1, image.shape[2])
    visible = np.flatnonzero(pixels[:, 3]) if image.shape[2] == 4 else np.empty(0, dtype=np.intp)
    count = len(visible) or len(pixels)
    chosen = rng.choice(count, size=min(samples, count), replace=False)
    return pixels[visible[chosen] if len(visible) else chosen, :3] / 255.0

"""Colour transfer: give an image the palette of another."""

from __future__ import annotations

from typing import Any

import numpy as np

from condgrad import _checks
from condgrad.transport.estimators import EntropicTransport, LaplaceTransport


def recolor(
    image: Any,
    palette: Any,
    *,
    entropy: float = 1e-3,
    weight: float = 0.0,
    samples: int = 500,
    seed: int = 0,
    tol: float = 1e-4,
) -> Any:
    """The image in the colours of the palette.

    Some pixels of each image are matched by regularised transport in RGB space (coordinates in [0, 1], so entropies are
    in those units squared); every pixel of the image then moves as its nearest sampled colour does.

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
        Relative certified gap of the transport problem.

    Returns
    -------
    uint8 array of the shape of `image`
    """
    image, palette = _pixels("image", image), _pixels("palette", palette)
    _checks.whole("samples", samples, at_least=2)
    _checks.number("weight", weight, at_least=0.0)
    rng = np.random.default_rng(seed)
    colors, place = np.unique(image[..., :3].reshape(-1, 3), axis=0, return_inverse=True)
    Xs = _sample(image, samples, rng)
    Xt = _sample(palette, samples, rng)
    if weight > 0:
        estimator: Any = LaplaceTransport(entropy, weight, tol=tol)
    else:
        estimator = EntropicTransport(entropy, tol=tol)
    moved = estimator.fit(Xs, Xt=Xt).transform(colors / 255.0)
    result = image.copy()
    bytes_ = np.rint(255.0 * np.clip(moved, 0.0, 1.0)).astype(np.uint8)
    result[..., :3] = bytes_[place].reshape(*image.shape[:2], 3)
    return result


def _pixels(name: str, image: Any) -> Any:
    image = np.asarray(image)
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] not in (3, 4) or image.size == 0:
        raise ValueError(
            f"{name} must be a uint8 array of shape (height, width, 3 or 4), got {image.dtype} of shape {image.shape}"
        )
    return image


def _sample(image: Any, samples: int, rng: np.random.Generator) -> Any:
    pixels = image[..., :3].reshape(-1, 3)
    chosen = rng.choice(len(pixels), size=min(samples, len(pixels)), replace=False)
    return pixels[chosen] / 255.0

"""Colour transfer
===============

Show one photograph in the colours of another. Regularised transport connects their palettes.

Run it by ``python examples/color_transfer.py --out out``.
It uses the two photographs that come with scikit-learn. In the last picture, ``smooth=8`` averages the changes of colour
over a radius of 8 pixels.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from sklearn.datasets import load_sample_image

from condgrad.transport import recolor


def main(out: Path) -> None:
    temple, flower = load_sample_image("china.jpg"), load_sample_image("flower.jpg")
    pictures = {
        "temple": temple,
        "flower": flower,
        "temple in the colours of the flower": recolor(temple, flower),
        "flower in the colours of the temple, smooth=8": recolor(flower, temple, smooth=8.0),
    }
    figure, panels = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")
    for axes, (name, picture) in zip(panels.flat, pictures.items(), strict=True):
        axes.imshow(picture)
        axes.set(title=name, xticks=[], yticks=[])
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "color_transfer.png", dpi=110)
    print(f"Picture: {out / 'color_transfer.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("out"))
    matplotlib.use("Agg")
    main(parser.parse_args().out)

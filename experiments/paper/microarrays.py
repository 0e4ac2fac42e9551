"""The data of section 3.2: toy draws, the two microarrays, and a stand-in where those cannot be had."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from condgrad import datasets

TEST_SHARE = 0.2


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test part, both scaled by the training part; labels -1 and +1."""

    X_train: Any
    y_train: Any
    X_test: Any
    y_test: Any


@dataclass(frozen=True, eq=False)
class Samples:
    """A data set by its name; `note` says what a reader should know of it."""

    name: str
    X: Any
    y: Any
    note: str
    stand_in: bool = False


LOADERS: Mapping[str, tuple[Callable[..., datasets.Microarray], str]] = {
    "colon": (datasets.load_colon, "colon.npz"),
    "lymphoma": (datasets.load_lymphoma, "lymphoma96.npz"),
}
"""Who reads a data set, and the file that holds it."""


def toy(sizes: Mapping[str, int], seed: int) -> Split:
    """A draw of the toy problem."""
    drawn = datasets.make_sparse_classification(**sizes, test_size=TEST_SHARE, seed=seed)
    return Split(np.asfortranarray(drawn.X_train), drawn.y_train, drawn.X_test, drawn.y_test)


def stratified(samples: Samples, seed: int) -> Split:
    """A fifth of each class for the test, the rest for training."""
    rng = np.random.default_rng(seed)
    test = np.zeros(len(samples.y), dtype=bool)
    for label in (-1.0, 1.0):
        rows = rng.permutation(np.flatnonzero(samples.y == label))
        test[rows[: round(TEST_SHARE * len(rows))]] = True
    train = samples.X[~test]
    scaled = np.asfortranarray(datasets.standardize(train))
    return Split(scaled, samples.y[~test], datasets.standardize(samples.X[test], reference=train), samples.y[test])


def microarrays(patience: float) -> list[Samples]:
    """Colon and lymphoma, or breast cancer for those that neither are here nor arrive within `patience` seconds."""
    found: dict[str, datasets.Microarray] = {}
    missing: dict[str, str] = {}

    def read(name: str, download: bool) -> None:
        try:
            found[name] = LOADERS[name][0](standardize=False, download_if_missing=download)
            missing.pop(name, None)
        except datasets.DataUnavailable:
            missing[name] = f"The {name} data are not on this machine and could not be fetched"
        except datasets.DataMismatch as error:
            missing[name] = f"The {name} data could not be used: {error}"

    for name in LOADERS:
        read(name, False)
    # a network that swallows packets would hold up the run for minutes: nobody waits for these threads
    fetches = [threading.Thread(target=read, args=(name, True), daemon=True) for name in list(missing)]
    for fetch in fetches:
        fetch.start()
    deadline = time.monotonic() + patience
    for fetch in fetches:
        fetch.join(max(0.0, deadline - time.monotonic()))
    late = dict(missing)  # a fetch may end later: what is missing now stays missing in this run
    here = [
        Samples(name, found[name].X, found[name].y, f"{name}: {found[name].description}")
        for name in LOADERS
        if name not in late
    ]
    return [*here, stand_in({name: late[name] for name in LOADERS if name in late})] if late else here


def stand_in(missing: Mapping[str, str]) -> Samples:
    """Scikit-learn's breast-cancer data, which need no network, in place of others, each with why it is missing."""
    # imported where it is used: a run with the real data should not wait for it
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    names = " and ".join(missing)
    reasons = [
        f"{why}. To get them, call condgrad.datasets.{LOADERS[name][0].__name__}() once with a network, which keeps a "
        f"copy, or set CONDGRAD_DATA to a folder that holds {LOADERS[name][1]}."
        for name, why in missing.items()
    ]
    note = (
        f"Stand-in: breast cancer (569 samples, 30 features) takes the place of {names}, and no claim of the paper is "
        f"judged by it. {' '.join(reasons)}"
    )
    return Samples(f"breast cancer (stand-in for {names})", X, np.where(y == 1, 1.0, -1.0), note, stand_in=True)

"""The data of section 3.2: toy draws, the two microarrays, and a stand-in where those cannot be had."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import train_test_split

from condgrad import datasets

TEST_SHARE = 0.2
LOADERS = {"colon": datasets.load_colon, "lymphoma": datasets.load_lymphoma}
FILES = {"colon": "colon.npz", "lymphoma": "lymphoma96.npz"}


class Split(NamedTuple):
    """Training and test part, both scaled by the training part; labels -1 and +1."""

    X_train: Any
    y_train: Any
    X_test: Any
    y_test: Any


class Samples(NamedTuple):
    """A data set by its name; `note` says what a reader should know of it."""

    name: str
    X: Any
    y: Any
    note: str
    stand_in: bool = False


def toy(sizes: Mapping[str, int], seed: int) -> Split:
    """A draw of the toy problem."""
    drawn = datasets.make_sparse_classification(**sizes, test_size=TEST_SHARE, seed=seed)
    return Split(drawn.X_train, drawn.y_train, drawn.X_test, drawn.y_test)


def stratified(samples: Samples, seed: int) -> Split:
    """A fifth of each class for the test, the rest for training."""
    options: dict[str, Any] = {"test_size": TEST_SHARE, "stratify": samples.y, "random_state": seed}
    train, test, y_train, y_test = train_test_split(samples.X, samples.y, **options)
    return Split(
        datasets.standardize(train), y_train, datasets.standardize(test, reference=train), y_test
    )


def microarrays(patience: float) -> list[Samples]:
    """Colon and lymphoma, or breast cancer for those that neither are here nor arrive within `patience` seconds."""
    found: dict[str, datasets.Microarray] = {}
    missing: dict[str, str] = {}

    def read(name: str, download: bool) -> None:
        try:
            found[name] = LOADERS[name](standardize=False, download_if_missing=download)
            missing.pop(name, None)
        except datasets.DataUnavailable:
            missing[name] = f"The {name} data are not on this machine and could not be fetched"
        except datasets.DataMismatch as error:
            missing[name] = f"The {name} data could not be used: {error}"

    for name in LOADERS:
        read(name, False)
    # a network that swallows packets would hold up the run for minutes: nobody waits for these threads
    fetches = [
        threading.Thread(target=read, args=(name, True), daemon=True) for name in list(missing)
    ]
    deadline = time.monotonic() + patience
    for fetch in fetches:
        fetch.start()
    for fetch in fetches:
        fetch.join(max(0.0, deadline - time.monotonic()))
    late = dict(missing)  # a fetch may end later: what is missing now stays missing in this run
    here = [name for name in LOADERS if name not in late]
    samples = [
        Samples(name, found[name].X, found[name].y, f"{name}: {found[name].description}")
        for name in here
    ]
    return [*samples, stand_in(late)] if late else samples


def stand_in(missing: Mapping[str, str]) -> Samples:
    """Scikit-learn's breast-cancer data, which need no network, in place of others, each with why it is missing."""
    # imported where it is used: a run with the real data should not wait for it
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    name = f"breast cancer, in place of {' and '.join(name for name in LOADERS if name in missing)}"
    note = f"Shown: {name} ({X.shape[0]} samples, {X.shape[1]} features), by which no claim of the paper is judged."
    for absent, why in missing.items():
        note += f" {why}: call condgrad.datasets.{LOADERS[absent].__name__}() once with a network, or set CONDGRAD_DATA "
        note += f"to a folder that holds {FILES[absent]}."
    return Samples(name, X, np.where(y == 1, 1.0, -1.0), note, stand_in=True)

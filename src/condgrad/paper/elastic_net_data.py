"""The data of section 3.2: toy draws, the two microarrays, and a stand-in where those cannot be had."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from condgrad.datasets import (
    DataMismatch,
    DataUnavailable,
    Microarray,
    load_colon,
    load_lymphoma,
    make_sparse_classification,
    standardize,
)

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


@dataclass(frozen=True)
class Loader:
    """Reads a data set; `allowed` to use the network or not."""

    load: Callable[[bool], Microarray]
    remedy: str


LOADERS: Mapping[str, Loader] = {
    "colon": Loader(
        lambda allowed: load_colon(standardize=False, download_if_missing=allowed),
        "call condgrad.datasets.load_colon() once with a network, which keeps a copy, or set CONDGRAD_DATA to a folder "
        "that holds colon.npz",
    ),
    "lymphoma": Loader(
        lambda allowed: load_lymphoma(standardize=False, download_if_missing=allowed),
        "call condgrad.datasets.load_lymphoma() once with a network, which keeps a copy, or set CONDGRAD_DATA to a "
        "folder that holds lymphoma96.npz",
    ),
}


def toy(sizes: Mapping[str, int], seed: int) -> Split:
    """A draw of the toy problem."""
    drawn = make_sparse_classification(**sizes, test_size=TEST_SHARE, seed=seed)
    return Split(np.asfortranarray(drawn.X_train), drawn.y_train, drawn.X_test, drawn.y_test)


def stratified(samples: Samples, seed: int) -> Split:
    """A fifth of each class for the test, the rest for training."""
    rng = np.random.default_rng(seed)
    test = np.zeros(len(samples.y), dtype=bool)
    for label in (-1.0, 1.0):
        rows = rng.permutation(np.flatnonzero(samples.y == label))
        test[rows[: round(TEST_SHARE * len(rows))]] = True
    train = samples.X[~test]
    return Split(
        np.asfortranarray(standardize(train)),
        samples.y[~test],
        standardize(samples.X[test], reference=train),
        samples.y[test],
    )


def microarrays(patience: float) -> list[Samples]:
    """Colon and lymphoma, or breast cancer for those that neither are here nor arrive within `patience` seconds."""
    found, missing = _found(patience)
    samples = [Samples(name, array.X, array.y, f"{name}: {array.description}") for name, array in found.items()]
    return [*samples, stand_in(missing)] if missing else samples


def stand_in(missing: Mapping[str, str]) -> Samples:
    """Scikit-learn's breast-cancer data, which need no network, in place of others, each with why it is missing."""
    # imported where it is used: a run with the real data should not wait for it
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    names = " and ".join(missing)
    reasons = " ".join(f"{why}. To get them, {LOADERS[name].remedy}." for name, why in missing.items())
    return Samples(
        name=f"breast cancer (stand-in for {names})",
        X=X,
        y=np.where(y == 1, 1.0, -1.0),
        note=f"Stand-in: breast cancer (569 samples, 30 features) takes the place of {names}, and no claim of the "
        f"paper is judged by it. {reasons}",
        stand_in=True,
    )


def _found(patience: float) -> tuple[dict[str, Microarray], dict[str, str]]:
    """What is here or arrives in time, and for the rest why not."""
    found: dict[str, Microarray] = {}
    missing: dict[str, str] = {}
    fetches: list[threading.Thread] = []

    def read(name: str, allowed: bool) -> None:
        try:
            found[name] = LOADERS[name].load(allowed)
            missing.pop(name, None)
        except DataUnavailable:
            missing[name] = f"The {name} data are not on this machine and could not be fetched"
        except DataMismatch as error:
            missing[name] = f"The {name} data could not be used: {error}"

    for name in LOADERS:
        read(name, False)
        if name in missing:
            # a network that swallows packets would hold up the run for minutes: nobody waits for this thread
            fetches.append(threading.Thread(target=read, args=(name, True), daemon=True))
    deadline = time.monotonic() + patience
    for fetch in fetches:
        fetch.start()
    for fetch in fetches:
        fetch.join(max(0.0, deadline - time.monotonic()))
    # a fetch may end later: what is missing now stays missing in this run
    late = dict(missing)
    return {name: found[name] for name in LOADERS if name not in late}, {n: late[n] for n in LOADERS if n in late}

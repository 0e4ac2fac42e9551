"""The public copies of the data sets: the only file of this package that uses the network."""

from __future__ import annotations

import bz2
import io
import warnings
from typing import Any

import numpy as np

from condgrad.datasets.store import DataMismatch
from condgrad.errors import require_extra

COLON_URL = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/colon-cancer.bz2"
LYMPHOMA_NAME = "lymphoma_9classes"
MALIGNANT_SIZES = (46, 9, 11)
TIMEOUT_SECONDS = 60.0


def download(url: str) -> bytes:
    """The bytes behind an address."""
    pooch = require_extra("pooch", extra="data", purpose="downloading data")
    content = io.BytesIO()
    pooch.HTTPDownloader(timeout=TIMEOUT_SECONDS)(url, content, None)
    return content.getvalue()


def openml(name: str) -> Any:
    """A data set of OpenML by name, as NumPy arrays; stored by us alone, not in scikit-learn's own
    cache.
    """
    # imported where it is used: the import of the library should not wait for it
    from sklearn.datasets import fetch_openml

    with warnings.catch_warnings():
        # if the second attempt fails too, one error says it all
        warnings.filterwarnings("ignore", message="A network error occurred")
        return fetch_openml(name=name, as_frame=False, parser="liac-arff", cache=False, n_retries=1)


def fetch_colon() -> dict[str, Any]:
    """Colon from the LIBSVM site, with the larger class (40 tumours) as +1."""
    from sklearn.datasets import load_svmlight_file

    packed = download(COLON_URL)
    try:
        X, labels = load_svmlight_file(
            io.BytesIO(bz2.decompress(packed)), n_features=2000, zero_based=False
        )
    except (OSError, ValueError) as error:
        raise DataMismatch(
            f"{COLON_URL} did not answer with bzip2 data in svmlight format: {error}"
        ) from error
    # which sign the site gives to tumours is its own choice: the sizes of the classes decide
    names, sizes = np.unique(labels, return_counts=True)
    if len(names) != 2:
        raise DataMismatch(f"{COLON_URL} must have two classes, got the labels {names.tolist()}")
    y = np.where(labels == names[np.argmax(sizes)], 1, -1)
    return {"X": X.toarray(), "y": y.astype(np.int8)}


def fetch_lymphoma() -> dict[str, Any]:
    """Lymphoma from OpenML, with the malignant classes (DLBCL, FL and CLL) as +1.

    The classes are known by their sizes, 46, 9 and 11, which no other class of these data has:
    names of classes differ between copies.
    """
    bunch = openml(LYMPHOMA_NAME)
    names, position, sizes = np.unique(
        np.asarray(bunch.target, dtype=str), return_inverse=True, return_counts=True
    )
    malignant = np.isin(sizes, MALIGNANT_SIZES)
    if sorted(sizes[malignant]) != sorted(MALIGNANT_SIZES):
        classes = dict(zip(names.tolist(), sizes.tolist(), strict=True))
        raise DataMismatch(
            f"OpenML {LYMPHOMA_NAME} must have one class each of {MALIGNANT_SIZES} samples (DLBCL, FL, CLL), "
            f"got {classes}"
        )
    try:
        X = np.asarray(bunch.data, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataMismatch(
            f"OpenML {LYMPHOMA_NAME} must have numbers for features: {error}"
        ) from error
    return {
        "X": X,
        "y": np.where(malignant[position], 1, -1).astype(np.int8),
        "feature_names": np.asarray(bunch.feature_names, dtype=str),
    }

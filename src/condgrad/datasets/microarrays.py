"""The two real data sets of the paper's section 3.2, colon and lymphoma: few samples, thousands of
genes.
"""

from __future__ import annotations

import http.client
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from condgrad.datasets import public, scaling, store
from condgrad.errors import MissingExtra

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Microarray:
    """Gene expressions of labelled samples.

    Attributes
    ----------
    X : array, shape (samples, genes), float64
        The expressions.
    y : array of -1.0 and +1.0
        The labels.
    feature_names : tuple of str, optional
        The names of the genes. None if the file has no names.
    description : str
        What the samples and labels are, and how the values were prepared.
    source : str
        The file that was read, or the address of the download.

    Examples
    --------
    It is a plain record, so data of your own can take its place:

    >>> import numpy as np, condgrad as cg
    >>> X, y = np.random.default_rng(0).standard_normal((20, 300)), np.repeat([-1.0, 1.0], 10)
    >>> data = cg.datasets.Microarray(X, y, None, "noise", source="drawn")
    >>> data.X.shape, data.source
    ((20, 300), 'drawn')
    """

    X: Any
    y: Any
    feature_names: tuple[str, ...] | None
    description: str
    source: str


@dataclass(frozen=True)
class _Copy:
    """One copy of a data set as a file, and how it is fetched where it can be."""

    file: str
    values: str
    """How the values were prepared."""
    logarithm: bool = False
    address: str = "no public copy is known"
    fetch: Callable[[], dict[str, Any]] | None = None


@dataclass(frozen=True)
class _DataSet:
    """What a data set must look like, and its copies in order of preference."""

    title: str
    shape: tuple[int, int]
    positives: int
    samples: str
    """What the samples and their labels are."""
    copies: tuple[_Copy, ...]
    remedy: str = (
        "or call this function on a machine with a network and copy {file} and {file}.sha256 "
        "from its cache to {cache}"
    )


_COLON = _DataSet(
    title="colon",
    shape=(62, 2000),
    positives=40,
    samples="Colon tissue, 40 tumours (+1) and 22 normal (-1), Alon et al. 1999",
    copies=(
        _Copy("colon.npz", "log10 of the raw intensities", logarithm=True),
        _Copy(
            "colon-libsvm.npz",
            "copy of the LIBSVM site, which is already normalised: no logarithm is taken",
            address=public.COLON_URL,
            fetch=public.fetch_colon,
        ),
    ),
)
_MALIGNANT = _DataSet(
    title="lymphoma (malignant)",
    shape=(96, 4026),
    positives=66,
    samples="Lymphoma, 66 malignant samples (+1: DLBCL, FL, CLL) and 30 others (-1), Alizadeh et al. 2000",
    copies=(
        _Copy(
            "lymphoma96.npz",
            "discretised: each gene is -2, 0 or 2 (below, within or above its mean +- half a deviation)",
        ),
        _Copy(
            "lymphoma96-openml.npz",
            f"values as OpenML has them in {public.LYMPHOMA_NAME}",
            address=f"OpenML {public.LYMPHOMA_NAME}",
            fetch=public.fetch_lymphoma,
        ),
    ),
)
_DLBCL = _DataSet(
    title="lymphoma (dlbcl)",
    shape=(62, 4026),
    positives=42,
    samples="Lymphoma, 42 DLBCL (+1) against 9 FL and 11 CLL (-1), Alizadeh et al. 2000",
    copies=(_Copy("lymphoma62.npz", "continuous log ratios, missing values imputed"),),
    remedy="or export the data set lymphoma of the R package spls (62 x 4026, class 0 is DLBCL) to arrays X and y "
    "(+1 for class 0, -1 for the others), write them with numpy.savez_compressed to {cache}/{file}, and record its "
    "checksum beside it: sha256sum {file} > {file}.sha256",
)
_LYMPHOMA = {"malignant": _MALIGNANT, "dlbcl": _DLBCL}


def load_colon(*, standardize: bool = True, download_if_missing: bool = True) -> Microarray:
    """The colon data: 62 tissues, 2000 genes, 40 tumours (+1) and 22 normal (-1).

    The loader looks in three places, in this order:

    1. the folder in the environment variable CONDGRAD_DATA,
    2. your cache folder (this needs `pip install 'condgrad[data]'`),
    3. the LIBSVM data site.

    A folder may have one of two files. `colon.npz` has the raw intensities, and the loader takes
    their log10. `colon-libsvm.npz` is the copy of the LIBSVM site. It is already normalised, so no
    logarithm is taken. `source` and `description` of the answer say which file was read.

    Parameters
    ----------
    standardize : bool
        Give each gene mean 0 and variance 1 over all samples; a constant gene becomes 0. The paper
        uses the means and variances of the training part only. To do the same, set this to False,
        split the data, and use `datasets.standardize`.
    download_if_missing : bool
        Whether the network may be used.

    Returns
    -------
    Microarray

    Raises
    ------
    DataUnavailable
        If there is no copy on this machine, and none could be downloaded. The message says what was
        tried, and how to get a copy.
    DataMismatch
        If a file or a download is not the expected data.

    Notes
    -----
    `colon.npz` must have the checksum that this package knows. For the public copy no checksum is
    known. The loader verifies its shape, the sizes of its classes, and that all values are finite.
    It keeps the file in the cache, with its sha256 beside it (`colon-libsvm.npz.sha256`), so later
    reads are verified too. A file with its own checksum beside it is accepted in any folder.

    Examples
    --------
    >>> import condgrad as cg
    >>> cg.datasets.load_colon().X.shape  # doctest: +SKIP
    (62, 2000)
    """
    return _load(_COLON, standardize=standardize, may_download=download_if_missing)


def load_lymphoma(
    *,
    version: Literal["malignant", "dlbcl"] = "malignant",
    standardize: bool = True,
    download_if_missing: bool = True,
) -> Microarray:
    """The lymphoma data of Alizadeh et al. 2000, 4026 genes, in one of two versions.

    Three kinds of samples are malignant: DLBCL, FL and CLL. The paper does not say which samples
    and classes it used, so we do not know if it used one of these versions:

    - "malignant", the default, has all 96 samples: 66 malignant (+1) and 30 others (-1). Papers on
      feature selection often use all samples with such labels. As far as we remember, they count 62
      samples as malignant and 34 as others.
    - "dlbcl" has 62 samples: 42 DLBCL (+1), and 9 FL and 11 CLL (-1).

    Parameters
    ----------
    version : "malignant" or "dlbcl"
        "malignant" is in one of two files. `lymphoma96.npz` has values that are discretised to -2,
        0 and 2. `lymphoma96-openml.npz` is fetched from OpenML (`lymphoma_9classes`); the malignant
        samples are its classes 1, 3 and 4. "dlbcl" is in the file `lymphoma62.npz`, with continuous
        values. We know no public copy of "dlbcl" that Python can read.
    standardize, download_if_missing : bool
        As in `load_colon`. The folders, the verification and the errors are the same too.

    Returns
    -------
    Microarray

    Examples
    --------
    >>> import condgrad as cg
    >>> cg.datasets.load_lymphoma().X.shape  # doctest: +SKIP
    (96, 4026)
    """
    if not isinstance(version, str) or version not in _LYMPHOMA:
        raise ValueError(f'version must be "malignant" or "dlbcl", got {version!r}')
    return _load(_LYMPHOMA[version], standardize=standardize, may_download=download_if_missing)


def _load(wanted: _DataSet, *, standardize: bool, may_download: bool) -> Microarray:
    """The first copy there is, verified and prepared."""
    for name, flag in (("standardize", standardize), ("download_if_missing", may_download)):
        if not isinstance(flag, bool | np.bool_):
            raise TypeError(f"{name} must be True or False, got {flag!r}")
    copies = {copy.file: copy for copy in wanted.copies}
    public_copy = wanted.copies[-1]
    tried = [] if store.user_folder() else [f"{store.FOLDER_VARIABLE} (not set)"]
    try:
        for path in store.candidates(*copies):
            if path.is_file():
                return _prepare(
                    wanted,
                    copies[path.name],
                    store.read(path),
                    source=str(path),
                    standardize=standardize,
                )
            tried.append(f"{path} (no such file)")
        if public_copy.fetch is None or not may_download:
            off = "" if public_copy.fetch is None else " (download_if_missing is off)"
            raise _unavailable(wanted, [*tried, public_copy.address + off])
        arrays = public_copy.fetch()
    except (store.DataMismatch, store.DataUnavailable):
        raise
    except MissingExtra as error:
        raise _unavailable(wanted, [*tried, str(error)]) from error
    # scikit-learn raises a ValueError for what OpenML does not know
    except (OSError, ValueError, http.client.HTTPException) as error:
        address = f"{public_copy.address} ({type(error).__name__}: {error})"
        raise _unavailable(wanted, [*tried, address]) from error
    answer = _prepare(
        wanted, public_copy, arrays, source=public_copy.address, standardize=standardize
    )
    path = store.cache_folder() / public_copy.file
    try:
        store.keep(path, arrays)
    except (OSError, MissingExtra) as error:  # data already in memory are no less good
        _LOG.warning(
            "could not keep the download in %s, the next call will fetch it again: %s", path, error
        )
    return answer


def _prepare(
    wanted: _DataSet, copy: _Copy, arrays: dict[str, Any], *, source: str, standardize: bool
) -> Microarray:
    """Check what was read, then take the logarithm and scale as asked."""
    try:
        X = np.asarray(arrays["X"], dtype=float)
        y = np.asarray(arrays["y"], dtype=float)
    except (KeyError, ValueError) as error:
        kinds = {name: str(np.asarray(values).dtype) for name, values in arrays.items()}
        raise store.DataMismatch(
            f"{source} must hold arrays of numbers X and y, got {kinds}"
        ) from error
    samples = wanted.shape[0]
    if X.shape != wanted.shape or y.shape != (samples,):
        raise store.DataMismatch(
            f"{source} must have X of shape {wanted.shape} and {samples} labels, got {X.shape} and {y.shape}"
        )
    labels = ((y == 1.0).sum(), (y == -1.0).sum())
    allowed = (wanted.positives, samples - wanted.positives)
    if labels != allowed:
        raise store.DataMismatch(
            f"{source} must have {allowed[0]} labels +1 and {allowed[1]} labels -1, got {labels[0]} and {labels[1]}"
        )
    if not np.isfinite(X).all() or (copy.logarithm and X.min() <= 0.0):
        kind = "positive and finite" if copy.logarithm else "finite"
        raise store.DataMismatch(f"{source} must have {kind} values in X, and some are not")
    if copy.logarithm:
        X = np.log10(X)
    names = arrays.get("feature_names")
    scaled = "; each gene scaled to mean 0 and variance 1." if standardize else "."
    return Microarray(
        X=scaling.standardize(X) if standardize else X,
        y=y,
        feature_names=None if names is None else tuple(names.tolist()),
        description=f"{wanted.samples}; {copy.values}{scaled}",
        source=source,
    )


def _unavailable(wanted: _DataSet, tried: list[str]) -> store.DataUnavailable:
    """The error that says what was tried and what to do."""
    try:
        remedy = ", " + wanted.remedy.format(
            file=wanted.copies[-1].file, cache=store.cache_folder()
        )
    except MissingExtra:  # `tried` says what to install
        remedy = ""
    return store.DataUnavailable(
        f"the {wanted.title} data are not on this machine and could not be fetched. Tried: {'; '.join(tried)}. "
        f"Set {store.FOLDER_VARIABLE} to a folder that holds {wanted.copies[0].file}{remedy}."
    )

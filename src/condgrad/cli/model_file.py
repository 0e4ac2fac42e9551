"""A fitted model as plain JSON: nothing in it can run, and every field is checked when it is read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from condgrad.cli.column_names import Known
from condgrad.cli.outcome import BadInput
from condgrad.cli.tables import Naming, Table, listed
from condgrad.linear_model import ConstrainedElasticNet, ConstrainedLinearSVC, ConstrainedLogisticRegression

FORMAT, VERSION = "condgrad linear model", 2
LOGISTIC, SQUARES, HINGE = "logistic", "least-squares", "squared-hinge"
KINDS = {LOGISTIC: ConstrainedLogisticRegression, SQUARES: ConstrainedElasticNet, HINGE: ConstrainedLinearSVC}

Label = str | int | float


@dataclass(frozen=True)
class Model:
    """score = coef . (x - center) / scale + intercept, a row of coefficients for each problem that was solved."""

    kind: str
    target: str
    classes: tuple[Label, ...]
    """In the order of the estimator; empty for least squares."""
    naming: Naming
    """Where the names of the features come from: files number their columns from 0 or from 1, or have a header."""
    features: tuple[str, ...]
    center: tuple[float, ...]
    scale: tuple[float, ...]
    coef: tuple[tuple[float, ...], ...]
    intercept: tuple[float, ...]
    radius: float
    ridge: float

    @property
    def used(self) -> Any:
        """Which features have a coefficient other than 0 in some row."""
        return np.any(np.array(self.coef) != 0.0, axis=0)

    @property
    def plain_coef(self) -> Any:
        """The coefficients in the units of the data, shape (problems, features)."""
        return np.array(self.coef) / np.array(self.scale)

    @property
    def plain_intercept(self) -> Any:
        return np.array(self.intercept) - self.plain_coef @ np.array(self.center)

    def standardized(self, X: Any) -> Any:
        """(X - center) / scale; a sparse matrix, whose centers are 0, stays sparse."""
        scale = np.array(self.scale)
        if sparse.issparse(X):
            return (X @ sparse.diags(1.0 / scale)).tocsr()
        return (X - np.array(self.center)) / scale

    def estimator(self) -> Any:
        """The fitted estimator, for standardised columns."""
        estimator = KINDS[self.kind](radius=self.radius, ridge=self.ridge)
        coef, intercept = np.array(self.coef), np.array(self.intercept)
        estimator.n_features_in_ = len(self.features)
        if self.kind == SQUARES:
            estimator.coef_, estimator.intercept_ = coef[0], float(intercept[0])
        else:
            estimator.coef_, estimator.intercept_ = coef, intercept
            estimator.classes_ = np.array(self.classes)
        return estimator

    def matrix_from(self, table: Table) -> Any:
        """The standardised columns of a table; one whose coefficients are all 0 may be absent."""
        found = Known(self.naming, self.features, self.target).found_in(table)
        needed = [name for name, used in zip(self.features, self.used, strict=True) if used]
        absent = [name for name in needed if name not in found]
        if absent and not table.naming.is_libsvm:
            what = "column" if len(absent) == 1 else "columns"
            raise BadInput(f"{table.source} lacks the {what} {listed(absent)} that the model needs")
        if table.is_sparse:
            return self.standardized(self._sparse_matrix_from(table, found))
        full = np.tile(np.array(self.center), (table.rows, 1))
        full[:, self.used] = table.features([found[name] for name in needed])
        return self.standardized(full)

    def _sparse_matrix_from(self, table: Table, found: Mapping[str, str]) -> Any:
        """The columns that the model uses; one that a libsvm file does not mention is 0."""
        shared = [j for j, name in enumerate(self.features) if name in found and self.used[j]]
        entries = table.features([found[self.features[j]] for j in shared]).tocoo()
        columns = np.array(shared, dtype=np.int64)[entries.col]
        full = sparse.csr_matrix((entries.data, (entries.row, columns)), shape=(table.rows, len(self.features)))
        return full.toarray() if any(self.center) else full


def to_json(model: Model) -> str:
    """The text of a model file; floats are written so that they are read back bit by bit."""
    return json.dumps({"format": FORMAT, "version": VERSION, **asdict(model)}, indent=1, allow_nan=False) + "\n"


def from_json(content: bytes, *, source: str) -> Model:
    """The model in a file, or a sentence on the first field that is not as it must be."""
    try:
        fields = json.loads(content.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except RecursionError:
        raise BadInput(f"{source} is nested too deeply to be a model") from None
    except UnicodeDecodeError:
        raise BadInput(f"{source} is not JSON: it holds bytes that are not UTF-8 text") from None
    except ValueError as error:
        raise BadInput(f"{source} is not the JSON of a model: {str(error).splitlines()[0]}") from None
    try:
        return _checked(fields)
    except _Wrong as wrong:
        raise BadInput(f"{source} is not a model that can be used: {wrong}; write it with condgrad fit") from None


class _Wrong(Exception):
    """A field that is not as it must be."""


def _refuse_constant(constant: str) -> float:
    raise ValueError(f"{constant} is not a finite number")


def _checked(fields: Any) -> Model:
    if not isinstance(fields, dict):
        raise _Wrong(f"it holds a {type(fields).__name__}, not an object")
    if _field(fields, "format") != FORMAT:
        raise _Wrong(f"format must be {FORMAT!r}, got {_shown(fields['format'])}")
    version = _field(fields, "version")
    if version != VERSION or isinstance(version, bool):
        raise _Wrong(f"version must be {VERSION}, got {_shown(version)}")
    kind = _field(fields, "kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise _Wrong(f"kind must be one of {', '.join(KINDS)}, got {_shown(kind)}")
    naming = _naming(fields)
    features = _features(fields, naming)
    classes = _classes(fields, kind)
    problems = 1 if len(classes) <= 2 else len(classes)
    scale = _numbers(_field(fields, "scale"), "scale", size=len(features))
    if any(entry <= 0.0 for entry in scale):
        raise _Wrong(f"scale must hold numbers > 0, got {min(scale)}")
    rows = _sequence(_field(fields, "coef"), "coef", size=problems)
    return Model(
        kind=kind,
        target=_text(_field(fields, "target"), "target"),
        classes=classes,
        naming=naming,
        features=features,
        center=_numbers(_field(fields, "center"), "center", size=len(features)),
        scale=scale,
        coef=tuple(_numbers(row, f"coef[{k}]", size=len(features)) for k, row in enumerate(rows)),
        intercept=_numbers(_field(fields, "intercept"), "intercept", size=problems),
        radius=_number(_field(fields, "radius"), "radius"),
        ridge=_number(_field(fields, "ridge"), "ridge"),
    )


def _field(fields: Mapping[str, Any], name: str) -> Any:
    if name not in fields:
        raise _Wrong(f"the field {name!r} is missing")
    return fields[name]


def _sequence(value: Any, name: str, *, size: int | None = None) -> Sequence[Any]:
    if not isinstance(value, list):
        raise _Wrong(f"{name} must be a list, got {_shown(value)}")
    if size is not None and len(value) != size:
        raise _Wrong(f"{name} must have {size} entries, got {len(value)}")
    return value


def _number(value: Any, name: str) -> float:
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise _Wrong(f"{name} must be a finite number, got {_shown(value)}")
        return float(value)
    except OverflowError:
        raise _Wrong(f"{name} must be a finite number, got an integer beyond all floats") from None


def _numbers(value: Any, name: str, *, size: int) -> tuple[float, ...]:
    return tuple(_number(entry, f"{name}[{j}]") for j, entry in enumerate(_sequence(value, name, size=size)))


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise _Wrong(f"{name} must be text, got {_shown(value)}")
    return value


def _naming(fields: Mapping[str, Any]) -> Naming:
    naming = _field(fields, "naming")
    if not isinstance(naming, str) or naming not in list(Naming):
        raise _Wrong(f"naming must be one of {', '.join(Naming)}, got {_shown(naming)}")
    return Naming(naming)


def _features(fields: Mapping[str, Any], naming: Naming) -> tuple[str, ...]:
    entries = _sequence(_field(fields, "features"), "features")
    names = tuple(_text(entry, f"features[{j}]") for j, entry in enumerate(entries))
    if not names or len(set(names)) != len(names):
        raise _Wrong("features must hold one or more names, each once")
    for name in names if naming is not Naming.HEADER else ():
        if not (name.isascii() and name.isdecimal() and len(name) < 10 and int(name) >= naming.first):
            raise _Wrong(f"features must be numbers, as naming is {naming.value!r}, got {_shown(name)}")
    return names


def _classes(fields: Mapping[str, Any], kind: str) -> tuple[Label, ...]:
    """Labels of one type, in rising order as the estimators keep them."""
    labels = _sequence(_field(fields, "classes"), "classes")
    if kind == SQUARES:
        if labels:
            raise _Wrong(f"classes must be empty for {SQUARES}, got {len(labels)}")
        return ()
    check = _text if all(isinstance(label, str) for label in labels) else _number
    for j, label in enumerate(labels):
        check(label, f"classes[{j}]")
    if len(labels) < 2 or any(not a < b for a, b in pairwise(labels)):
        raise _Wrong("classes must hold two or more labels in rising order")
    return tuple(labels)


def _shown(value: Any) -> str:
    """A value in a message, cut where it is long."""
    text = repr(value) if isinstance(value, (str, int, float, bool, type(None))) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."

"""A fitted linear model as plain JSON. Nothing in the file can run, and every field is checked when
it is read.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from condgrad.errors import listed

MODEL_FORMAT = "condgrad linear model"
VERSION = 3
STORED_PRECISIONS = ("float64", "float32")
PARAMETERS = (
    "radius", "ridge", "alpha", "C", "l1_ratio", "penalty", "loss", "delta", "fit_intercept", "standardize",
    "penalty_factors", "impute", "positive", "groups", "multi_class", "class_weight", "tol", "max_iter", "method",
)  # fmt: skip
"""The parameters that say which problem was solved, and how exactly."""
PROOF = (
    "objective_", "dual_gap_", "relative_gap_", "multiplier_", "radius_", "ridge_", "n_iter_",
)  # fmt: skip
"""The attributes of an estimator that prove how good its solution is."""


NAMED_ESTIMATORS: dict[str, Any] = {}
"""The classes that a file may name, by their names: those that fit one size of the coefficients.
The package puts them here, because they know this module.
"""


class Naming(StrEnum):
    """Where the names of columns come from."""

    HEADER = "header"
    POSITIONS = "positions from 0"
    LIBSVM = "libsvm indices from 1"
    LIBSVM_FROM_0 = "libsvm indices from 0"

    @property
    def is_libsvm(self) -> bool:
        return self in (Naming.LIBSVM, Naming.LIBSVM_FROM_0)

    @property
    def first(self) -> int:
        """The number of the first column, where columns are numbered."""
        return 1 if self is Naming.LIBSVM else 0


@dataclass(frozen=True, kw_only=True)
class FittedModel:
    """score = coef . x + intercept, a row of coefficients for each problem or class."""

    estimator: str
    """The name of its class in `condgrad.linear_model`."""
    parameters: Mapping[str, Any]
    """Those that are not at their default."""
    classes: tuple[Any, ...]
    """In the order of the estimator; empty for numbers."""
    naming: Naming
    """Where the names of the features come from: files number their columns from 0 or from 1, or
    have a header.
    """
    features: tuple[str, ...]
    coef: tuple[tuple[float, ...], ...]
    intercept: tuple[float, ...]
    precision: str
    proof: Mapping[str, Any]
    """Attributes of the fitted estimator, a number or a list of numbers each; None is infinity."""
    fill_values: tuple[float, ...] | None = None
    """What stands in for missing entries, where `parameters` have `impute`."""
    target: str | None = None
    row_id: str | None = None
    """The column that named the rows."""
    offset: str | None = None
    """The column of the offset."""
    drops_rows: bool = False
    """Whether rows with missing entries were left out."""

    def __post_init__(self) -> None:
        self._check_parameters()
        self._check_classes()
        _require(len(set(self.features)) == len(self.features), "features must hold each name once")
        for name in self.features if self.naming is not Naming.HEADER else ():
            numbered = name.isascii() and name.isdecimal() and len(name) < 10
            _require(
                numbered and int(name) >= self.naming.first,
                f"features must be numbers, as naming is {self.naming.value!r}, got {name!r}",
            )
        width = len(self.features)
        sizes = {"coef": self.problems, "intercept": self.problems, "fill_values": width}
        if self.fill_values is None:
            del sizes["fill_values"]
        for name, size in sizes.items():
            length = len(getattr(self, name))
            _require(length == size, f"{name} must have {size} entries, got {length}")
        for row in self.coef:
            _require(len(row) == width, f"a row of coef must have {width} entries, got {len(row)}")

    def _check_parameters(self) -> None:
        """Names that the estimator has, and numbers to fill with where it fills."""
        accepted = inspect.signature(NAMED_ESTIMATORS[self.estimator]).parameters
        for name in self.parameters:
            _require(
                name in accepted and name in PARAMETERS,
                f"parameters: {self.estimator} has no {name!r} that a file may hold",
            )
        fills = self.parameters.get("impute") is not None
        _require(
            fills == (self.fill_values is not None),
            "fill_values must be there if the parameters have impute, and only then",
        )

    def _check_classes(self) -> None:
        """Labels of one type, in rising order as the estimators keep them."""
        if not is_classifier(NAMED_ESTIMATORS[self.estimator]()):
            _require(
                not self.classes,
                f"classes must be empty for {self.estimator}, got {len(self.classes)}",
            )
            return
        _require(
            len({isinstance(label, str) for label in self.classes}) <= 1,
            "classes must be all text or all numbers",
        )
        rising = len(self.classes) >= 2 and all(a < b for a, b in pairwise(self.classes))
        _require(rising, "classes must hold two or more labels in rising order")

    @classmethod
    def of(
        cls,
        fitted: Any,
        *,
        naming: Naming | None = None,
        features: Sequence[Any] = (),
        **table: Any,
    ) -> FittedModel:
        """The model that an estimator has fitted; names of columns where it does not know them."""
        fitted_names = getattr(fitted, "feature_names_in_", None)
        if naming is None:
            naming = Naming.POSITIONS if fitted_names is None else Naming.HEADER
            features = range(fitted.n_features_in_) if fitted_names is None else fitted_names
        name, parameters = selected(fitted)
        coef = np.atleast_2d(fitted._dense_coef())
        fills = getattr(fitted, "fill_values_", None) if fitted.impute is not None else None
        return cls(
            estimator=name,
            parameters=parameters,
            classes=tuple(_plain(getattr(fitted, "classes_", ()))),
            naming=naming,
            features=tuple(map(str, features)),
            coef=tuple(map(tuple, coef.tolist())),
            intercept=tuple(np.atleast_1d(fitted.intercept_).tolist()),
            precision=str(coef.dtype),
            proof={each: _json_number(_plain(getattr(fitted, each))) for each in PROOF if hasattr(fitted, each)},
            fill_values=None if fills is None else tuple(fills.tolist()),
            **table,
        )  # fmt: skip

    @property
    def problems(self) -> int:
        """How many rows of coefficients there are."""
        return 1 if len(self.classes) <= 2 else len(self.classes)

    @property
    def used(self) -> Any:
        """Which features have a coefficient other than 0 in some row."""
        return np.any(np.array(self.coef) != 0.0, axis=0)

    def columns(self, source: str, names: Sequence[str], naming: Naming) -> dict[str, str]:
        """The column of each feature that a table has: names, positions and libsvm indices do not
        mix by chance.

        A `ValueError` says why the columns of the `source` cannot be those of the model.
        """
        shift = 0
        if naming is not Naming.HEADER:
            by_name = f"the model knows its own by the names of a header, {listed(self.features)}"
            numbered = self.naming is not Naming.HEADER
            _require(
                numbered,
                f"{source} numbers its columns, and {by_name}: give a table with these names",
            )
            shift = naming.first - self.naming.first
            self._check_places(source, len(names), naming)
        elif self.naming is not Naming.HEADER and not set(names).isdisjoint(self.features):
            self._check_first(source, from_0="0" in names)
        present = set(names)
        places = {name: str(int(name) + shift) if shift else name for name in self.features}
        found = {name: column for name, column in places.items() if column in present}
        fitted_to = f"it has {listed(names)}, and the model was fitted to {listed(self.features)}"
        _require(bool(found), f"{source} has no column of the model: {fitted_to}")
        return found

    def _check_first(self, source: str, *, from_0: bool) -> None:
        """Numbers of columns must count from where the model's do; it may not have used its first
        one.
        """
        alike = self.naming.first == 0 if from_0 else "0" not in self.features
        counts = (
            f"counts its columns from {0 if from_0 else 1}, and the model from {self.naming.first}"
        )
        _require(alike, f"{source} {counts}: number both in the same way")

    def _check_places(self, source: str, width: int, naming: Naming) -> None:
        """Columns that are matched by their places are as many as the model's, with the target
        where it was.
        """
        last = max(map(int, self.features))
        if self.naming.is_libsvm and naming.is_libsvm:
            if naming.first == 0:  # the other way round the file may just not mention feature 0
                self._check_first(source, from_0=True)
        elif naming.is_libsvm:
            amid = (self.target or "").isdecimal() and int(self.target or "") < last
            place = f"a matrix with the target in its column {self.target}: give such a matrix"
            _require(
                not amid, f"{source} keeps its label apart, and the model was fitted to {place}"
            )
        else:
            wanted = last - self.naming.first + 1
            # where the model's label was apart, one column more could be the target
            fits = width == wanted if self.naming.is_libsvm else width >= wanted
            advice = "give the same columns in the same order, and no column that is not a feature"
            _require(
                fits,
                f"{source} has {width} columns, and the model was fitted to {wanted}: {advice}",
            )

    def unfitted(self) -> Any:
        """The estimator before its fit."""
        parameters = dict(self.parameters)
        if isinstance(parameters.get("class_weight"), list):
            parameters["class_weight"] = dict(parameters["class_weight"])
        return NAMED_ESTIMATORS[self.estimator](**parameters)

    def fitted(self, features: Sequence[int] | None = None) -> Any:
        """The fitted estimator, of all features or of some by their places."""
        estimator = self.unfitted()
        places = range(len(self.features)) if features is None else features
        chosen = np.array(places, dtype=int)
        if features is None and self.naming is Naming.HEADER:
            estimator.feature_names_in_ = np.array(self.features, dtype=object)
        estimator.n_features_in_ = len(chosen)
        estimator.coef_ = np.array(self.coef, dtype=self.precision)[:, chosen]
        estimator.intercept_ = np.array(self.intercept, dtype=self.precision)
        if self.fill_values is not None:
            estimator.fill_values_ = np.array(self.fill_values)[chosen]
        for name, value in self.proof.items():
            numbers = np.array(value, dtype=float)  # None is NaN here
            told = np.where(np.isnan(numbers), math.inf, numbers)
            if name == "n_iter_":
                told = told.astype(int)
            setattr(estimator, name, told if told.ndim else told.item())
        if self.classes:
            estimator.classes_ = np.array(self.classes)
        else:
            estimator.coef_ = estimator.coef_[0]
            estimator.intercept_ = float(estimator.intercept_[0])
        return estimator

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        unfinished = path.with_name(f".{path.name}.unfinished")
        try:
            unfinished.write_text(self.json(), encoding="utf-8")
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)

    def json(self) -> str:
        fields = {"format": MODEL_FORMAT, "version": VERSION, **asdict(self)}
        return json.dumps(fields, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def selected(fitted: Any) -> tuple[str, dict[str, Any]]:
    """The class and the parameters of a model, or of what a search has selected."""
    name = type(fitted).__name__.removesuffix("CV")
    _require(
        name in NAMED_ESTIMATORS and type(fitted).__module__.startswith("condgrad."),
        f"save is for the estimators of condgrad.linear_model, not for {type(fitted).__name__}",
    )
    given = fitted.get_params(deep=False)
    if type(fitted) is not NAMED_ESTIMATORS[name]:
        given |= {
            each: getattr(fitted, f"{each}_") for each in PARAMETERS if hasattr(fitted, f"{each}_")
        }
        given["penalty"] = "elasticnet"  # a search has the share of |coef|_1 alone
    parameters = {}
    for parameter in inspect.signature(NAMED_ESTIMATORS[name]).parameters.values():
        value = _plain(given.get(parameter.name, parameter.default))
        if parameter.name in PARAMETERS and value != parameter.default:
            parameters[parameter.name] = value
    return name, parameters


def load(path: str | Path) -> Any:
    """Load a fitted model that `save` or `condgrad fit` wrote.

    Parameters
    ----------
    path : str or path
        The file, such as "model.json".

    Returns
    -------
    estimator
        The fitted estimator, with its proof (`dual_gap_`, `relative_gap_`, ...). If a search
        (`...CV`) was saved, this is the selected model, such as a `Lasso` from a `LassoCV`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from condgrad import linear_model
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0.0, 1.1, 1.9, 3.2, 4.0, 4.9]
    >>> model = linear_model.LassoCV(alphas=5, cv=3).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(pathlib.Path(folder) / "model.json")
    ...     again = linear_model.load(pathlib.Path(folder) / "model.json")
    >>> type(again).__name__, again.alpha == model.alpha_, again.dual_gap_ == model.dual_gap_
    ('Lasso', True, True)
    """
    content = Path(path).read_bytes()
    if content.startswith(b"PK"):
        raise ValueError(
            f"{path} is not a linear model: load results with condgrad.load({str(path)!r})"
        )
    try:
        return parsed(content).fitted()
    except ValueError as error:
        raise ValueError(f"{path} is not a model that condgrad saved: {error}") from None


# --- reading: each field by its own check, and one sentence


def parsed(content: bytes) -> FittedModel:
    """The model that a file holds, or a `ValueError` that names the first field that is not as it
    must be.
    """
    try:
        fields = json.loads(content.removeprefix(b"\xef\xbb\xbf"), parse_constant=_no_number)
        json.dumps(fields, ensure_ascii=False).encode()  # letters that no file can hold
    except (ValueError, RecursionError) as error:
        raise ValueError(f"Invalid JSON: {str(error).splitlines()[0]}") from None
    _require(isinstance(fields, dict), "the file must hold an object with named fields")
    for name, expected in (("format", MODEL_FORMAT), ("version", VERSION)):
        _require(name in fields, f"{name}: the field is missing")
        same = type(fields[name]) is type(expected) and fields[name] == expected
        _require(same, f"{name} must be {expected!r}, got {_short(fields[name])}")
    checked = {}
    for name, check in FIELDS.items():
        required = name not in FITTED_DEFAULTS
        _require(name in fields or not required, f"{name}: the field is missing")
        if name in fields:
            try:
                checked[name] = check(fields[name])
            except (TypeError, ValueError, OverflowError) as error:
                raise ValueError(f"{name} {error}, got {_short(fields[name])}") from None
    return FittedModel(**checked)


FITTED_DEFAULTS = ("fill_values", "target", "row_id", "offset", "drops_rows")
"""Fields that a file need not have."""


def _short(value: Any) -> str:
    return repr(value)[:40]


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _text(value: Any) -> str:
    _require(isinstance(value, str), "must be text")
    return str(value)


def _number(value: Any) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool)
    _require(good and math.isfinite(float(value)), "must be a finite number")
    return float(value)


def _label(value: Any) -> Any:
    return value if isinstance(value, str | bool | int) else _number(value)


def _list_of(check: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """A list whose entries are all good."""

    def checked(value: Any) -> tuple[Any, ...]:
        _require(isinstance(value, list) and bool(value), "must be a list with entries")
        return tuple(map(check, value))

    return checked


def _or_none(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else check(value)


def _among(allowed: Callable[[], Sequence[str]]) -> Callable[[Any], str]:
    def checked(value: Any) -> str:
        good = isinstance(value, str) and value in allowed()
        _require(good, f"must be one of {', '.join(allowed())}")
        return str(value)

    return checked


def _truth(value: Any) -> bool:
    _require(isinstance(value, bool), "must be true or false")
    return bool(value)


def _plain_entry(value: Any) -> Any:
    good = value is None or isinstance(value, str | bool | int) or math.isfinite(_number(value))
    _require(good, "must hold text and numbers")
    return value


def _parameters(value: Any) -> dict[str, Any]:
    """Plain values, or lists of them; the weights of classes are pairs."""
    _require(isinstance(value, dict), "must be an object with named fields")
    for each in value.values():
        for entry in each if isinstance(each, list) else [each]:
            for part in entry if isinstance(entry, list) else [entry]:
                _plain_entry(part)
    return dict(value)


def _proof(value: Any) -> dict[str, Any]:
    _require(isinstance(value, dict) and set(value) <= set(PROOF), f"must have names of {PROOF}")
    for each in value.values():
        for number in each if isinstance(each, list) else [each]:
            _or_none(_number)(number)
    return dict(value)


FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "estimator": _among(lambda: list(NAMED_ESTIMATORS)),
    "parameters": _parameters,
    "classes": lambda value: () if value == [] else _list_of(_label)(value),
    "naming": lambda value: Naming(_among(lambda: [each.value for each in Naming])(value)),
    "features": _list_of(_text),
    "coef": _list_of(_list_of(_number)),
    "intercept": _list_of(_number),
    "precision": _among(lambda: STORED_PRECISIONS),
    "proof": _proof,
    "fill_values": _or_none(_list_of(_number)),
    "target": _or_none(_text),
    "row_id": _or_none(_text),
    "offset": _or_none(_text),
    "drops_rows": _truth,
}
"""What each field must be; they are those of `FittedModel`."""


def _plain(value: Any) -> Any:
    """Numbers, text and lists of Python, from those of NumPy and pandas; a dict as pairs."""
    if isinstance(value, Mapping):
        return [[_plain(key), _plain(each)] for key, each in value.items()]
    if hasattr(value, "tolist"):
        return value.tolist()
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def _json_number(value: Any) -> Any:
    """What JSON can hold: None for infinity."""
    if isinstance(value, list):
        return [_json_number(each) for each in value]
    return value if math.isfinite(value) else None


def _require(good: bool, sentence: str) -> None:
    if not good:
        raise ValueError(sentence)

"""A fitted model as plain JSON: nothing in it can run, and every field is checked when it is read."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, field_validator, model_validator
from scipy import sparse
from sklearn.base import is_classifier

from condgrad import linear_model
from condgrad.cli.files import Naming, Table
from condgrad.cli.report import BadInput, listed, shortened
from condgrad.linear_model.cross_validation import CrossValidated
from condgrad.linear_model.path import ESTIMATORS

CHOOSERS = {
    name: next(
        found
        for found in vars(linear_model).values()
        if inspect.isclass(found) and issubclass(found, CrossValidated) and found.loss is estimator.loss
    )
    for name, estimator in ESTIMATORS.items()
}
"""The estimators that choose radius and ridge by cross-validation, by loss."""

LABELS, NUMBERS = "logistic", "least-squares"
"""The losses for targets of labels and of numbers, unless another one is asked for."""

Label = str | int | FiniteFloat


def classifies(loss: str) -> bool:
    return bool(is_classifier(ESTIMATORS[loss]()))


class Model(BaseModel):
    """score = coef . (x - center) / scale + intercept, a row of coefficients for each problem that was solved."""

    model_config = ConfigDict(strict=True, frozen=True)

    format: Literal["condgrad linear model"]
    version: Literal[2]
    kind: str
    """The loss."""
    target: str
    classes: tuple[Label, ...]
    """In the order of the estimator; empty for numbers."""
    naming: Naming
    """Where the names of the features come from: files number their columns from 0 or from 1, or have a header."""
    features: Annotated[tuple[str, ...], Field(min_length=1)]
    center: tuple[FiniteFloat, ...]
    scale: tuple[Annotated[FiniteFloat, Field(gt=0.0)], ...]
    coef: tuple[tuple[FiniteFloat, ...], ...]
    intercept: tuple[FiniteFloat, ...]
    radius: FiniteFloat
    ridge: FiniteFloat
    row_id: str | None = None
    """The column that named the rows; files of before have none."""

    @field_validator("kind")
    @classmethod
    def _is_a_loss(cls, kind: str) -> str:
        if kind not in ESTIMATORS:
            raise ValueError(f"must be one of {', '.join(ESTIMATORS)}")
        return kind

    @model_validator(mode="after")
    def _fits_together(self) -> Model:
        self._check_classes()
        if len(set(self.features)) != len(self.features):
            raise ValueError("features must hold each name once")
        for name in self.features if self.naming is not Naming.HEADER else ():
            if not (name.isascii() and name.isdecimal() and len(name) < 10 and int(name) >= self.naming.first):
                raise ValueError(f"features must be numbers, as naming is {self.naming.value!r}, got {name!r}")
        problems = 1 if len(self.classes) <= 2 else len(self.classes)
        sizes = {"center": len(self.features), "scale": len(self.features), "coef": problems, "intercept": problems}
        for name, size in sizes.items():
            if len(getattr(self, name)) != size:
                raise ValueError(f"{name} must have {size} entries, got {len(getattr(self, name))}")
        for row in self.coef:
            if len(row) != len(self.features):
                raise ValueError(f"a row of coef must have {len(self.features)} entries, got {len(row)}")
        return self

    def _check_classes(self) -> None:
        """Labels of one type, in rising order as the estimators keep them."""
        if not classifies(self.kind):
            if self.classes:
                raise ValueError(f"classes must be empty for {self.kind}, got {len(self.classes)}")
            return
        if len({isinstance(label, str) for label in self.classes}) > 1:
            raise ValueError("classes must be all text or all numbers")
        if len(self.classes) < 2 or any(not a < b for a, b in pairwise(self.classes)):  # type: ignore[operator]
            raise ValueError("classes must hold two or more labels in rising order")

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

    def predictor(self, table: Table) -> tuple[Any, Any]:
        """A fitted estimator of the used features that a table has, and their standardised columns."""
        found = _columns_of_features(self, table)
        needed = np.flatnonzero(self.used).tolist()
        present = [j for j in needed if self.features[j] in found]
        absent = [j for j in needed if self.features[j] not in found]
        if absent and not table.naming.is_libsvm:
            names = listed([self.features[j] for j in absent])
            raise BadInput(f"{table.source} lacks {names}, which the model needs")
        X = table.features([found[self.features[j]] for j in present], droppable=False)
        center, scale, coef = np.array(self.center), np.array(self.scale), np.array(self.coef)
        if sparse.issparse(X) and not center[present].any():
            X = (X @ sparse.diags(1.0 / scale[present])).tocsr()
        else:
            X = ((X.toarray() if sparse.issparse(X) else X) - center[present]) / scale[present]
        # what a libsvm file does not mention is 0
        intercept = np.array(self.intercept) - coef[:, absent] @ (center / scale)[absent]
        estimator = ESTIMATORS[self.kind](radius=self.radius, ridge=self.ridge)
        estimator.n_features_in_ = len(present)
        estimator.coef_, estimator.intercept_ = coef[:, present], intercept
        if classifies(self.kind):
            estimator.classes_ = np.array(self.classes)
        else:
            estimator.coef_, estimator.intercept_ = estimator.coef_[0], float(intercept[0])
        return estimator, X


def _columns_of_features(model: Model, table: Table) -> Mapping[str, str]:
    """The table's column of each feature that it has: names, positions and libsvm indices do not mix by chance."""
    shift = 0
    if table.naming is not Naming.HEADER:
        if model.naming is Naming.HEADER:
            raise BadInput(
                f"{table.source} numbers its columns, and the model knows its own by the names of a header, "
                f"{listed(model.features)}: give a table with these names"
            )
        shift = table.naming.first - model.naming.first
        _check_places(model, table)
    elif model.naming is not Naming.HEADER and not set(table.names).isdisjoint(model.features):
        _check_first("0" in table.names, model, table)
    present = set(table.names)
    places = {name: str(int(name) + shift) if shift else name for name in model.features}
    found = {name: column for name, column in places.items() if column in present}
    if not found:
        raise BadInput(
            f"{table.source} has no column of the model: it has {listed(table.names)}, and the model was fitted "
            f"to {listed(model.features)}"
        )
    return found


def _check_first(from_0: bool, model: Model, table: Table) -> None:
    """Numbers of columns must count from where the model's do; it may not have used its first one."""
    if (from_0 and model.naming.first == 1) or (not from_0 and "0" in model.features):
        counts = f"counts its columns from {0 if from_0 else 1}"
        raise BadInput(f"{table.source} {counts}, and the model from {model.naming.first}: number both alike")


def _check_places(model: Model, table: Table) -> None:
    """Columns that are matched by their places are as many as the model's, with the target where it was."""
    last = max(map(int, model.features))
    if model.naming.is_libsvm and table.naming.is_libsvm:
        if table.naming.first == 0:  # the other way round the file may just not mention feature 0
            _check_first(True, model, table)
    elif table.naming.is_libsvm:
        if model.target.isdecimal() and int(model.target) < last:
            raise BadInput(
                f"{table.source} keeps its label apart, and the model was fitted to a matrix with the target amid its "
                f"columns, at {model.target}: give such a matrix"
            )
    else:
        wanted, width = last - model.naming.first + 1, len(table.names)
        if width < wanted or (model.naming.is_libsvm and width > wanted):  # one of the others could be the target
            raise BadInput(
                f"{table.source} has {width} columns, and the model was fitted to {wanted}: "
                "give the same columns in the same order, without what is no feature"
            )


def read_model(content: bytes, *, source: str) -> Model:
    """The model in a file, or a sentence on the first field that is not as it must be."""
    try:
        return Model.model_validate_json(content.removeprefix(b"\xef\xbb\xbf"))
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
    place = ".".join(map(str, wrong["loc"]))
    said = wrong["msg"].removeprefix("Value error, ").splitlines()[0]
    given = "" if isinstance(wrong["input"], (dict, list, bytes)) else f", got {shortened(repr(wrong['input']))}"
    raise BadInput(
        f"{source} is not a model that can be used: {place + ': ' if place else ''}{said}{given}; "
        "write it with condgrad fit"
    )

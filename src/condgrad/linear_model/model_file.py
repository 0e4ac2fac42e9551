"""A fitted linear model as plain JSON: nothing in it can run, and every field is checked when it is
read.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    ValidationError,
    field_validator,
    model_validator,
)
from sklearn.base import is_classifier

from condgrad.errors import listed, require_extra
from condgrad.linear_model.path import ESTIMATORS

Label = str | int | FiniteFloat


def classifies(loss: str) -> bool:
    return bool(is_classifier(ESTIMATORS[loss]()))


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


class FittedModel(BaseModel):
    """score = coef . (x - center) / scale + intercept, a row of coefficients for each problem that
    was solved.
    """

    model_config = ConfigDict(strict=True, frozen=True)

    format: Literal["condgrad linear model"]
    version: Literal[2]
    kind: str
    """The loss."""
    target: str
    classes: tuple[Label, ...]
    """In the order of the estimator; empty for numbers."""
    naming: Naming
    """Where the names of the features come from: files number their columns from 0 or from 1, or
    have a header.
    """
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
        _require(kind in ESTIMATORS, f"must be one of {', '.join(ESTIMATORS)}")
        return kind

    @model_validator(mode="after")
    def _fits_together(self) -> FittedModel:
        self._check_classes()
        _require(len(set(self.features)) == len(self.features), "features must hold each name once")
        for name in self.features if self.naming is not Naming.HEADER else ():
            numbered = (
                name.isascii()
                and name.isdecimal()
                and len(name) < 10
                and int(name) >= self.naming.first
            )
            _require(
                numbered,
                f"features must be numbers, as naming is {self.naming.value!r}, got {name!r}",
            )
        problems = 1 if len(self.classes) <= 2 else len(self.classes)
        sizes = {
            "center": len(self.features),
            "scale": len(self.features),
            "coef": problems,
            "intercept": problems,
        }
        for name, size in sizes.items():
            found = len(getattr(self, name))
            _require(found == size, f"{name} must have {size} entries, got {found}")
        for row in self.coef:
            width = len(self.features)
            _require(len(row) == width, f"a row of coef must have {width} entries, got {len(row)}")
        return self

    def _check_classes(self) -> None:
        """Labels of one type, in rising order as the estimators keep them."""
        if not classifies(self.kind):
            _require(
                not self.classes, f"classes must be empty for {self.kind}, got {len(self.classes)}"
            )
            return
        _require(
            len({isinstance(label, str) for label in self.classes}) <= 1,
            "classes must be all text or all numbers",
        )
        rising = len(self.classes) >= 2 and all(a < b for a, b in pairwise(self.classes))  # type: ignore[operator]
        _require(rising, "classes must hold two or more labels in rising order")

    @classmethod
    def of(
        cls,
        estimator: Any,
        *,
        kind: str,
        target: str,
        naming: Naming,
        features: Sequence[str],
        center: Any,
        scale: Any,
        row_id: str | None = None,
    ) -> FittedModel:
        """The model that an estimator has fitted to (x - center) / scale."""
        return cls(
            format="condgrad linear model",
            version=2,
            kind=kind,
            target=target,
            classes=tuple(estimator.classes_.tolist()) if classifies(kind) else (),
            naming=naming,
            features=tuple(features),
            center=tuple(np.asarray(center).tolist()),
            scale=tuple(np.asarray(scale).tolist()),
            coef=tuple(map(tuple, np.atleast_2d(estimator.coef_).tolist())),
            intercept=tuple(np.atleast_1d(estimator.intercept_).tolist()),
            radius=float(estimator.radius),
            ridge=float(estimator.ridge),
            row_id=row_id,
        )

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

    def coefficients(self) -> list[Any]:
        """For each problem a DataFrame: the intercept, then coefficients by falling size when
        standardised.
        """
        pandas = require_extra("pandas", extra="pandas", purpose="a table of coefficients")
        blocks = []
        for k, coef in enumerate(np.array(self.coef)):
            order = np.argsort(-np.abs(coef), kind="stable")
            columns = {
                "feature": ["(intercept)", *(self.features[j] for j in order)],
                "coefficient": [self.plain_intercept[k], *self.plain_coef[k][order]],
                "standardised_coefficient": [self.intercept[k], *coef[order]],
            }
            several = {"class": self.classes[k]} if len(self.coef) > 1 else {}
            blocks.append(pandas.DataFrame({**several, **columns}))
        return blocks

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
        _require(alike, f"{source} {counts}: number both alike")

    def _check_places(self, source: str, width: int, naming: Naming) -> None:
        """Columns that are matched by their places are as many as the model's, with the target
        where it was.
        """
        last = max(map(int, self.features))
        if self.naming.is_libsvm and naming.is_libsvm:
            if naming.first == 0:  # the other way round the file may just not mention feature 0
                self._check_first(source, from_0=True)
        elif naming.is_libsvm:
            amid = self.target.isdecimal() and int(self.target) < last
            place = (
                f"a matrix with the target amid its columns, at {self.target}: give such a matrix"
            )
            _require(
                not amid, f"{source} keeps its label apart, and the model was fitted to {place}"
            )
        else:
            wanted = last - self.naming.first + 1
            # where the model's label was apart, one column more could be the target
            fits = width == wanted if self.naming.is_libsvm else width >= wanted
            advice = "give the same columns in the same order, without what is no feature"
            _require(
                fits,
                f"{source} has {width} columns, and the model was fitted to {wanted}: {advice}",
            )

    def estimator(self, features: Sequence[int]) -> Any:
        """A fitted estimator of these features, in the units of the data."""
        fitted = ESTIMATORS[self.kind](radius=self.radius, ridge=self.ridge)
        fitted.n_features_in_ = len(features)
        fitted.coef_ = self.plain_coef[:, features]
        fitted.intercept_ = self.plain_intercept
        if classifies(self.kind):
            fitted.classes_ = np.array(self.classes)
        else:
            fitted.coef_, fitted.intercept_ = fitted.coef_[0], float(fitted.intercept_[0])
        return fitted


def parsed(content: bytes) -> FittedModel:
    """The model that a file holds, or a `ValueError` that names the first field that is not as it
    must be.
    """
    try:
        return FittedModel.model_validate_json(content.removeprefix(b"\xef\xbb\xbf"))
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
    place = f"{'.'.join(map(str, wrong['loc']))}: " if wrong["loc"] else ""
    said = wrong["msg"].removeprefix("Value error, ").splitlines()[0]
    given = (
        ""
        if isinstance(wrong["input"], (dict, list, bytes))
        else f", got {repr(wrong['input'])[:40]}"
    )
    raise ValueError(f"{place}{said}{given}")


def _require(good: bool, sentence: str) -> None:
    if not good:
        raise ValueError(sentence)

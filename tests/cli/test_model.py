"""Model files: what is written is read bit by bit, and a file that is no model is refused field by field."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from condgrad.cli.files import Table
from condgrad.cli.fit import CHOOSERS
from condgrad.cli.fit import NUMBERS as SQUARES
from condgrad.cli.predict import predictor, read_model
from condgrad.cli.report import BadInput
from condgrad.linear_model.model_file import FittedModel, Naming, classifies
from condgrad.linear_model.path import ESTIMATORS
from tests.linear_model import drawn

FINITE = st.floats(allow_nan=False, allow_infinity=False)
LABELS = st.one_of(
    st.lists(st.text(), min_size=2, max_size=4, unique=True),
    st.lists(st.integers(), min_size=2, max_size=4, unique=True),
)


@st.composite
def models(draw: st.DrawFn) -> FittedModel:
    kind = draw(st.sampled_from(sorted(ESTIMATORS)))
    classes: tuple[Any, ...] = () if kind == SQUARES else tuple(sorted(draw(LABELS)))
    naming = draw(st.sampled_from(Naming))
    names = st.text() if naming is Naming.HEADER else st.integers(1, 999_999_999).map(str)
    features = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    problems = len(classes) if len(classes) > 2 else 1

    def numbers(of: st.SearchStrategy[float], size: int) -> tuple[float, ...]:
        return tuple(draw(st.lists(of, min_size=size, max_size=size)))

    return FittedModel(
        format="condgrad linear model",
        version=2,
        kind=kind,
        target=draw(st.text()),
        classes=classes,
        naming=naming,
        features=tuple(features),
        center=numbers(FINITE, len(features)),
        scale=numbers(st.floats(1e-300, 1e300), len(features)),
        coef=tuple(numbers(FINITE, len(features)) for _ in range(problems)),
        intercept=numbers(FINITE, problems),
        radius=draw(FINITE),
        ridge=draw(FINITE),
        row_id=draw(st.none() | st.text()),
    )


def to_json(model: FittedModel) -> str:
    return model.model_dump_json(indent=1)


@given(models())
def test_what_is_written_is_read(model: FittedModel) -> None:
    assert read_model(to_json(model).encode(), source="model.json") == model


@given(st.binary(max_size=60))
def test_garbage_is_one_sentence(content: bytes) -> None:
    with pytest.raises(BadInput) as caught:
        read_model(content, source="model.json")
    assert "\n" not in str(caught.value)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), FINITE, st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(models(), st.data())
def test_a_field_of_another_shape_is_named_or_taken(
    model: FittedModel, data: st.DataObject
) -> None:
    """Whatever stands in a field: a sentence that names it, or a model that has it."""
    fields = json.loads(to_json(model))
    name = data.draw(st.sampled_from(sorted(fields)))
    fields[name] = data.draw(JSON)
    try:
        found, sentence = read_model(json.dumps(fields).encode(), source="model.json"), ""
    except BadInput as error:
        found, sentence = None, str(error)
    assert "\n" not in sentence
    assert (found is None) == sentence.startswith("model.json is not a model that can be used: ")
    if found is not None:
        assert json.loads(to_json(found)) == fields


MODEL = FittedModel(
    format="condgrad linear model",
    version=2,
    kind="logistic",
    target="y",
    classes=("no", "yes"),
    naming=Naming.HEADER,
    features=("a", "b"),
    center=(0.0, 1.0),
    scale=(1.0, 2.0),
    coef=((0.5, 0.0),),
    intercept=(0.1,),
    radius=1.0,
    ridge=0.5,
)
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "version": ({"version": 1}, "version: Input should be 2, got 1"),
    "version of another type": ({"version": True}, "version: Input should be 2, got True"),
    "format": (
        {"format": "pickle"},
        "format: Input should be 'condgrad linear model', got 'pickle'",
    ),
    "kind": (
        {"kind": "forest"},
        "kind: must be one of logistic, least-squares, squared-hinge, got 'forest'",
    ),
    "kind of another type": ({"kind": ["logistic"]}, "kind: "),
    "short coef": ({"coef": [[0.5]]}, "a row of coef must have 2 entries, got 1"),
    "too many rows": ({"coef": [[1, 2], [3, 4]]}, "coef must have 1 entries, got 2"),
    "text coef": ({"coef": [["1", 2]]}, r"coef.0.0: Input should be a valid number, got '1'"),
    "true is no number": (
        {"intercept": [True]},
        r"intercept.0: Input should be a valid number, got True",
    ),
    "giant integer": ({"radius": 10**400}, "radius: Input should be a finite number"),
    "no spread": ({"scale": [1.0, 0.0]}, "scale.1: Input should be greater than 0, got 0.0"),
    "naming": (
        {"naming": "letters"},
        "naming: Input should be 'header', 'positions from 0', .*, got 'letters'",
    ),
    "numbers that are none": (
        {"naming": "positions from 0"},
        "features must be numbers, .*, got 'a'",
    ),
    "an index below the first": (
        {"naming": "libsvm indices from 1", "features": ["1", "0"]},
        "features must be numbers, as naming is 'libsvm indices from 1', got '0'",
    ),
    "same names": ({"features": ["a", "a"]}, "features must hold each name once"),
    "no features": ({"features": []}, "features: "),
    "one class": ({"classes": ["no"]}, "classes must hold two or more labels"),
    "mixed classes": ({"classes": ["no", 1]}, "classes must be all text or all numbers"),
    "classes out of order": ({"classes": ["yes", "no"]}, "in rising order"),
    "classes of numbers": ({"kind": SQUARES}, "classes must be empty for least-squares, got 2"),
}


def test_each_loss_of_the_library_has_its_estimators() -> None:
    assert CHOOSERS.keys() == ESTIMATORS.keys()
    assert [name for name in ESTIMATORS if not classifies(name)] == [SQUARES]


def test_a_file_of_before_is_read() -> None:
    """As the first version of the command wrote it, without the column that names the rows."""
    fields = json.loads(to_json(MODEL))
    del fields["row_id"]
    assert read_model(json.dumps(fields, indent=1).encode(), source="model.json") == MODEL


@pytest.mark.parametrize(("change", "sentence"), REFUSED.values(), ids=REFUSED)
def test_refused_fields(change: dict[str, Any], sentence: str) -> None:
    fields = {**json.loads(to_json(MODEL)), **change}
    with pytest.raises(BadInput, match=sentence):
        read_model(json.dumps(fields).encode(), source="model.json")


@pytest.mark.parametrize("name", sorted(json.loads(to_json(MODEL)).keys() - {"row_id"}))
def test_every_field_is_needed(name: str) -> None:
    fields = {key: value for key, value in json.loads(to_json(MODEL)).items() if key != name}
    with pytest.raises(BadInput, match=f"{name}: Field required"):
        read_model(json.dumps(fields).encode(), source="model.json")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b'{"a": ' * 100_000, "recursion limit"),
        (b"[" * 1_000_000, "recursion limit"),
        (b'{"radius": NaN}', "kind: Field required|format: Field required"),
        (b"9" * 10_000, "Invalid JSON"),
        (b"[]", "should be an object"),
        (b"\x80\x04\x95", "Invalid JSON"),
    ],
)
def test_files_that_are_no_models(content: bytes, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        read_model(content, source="model.json")


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", sorted(ESTIMATORS))
def test_the_file_predicts_as_the_estimator(kind: str, classes: int) -> None:
    """The round trip, through standardisation, sparse tables and columns in another order."""
    X, y = drawn(3, samples=40)
    labels = np.array(["no", "so", "yes"])[
        np.digitize(X[:, 0], np.quantile(X[:, 0], np.arange(1, classes) / classes))
    ]
    center, scale = X.mean(axis=0), X.std(axis=0)
    target = y if kind == SQUARES else labels
    estimator = ESTIMATORS[kind](radius=0.8, ridge=0.1).fit((X - center) / scale, target)
    names = tuple("123456")
    coef = np.atleast_2d(estimator.coef_)
    model = MODEL.model_copy(
        update={
            "kind": kind,
            "classes": () if kind == SQUARES else tuple(estimator.classes_.tolist()),
            "naming": Naming.LIBSVM,
            "features": names,
            "center": tuple(center.tolist()),
            "scale": tuple(scale.tolist()),
            "coef": tuple(map(tuple, coef.tolist())),
            "intercept": tuple(np.atleast_1d(estimator.intercept_).tolist()),
        }
    )
    restored = read_model(to_json(model).encode(), source="model.json")
    shuffled = [names[j] for j in (5, 3, 1, 0, 2, 4)]
    dense = Table("new.csv", pandas.DataFrame(X, columns=names)[shuffled], tuple(shuffled))
    thin = Table(
        "new.svm", pandas.DataFrame(index=range(40)), names, Naming.LIBSVM, sparse.csr_matrix(X)
    )
    for table in (dense, thin):
        again, seen = predictor(restored, table)
        for method in ("predict", "predict_proba", "decision_function"):
            if hasattr(estimator, method):
                expected = getattr(estimator, method)((X - center) / scale)
                found = getattr(again, method)(seen)
                if expected.dtype.kind == "f":
                    np.testing.assert_allclose(found, expected, rtol=1e-9)
                else:
                    np.testing.assert_array_equal(found, expected)
    plain = X @ restored.plain_coef.T + restored.plain_intercept
    np.testing.assert_allclose(
        plain, ((X - center) / scale) @ coef.T + np.atleast_1d(estimator.intercept_), atol=1e-12
    )


def test_only_used_columns_are_needed() -> None:
    table = Table("new.csv", pandas.DataFrame({"a": [1.0], "c": [np.nan]}), ("a", "c"))
    np.testing.assert_array_equal(predictor(MODEL, table)[1], [[1.0]])
    needy = MODEL.model_copy(update={"coef": ((0.5, 1.0),)})
    with pytest.raises(BadInput, match=r"new\.csv lacks 'b', which the model needs"):
        predictor(needy, table)


@pytest.mark.parametrize("center", [0.0, 3.0])
def test_a_sparse_file_need_not_mention_a_column(center: float) -> None:
    """It is 0 there, whether or not the model was fitted to columns about their means."""
    model = MODEL.model_copy(
        update={
            "naming": Naming.LIBSVM,
            "features": ("1", "5"),
            "coef": ((0.5, 1.0),),
            "center": (0.0, center),
        }
    )
    rows = sparse.csr_matrix([[4.0], [0.0]])
    table = Table("new.svm", pandas.DataFrame(index=range(2)), ("1",), Naming.LIBSVM, rows)
    estimator, seen = predictor(model, table)
    np.testing.assert_allclose(
        estimator.decision_function(seen), [2.1 - center / 2.0, 0.1 - center / 2.0]
    )

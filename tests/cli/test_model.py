"""Model files: what is written is read bit by bit, and a file that is no model is refused field by field."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import is_classifier

from condgrad import linear_model
from condgrad.cli.files import Table
from condgrad.cli.fit import CONSTRAINED_ESTIMATORS, PENALISED_ESTIMATORS
from condgrad.cli.predict import predictor, read_model
from condgrad.cli.report import BadInput
from condgrad.cli.training import CLASSIFYING
from condgrad.linear_model.model_file import FIELDS, NAMED_ESTIMATORS, FittedModel, Naming
from condgrad.linear_model.path import ESTIMATORS, LOSSES
from tests.linear_model import drawn

FINITE = st.floats(allow_nan=False, allow_infinity=False)
LABELS = st.one_of(
    st.lists(st.text(), min_size=2, max_size=4, unique=True),
    st.lists(st.integers(), min_size=2, max_size=4, unique=True),
)


@st.composite
def models(draw: st.DrawFn) -> FittedModel:
    name = draw(st.sampled_from(sorted(NAMED_ESTIMATORS)))
    labels = is_classifier(NAMED_ESTIMATORS[name]())
    classes: tuple[Any, ...] = tuple(sorted(draw(LABELS))) if labels else ()
    naming = draw(st.sampled_from(Naming))
    names = st.text() if naming is Naming.HEADER else st.integers(1, 999_999_999).map(str)
    features = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    problems = len(classes) if len(classes) > 2 else 1
    impute = draw(st.sampled_from([None, "median", "mean"]))

    def numbers(size: int) -> tuple[float, ...]:
        return tuple(draw(st.lists(FINITE, min_size=size, max_size=size)))

    return FittedModel(
        estimator=name,
        parameters={"tol": draw(FINITE)} | ({} if impute is None else {"impute": impute}),
        classes=classes,
        naming=naming,
        features=tuple(features),
        coef=tuple(numbers(len(features)) for _ in range(problems)),
        intercept=numbers(problems),
        precision=draw(st.sampled_from(["float64", "float32"])),
        proof={"dual_gap_": draw(FINITE | st.none()), "n_iter_": draw(st.lists(FINITE))},
        fill_values=None if impute is None else numbers(len(features)),
        target=draw(st.none() | st.text()),
        row_id=draw(st.none() | st.text()),
        offset=draw(st.none() | st.text()),
        drops_rows=draw(st.booleans()),
    )


def to_json(model: FittedModel) -> str:
    return model.json()


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
    estimator="ConstrainedLogisticRegression",
    parameters={"radius": 2.0},
    classes=("no", "yes"),
    naming=Naming.HEADER,
    features=("a", "b"),
    coef=((0.5, 0.0),),
    intercept=(0.1,),
    precision="float64",
    proof={"dual_gap_": [1e-9], "n_iter_": [3]},
    target="y",
)
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "version": ({"version": 2}, "version must be 3, got 2"),
    "version of another type": ({"version": True}, "version must be 3, got True"),
    "format": ({"format": "pickle"}, "format must be 'condgrad linear model', got 'pickle'"),
    "estimator": (
        {"estimator": "Forest"},
        "estimator must be one of ConstrainedElasticNet, .*, got 'Forest'",
    ),
    "estimator of another type": ({"estimator": ["Lasso"]}, "estimator must be one of"),
    "a search": ({"estimator": "LassoCV"}, "estimator must be one of"),
    "parameter": ({"parameters": {"forest": 1}}, "ConstrainedLogisticRegression has no 'forest'"),
    "parameter of another": ({"parameters": {"alpha": 1}}, "has no 'alpha' that a file may hold"),
    "nothing to fill with": ({"parameters": {"impute": "mean"}}, "fill_values must be there"),
    "nothing to fill": ({"fill_values": [1.0, 2.0]}, "fill_values must be there"),
    "proof": ({"proof": {"coef_": 1}}, "proof must have names of"),
    "precision": ({"precision": "object"}, "precision must be one of float64, float32"),
    "short coef": ({"coef": [[0.5]]}, "a row of coef must have 2 entries, got 1"),
    "too many rows": ({"coef": [[1, 2], [3, 4]]}, "coef must have 1 entries, got 2"),
    "text coef": ({"coef": [["1", 2]]}, "coef must be a finite number, got "),
    "true is no number": ({"intercept": [True]}, "intercept must be a finite number"),
    "giant integer": ({"intercept": [10**400]}, "intercept"),
    "naming": (
        {"naming": "letters"},
        "naming must be one of header, positions from 0, .*, got 'letters'",
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
    "no features": ({"features": []}, "features must be a list with entries"),
    "one class": ({"classes": ["no"]}, "classes must hold two or more labels"),
    "mixed classes": ({"classes": ["no", 1]}, "classes must be all text or all numbers"),
    "classes out of order": ({"classes": ["yes", "no"]}, "in rising order"),
    "classes of numbers": (
        {"estimator": "Lasso", "parameters": {}},
        "classes must be empty for Lasso, got 2",
    ),
}


def test_each_loss_of_the_library_has_its_estimators() -> None:
    assert PENALISED_ESTIMATORS.keys() == LOSSES.keys()
    assert [name for name in LOSSES if is_classifier(LOSSES[name]())] == list(CLASSIFYING)
    for name in (*CONSTRAINED_ESTIMATORS.values(), *PENALISED_ESTIMATORS.values()):
        assert hasattr(linear_model, f"{name}CV")


@pytest.mark.parametrize(("change", "sentence"), REFUSED.values(), ids=REFUSED)
def test_refused_fields(change: dict[str, Any], sentence: str) -> None:
    fields = {**json.loads(to_json(MODEL)), **change}
    with pytest.raises(BadInput, match=sentence):
        read_model(json.dumps(fields).encode(), source="model.json")


@pytest.mark.parametrize(
    "name", ["format", "version", *list(FIELDS)[: list(FIELDS).index("fill_values")]]
)
def test_every_field_is_needed(name: str) -> None:
    fields = {key: value for key, value in json.loads(to_json(MODEL)).items() if key != name}
    with pytest.raises(BadInput, match=f"{name}: the field is missing"):
        read_model(json.dumps(fields).encode(), source="model.json")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b'{"a": ' * 100_000, "Invalid JSON"),
        (b"[" * 1_000_000, "Invalid JSON"),
        (b'{"radius": NaN}', "NaN is not a JSON number"),
        (b"{}", "format: the field is missing"),
        (b"9" * 10_000, "Invalid JSON"),
        (b"[]", "must hold an object"),
        (b"\x80\x04\x95", "Invalid JSON"),
    ],
)
def test_files_that_are_no_models(content: bytes, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        read_model(content, source="model.json")


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", sorted(ESTIMATORS))
def test_the_file_predicts_as_the_estimator(kind: str, classes: int) -> None:
    """The round trip, through sparse tables and columns in another order."""
    X, y = drawn(3, samples=40)
    labels = np.array(["no", "so", "yes"])[
        np.digitize(X[:, 0], np.quantile(X[:, 0], np.arange(1, classes) / classes))
    ]
    target = labels if kind in CLASSIFYING else y
    estimator = ESTIMATORS[kind](radius=0.8, ridge=0.1).fit(X, target)
    names = tuple("123456")
    model = FittedModel.of(estimator, naming=Naming.LIBSVM, features=names)
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
                expected = getattr(estimator, method)(X)
                found = getattr(again, method)(seen)
                if expected.dtype.kind == "f":
                    np.testing.assert_allclose(found, expected, rtol=1e-9)
                else:
                    np.testing.assert_array_equal(found, expected)


def test_only_used_columns_are_needed() -> None:
    table = Table("new.csv", pandas.DataFrame({"a": [1.0], "c": [np.nan]}), ("a", "c"))
    np.testing.assert_array_equal(predictor(MODEL, table)[1], [[1.0]])
    needy = replace(MODEL, coef=((0.5, 1.0),))
    with pytest.raises(BadInput, match=r"new\.csv lacks 'b', which the model needs"):
        predictor(needy, table)


def test_a_sparse_file_need_not_mention_a_column() -> None:
    """It is 0 there."""
    model = replace(MODEL, naming=Naming.LIBSVM, features=("1", "5"), coef=((0.5, 1.0),))
    rows = sparse.csr_matrix([[4.0], [0.0]])
    table = Table("new.svm", pandas.DataFrame(index=range(2)), ("1",), Naming.LIBSVM, rows)
    estimator, seen = predictor(model, table)
    np.testing.assert_allclose(estimator.decision_function(seen), [2.1, 0.1])

"""Model files: what is written is read bit by bit, and a file that is no model is refused field by field."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from condgrad.cli.model_file import HINGE, KINDS, LOGISTIC, SQUARES, Model, from_json, to_json
from condgrad.cli.outcome import BadInput
from condgrad.cli.tables import Naming, Table
from tests.linear_model import drawn

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
LABELS = st.one_of(
    st.lists(st.text(), min_size=2, max_size=4, unique=True),
    st.lists(st.integers(), min_size=2, max_size=4, unique=True),
)


@st.composite
def models(draw: st.DrawFn) -> Model:
    kind = draw(st.sampled_from(sorted(KINDS)))
    classes: tuple[Any, ...] = () if kind == SQUARES else tuple(sorted(draw(LABELS)))
    naming = draw(st.sampled_from(Naming))
    names = st.text() if naming is Naming.HEADER else st.integers(1, 999_999_999).map(str)
    features = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    problems = len(classes) if len(classes) > 2 else 1

    def numbers(of: st.SearchStrategy[float], size: int) -> tuple[float, ...]:
        return tuple(draw(st.lists(of, min_size=size, max_size=size)))

    return Model(
        kind=kind,
        target=draw(st.text()),
        classes=classes,
        naming=naming,
        features=tuple(features),
        center=numbers(NUMBERS, len(features)),
        scale=numbers(st.floats(1e-300, 1e300), len(features)),
        coef=tuple(numbers(NUMBERS, len(features)) for _ in range(problems)),
        intercept=numbers(NUMBERS, problems),
        radius=draw(NUMBERS),
        ridge=draw(NUMBERS),
    )


@given(models())
def test_what_is_written_is_read(model: Model) -> None:
    assert from_json(to_json(model).encode(), source="model.json") == model


@given(st.binary(max_size=60))
def test_garbage_is_one_sentence(content: bytes) -> None:
    with pytest.raises(BadInput) as caught:
        from_json(content, source="model.json")
    assert "\n" not in str(caught.value)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), NUMBERS, st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=6,
)


@given(models(), st.data())
def test_a_field_of_another_shape_is_named_or_taken(model: Model, data: st.DataObject) -> None:
    """Whatever stands in a field: a sentence that names it, or a model that has it."""
    fields = json.loads(to_json(model))
    name = data.draw(st.sampled_from(sorted(fields)))
    fields[name] = data.draw(JSON)
    try:
        found, sentence = from_json(json.dumps(fields).encode(), source="model.json"), ""
    except BadInput as error:
        found, sentence = None, str(error)
    assert "\n" not in sentence
    assert (found is None) == sentence.startswith("model.json is not a model that can be used: ")
    if found is not None:
        assert json.loads(to_json(found)) == fields


MODEL = Model(
    LOGISTIC, "y", ("no", "yes"), Naming.HEADER, ("a", "b"), (0.0, 1.0), (1.0, 2.0), ((0.5, 0.0),), (0.1,), 1.0, 0.5
)
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "version": ({"version": 1}, "version must be 2, got 1"),
    "format": ({"format": "pickle"}, "format must be 'condgrad linear model'"),
    "kind": ({"kind": "forest"}, "kind must be one of logistic, least-squares, squared-hinge, got 'forest'"),
    "kind of another type": ({"kind": ["logistic"]}, "kind must be one of"),
    "short coef": ({"coef": [[0.5]]}, r"coef\[0\] must have 2 entries, got 1"),
    "too many rows": ({"coef": [[1, 2], [3, 4]]}, "coef must have 1 entries, got 2"),
    "text coef": ({"coef": [["1", 2]]}, r"coef\[0\]\[0\] must be a finite number, got '1'"),
    "true is no number": ({"intercept": [True]}, r"intercept\[0\] must be a finite number, got True"),
    "giant integer": ({"radius": 10**400}, "radius must be a finite number, got an integer beyond all floats"),
    "no spread": ({"scale": [1.0, 0.0]}, "scale must hold numbers > 0, got 0.0"),
    "naming": ({"naming": "letters"}, "naming must be one of header, positions from 0, .*, got 'letters'"),
    "numbers that are none": ({"naming": "positions from 0"}, "features must be numbers, .*, got 'a'"),
    "an index below the first": (
        {"naming": "libsvm indices from 1", "features": ["1", "0"]},
        "features must be numbers, as naming is 'libsvm indices from 1', got '0'",
    ),
    "same names": ({"features": ["a", "a"]}, "features must hold one or more names, each once"),
    "one class": ({"classes": ["no"]}, "classes must hold two or more labels"),
    "mixed classes": ({"classes": ["no", 1]}, r"classes\[0\] must be a finite number"),
    "classes out of order": ({"classes": ["yes", "no"]}, "in rising order"),
    "classes of numbers": ({"kind": SQUARES}, "classes must be empty for least-squares, got 2"),
}


@pytest.mark.parametrize(("change", "sentence"), REFUSED.values(), ids=REFUSED)
def test_refused_fields(change: dict[str, Any], sentence: str) -> None:
    fields = {**json.loads(to_json(MODEL)), **change}
    with pytest.raises(BadInput, match=sentence):
        from_json(json.dumps(fields).encode(), source="model.json")


@pytest.mark.parametrize("name", sorted(json.loads(to_json(MODEL))))
def test_every_field_is_needed(name: str) -> None:
    fields = {key: value for key, value in json.loads(to_json(MODEL)).items() if key != name}
    with pytest.raises(BadInput, match=f"the field '{name}' is missing"):
        from_json(json.dumps(fields).encode(), source="model.json")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b'{"a": ' * 100_000, "nested too deeply"),
        (b"[" * 1_000_000, "nested too deeply"),
        (b'{"radius": NaN}', "NaN is not a finite number"),
        (b'{"radius": 1e999, "format": -Infinity}', "-Infinity is not a finite number"),
        (b"9" * 10_000, "not the JSON of a model"),
        (b"[]", "it holds a list, not an object"),
        (b"\x80\x04\x95", "not UTF-8 text"),
    ],
)
def test_files_that_are_no_models(content: bytes, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        from_json(content, source="model.json")


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_file_predicts_as_the_estimator(kind: str, classes: int) -> None:
    """The round trip, through standardisation, sparse tables and columns in another order."""
    X, y = drawn(3, samples=40)
    labels = np.array(["no", "so", "yes"])[np.digitize(X[:, 0], np.quantile(X[:, 0], np.arange(1, classes) / classes))]
    center, scale = X.mean(axis=0), X.std(axis=0)
    target = y if kind == SQUARES else labels
    estimator = KINDS[kind](radius=0.8, ridge=0.1).fit((X - center) / scale, target)
    names = tuple("abcdef")
    coef = np.atleast_2d(estimator.coef_)
    model = Model(
        kind, "y", () if kind == SQUARES else tuple(estimator.classes_.tolist()), Naming.HEADER, names,
        tuple(center.tolist()), tuple(scale.tolist()), tuple(map(tuple, coef.tolist())),
        tuple(np.atleast_1d(estimator.intercept_).tolist()), 0.8, 0.1,
    )  # fmt: skip
    restored = from_json(to_json(model).encode(), source="model.json")
    again, order = restored.estimator(), [5, 3, 1, 0, 2, 4]
    shuffled = tuple(names[j] for j in order)
    for numbers in (X[:, order], sparse.csr_matrix(X[:, order])):
        seen = restored.matrix_from(Table("new.csv", shuffled, numbers))
        np.testing.assert_array_equal(again.predict(seen), estimator.predict((X - center) / scale))
        if kind == LOGISTIC:
            np.testing.assert_allclose(
                again.predict_proba(seen), estimator.predict_proba((X - center) / scale), rtol=1e-12
            )
        if kind == HINGE:
            np.testing.assert_allclose(again.decision_function(seen), estimator.decision_function((X - center) / scale))
    plain = X @ restored.plain_coef.T + restored.plain_intercept
    np.testing.assert_allclose(plain, ((X - center) / scale) @ coef.T + np.atleast_1d(estimator.intercept_), atol=1e-12)


def test_only_used_columns_are_needed() -> None:
    table = Table("new.csv", ("a", "c"), np.array([[1.0, np.nan]]))
    np.testing.assert_array_equal(MODEL.matrix_from(table), [[1.0, 0.0]])
    needy = replace(MODEL, coef=((0.5, 1.0),))
    with pytest.raises(BadInput, match=r"new\.csv lacks the column 'b' that the model needs"):
        needy.matrix_from(table)


def test_a_sparse_file_need_not_mention_a_column() -> None:
    table = Table("new.svm", ("2", "3"), sparse.csr_matrix([[4.0, 1.0], [0.0, 1.0]]), naming=Naming.LIBSVM)
    model = replace(MODEL, naming=Naming.LIBSVM, features=("1", "2"), coef=((0.5, 1.0),), center=(0.0, 0.0))
    np.testing.assert_array_equal(model.matrix_from(table).toarray(), [[0.0, 2.0], [0.0, 0.0]])

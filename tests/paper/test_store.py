"""Finished pieces on disk, and the files of numbers."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from condgrad.paper.pieces import Curve, Piece
from condgrad.paper.results import Part, curves_csv
from condgrad.paper.store import Found, Store
from condgrad.paper.whole_files import json_text, plain, write_whole
from tests.paper.fakes import Fake, curve, no_constants

MACHINE = {"cpu": "abacus", "cores": 1}
numbers = st.floats(allow_nan=True, allow_infinity=True)
in_shared_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def piece(**changed: Any) -> Piece:
    return Piece("a-piece", "a piece", {"n": 100, "sizes": (1, 2), **changed}, 1.0, lambda: curve("cg"))


@st.composite
def curves(draw: st.DrawFn) -> Curve:
    length = draw(st.integers(0, 4))
    names = draw(st.lists(st.sampled_from(["iteration", "seconds", "value", "residual"]), unique=True))
    columns = {name: draw(st.lists(numbers, min_size=length, max_size=length)) for name in names}
    facts = draw(
        st.dictionaries(st.text(max_size=5), st.one_of(numbers, st.text(max_size=5), st.booleans()), max_size=3)
    )
    return Curve(draw(st.text(max_size=9)), "cg", draw(st.integers(0, 9)), columns, "CONVERGED", draw(st.text()), facts)


@in_shared_folder
@given(curve=curves())
def test_a_piece_comes_back_as_it_was_and_what_is_not_finite_as_nan(curve: Curve, tmp_path: Path) -> None:
    kept = Store(tmp_path)
    kept.keep(piece(), curve, MACHINE)
    json.loads((tmp_path / "a-piece.json").read_text("utf-8"), parse_constant=no_constants)
    again = kept.look(piece())
    assert again.found is Found.KEPT
    assert again.machine == MACHINE
    assert again.curve is not None
    assert (again.curve.problem, again.curve.note, again.curve.facts) == (curve.problem, curve.note, plain(curve.facts))
    assert list(again.curve.columns) == list(curve.columns)
    for name, column in curve.columns.items():
        expected = [entry if math.isfinite(entry) else math.nan for entry in column]
        np.testing.assert_array_equal(again.curve.columns[name], expected)


def test_arrays_and_numpy_numbers_are_kept_as_lists_and_numbers(tmp_path: Path) -> None:
    made = replace(
        curve("cg"), columns={"value": np.array([1.0, np.inf])}, facts={"n": np.int64(3), "f": np.float32(2)}
    )
    Store(tmp_path).keep(piece(), made, MACHINE)
    again = Store(tmp_path).look(piece()).curve
    assert again is not None
    assert again.columns["value"][0] == 1.0
    assert math.isnan(again.columns["value"][1])
    assert again.facts == {"n": 3, "f": 2.0}


def test_changed_settings_or_another_version_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Store(tmp_path)
    assert kept.look(piece()).found is Found.MISSING
    kept.keep(piece(), curve("cg"), MACHINE)
    assert kept.look(piece()).found is Found.KEPT
    assert kept.look(piece(n=101)).found is Found.CHANGED
    assert kept.look(piece(more=None)).found is Found.CHANGED
    monkeypatch.setattr("condgrad.paper.store.version", lambda _: "99.0")
    assert kept.look(piece()).found is Found.CHANGED


@in_shared_folder
@given(data=st.data())
def test_a_damaged_file_means_that_the_piece_is_done_again(data: st.DataObject, tmp_path: Path) -> None:
    kept = Store(tmp_path)
    kept.keep(piece(), curve("cg"), MACHINE)
    path = tmp_path / "a-piece.json"
    whole = path.read_bytes()
    cut = whole[: data.draw(st.integers(0, len(whole) - 3))]
    path.write_bytes(data.draw(st.sampled_from([cut, b"\xff\xfe" + whole, b"[]", b"null", b"{}", b"[" * 100_000])))
    assert kept.look(piece()).found is Found.DAMAGED


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("columns", {"value": [1.0], "seconds": []}),
        ("columns", {"value": ["x"]}),
        ("facts", 3),
        ("seed", None),
        ("seed", math.inf),
        ("columns", {"value": [10**400]}),
    ],
)
def test_a_record_of_another_shape_is_damaged(field: str, value: object, tmp_path: Path) -> None:
    kept = Store(tmp_path)
    kept.keep(piece(), curve("cg"), MACHINE)
    record = json.loads((tmp_path / "a-piece.json").read_text("utf-8"))
    record["curve"][field] = value
    (tmp_path / "a-piece.json").write_text(json.dumps(record), "utf-8")
    assert kept.look(piece()).found is Found.DAMAGED


def test_a_folder_in_the_place_of_a_piece_is_damage_not_a_crash(tmp_path: Path) -> None:
    (tmp_path / "a-piece.json").mkdir()
    assert Store(tmp_path).look(piece()).found is Found.DAMAGED


def test_columns_of_unequal_length_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    ragged = replace(curve("cg"), columns={"iteration": [0, 1], "value": [1.0]})
    with pytest.raises(ValueError, match=r"equal lengths, got \{'iteration': 2, 'value': 1\}"):
        Store(tmp_path).keep(piece(), ragged, MACHINE)
    assert list(tmp_path.rglob("*.*")) == []


def test_no_part_of_a_file_is_left_where_writing_fails(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError):
        write_whole(tmp_path / "taken", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


@given(drawn=st.lists(curves(), max_size=3))
def test_the_csv_has_every_finite_number_exactly(drawn: list[Curve]) -> None:
    part = Part("figure-9", Fake().chapter([]), drawn)
    rows = list(csv.DictReader(io.StringIO(curves_csv([part]), newline="")))
    assert len(rows) == sum(max(map(len, each.columns.values()), default=0) for each in drawn)
    left = iter(rows)
    for each in drawn:
        for index in range(max(map(len, each.columns.values()), default=0)):
            row = next(left)
            assert (row["experiment"], row["problem"], row["solver"]) == ("figure-9", each.problem, each.solver)
            for name, column in each.columns.items():
                entry = column[index]
                assert float(row[name]) == entry if math.isfinite(entry) else row[name] == ""


def test_json_is_strict() -> None:
    assert json.loads(json_text({"a": math.nan, "b": [math.inf, np.arange(2)], "c": Path("x")})) == {
        "a": None,
        "b": [None, [0, 1]],
        "c": "x",
    }

"""Bad input gets a sentence: the argument's name, its value, what is allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import condgrad as cg
from tests.errors import core, datasets, linear_model, transport
from tests.transport import within

TABLES = {
    "core": core.ROWS,
    "transport": transport.ROWS,
    "linear_model": linear_model.ROWS,
    "datasets": datasets.ROWS,
}


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(
            row,
            id=f"{table}-{name}",
            marks=pytest.mark.torch if name.startswith("torch") else (),
        )
        for table, rows in TABLES.items()
        for name, row in rows.items()
    ],
)
def test_a_sentence_says_what_is_wrong(row: core.Row) -> None:
    call, error, sentence = row
    with within(20), pytest.raises(error, match=f"(?is){sentence}"):
        call()


def test_a_bad_value_does_not_accuse_the_gradient() -> None:
    with pytest.raises(cg.NotFiniteError, match="value nan") as caught:
        core.solve(core.turning(0, value=np.nan))
    assert "gradient" not in str(caught.value)


@pytest.mark.parametrize("loss", core.LOSSES)
def test_flags_of_numpy_are_flags(loss: Any) -> None:
    assert loss(np.eye(2), [1.0, -1.0], intercept=np.True_).h.has_intercept


@pytest.mark.parametrize("norm", [cg.simple.L1Norm, cg.simple.NuclearNorm])
def test_what_a_norm_takes_is_what_it_says(norm: Any) -> None:
    """A weight of 0 is an error, and the documentation says so."""
    assert "Above 0." in norm.__doc__

"""The families of problems, their shares, and what is drawn from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse

from tests.fuzz import plans
from tests.fuzz.applications import gcg_cases, mover_cases, solve_cases
from tests.fuzz.models import blockwise_cases, model_cases, multinomial_cases
from tests.fuzz.penalised import bounded_cases, constrained_cases, penalised_cases
from tests.fuzz.problems import Case, Draft, minimize_cases

Maker = Callable[[Draft], list[Case]]


# Wrong input ----------------------------------------------------------------------------------------------------------


def corrupted(draft: Draft, value: Any) -> Any:
    """An array with something wrong in it, which may be harmless all the same."""
    array = np.array(value.toarray() if scipy.sparse.issparse(value) else value)
    kind = draft.among(
        "nan",
        "inf",
        "negative",
        "short",
        "empty",
        "deep",
        "complex",
        "words",
        "none",
        "object",
    )
    if kind in ("nan", "inf", "negative") and array.dtype.kind == "f":
        array.flat[draft.rng.integers(array.size)] = {
            "nan": np.nan,
            "inf": np.inf,
            "negative": -1.0,
        }[kind]
        return array
    return {
        "short": array[:-1],
        "empty": array[:0],
        "deep": array[None],
        "complex": array + 1j,
        "words": "a word",
        "none": None,
        "object": array.astype(object),
    }.get(kind, array)


def hostile_cases(draft: Draft) -> list[Case]:
    """A call whose data is wrong in one place."""
    draft.torch = False
    makers: tuple[Maker, ...] = (
        minimize_cases,
        solve_cases,
        model_cases,
        multinomial_cases,
        gcg_cases,
        *plans.MAKERS.values(),
    )
    case = draft.among(*makers)(draft)[0]
    values = dict(case.values)
    name = draft.among(*values)
    values[name] = corrupted(draft, values[name])
    kinds = (f"wrong {case.kinds[0]}", *case.kinds[1:])
    return [replace(case, kinds=kinds, values=values, hostile=True, follows_units=False)]


# Shares ---------------------------------------------------------------------------------------------------------------

FAMILIES: dict[str, tuple[float, Maker]] = {
    "minimize": (0.24, minimize_cases),
    "solve": (0.10, solve_cases),
    "linear models": (0.10, model_cases),
    "penalised": (0.06, penalised_cases),
    "losses beside a set": (0.02, bounded_cases),
    "polytopes": (0.02, constrained_cases),
    "multinomial": (0.06, multinomial_cases),
    "dask": (0.03, blockwise_cases),
    "gcg": (0.03, gcg_cases),
    "estimators": (0.03, mover_cases),
    "solve_batch": (0.05, plans.batch_cases),
    "unbalanced": (0.05, plans.unbalanced_cases),
    "partial": (0.05, plans.partial_cases),
    "divergence": (0.03, plans.divergence_cases),
    "barycenter": (0.04, plans.barycenter_cases),
    "streamed": (0.05, plans.streamed_cases),
    "wrong input": (0.04, hostile_cases),
}
"""By name: the share of problems, and what makes their cases."""


def _draw(seed: int, index: int) -> tuple[str, np.random.Generator]:
    rng = np.random.default_rng([seed, index])
    names = list(FAMILIES)
    return names[int(rng.choice(len(names), p=[share for share, _ in FAMILIES.values()]))], rng


def family_of(seed: int, index: int) -> str:
    """The family of a problem."""
    return _draw(seed, index)[0]


def drawn(seed: int, index: int) -> list[Case]:
    """The cases of a problem, of one target or of several, as paths and batches have."""
    family, rng = _draw(seed, index)
    return FAMILIES[family][1](Draft.of(rng))

"""The columns of K that the models along a path may need, and what these models share: sequential screening."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from condgrad.arrays import Array
from condgrad.kernels.compiling import entry_point


class ScreenRules(NamedTuple):
    """Slopes, as shares of the multiplier, from which on columns are chosen."""

    needed: float
    """No model is made without those."""
    wanted: float
    """Those are chosen along with them, for the next models."""


class FaceGram(NamedTuple):
    """K_B' W K_B + c for the columns B of the last faces, kept as long as W and c are the same."""

    scaled: Array
    """The columns of B about their weighted means, times the roots of the weights, a row each."""
    matrix: Array
    place: Array
    """By column, its row in both; -1 for one that is not in B."""
    count: Array
    """How many there are: one number."""
    weights: Array
    """Those of W, and c behind them."""


class RowGram(NamedTuple):
    """K_B K_B' and K_B e of the columns B and the signs e of the last face."""

    matrix: Array
    normal: Array
    """K_B e."""
    is_summed: Array
    """Which of the columns are in B."""
    signs: Array
    """e, by column."""
    changes: Array
    """Columns that B gained and lost since both were computed afresh: one number."""


class Columns(NamedTuple):
    """The columns of the coordinates that a model may have, and what the models on them share."""

    features: Array
    is_chosen: Array
    """The same as a mask over all coordinates."""
    columns: Array
    """A row each."""
    face_gram: FaceGram
    row_gram: RowGram


def no_columns(samples: int, features: int, most: int) -> Columns:
    """No columns yet, of which there will be `most` entries at most: so few that no face has more than samples, unless
    a row Gram matrix has no more entries either.
    """
    side = samples if samples * samples <= most and samples < features else 0
    sums = np.zeros((side, side)), np.zeros(side)
    row_gram = RowGram(*sums, np.empty(0, np.bool_), np.empty(0), np.zeros(1, np.int64))
    nothing = np.empty(0, np.intp), np.zeros(features, np.bool_), np.empty((0, samples))
    return Columns(*nothing, FaceGram(*empty_face_gram(0, samples)), row_gram)


def named(found: tuple[Any, ...]) -> Columns:
    """Columns that compiled code has returned, by their names."""
    features, is_chosen, columns, face_gram, row_gram = found
    return Columns(features, is_chosen, columns, FaceGram(*face_gram), RowGram(*row_gram))


@entry_point
def empty_face_gram(columns: int, samples: int) -> tuple[Any, ...]:
    """A `FaceGram` of none of the columns yet, with room for a face of them and half as many again."""
    most = min(columns, samples + samples // 2)
    place, weights = np.full(columns, -1, np.intp), np.full(samples + 1, np.nan)
    return np.empty((most, samples)), np.empty((most, most)), place, np.zeros(1, np.int64), weights


@entry_point
def other_columns(chosen: Columns, features: Array, columns: Array, is_chosen: Array) -> tuple[Any, ...]:
    """Other `Columns`, which take over the row Gram matrix if all that are in it are among them."""
    row_gram, is_summed, signs = chosen.row_gram, np.zeros(is_chosen.shape[0], np.bool_), np.zeros(is_chosen.shape[0])
    keeps = True
    for p in range(row_gram.is_summed.shape[0]):
        j = chosen.features[p]
        is_summed[j], signs[j] = row_gram.is_summed[p], row_gram.signs[p]
        keeps = keeps and (is_chosen[j] or not is_summed[j])
    if not keeps:
        is_summed[:], signs[:] = False, 0.0
        row_gram.matrix[:], row_gram.normal[:] = 0.0, 0.0
    sums = row_gram.matrix, row_gram.normal, is_summed[features], signs[features], row_gram.changes
    return features, is_chosen, columns, empty_face_gram(*columns.shape), sums


@entry_point
def columns_for(
    ahead: Array, slope: Array, on_boundary: bool, samples: int, most: int, grows: bool, rules: ScreenRules
) -> Array:
    """The columns for a model whose face has a point ahead inside, as a mask; none where they are too many to copy.

    They are those that it needs and, where these are not too many, those that the next ones may need. All are chosen
    where they are few, inside the l1 ball, and, where `grows` says so, for faces of more coordinates than samples:
    these grow soon, and to choose again takes longer than the others in all models.
    """
    n = ahead.shape[0]
    is_active, total, count = ahead != 0.0, 0.0, 0
    for j in range(n):
        if is_active[j]:
            total += abs(slope[j])
            count += 1
    if (not on_boundary or n <= samples or (grows and count > samples)) and n * samples <= most:
        return np.ones(n, np.bool_)
    for share in (rules.wanted, rules.needed):
        found = is_active.copy()
        for j in range(n):
            if abs(slope[j]) * count >= share * total:
                found[j] = True
        if on_boundary and np.count_nonzero(found) * samples <= most:
            return found
    return np.zeros(n, np.bool_)

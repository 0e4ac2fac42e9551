"""Which column of a file is which feature of a model: names, positions and libsvm indices do not mix by chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from condgrad.cli.outcome import BadInput
from condgrad.cli.tables import Naming, Table, listed


@dataclass(frozen=True)
class Known:
    """The columns that a model was fitted to."""

    naming: Naming
    features: Sequence[str]
    target: str

    def found_in(self, table: Table) -> Mapping[str, str]:
        """The table's column of each feature that it has, or a sentence on why its columns cannot be told."""
        shift = self._shift(table)
        there = {name: str(int(name) + shift) if shift else name for name in self.features}
        present = set(table.names)
        found = {name: column for name, column in there.items() if column in present}
        if not found:
            raise BadInput(
                f"{table.source} has no column of the model: it has {listed(table.names)}, and the model was fitted "
                f"to {listed(self.features)}"
            )
        return found

    def _shift(self, table: Table) -> int:
        """What to add to the number of a feature to have the number of its column."""
        if table.naming is Naming.HEADER:
            self._check_header(table)
            return 0
        if self.naming is Naming.HEADER:
            raise BadInput(
                f"{table.source} numbers its columns, and the model knows its own by the names of a header, "
                f"{listed(self.features)}: give a table with these names"
            )
        if self.naming.is_libsvm and table.naming.is_libsvm:
            self._check_indices(table)
            return 0
        if table.naming.is_libsvm:
            self._check_target_is_last(table)
        else:
            self._check_width(table)
        return table.naming.first - self.naming.first

    def _check_header(self, table: Table) -> None:
        """A header of numbers must count from where the model does."""
        names = set(table.names)
        if self.naming is Naming.HEADER or names.isdisjoint(self.features):
            return
        if self.naming.first == 0 and "0" in self.features and "0" not in names:
            raise BadInput(f"{table.source} has no column '0', and the model counts columns from 0: number them so")
        if self.naming.first == 1 and "0" in names:
            raise BadInput(f"{table.source} has a column '0', and the model counts columns from 1: number them so")

    def _check_indices(self, table: Table) -> None:
        # the other way round the file may just not mention feature 0
        if table.naming.first < self.naming.first:
            raise BadInput(
                f"{table.source} has the index 0, and the libsvm file of the model counted from 1: number both alike"
            )

    def _check_target_is_last(self, table: Table) -> None:
        """A libsvm file keeps its label apart, so a target amid the matrix would shift the columns behind it."""
        if self.target.isdecimal() and int(self.target) < max(map(int, self.features)):
            raise BadInput(
                f"{table.source} keeps its label apart, and the model was fitted to a matrix with the target amid its "
                f"columns, at {self.target}: give such a matrix"
            )

    def _check_width(self, table: Table) -> None:
        """A matrix has all columns of the model; for a libsvm model no others, as one of them could be the target."""
        last = max(map(int, self.features)) - self.naming.first
        width = table.numbers.shape[1]
        if width <= last:
            raise BadInput(
                f"{table.source} has {width} columns, and the model was fitted to a matrix with {last + 1} or more: "
                "give the same columns in the same order"
            )
        if self.naming.is_libsvm and width > last + 1:
            raise BadInput(
                f"{table.source} has {width} columns, and the libsvm file of the model had {last + 1} features: "
                "leave out the target and what else is no feature"
            )

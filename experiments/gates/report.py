"""What a run of the gates says: a line for each row as it comes, and a table at the end."""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table
from rich.text import Text

from experiments.gates import rules
from experiments.gates.rules import Measured
from experiments.gates.run import Judged, Outcome

LINE = "{:>8} {:>8} {:>6} {:>6}  {}"
NAME_WIDTH = 66


class RowLines:
    """A line for each row, as it is measured."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.console.print(LINE.format("old ms", "new ms", "ratio", "skglm", "row"), markup=False)

    def show(self, row: Judged) -> None:
        cells = (
            milliseconds(row.old),
            milliseconds(row.new),
            plain(row.ratio),
            in_milliseconds(row.rival),
        )
        line = LINE.format(*cells, shortened(row.name))
        self.console.print(Text(line, style="red" if row.failure else ""))
        if row.failure:
            self.console.print(Text(f"{'':33}{shortened(row.failure)}", style="red"))


def show_outcome(console: Console, outcome: Outcome) -> None:
    """The table by group, and what fails."""
    headers = ("group", "rows", "compared", "mean", "worst", "worst row")
    table = Table(*headers, box=None, pad_edge=False)
    for column in table.columns[1:5]:
        column.justify = "right"
    for summary in outcome.summaries:
        worst = summary.worst
        table.add_row(
            summary.group,
            str(summary.rows),
            str(summary.compared),
            Text(plain(summary.mean), style="red" if summary.mean > rules.MEAN_RATIO else ""),
            plain(None if worst is None else worst.ratio),
            Text("" if worst is None else worst.name),
        )
    console.print()
    console.print(table, soft_wrap=False)
    neither = sum(not row.old.converged and not row.new.converged for row in outcome.rows)
    if neither:
        sentence = f"{neither} rows are certified by neither side, and compare no times"
        console.print(sentence, markup=False)
    for row in outcome.failures:
        sentence = f"fails  {row.name}\n       {row.failure}"
        console.print(Text(sentence, style="red"), soft_wrap=False)
    if outcome.mean > rules.MEAN_RATIO:
        above = f"{outcome.mean:.2f}, more than {rules.MEAN_RATIO:g}"
        sentence = f"fails  the geometric mean is {above}"
        console.print(Text(sentence, style="red"))
    count = len(outcome.rows)
    words = "all gates are passed"
    if not outcome.passed:
        words = f"{len(outcome.failures)} of {count} rows fail, twice each"
    console.print(f"{words}; against {outcome.against[:7]}, seed {outcome.seed}", markup=False)


def milliseconds(side: Measured) -> str:
    """With a mark where nothing is certified."""
    if side.seconds is None:
        return "error"
    return in_milliseconds(side.seconds) + ("" if side.converged else "*")


def in_milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{1e3 * seconds:.3g}" if seconds < 1.0 else f"{1e3 * seconds:.0f}"


def plain(number: float | None) -> str:
    return "-" if number is None or math.isnan(number) else f"{number:.2f}"


def shortened(words: str) -> str:
    """In what the numbers leave of a line."""
    words = " ".join(words.split())
    return words if len(words) <= NAME_WIDTH else words[: NAME_WIDTH - 3] + "..."

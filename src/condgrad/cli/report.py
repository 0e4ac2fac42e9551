"""What a command says: exit codes, sentences, JSON, the words for a certificate, progress and the look of pictures."""

from __future__ import annotations

import json
import platform
import textwrap
import warnings
from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from condgrad import _checks
from condgrad.errors import require_extra
from condgrad.result import Result

errors = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)
output = Console(soft_wrap=True, highlight=False, emoji=False)

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's, which colour-blind readers tell apart."""

WIDTH = 80
"""Columns of a report."""

PACKAGES = (
    "condgrad", "numpy", "scipy", "scikit-learn", "array-api-compat", "POT", "cvxopt", "mosek", "numba", "torch",
    "pandas", "matplotlib",
)  # fmt: skip
"""Whose versions a certificate names."""


def option(
    metavar: str, text: str, default: str | None = None, *, least: int | None = None, most: int | None = None
) -> Any:
    """An option with a value, its help, and its default in words where it is no plain value."""
    shown = True if default is None else default
    return typer.Option(metavar=metavar, help=text, show_default=shown, min=least, max=most)


Tolerance = Annotated[float, option("GAP", "Gap / scale of F to reach, certified.")]
Folder = Annotated[Path, option("FOLDER", "Where to write.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


class ExitCode(IntEnum):
    """What a script can rely on."""

    CERTIFIED = 0
    BAD_INPUT = 2
    NOT_CONVERGED = 3
    INTERRUPTED = 130


class BadInput(ValueError):
    """Something the user can mend; the message is one sentence that names it."""


def checked(name: str, value: float, *, above: float | None = None, at_least: float | None = None) -> float:
    """A number in its range, or a sentence that names the option."""
    try:
        return _checks.number(f"--{name}", value, above=above, at_least=at_least)
    except ValueError as error:
        raise BadInput(str(error)) from error


def check_one_of(name: str, value: str | None, allowed: Collection[str]) -> None:
    if value is not None and value not in allowed:
        raise BadInput(f"--{name} must be one of {', '.join(allowed)}, got {value!r}")


# --- words


def shortened(text: str, most: int = 40) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def counted(count: int, what: str) -> str:
    """A number of things, such as "1 cell" or "2 cells"."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def listed(names: Sequence[str], most: int = 6) -> str:
    """Names in quotes, the first of them where they are many."""
    shown = ", ".join(repr(shortened(name)) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def told(error: BaseException) -> str:
    """The kind of an error and the first line of what it says."""
    kind, line = type(error).__name__, first_line(error)
    return kind if line == kind else f"{kind}: {line}"


def folded(text: str, head: str) -> str:
    """A text of `WIDTH` columns, its lines below the end of its head."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )


def print_report(heading: str, facts: Mapping[str, str]) -> None:
    """A heading, and a small table of names and sentences."""
    width = max(map(len, facts))
    lines = [folded(heading, ""), *(folded(text, f"  {name:<{width}}  ") for name, text in facts.items())]
    output.print("\n".join(lines), markup=False)


# --- JSON


def json_text(facts: Mapping[str, Any]) -> str:
    """Strict JSON, which every reader takes: what is not finite is null, arrays are lists, other objects their text.

    Bytes of a file name that are no text become JSON's own escapes.
    """
    loose = json.dumps(facts, default=lambda value: value.tolist() if hasattr(value, "tolist") else str(value))
    strict = json.loads(loose, parse_constant=lambda _: None)
    text = json.dumps(strict, indent=2, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def print_json(facts: Mapping[str, Any]) -> None:
    """Machine-readable facts on standard output, alone there."""
    output.out(json_text(facts), end="")


def versions() -> dict[str, str]:
    """Python's version and those of the packages that are installed, without importing them."""
    found = {name: package_version(name) for name in PACKAGES}
    return {"python": platform.python_version(), **{name: text for name, text in found.items() if text is not None}}


def package_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


# --- certificates


def certificate_facts(result: Result) -> dict[str, Any]:
    """The certificate and how it was reached."""
    names = ("message", "value", "lower_bound", "gap", "scale", "relative_gap", "method", "iterations", "seconds")
    return {"status": result.status.name, **{name: getattr(result, name) for name in names}}


def verdict(result: Result, what: str, tol: float) -> str:
    """The certificate in plain words."""
    within = f"{what} is within {result.gap:.3g} of the best possible value"
    if result.success:
        return f"Certified: {within} (gap / scale of F {result.relative_gap:.2g})."
    ended = str(result.status).lower().replace("_", " ")
    return f"{not_converged(result.relative_gap, tol)} ({ended}): {within}."


def not_converged(reached: float, tol: float) -> str:
    """How far the proof goes where it does not go as far as was asked; the same words in all commands."""
    return f"Not converged: gap / scale of F is certified at {reached:.2g}, {tol:g} was asked for"


# --- pictures


def empty_figure(width: float, height: float, *, purpose: str, dpi: int = 150) -> Any:
    """A figure of so many inches, which needs no display."""
    module = require_extra("matplotlib.figure", extra="cli", purpose=purpose)
    return module.Figure(figsize=(width, height), dpi=dpi, layout="constrained")


def save_figure(figure: Any, file: Path) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)  # a name in a script the font lacks
        figure.savefig(file)

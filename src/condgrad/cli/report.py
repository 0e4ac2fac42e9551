"""What a command says: options and their checks, exit codes, sentences, JSON, words for a
certificate, pictures.
"""

from __future__ import annotations

import json
import platform
import textwrap
from collections.abc import Collection, Mapping
from enum import IntEnum
from importlib import metadata
from typing import Annotated, Any

import typer
from rich.console import Console

from condgrad import _checks
from condgrad.result import Result

errors = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)
output = Console(soft_wrap=True, highlight=False, emoji=False)

WIDTH = 80  # columns of a report
PACKAGES = (
    "condgrad", "numpy", "scipy", "scikit-learn", "array-api-compat", "POT", "cvxopt", "mosek", "numba", "torch",
    "pandas", "matplotlib",
)  # fmt: skip
"""Whose versions a certificate names."""


class ExitCode(IntEnum):
    """What a script can rely on."""

    CERTIFIED = 0
    BAD_INPUT = 2
    NOT_CONVERGED = 3
    INTERRUPTED = 130


class BadInput(ValueError):
    """Something the user can mend; the message is one sentence that names it."""


def require(good: bool, sentence: str) -> None:
    """What must hold of the user's input, and what to say where it does not."""
    if not good:
        raise BadInput(sentence)


# --- options


def option(
    metavar: str,
    text: str,
    default: str | None = None,
    flag: str | None = None,
    *,
    least: int | None = None,
    most: int | None = None,
    at_least: float | None = None,
    above: float | None = None,
    among: Collection[str] = (),
    numbers_from: float | None = None,
) -> Any:
    """An option with a value, its help, its default in words where it is no plain value, and its
    flag where it is not named like the parameter.

    `least` and `most` bound a whole number, `at_least` and `above` any other, `numbers_from` those
    of a list with commas; `among` are the words that are allowed.
    """

    def check(option: typer.CallbackParam, value: Any) -> Any:
        name = option.opts[0]
        allowed = not among or value is None or value in among
        require(allowed, f"{name} must be one of {', '.join(among)}, got {value!r}")
        if isinstance(value, int) and not isinstance(value, bool):
            within = (least is None or value >= least) and (most is None or value <= most)
            bounds = f">= {least}" if most is None else f"from {least} to {most}"
            require(within, f"{name} must be {bounds}, got {value}")
        try:
            if numbers_from is not None:
                for each in numbers(value) or ():
                    _checks.number(name, each, at_least=numbers_from)
            if not isinstance(value, float):
                return value
            return _checks.number(name, value, above=above, at_least=at_least)
        except (TypeError, ValueError) as error:
            raise BadInput(str(error)) from error

    shown = True if default is None else default
    flags = () if flag is None else (flag,)
    return typer.Option(*flags, metavar=metavar, help=text, show_default=shown, callback=check)


def numbers(text: str | None) -> tuple[float, ...] | None:
    """The numbers of an option, with commas between them; text that is none stays for a sentence."""
    if text is None:
        return None
    entries: list[Any] = []
    for word in text.split(","):
        try:
            entries.append(float(word))
        except ValueError:
            entries.append(word)
    return tuple(entries)


Tolerance = Annotated[
    float,
    option(
        "GAP",
        "Stop once the certified gap / scale of F (the objective) is this small.",
        at_least=0.0,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


# --- words


def shortened(text: str, most: int = 40) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def counted(count: int, what: str) -> str:
    """A number of things, such as "1 cell" or "2 cells"."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def wrapped(text: str, head: str = "") -> str:
    """A text of `WIDTH` columns, its lines below the end of its head."""
    below = " " * len(head)
    lines = textwrap.wrap(text, WIDTH - len(head), break_long_words=False, break_on_hyphens=False)
    return head + f"\n{below}".join(lines)


def print_report(heading: str, facts: Mapping[str, str]) -> None:
    """A heading, and a small table of names and sentences."""
    width = max(map(len, facts))
    lines = [
        wrapped(heading),
        *(wrapped(text, f"  {name:<{width}}  ") for name, text in facts.items()),
    ]
    output.print("\n".join(lines), markup=False)


def json_text(facts: Mapping[str, Any]) -> str:
    """Strict JSON, which every reader takes: what is not finite is null, arrays are lists, other
    objects their text.

    Bytes of a file name that are no text become JSON's own escapes.
    """
    loose = json.dumps(
        facts, default=lambda value: value.tolist() if hasattr(value, "tolist") else str(value)
    )
    strict = json.loads(loose, parse_constant=lambda _: None)
    text = json.dumps(strict, indent=2, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def print_json(facts: Mapping[str, Any]) -> None:
    """Machine-readable facts on standard output, alone there."""
    output.out(json_text(facts), end="")


def versions() -> dict[str, str]:
    """Python's version and those of the packages that are installed, without importing them."""
    packages = {name: package_version(name) for name in PACKAGES}
    return {
        "python": platform.python_version(),
        **{name: text for name, text in packages.items() if text is not None},
    }


def package_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


# --- certificates


def certificate_facts(result: Result) -> dict[str, Any]:
    """The certificate and how it was reached."""
    names = (
        "message",
        "value",
        "lower_bound",
        "gap",
        "scale",
        "relative_gap",
        "method",
        "iterations",
        "seconds",
    )
    return {"status": result.status.name, **{name: getattr(result, name) for name in names}}


def verdict(result: Result, what: str, tol: float) -> str:
    """The certificate in plain words."""
    within = f"{what} is within {result.gap:.3g} of the best possible value"
    if result.success:
        return f"Certified: {within} (gap / scale of F {result.relative_gap:.2g})."
    ended = str(result.status).lower().replace("_", " ")
    return f"{not_converged(result.relative_gap, tol)} ({ended}): {within}."


def not_converged(reached: float, tol: float) -> str:
    """How far the proof goes where it does not go as far as was asked; the same words in all
    commands.
    """
    return f"Not converged: the certified gap / scale of F is {reached:.2g}, and --tol is {tol:g}"

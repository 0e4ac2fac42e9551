"""The README's code runs as it stands and prints what it says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_the_first_block_prints_the_certificate_shown() -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(blocks("python")[0], {})
    shown = blocks("text")[0]
    # the last line has a time in it, and the last digits of a gap depend on the BLAS
    numbers = re.compile(r"value +([-\d.]{8})|lower bound +([-\d.]{8})")
    assert numbers.findall(printed.getvalue()) == numbers.findall(shown)
    assert printed.getvalue().startswith("CONVERGED")
    assert sum(bool(line) for line in blocks("python")[0].splitlines()) <= 10


def test_all_blocks_run() -> None:
    space: dict[str, object] = {}
    for block in blocks("python"):
        with contextlib.redirect_stdout(io.StringIO()):
            exec(block, space)

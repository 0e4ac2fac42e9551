"""How a command ends: an exit code, what it prints, and one sentence where it cannot go on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from rich.console import Console

from condgrad.paper.whole_files import plain
from condgrad.result import Status

errors = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)
output = Console(soft_wrap=True, highlight=False, emoji=False)


class ExitCode(IntEnum):
    """What a script can rely on."""

    CERTIFIED = 0
    BAD_INPUT = 2
    NOT_CONVERGED = 3
    INTERRUPTED = 130


class BadInput(ValueError):
    """Something the user can mend; the message is one sentence that names it."""


def print_json(facts: Mapping[str, Any]) -> None:
    """Machine-readable facts on standard output, alone there; what is not finite becomes null, as JSON asks."""
    output.out(json.dumps(plain(facts), indent=2))


def exit_code(status: Status | str) -> ExitCode:
    return ExitCode.CERTIFIED if str(status) == Status.CONVERGED.name else ExitCode.NOT_CONVERGED

"""The command line, `condgrad`: transport, recolor, fit, predict, doctor; paper and bench in a
clone.
"""

from __future__ import annotations

import sys

from condgrad.errors import install_command


def main() -> None:
    """Run a command. A mistake that the user can mend ends in one sentence and exit code 2."""
    try:
        from condgrad.cli.app import run_command
    except ModuleNotFoundError as missing:
        sys.exit(f"condgrad: the command line needs {missing.name}: {install_command('cli')}")
    except KeyboardInterrupt:  # the imports take a second
        sys.exit(130)
    run_command()

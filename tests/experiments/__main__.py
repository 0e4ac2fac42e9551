"""The slow run, in a process that a test may kill."""

import sys
from pathlib import Path

from tests.experiments import slow_run

if __name__ == "__main__":
    slow_run(Path(sys.argv[1]), Path(sys.argv[2]))

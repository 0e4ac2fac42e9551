"""Whether the kernels of this machine are compiled, and who compiles them.

Machine code is stored in a folder on disk. Where that of this machine is not there yet, nobody waits:
a process of its own compiles it, once, and until then runs take methods that need none.
`CONDGRAD_KERNELS` may ask for something else:

- `background`: that, the default;
- `wait`: whoever calls a kernel compiles it first, if it is not in the folder;
- `off`: no compiled code where there is another method.

Importing this module loads no numba.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from condgrad import deadline

VARIABLE = "CONDGRAD_KERNELS"
MODES = ("background", "wait", "off")
PACKAGE = Path(__file__).parents[1]
BESIDE_SOURCES = Path(__file__).with_name("__pycache__")
SOURCES = ("kernels/*.py", "ball/compiled/*.py", "rounding.py", "search/backtracking.py")
"""Modules of compiled code, and those whose numbers are compiled into it."""
POLL = 0.05
"""Seconds between two looks at a compilation that someone waits for."""
PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from condgrad.compile_kernels import main; main()"
)


def mode() -> str:
    """What the user asks for."""
    asked = os.environ.get(VARIABLE) or MODES[0]
    if asked not in MODES:
        raise ValueError(f"{VARIABLE} must be one of {', '.join(MODES)}, got {asked!r}")
    return asked


@cache
def sources() -> str:
    """A digest of all that compiled code is made of: a change in any of these files compiles all
    kernels anew.
    """
    files = [file for pattern in SOURCES for file in sorted(PACKAGE.glob(pattern))]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]


@cache
def folder() -> Path | None:
    """Where machine code is stored: with numba's where the user has named a place, beside the
    sources, or in the home.

    Each state of the sources has a folder of its own: what is in that of another names modules that
    may be gone. None where nothing can be written.
    """
    named = os.environ.get("NUMBA_CACHE_DIR")
    first = Path(named) / "condgrad" if named else BESIDE_SOURCES
    with suppress(RuntimeError):  # there is no home
        for place in (first, Path.home() / ".cache" / "condgrad"):
            if _can_be_written(place / f"kernels-{sources()}"):
                return place / f"kernels-{sources()}"
    return None


def _can_be_written(place: Path) -> bool:
    try:
        place.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=place).close()
    except OSError:
        return False
    return True


@cache
def mark() -> Path | None:
    """The file that says that every kernel a fit may call is compiled, from these sources and for
    this machine.
    """
    place = folder()
    if place is None:
        return None
    from llvmlite import binding

    features = binding.get_host_cpu_features().flatten()
    machine = (
        sys.version,
        version("numba"),
        version("numpy"),
        binding.get_host_cpu_name(),
        features,
    )
    return place / f"{hashlib.sha256(repr(machine).encode()).hexdigest()[:16]}.compiled"


def is_compiled() -> bool:
    """Whether every kernel a fit may call is on disk."""
    place = mark()
    return place is not None and place.exists()


def set_mark() -> None:
    """Say that every kernel is compiled; what is compiled of older sources goes."""
    place = mark()
    if place is None:
        return
    place.touch()
    if place.parent.parent == BESIDE_SOURCES:  # elsewhere other versions may have theirs
        for other in BESIDE_SOURCES.glob("kernels-*"):
            if other != place.parent:
                shutil.rmtree(other, ignore_errors=True)


class Background:
    """The compilation in a process of its own, as far as this process knows of it."""

    def __init__(self) -> None:
        self.is_done = False
        self.process: subprocess.Popen[bytes] | None = None
        self.is_tried = False

    def available(self) -> bool:
        """Whether compiled code may be used now, without waiting for a compiler; the first question
        starts one.
        """
        asked = mode()
        if asked != "background":
            return asked == "wait"
        if not self.is_done:
            self.is_done = is_compiled()
            if self.is_done and self.process is not None:
                # it has nothing left to do, and would stay in the system's table
                self.process.wait()
        if not self.is_done and not self.is_tried:
            self.is_tried = True
            self._start()
        return self.is_done

    def _start(self) -> None:
        """Start the process, unless there is no place for its work or no Python to run it."""
        place = mark()
        if place is None or not sys.executable or getattr(sys, "frozen", False):
            return
        # a group of its own: Ctrl-C is for the user's program, and the work is of use to the next
        # one
        below_normal_and_new_group = 0x4200  # of Windows
        of_its_own: dict[str, Any] = {"start_new_session": True}
        if os.name == "nt":
            of_its_own = {"creationflags": below_normal_and_new_group}
        with suppress(OSError):
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(PACKAGE.parent)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, VARIABLE: "wait", "OMP_NUM_THREADS": "1"},
                **of_its_own,
            )
        if self.process is not None and is_watched():
            sys.stderr.write(
                "condgrad compiles its kernels in the background, once, for about half a minute, and keeps them in "
                f"{place.parent}. Until then fits use projected gradients ({VARIABLE}=wait waits for the kernels).\n"
            )

    def wait(self) -> bool:
        """Wait until the process has done its work, or there is none; whether that was before time
        is up.

        Where there is none, whoever calls a kernel next compiles it.
        """
        while not self.available() and self._is_at_work():
            if deadline.passed():
                return False
            time.sleep(POLL)
        return True

    def _is_at_work(self) -> bool:
        """Whether a process compiles: ours, or one that another program has started."""
        if self.process is not None and self.process.poll() is None:
            return True
        with lock() as is_ours:
            return not is_ours


background = Background()
available = background.available
wait = background.wait


@contextmanager
def lock() -> Iterator[bool]:
    """Whether nobody else compiles, inside; the system takes the lock from a process that ends,
    however it ends.
    """
    place = mark()
    if place is None:
        yield True
        return
    with open(place.with_suffix(".lock"), "ab") as file:
        yield _locked(file)


def _locked(file: IO[bytes]) -> bool:
    """Whether the file is locked for this process now."""
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def is_watched() -> bool:
    """Whether a person sees what is written to stderr: at a terminal or a notebook."""
    return sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)

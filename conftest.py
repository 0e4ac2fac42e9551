"""What is collected where torch is not installed: all but the modules that are nothing without it."""

from importlib.util import find_spec


def has_torch() -> bool:
    """Whether torch can be found; a test may refuse it by an error."""
    try:
        return find_spec("torch") is not None
    except ModuleNotFoundError:
        return False


NEEDS_TORCH = [
    "src/condgrad/kernels/streamed_triton.py",
    "src/condgrad/transport/envelope.py",
    "tests/kernels/streamed_triton_cases.py",
]
collect_ignore = [] if has_torch() else NEEDS_TORCH

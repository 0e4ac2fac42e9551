"""What is collected: all but the modules that are nothing without a library that is not installed."""

from importlib.util import find_spec

NEEDS = {
    "torch": [
        "src/condgrad/kernels/streamed_triton.py",
        "src/condgrad/transport/envelope.py",
        "tests/kernels/streamed_triton_cases.py",
    ],
    "playwright": ["tests/experiments/test_page.py"],
    "numpydoc": ["tests/test_reference.py"],
    "skada": ["src/condgrad/compat/skada.py", "tests/transport/test_skada_compat.py"],
}


def is_installed(library: str) -> bool:
    """Whether a library can be found; a test may refuse it by an error."""
    try:
        return find_spec(library) is not None
    except ModuleNotFoundError:
        return False


collect_ignore = [
    module for library, modules in NEEDS.items() if not is_installed(library) for module in modules
]

"""What can go wrong, each with a sentence that says what to do next."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any

__all__ = ["ContradictionError", "MissingAbility", "MissingExtra", "NotFiniteError"]


class MissingAbility(TypeError):
    """A pair of f, g, set or method that cannot work together, and what is missing."""


class NotFiniteError(FloatingPointError):
    """A value turned NaN or infinite during a run; the message names the iteration."""


class ContradictionError(ValueError):
    """A lower bound above a value of F: some part of the problem is not what it says it is."""


class MissingExtra(ImportError):
    """An optional dependency is needed and not installed."""


def listed(names: Sequence[str], most: int = 6, longest: int = 40) -> str:
    """Names in quotes for a sentence, the first of them where they are many, and cut where they are long."""
    shown = ", ".join(repr(name if len(name) <= longest else name[: longest - 3] + "...") for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def require_extra(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional module, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(f"{purpose} needs {module}, which is not installed: {install_command(extra)}") from error


def install_command(extra: str) -> str:
    """The command that adds an extra to this installation, from where the package itself was installed."""
    import json  # here, as `import condgrad` should not wait for what only a missing extra needs
    import shutil
    import sys
    from importlib import metadata
    from pathlib import Path

    try:
        installed = metadata.distribution("condgrad")
        origin = json.loads(installed.read_text("direct_url.json") or "{}")
        by_uv = (installed.read_text("INSTALLER") or "").strip() == "uv"
    except (metadata.PackageNotFoundError, ValueError):
        origin, by_uv = {}, False
    if by_uv:
        installer = f"uv pip install --python {sys.executable}"
    elif Path(shutil.which("pip") or "").parent == Path(sys.executable).parent:
        installer = "pip install"
    else:  # the pip that the shell would find belongs to another Python, or there is none
        installer = f"{sys.executable} -m pip install"
    return f"{installer} {_requirement(origin, extra)}"


def _requirement(origin: dict[str, Any], extra: str) -> str:
    """The package with an extra, as pip names it; `origin` is what pip recorded of the installation (PEP 610)."""
    from pathlib import Path
    from urllib.parse import urlparse
    from urllib.request import url2pathname

    url = origin.get("url")
    if url is None:
        return f"'condgrad[{extra}]'"
    if "dir_info" in origin:
        folder = url2pathname(urlparse(url).path)
        if not Path(folder).is_dir():
            return f"'.[{extra}]' in the folder of condgrad's sources"
        editable = "-e " if origin["dir_info"].get("editable") else ""
        return f"{editable}'{folder}[{extra}]'"
    if "vcs_info" in origin:
        return f"'condgrad[{extra}] @ {origin['vcs_info']['vcs']}+{url}'"
    return f"'condgrad[{extra}] @ {url}'"

"""The errors of the package. Each message says what to do next."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

__all__ = [
    "ContradictionError",
    "InfeasibleError",
    "MissingAbility",
    "MissingExtra",
    "NotFiniteError",
]


class MissingAbility(TypeError):
    """Raised if f, g, the set and the method cannot work together.

    The message says what is missing.

    Examples
    --------
    >>> import condgrad as cg
    >>> try:
    ...     cg.simple.Entropy(1.0, on=cg.sets.L1Ball(1.0))
    ... except cg.MissingAbility as error:
    ...     print(error)
    Entropy needs a set with entropic_argmin: L1Ball(radius=1.0) has no entropic_argmin; it has project, linear_argmin
    """


class NotFiniteError(FloatingPointError):
    """Raised if a value becomes NaN or infinite during a run.

    The message names the iteration.

    Attributes
    ----------
    problems : tuple of int
        For `transport.solve_batch`: the numbers of the problems without an answer, counted from 0.
    others : BatchResult or None
        The answers of all other problems of that batch, in their order.

    Examples
    --------
    >>> import condgrad as cg
    >>> f = cg.smooth.Function(lambda x: (float("nan"), x))
    >>> try:
    ...     cg.minimize(f, cg.simple.Zero(on=cg.sets.Simplex(2)))
    ... except cg.NotFiniteError as error:
    ...     print(error)
    at iteration 0: your function returned the value nan; no answer can be certified
    """

    problems: tuple[int, ...] = ()
    others: Any = None


class ContradictionError(ValueError):
    """Raised if a lower bound on F = f + g lies above a value of F.

    Then the gradient of f is wrong, or f is not convex, or the bound of an oracle is not a lower
    bound.

    Attributes
    ----------
    x : array or None
        The best point of the run so far.
    value : float
        F(x).

    Examples
    --------
    >>> import condgrad as cg
    >>> f = cg.smooth.Function(lambda x: (-x @ x, -2.0 * x))  # concave
    >>> try:
    ...     cg.minimize(f, cg.simple.Zero(on=cg.sets.Simplex(2)), x0=[0.9, 0.1])
    ... except cg.ContradictionError as error:
    ...     print(str(error).partition(" more: ")[2])
    the gradient of f is wrong, or f is not convex: then say convex=False
    """

    x: Any = None
    value: float = math.inf


class InfeasibleError(ValueError):
    """Raised if every plan uses a pair of infinite cost.

    The message names sources that cannot be matched.

    Attributes
    ----------
    sources, targets : arrays of int
        The proof: some sources, and all targets that these may go to.
    supply, room : float
        The total weight of these sources, and the total weight of these targets, which is smaller.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> cost = np.array([[1.0, np.inf], [2.0, np.inf]])
    >>> try:
    ...     cg.transport.solve(cost, entropy=0.1)
    ... except cg.InfeasibleError as error:
    ...     print(str(error).partition(";")[0])
    no plan avoids the pairs of infinite cost: sources 0, 1 with a weight of 1 may only go to target 0, which can take 0.5
    """

    sources: Any = ()
    targets: Any = ()
    supply: float = math.nan
    room: float = math.nan


class MissingExtra(ImportError):
    """Raised if an optional dependency is needed but not installed.

    The message has the command that installs it.

    Examples
    --------
    It is an `ImportError`. So code that catches `ImportError` catches it too:

    >>> import condgrad as cg
    >>> issubclass(cg.MissingExtra, ImportError)
    True
    """


def listed(names: Sequence[str], most: int = 6, longest: int = 40) -> str:
    """Names in quotes for a sentence. Only the first `most` are listed, and long ones are cut."""
    shown = ", ".join(
        repr(name if len(name) <= longest else name[: longest - 3] + "...") for name in names[:most]
    )
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def require_extra(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional module, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"{purpose} needs {module}, which is not installed: {install_command(extra)}",
            name=error.name,
        ) from error


def install_command(extra: str) -> str:
    """The command that adds an extra to this installation, from where the package itself was
    installed.
    """
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
        origin = {}
        by_uv = False
    if by_uv:
        installer = f"uv pip install --python {sys.executable}"
    elif Path(shutil.which("pip") or "").parent == Path(sys.executable).parent:
        installer = "pip install"
    else:  # the pip that the shell would find belongs to another Python, or there is none
        installer = f"{sys.executable} -m pip install"
    return f"{installer} {_requirement(origin, extra)}"


def _requirement(origin: dict[str, Any], extra: str) -> str:
    """The package with an extra, as pip names it; `origin` is what pip recorded of the installation
    (PEP 610).
    """
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

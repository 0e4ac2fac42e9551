"""`condgrad doctor`: what is here, what is missing and how to get it, and whether it works."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

import condgrad as cg
from condgrad.cli.outcome import ExitCode, output, print_json
from condgrad.datasets.store import FOLDER_VARIABLE, DataUnavailable
from condgrad.paper.machine import distribution_version, gpus, this_machine
from condgrad.paper.words import power, told

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "torch": ("torch",),
    "pot": ("ot",),
    "cvxopt": ("cvxopt",),
    "mosek": ("mosek",),
    "numba": ("numba",),
    "pandas": ("pandas",),
    "plot": ("matplotlib",),
    "cli": ("typer", "plotly", "PIL"),
}
"""The modules each extra brings."""

DISTRIBUTIONS = {"ot": "POT", "PIL": "pillow"}
"""Where the name to install is not the name to import."""

Loader = Callable[[], cg.datasets.microarrays.Microarray]
DATA: Mapping[str, tuple[Loader, str]] = {
    "colon": (lambda: cg.datasets.load_colon(standardize=False, download_if_missing=False), "load_colon"),
    "lymphoma": (lambda: cg.datasets.load_lymphoma(standardize=False, download_if_missing=False), "load_lymphoma"),
}
TOLERANCE = 1e-8


@dataclass(frozen=True)
class Finding:
    """A line of the report. `good` is None where nothing is wrong but something more could be had."""

    name: str
    good: bool | None
    text: str


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Show what is installed and whether it works.

    Names extras, threads, GPU and data, and solves two small problems as a test.

    [bold]Examples[/bold]
      condgrad doctor
      condgrad doctor --json

    Exit codes: 0 both problems certified, 3 not both.
    """
    # a package that is broken may print or warn as it is imported; the report alone belongs on standard output
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        findings = {
            "versions": _versions(),
            "extras": [extra(name, modules) for name, modules in EXTRAS.items()],
            "machine": _machine(),
            "data": [data(name, load, call) for name, (load, call) in DATA.items()],
            "self-test": [tested("elastic net", _elastic_net), tested("transport", _transport)],
        }
    certified = all(finding.good for finding in findings["self-test"])
    if as_json:
        groups = {group: [dataclasses.asdict(finding) for finding in lines] for group, lines in findings.items()}
        print_json({"certified": certified, **groups})
    else:
        output.print(_table(findings), soft_wrap=False)
    raise typer.Exit(ExitCode.CERTIFIED if certified else ExitCode.NOT_CONVERGED)


def _versions() -> list[Finding]:
    python = sys.version.split()[0]
    return [Finding("condgrad", True, cg.__version__), Finding("python", True, f"{python} ({sys.executable})")]


def extra(name: str, modules: tuple[str, ...]) -> Finding:
    """An extra is there when all its modules can be imported."""
    installed = []
    for module in modules:
        distribution = DISTRIBUTIONS.get(module, module)
        command = f"pip install 'condgrad[{name}]'"
        try:
            imported = importlib.import_module(module)
        except ModuleNotFoundError as error:
            # a package may be here and miss one of its own
            missing = distribution if error.name == module else f"{distribution} (it misses {error.name})"
            return Finding(name, None, f"{missing} is not installed: {command}")
        except KeyboardInterrupt:
            raise
        # whatever a broken package raises as it is imported, the report goes on
        except BaseException as error:
            remedy = f"{command} --force-reinstall --no-cache-dir"
            return Finding(name, False, f"{distribution} is broken ({told(error)}): {remedy}")
        version = distribution_version(distribution) or getattr(imported, "__version__", "of unknown version")
        installed.append(f"{distribution} {version}")
    found = Finding(name, True, ", ".join(installed))
    return _with_licence(found) if name == "mosek" else found


def _with_licence(found: Finding) -> Finding:
    """MOSEK solves nothing without its licence."""
    named = os.environ.get("MOSEKLM_LICENSE_FILE", "")
    places = [*filter(None, named.split(os.pathsep)), str(Path.home() / "mosek" / "mosek.lic")]
    # port@server names a licence server
    if any("@" in place or Path(place).is_file() for place in places):
        return dataclasses.replace(found, text=f"{found.text}, licence found")
    wanted = f"no licence: put it at {places[-1]} or set MOSEKLM_LICENSE_FILE"
    return dataclasses.replace(found, good=None, text=f"{found.text}, {wanted}")


def _machine() -> list[Finding]:
    facts = [Finding(name, True, text) for name, text in this_machine().described().items()]
    return [*facts, _gpu()]


def _gpu() -> Finding:
    torch = sys.modules.get("torch")
    if torch is None:
        return Finding("GPU", None, "torch is not installed or broken, and GPUs are used through it")
    try:
        found = gpus(torch)
    except Exception as error:
        return Finding("GPU", False, f"torch cannot look for it: {told(error)}")
    return Finding("GPU", True, ", ".join(found)) if found else Finding("GPU", None, "torch sees none")


def data(name: str, load: Loader, call: str) -> Finding:
    """A data set of the paper, verified, or how to get it."""
    try:
        return Finding(name, True, load().source)
    except DataUnavailable:
        text = (
            f"not here: call condgrad.datasets.{call}() once with a network, or set {FOLDER_VARIABLE} to its folder; "
            "condgrad paper uses a stand-in until then"
        )
        return Finding(name, None, text)
    # damaged, not readable, no home folder: something is there, and it is no use
    except Exception as error:
        return Finding(name, False, told(error))


def tested(name: str, solve: Callable[[], Any]) -> Finding:
    """Whether a small problem is solved, by its certificate."""
    begin = time.perf_counter()
    try:
        result = solve()
    except Exception as error:
        return Finding(name, False, f"failed: {told(error)}")
    seconds = time.perf_counter() - begin
    good = result.status is cg.Status.CONVERGED and result.gap <= TOLERANCE * max(1.0, abs(result.value))
    verdict = "certified" if good else f"not certified ({result.message})"
    return Finding(name, good, f"{verdict}: value {result.value:.6g}, gap {power(result.gap, 1)}, {seconds:.2f} s")


def _elastic_net() -> Any:
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((40, 100))
    y = np.sign(Z @ rng.standard_normal(100))
    return cg.minimize(cg.smooth.Logistic(Z, y), cg.simple.Ridge(0.1, on=cg.sets.L1Ball(4.0)), tol=TOLERANCE)


def _transport() -> Any:
    rng = np.random.default_rng(0)
    source, target = rng.standard_normal((30, 2)), rng.standard_normal((40, 2)) + 1.0
    cost = ((source[:, None, :] - target[None, :, :]) ** 2).sum(axis=2)
    laplacian = cg.transport.Laplacian(source, target, weight=10.0, neighbors=5, normalized=True)
    return cg.transport.solve(cost, entropy=0.1, regularizers=[laplacian], tol=TOLERANCE)


def _table(findings: Mapping[str, list[Finding]]) -> Table:
    words = {True: Text("ok", "green"), None: Text("-", "dim"), False: Text("bad", "red")}
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for number, (group, lines) in enumerate(findings.items()):
        if number:
            table.add_row()
        table.add_row(Text(group, "bold"))
        for finding in lines:
            table.add_row(f"  {finding.name}", words[finding.good], Text(finding.text))
    return table

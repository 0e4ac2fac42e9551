"""`condgrad doctor`: what is here, what is missing and how to get it, and whether it works."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import platform
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer
from rich.table import Column, Table
from rich.text import Text
from threadpoolctl import threadpool_info

import condgrad as cg
from condgrad.cli.report import AsJson, ExitCode, first_line, output, package_version, print_json
from condgrad.datasets.store import FOLDER_VARIABLE, DataUnavailable
from condgrad.errors import install_command
from condgrad.kernels import readiness
from condgrad.memory import free_memory

EXTRAS: Mapping[str, tuple[str, ...]] = {  # the modules each extra brings
    "torch": ("torch",),
    "pot": ("ot",),
    "skada": ("skada",),
    "cvxopt": ("cvxopt",),
    "mosek": ("mosek",),
    "plot": ("matplotlib",),
    "neighbors": ("pynndescent",),
    "workers": ("distributed",),
    "dask": ("dask", "distributed"),
    "cli": ("pandas", "pyarrow", "typer", "rich", "plotly", "jinja2", "PIL", "psutil"),
    "data": ("pooch", "platformdirs"),
}
DISTRIBUTIONS = {
    "ot": "POT",
    "PIL": "pillow",
}  # where the name to install is not the name to import
DATA = {"colon": cg.datasets.load_colon, "lymphoma": cg.datasets.load_lymphoma}
FOLDER_OF_KERNELS = "NUMBA_CACHE_DIR"
TOLERANCE = 1e-8
MARKS = {True: Text("ok", "green"), None: Text("-", "dim"), False: Text("bad", "red")}


@dataclass(frozen=True)
class Finding:
    """A line of the report. `good` is None where nothing is wrong but something more could be had."""

    name: str
    good: bool | None
    text: str


def doctor(
    as_json: AsJson = False,
    compile_now: Annotated[
        bool,
        typer.Option(
            "--compile",
            help="First compile all kernels and keep them, for container images and clusters.",
        ),
    ] = False,
) -> None:
    """Show what is installed and whether it works.

    Lists extras, threads, GPU and data, and solves two small problems as a test.

    [bold]Examples[/bold]
      condgrad doctor
      condgrad doctor --json
      condgrad doctor --compile

    Exit codes: 0 if both problems are certified, otherwise 3.
    """
    # a package that is broken may print or warn as it is imported; the report alone belongs on
    # standard output
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if compile_now:
            from condgrad.compile_kernels import compile_all

            compile_all()
        python = f"{sys.version.split()[0]} ({sys.executable})"
        findings = {
            "versions": [
                Finding("condgrad", True, cg.__version__),
                Finding("python", True, python),
            ],
            "extras": [extra(name, modules) for name, modules in EXTRAS.items()],
            "machine": _machine(),
            "data": [_data(name, load) for name, load in DATA.items()],
            "self-test": [_tested("elastic net", _elastic_net), _tested("transport", _transport)],
        }
    certified = all(finding.good for finding in findings["self-test"])
    if as_json:
        groups = {
            group: [dataclasses.asdict(finding) for finding in lines]
            for group, lines in findings.items()
        }
        print_json({"certified": certified, **groups})
    else:
        _print_findings(findings)
    raise typer.Exit(ExitCode.CERTIFIED if certified else ExitCode.NOT_CONVERGED)


def extra(name: str, modules: tuple[str, ...]) -> Finding:
    """An extra is there when all its modules can be imported."""
    installed = []
    for module in modules:
        package = DISTRIBUTIONS.get(module, module)
        try:
            imported = importlib.import_module(module)
        except ModuleNotFoundError as error:
            # a package may be here and miss one of its own
            missing = package if error.name == module else f"{package} (it misses {error.name})"
            return Finding(name, None, f"{missing} is not installed: {install_command(name)}")
        except (
            Exception,
            SystemExit,
        ) as error:  # whatever a broken package raises, the report goes on
            remedy = f"{install_command(name)} --force-reinstall --no-cache-dir"
            return Finding(name, False, f"{package} is broken ({_error_line(error)}): {remedy}")
        installed.append(
            f"{package} {package_version(package) or getattr(imported, '__version__', '')}"
        )
    text = ", ".join(installed)
    if name != "mosek":
        return Finding(name, True, text)
    # MOSEK solves nothing without its licence; port@server names a licence server
    named = os.environ.get("MOSEKLM_LICENSE_FILE", "")
    places = [*filter(None, named.split(os.pathsep)), str(Path.home() / "mosek" / "mosek.lic")]
    if any("@" in place or Path(place).is_file() for place in places):
        return Finding(name, True, f"{text}, licence found")
    return Finding(
        name, None, f"{text}, no licence: put it at {places[-1]} or set MOSEKLM_LICENSE_FILE"
    )


def _error_line(error: BaseException) -> str:
    """The kind of an error and the first line of what it says."""
    kind = type(error).__name__
    line = first_line(error)
    return kind if line == kind else f"{kind}: {line}"


def _machine() -> list[Finding]:
    pools = {
        pool["internal_api"]: f"{pool['internal_api']} {pool['num_threads']}"
        for pool in threadpool_info()
    }
    usable = psutil.Process()
    cores = len(usable.cpu_affinity()) if hasattr(usable, "cpu_affinity") else psutil.cpu_count()
    facts = {
        "processor": _processor(),
        "cores": f"{cores} of {psutil.cpu_count()}",
        "threads": ", ".join(pools.values()) or "unknown",
        "memory": f"{psutil.virtual_memory().total / 1e9:.1f} GB, {free_memory() / 1e9:.1f} GB free",
        "system": f"{platform.system()} {platform.release()} ({platform.machine()})",
    }
    return [*(Finding(name, True, text) for name, text in facts.items()), _kernels(), _gpu()]


def _kernels() -> Finding:
    """Whether fits have compiled code, or how to get it."""
    place = readiness.folder()
    if place is None:
        return Finding(
            "kernels", None, f"no folder for them can be written: set {FOLDER_OF_KERNELS} to one"
        )
    if readiness.is_compiled():
        return Finding("kernels", True, f"compiled, in {place}")
    how = "the first fit compiles them in the background; `condgrad doctor --compile` compiles them now"
    return Finding("kernels", None, f"not compiled yet: {how}")


def _processor() -> str:
    """The processor as its maker calls it, where the system says."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        return next(
            line.partition(":")[2].strip() for line in lines if line.startswith("model name")
        )
    return platform.processor() or platform.machine() or "unknown"


def _gpu() -> Finding:
    torch = sys.modules.get("torch")
    if torch is None:
        return Finding("GPU", None, "torch is not installed or broken; it is needed to use a GPU")
    try:
        devices = [
            torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())
        ]
        names = [f"{device.name} ({device.total_memory / 1e9:.0f} GB)" for device in devices]
        names += ["Apple GPU (mps)"] if torch.backends.mps.is_available() else []
    except Exception as error:
        return Finding("GPU", False, f"torch cannot look for it: {_error_line(error)}")
    return Finding("GPU", bool(names) or None, ", ".join(names) or "torch sees none")


def _data(name: str, load: Callable[..., Any]) -> Finding:
    """A data set of the paper, verified, or how to get it."""
    try:
        return Finding(name, True, load(standardize=False, download_if_missing=False).source)
    except DataUnavailable:
        how = f"call condgrad.datasets.load_{name}() once with a network, or set {FOLDER_VARIABLE} to its folder"
        return Finding(
            name,
            None,
            f"not on this machine: {how}. Until then, the paper's experiments use other data",
        )
    except (
        Exception
    ) as error:  # damaged, not readable, no home folder: something is there, and it is no use
        return Finding(name, False, _error_line(error))


def _tested(name: str, solve: Callable[[], cg.Result]) -> Finding:
    """Whether a small problem is solved, by its certificate."""
    try:
        result = solve()
    except Exception as error:
        return Finding(name, False, f"failed: {_error_line(error)}")
    good = result.status is cg.Status.CONVERGED and result.relative_gap <= TOLERANCE
    verdict = "certified" if good else f"not certified ({result.message})"
    return Finding(
        name,
        good,
        f"{verdict}: value {result.value:.6g}, gap {result.gap:.1e}, {result.seconds:.2f} s",
    )


def _elastic_net() -> cg.Result:
    data = cg.datasets.make_sparse_classification(n_samples=50, n_features=100, n_relevant=5)
    f = cg.smooth.Logistic(data.X_train, data.y_train)
    g = cg.simple.Ridge(0.1, on=cg.sets.L1Ball(4.0))
    return cg.minimize(f, g, tol=TOLERANCE)


def _transport() -> cg.Result:
    clouds = cg.datasets.make_clusters(40)
    laplacian = cg.transport.Laplacian(
        clouds.Xs, clouds.Xt, weight=10.0, neighbors=5, normalized=True
    )
    cost = ((clouds.Xs[:, None, :] - clouds.Xt) ** 2).sum(axis=2)
    return cg.transport.solve(cost, entropy=0.1, regularizers=[laplacian], tol=TOLERANCE).result


def _print_findings(findings: Mapping[str, list[Finding]]) -> None:
    table = Table.grid(
        Column(no_wrap=True), Column(no_wrap=True), Column(overflow="fold"), padding=(0, 1)
    )
    for group, lines in findings.items():
        table.add_row(Text(group, "bold"))
        for finding in lines:
            table.add_row(f"  {finding.name}", MARKS[finding.good], Text(finding.text))
        table.add_row()
    output.print(table, soft_wrap=False)

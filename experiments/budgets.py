"""Counts that say how large a part of the package is, and how it hangs together."""

from __future__ import annotations

import ast
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"
DEFAULTS = (
    "src/condgrad/ball",
    "src/condgrad/linear_model/solver.py",
    "src/condgrad/linear_model/path.py",
)
"""What replaces the engine of the l1 ball, as far as it is there."""
MOST_BRANCHES = 25
LONG = 100
"""Columns beyond which a line is long."""
HOUSE = {
    "tokens": 273_500,
    "tokens in a line of code": 9.5,
    "numbers": 905,
    "share of long lines": 0.007,
    "share of parallel assignments": 0.01,
    "functions above 25 branches": 0,
    "groups of modules that import each other": 0,
    "imports from inside the ball": 0,
    "modules that minimize needs": 117,
    "class names of several classes": 0,
    "constants of one name": 0,
    "functions of one name in several files": 5,
}
"""What the whole package may have at most. Who needs more raises the number in the commit that
needs it, and says why there; who needs less lowers it.

The five functions are `main`, the public names `load`, `solve` and `recolor`, and the `model_of` of
each Newton engine.
"""
PLAIN_NUMBERS = (0, 1, 2, 0.5, -1)
"""Literals that are no thresholds."""
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)
TRIES = (ast.Try, ast.TryStar)
BRANCHES = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.match_case,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
)
COMPILING = "from condgrad.compile_kernels import compile_all; compile_all()"
PROFILED = """
import json, sys, warnings
import numpy as np
import condgrad
from pathlib import Path
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.standard_normal((30, 60))
y = np.where(X[:, 0] + 0.5 * rng.standard_normal(30) > 0.0, 1, -1)
fit = getattr(condgrad.linear_model, sys.argv[1])().fit
fit(X, y)  # compiles, and imports what is imported late
package, files = Path(condgrad.__file__).parent, set()
sys.setprofile(lambda frame, event, _: files.add(frame.f_code.co_filename))
fit(X, y)
sys.setprofile(None)
own = [Path(file) for file in files if Path(file).is_relative_to(package)]
print(json.dumps(sorted(str(file.relative_to(package)) for file in own)))
"""
FITS = ("ConstrainedLogisticRegression", "ConstrainedLogisticRegressionCV")


@dataclass(frozen=True)
class Place:
    """Something at a line of a file."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}  {self.what}"


@dataclass(frozen=True)
class FileCount:
    """The size of a file."""

    file: str
    lines: int
    """All of them, docstrings included."""
    tokens: int
    """Of code: no comments, docstrings or line ends."""
    branches: int
    """Those of its most branched function."""
    numbers: int
    """Literals that are not plain."""


# --- the size of files


def files_of(paths: Iterable[str]) -> list[Path]:
    """The Python files of files and folders, each once."""
    found: dict[Path, None] = {}
    for path in (ROOT / name for name in paths):
        found |= dict.fromkeys(sorted(path.rglob("*.py")) if path.is_dir() else [path])
    return list(found)


def counted(file: Path) -> FileCount:
    text = file.read_text("utf-8")
    branches = [count for _, count in functions_of(text)]
    return FileCount(
        file=shown(file),
        lines=len(text.splitlines()),
        tokens=code_tokens(text),
        branches=max(branches, default=0),
        numbers=len(list(numbers_of(text))),
    )


def shown(file: Path) -> str:
    """Its path in the repository, or the whole path of another file."""
    return str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else str(file)


def code_tokens(text: str) -> int:
    """How many tokens have a meaning for Python."""
    docstrings = docstring_lines(text)
    count = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_docstring = token.type == tokenize.STRING and token.start[0] in docstrings
        count += token.type not in LAYOUT and not is_docstring
    return count


def docstring_lines(text: str) -> set[int]:
    return {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and is_string(node.value)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def is_string(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def functions_of(text: str) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, int]]:
    """Each function with its branches, counted as ruff's C901 does."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, 1 + sum(map(branches_of, node.body))


def branches_of(node: ast.AST) -> int:
    """What a statement and those inside it add to the one way through a function."""
    own = int(isinstance(node, BRANCHES) or (isinstance(node, TRIES) and bool(node.orelse)))
    parts = (each for each in ast.iter_child_nodes(node) if isinstance(each, STATEMENTS))
    return own + sum(map(branches_of, parts))


def numbers_of(text: str) -> Iterator[tuple[int, complex]]:
    """The line and the value of each numeric literal that is not plain."""
    tree = ast.parse(text)
    negated = {
        id(node.operand): node
        for node in ast.walk(tree)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float, complex):
            literal: Any = node.value
            value = -literal if id(node) in negated else literal
            if value not in PLAIN_NUMBERS:
                yield node.lineno, value


def places_of_numbers(files: Iterable[Path]) -> list[Place]:
    return [
        Place(shown(file), line, f"{value:g}" if isinstance(value, float) else str(value))
        for file in files
        for line, value in sorted(numbers_of(file.read_text("utf-8")), key=lambda found: found[0])
    ]


def places_of_branches(files: Iterable[Path]) -> list[Place]:
    """Functions with too many branches."""
    return [
        Place(shown(file), node.lineno, f"{node.name} has {count} branches")
        for file in files
        for node, count in functions_of(file.read_text("utf-8"))
        if count > MOST_BRANCHES
    ]


# --- who imports whom


@dataclass(frozen=True)
class Import:
    """One module needs another, at the top of its file or later."""

    importer: str
    file: str
    line: int
    imported: str


def modules_in(sources: Path) -> dict[str, Path]:
    """The files of a folder of packages, by the names of their modules."""
    found = {}
    for file in sorted(sources.rglob("*.py")):
        parts = file.relative_to(sources).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imports_in(sources: Path) -> list[Import]:
    """All between its modules, lazy ones too; none that only a type checker reads.

    That a module also loads the packages it lies in is left out: else each package would be in a
    cycle with all that it imports.
    """
    modules = modules_in(sources)
    found = []
    for module, file in modules.items():
        for node in run_nodes(ast.parse(file.read_text("utf-8"))):
            for name in imported_names(node, module, is_package=file.name == "__init__.py"):
                target = name if name in modules else name.rpartition(".")[0]
                if target in modules and target != module:
                    found.append(Import(module, shown(file), node.lineno, target))
    return list(dict.fromkeys(found))


def run_nodes(node: ast.AST) -> Iterator[Any]:
    """All imports below a node but those under `if TYPE_CHECKING`."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.Import | ast.ImportFrom):
            yield each
        if isinstance(each, ast.If) and ast.unparse(each.test).endswith("TYPE_CHECKING"):
            for other in each.orelse:
                yield from run_nodes(other)
            continue
        yield from run_nodes(each)


def imported_names(node: Any, module: str, *, is_package: bool) -> list[str]:
    """What an import names: modules, or names in them."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = node.module or ""
    if node.level:
        parts = module.split(".")
        parts = parts[: len(parts) - node.level + is_package]
        base = ".".join([*parts, *filter(None, [base])])
    return [f"{base}.{alias.name}" for alias in node.names]


def cycles(imports: Sequence[Import]) -> list[list[str]]:
    """Modules that need each other, whatever the way; the largest group first."""
    names = sorted({name for each in imports for name in (each.importer, each.imported)})
    if not names:
        return []
    number = {name: place for place, name in enumerate(names)}
    rows = [number[each.importer] for each in imports]
    columns = [number[each.imported] for each in imports]
    graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(names), len(names)))
    count, labels = connected_components(graph, connection="strong")
    groups: list[list[str]] = [[] for _ in range(count)]
    for name, label in zip(names, labels, strict=True):
        groups[label].append(name)
    return sorted((group for group in groups if len(group) > 1), key=len, reverse=True)


def imports_from_inside(imports: Iterable[Import], package: str) -> list[Place]:
    """Where modules outside of a package import from its modules rather than from itself."""
    inside = f"{package}."
    return [
        Place(each.file, each.line, f"imports {each.imported}")
        for each in imports
        if each.imported.startswith(inside) and not f"{each.importer}.".startswith(inside)
    ]


def package_of(path: str) -> str | None:
    """The package of a folder, as it is imported; None for a file."""
    folder = (ROOT / path).resolve()
    if not (folder.is_dir() and folder.is_relative_to(SOURCES) and folder != SOURCES):
        return None
    return ".".join(folder.relative_to(SOURCES).parts)


def needed_by(module: str, imports: Iterable[Import]) -> set[str]:
    """The modules that one cannot do without, lazy imports counted, and itself."""
    needed = {module}
    left = [module]
    by_importer: dict[str, set[str]] = {}
    for each in imports:
        by_importer.setdefault(each.importer, set()).add(each.imported)
    while left:
        found = by_importer.get(left.pop(), set()) - needed
        needed |= found
        left += found
    return needed


# --- the whole package


def house() -> dict[str, float]:
    """The counts of `HOUSE`."""
    files = files_of(["src/condgrad"])
    texts = [file.read_text("utf-8") for file in files]
    imports = imports_in(SOURCES)
    tokens = sum(map(code_tokens, texts))
    lines = [line for text in texts for line in text.splitlines()]
    assignments = [is_parallel for text in texts for is_parallel in kinds_of_assignments(text)]
    return {
        "tokens": tokens,
        "tokens in a line of code": tokens / sum(map(lines_of_code, texts)),
        "numbers": len(places_of_numbers(files)),
        "share of long lines": sum(len(line) > LONG for line in lines) / len(lines),
        "share of parallel assignments": sum(assignments) / len(assignments),
        "functions above 25 branches": len(places_of_branches(files)),
        "groups of modules that import each other": len(cycles(imports)),
        "imports from inside the ball": len(imports_from_inside(imports, "condgrad.ball")),
        "modules that minimize needs": len(needed_by("condgrad.minimize", imports)),
        "class names of several classes": len(shared_class_names(texts)),
        "constants of one name": len(shared_names(files, constants_of)),
        "functions of one name in several files": len(shared_names(files, names_of_functions)),
    }


def lines_of_code(text: str) -> int:
    """Lines with more than a comment or a part of a docstring."""
    rows = enumerate(text.splitlines(), start=1)
    written = {n for n, row in rows if row.strip() and not row.strip().startswith("#")}
    return len(written - docstring_lines(text))


def kinds_of_assignments(text: str) -> Iterator[bool]:
    """Of each assignment, whether it is one of several values to several names."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign):
            yield isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple)


def shared_class_names(texts: Iterable[str]) -> list[str]:
    """Names that several classes have, with or without an underscore."""
    names = [
        node.name.lstrip("_")
        for text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
    ]
    return sorted(name for name, count in Counter(names).items() if count > 1)


def shared_names(files: Iterable[Path], names_of: Callable[[str], set[str]]) -> list[str]:
    """Names at the top of several files. The files of kernels/ count as one where their names are
    those of functions: there each backend answers the same questions.
    """
    names: dict[str, set[str]] = {}
    for file in files:
        is_kernel = names_of is names_of_functions and file.parent.name == "kernels"
        for name in names_of(file.read_text("utf-8")):
            names.setdefault(name, set()).add("kernels" if is_kernel else str(file))
    return sorted(name for name, places in names.items() if len(places) > 1)


def constants_of(text: str) -> set[str]:
    """What a file assigns at its top, but for `__all__`."""
    names = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = [part for target in targets for part in ast.walk(target)]
            names |= {part.id for part in parts if isinstance(part, ast.Name)}
    return names - {"__all__"}


def names_of_functions(text: str) -> set[str]:
    """The functions at the top of a file."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.parse(text).body if isinstance(node, functions)}


# --- what runs


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCES), "CONDGRAD_KERNELS": "wait", **more}


def seconds_to_compile() -> float:
    """CPU seconds until every kernel is compiled, from an empty folder, and loaded."""
    before = cpu_of_children()
    with tempfile.TemporaryDirectory() as folder:
        told = environment(NUMBA_CACHE_DIR=folder, OMP_NUM_THREADS="1")
        subprocess.run([sys.executable, "-c", COMPILING], env=told, check=True)
    return cpu_of_children() - before


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def files_run_through(estimator: str) -> list[str]:
    """The files of the package whose functions a small fit calls, once all is compiled."""
    command = [sys.executable, "-c", PROFILED, estimator]
    done = subprocess.run(command, env=environment(), check=True, capture_output=True, text=True)
    files: list[str] = json.loads(done.stdout.splitlines()[-1])
    return files


# --- all of it


@dataclass(frozen=True)
class Budgets:
    """All counts of some files and folders."""

    files: Sequence[FileCount]
    branches: Sequence[Place]
    numbers: Sequence[Place]
    cycles: Sequence[Sequence[str]]
    """Of the whole package."""
    from_inside: Sequence[Place]
    compiling: float | None
    """CPU seconds; None where nobody asked."""
    running: Mapping[str, Sequence[str]]
    """The files that each fit runs through."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def budgets_of(paths: Sequence[str], *, compiling: bool, running: bool) -> Budgets:
    files = files_of(paths)
    imports = imports_in(SOURCES)
    packages = [package for path in paths if (package := package_of(path))]
    return Budgets(
        files=[counted(file) for file in files],
        branches=places_of_branches(files),
        numbers=places_of_numbers(files),
        cycles=cycles(imports),
        from_inside=[place for each in packages for place in imports_from_inside(imports, each)],
        compiling=seconds_to_compile() if compiling else None,
        running={name: files_run_through(name) for name in FITS} if running else {},
    )


def show_budgets(console: Console, found: Budgets) -> None:
    table = Table("file", "lines", "tokens", "branches", "numbers", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for each in found.files:
        cells = (each.lines, each.tokens, each.branches, each.numbers)
        table.add_row(each.file, *map(str, cells))
    sums = [sum(getattr(each, name) for each in found.files) for name in ("lines", "tokens")]
    most = max((each.branches for each in found.files), default=0)
    table.add_row("all", *map(str, (*sums, most, len(found.numbers))), style="bold")
    console.print(table, soft_wrap=False)
    show_list(console, f"functions above {MOST_BRANCHES} branches", found.branches)
    show_list(console, "numbers other than 0, 1, 2, .5 and -1", found.numbers)
    groups = [" ".join(group) for group in found.cycles]
    show_list(console, "groups of modules that import each other", groups)
    show_list(console, "imports from inside a folder", found.from_inside)
    for name, files in found.running.items():
        show_list(console, f"files that {name}.fit runs through", files)
    if found.compiling is not None:
        console.print(f"\ncompiling all: {found.compiling:.1f} s of CPU time", markup=False)


def show_list(console: Console, title: str, entries: Sequence[object]) -> None:
    console.print(f"\n{title}: {len(entries)}", markup=False)
    for entry in entries:
        console.print(f"  {entry}", markup=False)

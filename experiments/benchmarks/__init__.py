"""One module a benchmark, whose `main` has its options as keywords; `python -m experiments bench` lists them."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pandas as pd


def run(main: Callable[..., None]) -> None:
    """Calls `main` with the options of the command line.

    Its keywords are the options: True and False are flags, tuples take several values, None stands for no path; the
    second part of an `Annotated` type is the help.
    """
    purpose = inspect.getdoc(inspect.getmodule(main)) or ""
    parser = argparse.ArgumentParser(description=purpose.partition("\n")[0])
    hints = get_type_hints(main, include_extras=True)
    for name, parameter in inspect.signature(main).parameters.items():
        flag, default = f"--{name.replace('_', '-')}", parameter.default
        told = "".join(str(word) for word in get_args(hints[name])[1:2] if isinstance(word, str))
        if default is False:
            parser.add_argument(flag, action="store_true", help=told)
        elif isinstance(default, tuple):
            parser.add_argument(flag, nargs="+", type=type(default[0]), default=default, help=told)
        else:
            parser.add_argument(
                flag, type=Path if default is None else type(default), default=default, help=told
            )
    main(**vars(parser.parse_args()))


def shown(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows, each printed as it comes, for tables that take minutes."""
    kept: list[Mapping[str, Any]] = []
    for row in rows:
        if not kept:
            print("; ".join(row))
        kept.append(row)
        print(
            "; ".join(
                f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row.values()
            ),
            flush=True,
        )
    return kept


def show(rows: Sequence[Mapping[str, Any]] | pd.DataFrame) -> None:
    """Rows as a table; a dash for what never came."""
    table = pd.DataFrame(rows).replace(np.inf, np.nan)
    text = table.to_string(index=False, na_rep="-", float_format="{:.3g}".format)
    print(f"{text}\n", flush=True)

"""One module a benchmark; each runs by itself, and `python -m experiments bench` lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows as a table; a dash for what never came."""
    table = pd.DataFrame(rows).replace(np.inf, np.nan)
    text = table.to_string(index=False, na_rep="-", float_format="{:.3g}".format)
    print(f"{text}\n", flush=True)

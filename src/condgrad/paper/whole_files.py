"""Files that appear whole or not at all, and strict JSON to fill them with."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def plain(value: Any) -> Any:
    """A value as JSON has it: arrays are lists, what is not finite is null, other objects are their text."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if value is None or isinstance(value, (bool, str)):
        return value
    if type(value) in (int, float):
        return value if math.isfinite(value) else None
    # NumPy's arrays and numbers
    return plain(value.tolist()) if hasattr(value, "tolist") else str(value)


def json_text(value: Any, *, indent: int | None = 2) -> str:
    """Strict JSON, which every reader takes."""
    text = json.dumps(plain(value), indent=indent, ensure_ascii=False, allow_nan=False) + "\n"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")  # JSON's own escapes, for bytes that are no text


def write_whole(path: Path, content: str | bytes) -> None:
    """Write under a temporary name in the same folder, then rename, which is atomic."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        # names of files may hold bytes that are no text
        temporary.write_bytes(content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise

"""Every test here has its own cache, no named folder and no network, unless it says otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from condgrad.datasets import public, store


def no_network(address: str) -> Any:
    """What a machine without a network does."""
    raise URLError(f"no route to {address}")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty cache folder of a machine without a network."""
    monkeypatch.delenv(store.FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(public, "download", no_network)
    monkeypatch.setattr(public, "openml", no_network)
    return tmp_path / "cache" / "condgrad"

"""The memory probe, on fake files of a kernel: the smallest limit holds, and caches are no usage."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from condgrad import memory
from condgrad.memory import free_host_memory, free_memory

GB = 10**9


def written(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def machine(root: Path, kilobytes: int = 8_000_000) -> None:
    """A machine whose free pages are few and whose caches are large."""
    written(
        root,
        proc__meminfo=f"MemTotal: 16000000 kB\nMemFree: 100 kB\nMemAvailable:    {kilobytes} kB\n",
    )


def second(root: Path, group: str, *, limit: str, usage: int, cached: int = 0) -> None:
    folder = root / "sys/fs/cgroup" / group
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{usage}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {cached}\nactive_file 7\n")


def first(root: Path, group: str, *, limit: int, usage: int, cached: int = 0) -> None:
    folder = root / "sys/fs/cgroup/memory" / group
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{usage}\n")
    (folder / "memory.stat").write_text(f"inactive_file 1\ntotal_inactive_file {cached}\n")


def test_cached_files_are_available(tmp_path: Path) -> None:
    machine(tmp_path)
    assert free_host_memory(tmp_path) == 8_000_000 * 1024


def test_a_container_of_the_second_version(tmp_path: Path) -> None:
    """The group's own limit, less its usage, whose cached files can be dropped."""
    machine(tmp_path)
    written(tmp_path, proc__self__cgroup="0::/\n")
    second(tmp_path, "", limit=str(4 * GB), usage=3 * GB, cached=2 * GB)
    assert free_host_memory(tmp_path) == 3 * GB


def test_the_word_max_is_no_limit(tmp_path: Path) -> None:
    machine(tmp_path)
    second(tmp_path, "", limit="max", usage=3 * GB)
    assert free_host_memory(tmp_path) == 8_000_000 * 1024


def test_groups_around_a_group_hold_too(tmp_path: Path) -> None:
    """A batch system limits the job, not the step inside it."""
    machine(tmp_path)
    written(tmp_path, proc__self__cgroup="0::/jobs/job7/step0\n")
    second(tmp_path, "jobs/job7/step0", limit="max", usage=1 * GB)
    second(tmp_path, "jobs/job7", limit=str(5 * GB), usage=1 * GB)
    second(tmp_path, "jobs", limit=str(6 * GB), usage=1 * GB)
    assert free_host_memory(tmp_path) == 4 * GB


def test_the_first_version(tmp_path: Path) -> None:
    """In a group of its own, and inside a container that shows the group as the root."""
    machine(tmp_path)
    written(tmp_path, proc__self__cgroup="5:cpu,cpuacct:/job\n4:memory:/docker/abc\n0::/\n")
    first(tmp_path, "", limit=2**63 - 4096, usage=9 * GB)
    first(tmp_path, "docker/abc", limit=3 * GB, usage=1 * GB, cached=GB // 2)
    assert free_host_memory(tmp_path) == 2.5 * GB
    first(tmp_path, "", limit=2 * GB, usage=1 * GB)
    assert free_host_memory(tmp_path) == 1 * GB


def test_a_group_beyond_its_limit_leaves_nothing(tmp_path: Path) -> None:
    machine(tmp_path)
    second(tmp_path, "", limit="100", usage=200)
    assert free_host_memory(tmp_path) == 0.0


def test_broken_files_are_no_limits(tmp_path: Path) -> None:
    machine(tmp_path)
    written(tmp_path, proc__self__cgroup="0::/a\n", sys__fs__cgroup__a__memory="what")
    second(tmp_path, "a", limit="many", usage=0)
    assert free_host_memory(tmp_path) == 8_000_000 * 1024


def test_without_a_kernel_that_tells_it_is_all_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(memory.os, "sysconf", asked.__getitem__, raising=False)
    assert free_host_memory(tmp_path) == 4_096_000.0
    monkeypatch.delattr(memory.os, "sysconf")
    assert free_host_memory(tmp_path) == math.inf


def test_psutil_is_asked_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    fake: Any = SimpleNamespace(virtual_memory=lambda: SimpleNamespace(available=12345))
    monkeypatch.setitem(sys.modules, "psutil", fake)
    monkeypatch.setattr(
        memory, "_psutil", memory._psutil.__wrapped__
    )  # as if asked for the first time
    assert free_host_memory() == 12345.0
    assert free_memory(np.ones(2)) == 12345.0


def test_without_psutil_the_kernel_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    monkeypatch.setattr(memory, "_psutil", memory._psutil.__wrapped__)
    assert 0.0 < free_host_memory() < 2.0**60


def test_tensors_on_a_gpu_ask_the_gpu(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the device has free, and what torch has set aside without using it."""
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 50)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 20)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (1000, 9999))
    tensor = SimpleNamespace(device=SimpleNamespace(type="cuda"))
    monkeypatch.setattr(memory, "is_torch", lambda _: True)
    assert free_memory(tensor) == 1030.0

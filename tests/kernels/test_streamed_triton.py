"""The fused kernels without a GPU: their answers in Triton's interpreter, and that they compile for a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
CASES = Path(__file__).with_name("streamed_triton_cases.py")


def test_all_cases_pass_in_the_interpreter() -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        str(CASES),
    ]
    done = subprocess.run(
        command,
        env={**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""},
        cwd=CASES.parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout.splitlines()[-1]
    assert "skipped" not in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("rank", [4, 20])
@pytest.mark.parametrize("kernel", ["log2_row_sums", "entropy", "float64", "mixed"])
def test_kernels_compile_for_a_gpu(
    kernel: str, rank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler takes less than the interpreter: this asks it, for the architecture of an H100."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from condgrad.kernels import streamed_triton

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    tl = triton.language
    constants: dict[str, Any] = {"RANK": rank, "DOT": streamed_triton._dot_length(rank)}
    if kernel in ("log2_row_sums", "entropy"):
        function, array = getattr(streamed_triton, f"{kernel}_kernel"), "*fp64"
        blocks = streamed_triton.BlockSizes.of_sums(rank)
    else:
        function, kind = (
            streamed_triton.times_kernel,
            tl.float64 if kernel == "float64" else tl.float32,
        )
        array, blocks = "*fp64", streamed_triton.BlockSizes.of_products([rank, 3], 16, kernel)
        constants |= {"DELTA_RANK": 3, "DELTA_DOT": 0, "WIDTH": 16, "TYPE": kind}
    constants |= {"ROWS": blocks.rows, "COLUMNS": blocks.columns}
    numbers = {"m", "stride", "first"}
    signature = {name: "i32" if name in numbers else array for name in function.arg_names}
    if function is streamed_triton.times_kernel:
        of_its_kind = "*fp64" if kernel == "float64" else "*fp32"
        signature |= dict.fromkeys(
            ("left", "right", "column", "delta_left", "delta_right"), of_its_kind
        )
    signature |= dict.fromkeys(constants, "constexpr")
    where = {(function.arg_names.index(name),): value for name, value in constants.items()}
    source = ASTSource(fn=function, signature=signature, constexprs=where)
    done = triton.compile(
        source, target=GPUTarget("cuda", 90, 32), options={"num_warps": blocks.warps}
    )
    assert "atom" not in done.asm["ptx"]
    assert done.asm["cubin"]

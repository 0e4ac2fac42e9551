"""The paper's experiments and the benchmarks: `python -m experiments` runs them."""

import os

# what is timed must not share the machine with a compiler, nor depend on when that is done
os.environ.setdefault("CONDGRAD_KERNELS", "wait")

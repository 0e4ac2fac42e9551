"""The paper's experiments and the benchmarks: `python -m experiments` runs them."""

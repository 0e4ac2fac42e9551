"""Solver files for benchopt's suites `lasso`, `lasso_path` and `logreg_l1`: copy one to the folder `solvers` of its suite.

Without benchopt they are plain classes, which `python -m experiments bench benchopt` runs off-line.
"""

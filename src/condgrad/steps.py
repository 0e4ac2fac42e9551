"""Step rules: how far to go. `minimize(..., step=...)` takes their names or one of these."""

from condgrad.search.steps import Adaptive, Armijo, Exact, OpenLoop, SearchState, Short, StepRule

__all__ = ["Adaptive", "Armijo", "Exact", "OpenLoop", "SearchState", "Short", "StepRule"]

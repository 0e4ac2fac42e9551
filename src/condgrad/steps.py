"""Step rules: how far to go. `minimize(..., step=...)` takes their names or one of these."""

from condgrad.search.steps import Armijo, Exact, OpenLoop, SearchState, Short, StepRule

__all__ = ["Armijo", "Exact", "OpenLoop", "SearchState", "Short", "StepRule"]

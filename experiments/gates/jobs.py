"""What a row times: records that both commits can run.

They use nothing but condgrad's public names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

import condgrad as cg


@dataclass(frozen=True)
class Proof:
    """What an answer proves of itself: each value is at most its gap above the minimum."""

    converged: bool
    """To the tolerance that was asked."""
    radii: Sequence[float]
    """What tells the problems of one answer apart, so that only the same ones are compared."""
    values: Sequence[float]
    gaps: Sequence[float]


class Job(Protocol):
    """Something to time."""

    def prepared(self, time_limit: float) -> Callable[[], Any]:
        """The call that is timed; what comes before it is not."""
        ...

    def proof(self, answer: Any, *, warned: bool) -> Proof:
        """Of what the call returned, given whether it warned that it did not converge."""
        ...


@dataclass(frozen=True, eq=False)
class Minimization:
    """A call of `condgrad.minimize`."""

    loss: str
    """A name in `condgrad.smooth`."""
    X: Any
    y: Any
    region: str
    """A name in `condgrad.sets`."""
    bounds: Sequence[Any]
    """What the set is made with."""
    ridge: float
    tol: float
    intercept: bool = False
    method: str = "auto"
    block_rows: int = 0
    """Rows of a block of Dask; 0 for data that are an array."""

    def prepared(self, time_limit: float) -> Callable[[], Any]:
        # a new f each time: nothing that an earlier run left in it helps the next
        f = getattr(cg.smooth, self.loss)(*self._data(), intercept=self.intercept)
        region = getattr(cg.sets, self.region)(*self.bounds)
        g = cg.simple.Ridge(self.ridge, on=region) if self.ridge else cg.simple.Zero(region)
        return lambda: cg.minimize(f, g, method=self.method, tol=self.tol, time_limit=time_limit)

    def _data(self) -> tuple[Any, Any]:
        if not self.block_rows:
            return self.X, self.y
        import dask
        import dask.array

        # in this process, so that its clock has all of the work
        dask.config.set(scheduler="synchronous")
        X = dask.array.from_array(self.X, chunks=(self.block_rows, -1))
        return X, dask.array.from_array(self.y, chunks=self.block_rows)

    def proof(self, answer: Any, *, warned: bool) -> Proof:
        converged = answer.status is cg.Status.CONVERGED
        return Proof(converged, [0.0], [float(answer.value)], [float(answer.gap)])


@dataclass(frozen=True, eq=False)
class PathOfRadii:
    """A call of `condgrad.linear_model.path`."""

    X: Any
    y: Any
    options: Mapping[str, Any]

    def prepared(self, time_limit: float) -> Callable[[], Any]:
        return lambda: cg.linear_model.path(self.X, self.y, time_limit=time_limit, **self.options)

    def proof(self, answer: Any, *, warned: bool) -> Proof:
        radii, values, gaps = map(as_floats, (answer.radii, answer.values, answer.gaps))
        return Proof(not warned, radii, values, gaps)


@dataclass(frozen=True, eq=False)
class EstimatorFit:
    """A call of `fit` of an estimator, or of one that searches for its radius."""

    estimator: str
    """A name in `condgrad.linear_model`."""
    X: Any
    y: Any
    options: Mapping[str, Any] = field(default_factory=dict)

    def prepared(self, time_limit: float) -> Callable[[], Any]:
        model = getattr(cg.linear_model, self.estimator)(time_limit=time_limit, **self.options)
        return lambda: model.fit(self.X, self.y)

    def proof(self, answer: Any, *, warned: bool) -> Proof:
        values = as_floats(answer.objective_)
        # a search on the other side may choose another radius, and so solve another problem
        chosen = getattr(answer, "radius_", answer.get_params().get("radius", 0.0))
        return Proof(not warned, [float(chosen)] * len(values), values, as_floats(answer.dual_gap_))


def as_floats(numbers: Any) -> list[float]:
    return [float(number) for number in np.ravel(numbers)]

"""Regularisers of a plan. Each makes a smooth part f for a plan of n x m."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, Protocol

from condgrad import _checks, smooth
from condgrad.problem import Smooth
from condgrad.transport.graphs import graph_laplacian, neighbor_laplacian


class Regularizer(Protocol):
    def smooth_part(self) -> Smooth:
        """The regulariser as a function of the plan."""


@dataclass(frozen=True, repr=False)
class Laplacian:
    """A regulariser for `transport.solve` under which neighbours move together.

    It is weight * (source tr(Xt' G' Ls G Xt) + target tr(Xs' G Lt G' Xs)) with Laplacians Ls and Lt
    of the neighbour graphs of sources and targets. The first term is small if neighbouring sources
    go to nearby places. The second is small if neighbouring targets come from nearby places.

    Parameters
    ----------
    Xs, Xt : arrays, shapes (n, d) and (m, d)
        Source and target points.
    weight : float
        The regularisation strength, lambda_2 in the paper.
    neighbors : int
        Number of neighbours of each point in the symmetric nearest-neighbour graphs.
    normalized : bool
        True for the symmetric normalised Laplacians I - D^-1/2 W D^-1/2, False for D - W. W is the
        matrix of the graph, and D is diagonal with the row sums of W.
    source, target : float
        Weights of the two terms (lambda_s and lambda_t in the paper). 0 removes a term.
    Ls, Lt : matrices, optional
        Laplacians to use instead of the neighbour graphs.
    Ws, Wt : matrices, optional
        Similarities to build Laplacians from instead of the neighbour graphs.

    Examples
    --------
    >>> import condgrad as cg
    >>> d = cg.datasets.make_clusters(30)
    >>> laplacian = cg.transport.Laplacian(d.Xs, d.Xt, weight=10.0, neighbors=5)
    >>> cost = cg.transport.SquaredEuclidean(d.Xs, d.Xt)
    >>> t = cg.transport.solve(cost, entropy=0.05, regularizers=[laplacian])
    >>> t.success, t.method
    (True, 'newton')
    """

    Xs: Any
    Xt: Any
    weight: float
    _: KW_ONLY
    neighbors: int = 10
    normalized: bool = True
    source: float = 1.0
    target: float = 1.0
    Ls: Any = None
    Lt: Any = None
    Ws: Any = None
    Wt: Any = None

    @property
    def builds_graphs(self) -> bool:
        """Whether its Laplacians come from neighbour graphs, which it can build for any points."""
        return all(matrix is None for matrix in (self.Ls, self.Lt, self.Ws, self.Wt))

    @cached_property
    def graphs(self) -> tuple[Any, Any]:
        """The two Laplacian matrices. They are computed at the first use and then stored, because for
        many points they take as long as a solve.
        """
        return self._laplacian("s", self.Xs, self.Ls, self.Ws), self._laplacian(
            "t", self.Xt, self.Lt, self.Wt
        )

    def smooth_part(self) -> Smooth:
        """The regulariser as a function of the plan."""
        return self._smooth_part

    @cached_property
    def _smooth_part(self) -> Smooth:
        weight = _checks.number("weight", self.weight, at_least=0.0)
        return smooth.TransportLaplacian(
            self.Xs,
            self.Xt,
            *self.graphs,
            source_weight=weight * _checks.number("source", self.source, at_least=0.0),
            target_weight=weight * _checks.number("target", self.target, at_least=0.0),
        )

    def __repr__(self) -> str:
        size = f"{len(self.Xs)} x {len(self.Xt)}"
        return f"transport.Laplacian({size}, weight={self.weight:g}, neighbors={self.neighbors})"

    def _laplacian(self, side: str, X: Any, L: Any, W: Any) -> Any:
        if L is not None and W is not None:
            raise ValueError(f"give L{side} or W{side}, not both")
        if L is not None:
            return L
        if W is None:
            return neighbor_laplacian(X, self.neighbors, normalized=self.normalized)
        return graph_laplacian(W, normalized=self.normalized)


@dataclass(frozen=True, repr=False)
class GroupLasso:
    """A regulariser for `transport.solve` under which each target gets mass from one class.

    It is weight * sum over targets and classes of |G[class, target]|_2. G[class, target] has the
    entries of the plan from all sources of this class to this target.

    Parameters
    ----------
    labels : sequence
        The class of each source point.
    weight : float
        At least 0.

    Examples
    --------
    >>> import condgrad as cg
    >>> cost = [[0.0, 1.0], [0.6, 0.5], [1.0, 0.0], [0.5, 0.6]]
    >>> cg.transport.solve(cost, entropy=0.05).plan.round(2).tolist()
    [[0.25, 0.0], [0.03, 0.22], [0.0, 0.25], [0.22, 0.03]]
    >>> groups = cg.transport.GroupLasso(["a", "a", "b", "b"], weight=1.0)
    >>> cg.transport.solve(cost, entropy=0.05, regularizers=[groups]).plan.round(2).tolist()
    [[0.25, 0.0], [0.25, 0.0], [0.0, 0.25], [0.0, 0.25]]
    """

    labels: Any
    weight: float

    def __repr__(self) -> str:
        return f"transport.GroupLasso({len(self.labels)} labels, weight={self.weight:g})"

    def smooth_part(self) -> Smooth:
        """The regulariser as a function of the plan."""
        return smooth.TransportGroupLasso(self.labels, weight=self.weight)

"""skada's mappings by optimal transport, with certified solvers.

    from condgrad.compat.skada import OTMapping  # replaces: from skada import OTMapping

Each adapter is a subclass of skada's adapter, with the same parameters. It works in pipelines,
selectors and searches of skada. `ot_transport_` is an estimator of `condgrad.compat.pot`, so it has
a `dual_gap_`. skada has no Laplacian mapping; this module has one. The import of this module
switches on scikit-learn's metadata routing, as the import of skada does.
"""

from __future__ import annotations

from typing import Any

from sklearn.svm import SVC

from condgrad.compat import pot
from condgrad.errors import require_extra
from condgrad.transport.estimators import LaplaceTransport

skada: Any = require_extra("skada", extra="skada", purpose="condgrad.compat.skada")

__all__ = [
    "ClassRegularizerOTMapping",
    "ClassRegularizerOTMappingAdapter",
    "EntropicOTMapping",
    "EntropicOTMappingAdapter",
    "LaplaceOTMapping",
    "LaplaceOTMappingAdapter",
    "OTMapping",
    "OTMappingAdapter",
]

CLASS_NORMS: dict[str, Any] = {"lpl1": pot.SinkhornLpl1Transport, "l1l2": pot.SinkhornL1l2Transport}


class OTMappingAdapter(skada.OTMappingAdapter):  # type: ignore[misc]
    """`skada.OTMappingAdapter`: transport without a regulariser.

    Parameters
    ----------
    metric, norm, max_iter
        As in `condgrad.compat.pot.EMDTransport`.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> from condgrad.compat.skada import OTMappingAdapter
    >>> d = cg.datasets.make_clusters(40)
    >>> X, domain = np.vstack([d.Xs, d.Xt]), np.repeat([1, -2], 40)
    >>> adapter = OTMappingAdapter().fit(X, sample_domain=domain)
    >>> adapter.ot_transport_.dual_gap_ < 1e-9
    True
    """

    def _create_transport_estimator(self) -> pot.EMDTransport:
        return pot.EMDTransport(**self.get_params())


class EntropicOTMappingAdapter(skada.EntropicOTMappingAdapter):  # type: ignore[misc]
    """`skada.EntropicOTMappingAdapter`: transport with an entropy.

    Parameters
    ----------
    reg_e, metric, norm, max_iter, tol
        As in `condgrad.compat.pot.SinkhornTransport`.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> from condgrad.compat.skada import EntropicOTMappingAdapter
    >>> d = cg.datasets.make_clusters(40)
    >>> X, domain = np.vstack([d.Xs, d.Xt]), np.repeat([1, -2], 40)
    >>> adapter = EntropicOTMappingAdapter(reg_e=0.1).fit(X, sample_domain=domain)
    >>> adapter.ot_transport_.dual_gap_ < 1e-6
    True
    """

    def _create_transport_estimator(self) -> pot.SinkhornTransport:
        return pot.SinkhornTransport(**self.get_params())


class ClassRegularizerOTMappingAdapter(
    skada.ClassRegularizerOTMappingAdapter  # type: ignore[misc]
):
    """`skada.ClassRegularizerOTMappingAdapter`: transport with an entropy and class groups.

    Parameters
    ----------
    norm : {"lpl1", "l1l2"}
        The regulariser: as in `condgrad.compat.pot.SinkhornLpl1Transport` for "lpl1", and as in
        `SinkhornL1l2Transport` for "l1l2".
    reg_e, reg_cl, metric, max_iter, max_inner_iter, tol
        As in the class that `norm` chooses.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> from condgrad.compat.skada import ClassRegularizerOTMappingAdapter
    >>> d = cg.datasets.make_clusters(40)
    >>> X, domain = np.vstack([d.Xs, d.Xt]), np.repeat([1, -2], 40)
    >>> y = np.concatenate([d.ys, np.full(40, -1)])  # the classes of the targets are not known
    >>> adapter = ClassRegularizerOTMappingAdapter(reg_e=0.1).fit(X, y, sample_domain=domain)
    >>> adapter.ot_transport_.dual_gap_ < 1e-6
    True
    """

    def _create_transport_estimator(self) -> Any:
        if self.norm not in CLASS_NORMS:
            raise ValueError(f"norm must be 'lpl1' or 'l1l2', got {self.norm!r}")
        parameters = self.get_params()
        return CLASS_NORMS[parameters.pop("norm")](**parameters)


class LaplaceOTMappingAdapter(skada.EntropicOTMappingAdapter):  # type: ignore[misc]
    """Transport with an entropy and a Laplacian: neighbours move together.

    Parameters
    ----------
    reg_e, reg_lap : float or "auto"
        The `entropy` and the `weight` of `condgrad.transport.LaplaceTransport`.
    neighbors, metric, norm, max_iter, tol
        As in `condgrad.transport.LaplaceTransport`.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> from condgrad.compat.skada import LaplaceOTMappingAdapter
    >>> d = cg.datasets.make_clusters(40)
    >>> X, domain = np.vstack([d.Xs, d.Xt]), np.repeat([1, -2], 40)
    >>> adapter = LaplaceOTMappingAdapter().fit(X, sample_domain=domain)
    >>> adapter.ot_transport_.result_.success
    True
    """

    def __init__(
        self,
        reg_e: float | str = "auto",
        reg_lap: float | str = "auto",
        neighbors: int = 10,
        metric: str = "sqeuclidean",
        norm: str | None = None,
        max_iter: int = 1000,
        tol: float = 1e-6,
    ) -> None:
        super().__init__(reg_e, metric, norm, max_iter, tol)
        self.reg_lap = reg_lap
        self.neighbors = neighbors

    def _create_transport_estimator(self) -> LaplaceTransport:
        parameters = self.get_params()
        weights = (parameters.pop("reg_e"), parameters.pop("reg_lap"))
        return LaplaceTransport(*weights, **parameters)


def OTMapping(
    base_estimator: Any = None,
    metric: str = "sqeuclidean",
    norm: str | None = None,
    max_iter: int = 100_000,
) -> Any:
    """`skada.OTMapping`: the pipeline of an `OTMappingAdapter` and an estimator.

    Parameters
    ----------
    base_estimator : estimator, optional
        The estimator that is fitted to the moved sources. By default scikit-learn's `SVC()`.
    metric, norm, max_iter
        As in `OTMappingAdapter`.

    Returns
    -------
    Pipeline

    Examples
    --------
    >>> from condgrad.compat.skada import OTMapping
    >>> OTMapping().steps[0][0]
    'otmappingadapter'
    """
    return _pipeline(OTMappingAdapter(metric, norm, max_iter), base_estimator)


def EntropicOTMapping(
    base_estimator: Any = None,
    metric: str = "sqeuclidean",
    norm: str | None = None,
    max_iter: int = 1000,
    reg_e: float = 1.0,
    tol: float = 1e-8,
) -> Any:
    """`skada.EntropicOTMapping`: the pipeline of an `EntropicOTMappingAdapter` and an estimator.

    Parameters
    ----------
    base_estimator
        As in `OTMapping`.
    metric, norm, max_iter, reg_e, tol
        As in `EntropicOTMappingAdapter`.

    Returns
    -------
    Pipeline

    Examples
    --------
    >>> from condgrad.compat.skada import EntropicOTMapping
    >>> EntropicOTMapping(reg_e=0.1).steps[0][0]
    'entropicotmappingadapter'
    """
    return _pipeline(EntropicOTMappingAdapter(reg_e, metric, norm, max_iter, tol), base_estimator)


def ClassRegularizerOTMapping(
    base_estimator: Any = None,
    metric: str = "sqeuclidean",
    norm: str = "lpl1",
    max_iter: int = 10,
    max_inner_iter: int = 200,
    reg_e: float = 1.0,
    reg_cl: float = 0.1,
    tol: float = 1e-8,
) -> Any:
    """`skada.ClassRegularizerOTMapping`: the pipeline of its adapter and an estimator.

    Parameters
    ----------
    base_estimator
        As in `OTMapping`.
    metric, norm, max_iter, max_inner_iter, reg_e, reg_cl, tol
        As in `ClassRegularizerOTMappingAdapter`.

    Returns
    -------
    Pipeline

    Examples
    --------
    >>> from condgrad.compat.skada import ClassRegularizerOTMapping
    >>> ClassRegularizerOTMapping(norm="l1l2").steps[0][0]
    'classregularizerotmappingadapter'
    """
    adapter = ClassRegularizerOTMappingAdapter(
        reg_e, reg_cl, norm, metric, max_iter, max_inner_iter, tol
    )
    return _pipeline(adapter, base_estimator)


def LaplaceOTMapping(
    base_estimator: Any = None,
    reg_e: float | str = "auto",
    reg_lap: float | str = "auto",
    neighbors: int = 10,
    metric: str = "sqeuclidean",
    norm: str | None = None,
    max_iter: int = 1000,
    tol: float = 1e-6,
) -> Any:
    """The pipeline of a `LaplaceOTMappingAdapter` and an estimator. skada has no such mapping.

    Parameters
    ----------
    base_estimator
        As in `OTMapping`.
    reg_e, reg_lap, neighbors, metric, norm, max_iter, tol
        As in `LaplaceOTMappingAdapter`.

    Returns
    -------
    Pipeline

    Examples
    --------
    >>> from condgrad.compat.skada import LaplaceOTMapping
    >>> LaplaceOTMapping().steps[0][0]
    'laplaceotmappingadapter'
    """
    adapter = LaplaceOTMappingAdapter(reg_e, reg_lap, neighbors, metric, norm, max_iter, tol)
    return _pipeline(adapter, base_estimator)


def _pipeline(adapter: Any, base_estimator: Any) -> Any:
    return skada.make_da_pipeline(adapter, SVC() if base_estimator is None else base_estimator)

"""Bad input of transport: `solve` and its relatives, their sets, and the estimators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import condgrad as cg
from condgrad.sets import PartialTransport, SharedMarginal
from condgrad.transport import (
    EntropicTransport,
    GroupLasso,
    GroupTransport,
    LaplaceTransport,
    Laplacian,
    barycenter,
    divergence,
    free_barycenter,
    partial,
    solve,
    solve_batch,
    unbalanced,
)
from tests.errors.core import Row, spoiled, tensor
from tests.transport import cloud

DATA = cloud(7, 6, seed=1)
WRONG = (TypeError, ValueError)
HALF = np.full(2, 0.5)


def rows(
    name: str,
    call: Callable[..., Any],
    wrong: list[tuple[Any, str]],
    error: Any = WRONG,
    **usual: Any,
) -> dict[str, Row]:
    """Rows of one call: positional arguments, or keywords that take the place of the usual ones."""

    def called(arguments: Any) -> Any:
        if isinstance(arguments, tuple):
            return call(*arguments, **usual)
        return call(**{**usual, **arguments})

    return {
        f"{name}, {k}: {sentence}": (lambda a=arguments: called(a), error, sentence)
        for k, (arguments, sentence) in enumerate(wrong)
    }


# solve ----------------------------------------------------------------------------------------------------------------

BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "masses differ": (
        {"a": DATA.a, "b": 2.5 * DATA.b},
        ValueError,
        r"same mass: a sums to 1, b to 2\.5",
    ),
    "mass differs from the default": (
        {"a": 3.0 * DATA.a, "b": None},
        ValueError,
        r"a sums to 3, b to 1",
    ),
    "a is too short": (
        {"a": np.full(4, 0.25)},
        ValueError,
        r"\(7, 6\).*\(4, 6\)|a must have.*7.*4",
    ),
    "b is too long": (
        {"b": np.full(8, 0.125)},
        ValueError,
        r"\(7, 6\).*\(7, 8\)|b must have.*6.*8",
    ),
    "a is a matrix": ({"a": DATA.C}, ValueError, r"a must have 1 dim"),
    "negative weights": (
        {"a": spoiled(DATA.a, -0.1)},
        ValueError,
        r"a must hold weights >= 0, got -0\.1",
    ),
    "NaN weights": ({"b": spoiled(DATA.b, math.nan)}, ValueError, r"b must be finite"),
    "negative entropy": (
        {"entropy": -0.1},
        ValueError,
        r"entropy must be finite and >= 0, got -0\.1",
    ),
    "NaN entropy": ({"entropy": math.nan}, ValueError, r"entropy must be finite"),
    "entropy in words": (
        {"entropy": "little"},
        TypeError,
        r"entropy must be a number, got 'little'",
    ),
    "NaN in the cost": ({"cost": spoiled(DATA.C, math.nan)}, ValueError, r"cost must be finite"),
    "infinite cost": ({"cost": spoiled(DATA.C, -math.inf)}, ValueError, r"cost must be finite"),
    "cost is a vector": ({"cost": DATA.a}, ValueError, r"cost must have 2 dim"),
    "empty cost": (
        {"cost": np.zeros((0, 3)), "a": None, "b": None},
        ValueError,
        r"cost must .*\(0, 3\)",
    ),
    "cost in words": ({"cost": "far"}, TypeError, r"cost must be an array of numbers, got str"),
    "complex cost": ({"cost": DATA.C + 1j}, TypeError, r"cost must be real"),
    "unknown engine": (
        {"engine": "abacus"},
        ValueError,
        r"engine must be one of 'auto', 'emd', 'highs'.*got 'abacus'",
    ),
    "unknown method": (
        {"method": "simplex"},
        ValueError,
        r"method must be one of 'cgs', 'cg'.*got 'simplex'",
    ),
    "unknown step": ({"step": "giant"}, ValueError, r"step must be one of 'exact'.*got 'giant'"),
    "negative memory": ({"memory": -1}, ValueError, r"memory must be >= 0, got -1"),
    "negative tolerance": ({"tol": -1.0}, ValueError, r"tol must be finite and >= 0"),
    "labels of another length": (
        {"regularizers": [GroupLasso([0, 1], 0.1)]},
        ValueError,
        r"labels.*7.*2",
    ),
    "points of another number": (
        {"regularizers": [Laplacian(DATA.Xs[:4], DATA.Xt, 1.0)]},
        ValueError,
        r"\(7, 6\).*\(4, 6\)",
    ),
    "one regulariser, not a list": (
        {"regularizers": Laplacian(DATA.Xs, DATA.Xt, 1.0, neighbors=2)},
        TypeError,
        r"regularizers must be a (list|sequence)",
    ),
    "a regulariser that is none": ({"regularizers": [3.0]}, TypeError, r"regularizers"),
}
ROWS: dict[str, Row] = {
    f"solve: {name}": (
        lambda o=options: solve(**{"cost": DATA.C, "a": DATA.a, "b": DATA.b, "entropy": 0.1, **o}),
        error,
        sentence,
    )
    for name, (options, error, sentence) in BAD.items()
}
LINES = "write transport.solve(M, a, b, entropy=reg)".replace("(", r"\(").replace(")", r"\)")
ROWS |= {
    "solve: in the order of POT": (
        lambda: solve(DATA.a, DATA.b, DATA.C, entropy=0.1),
        TypeError,
        LINES,
    ),
    "solve: all of POT's arguments": (
        lambda: solve(DATA.a, DATA.b, DATA.C, 0.1),
        TypeError,
        LINES,
    ),
    "solve: the entropy by position": (
        lambda: solve(DATA.C, DATA.a, DATA.b, 0.1),
        TypeError,
        LINES,
    ),
}

# Starts and regularisers ----------------------------------------------------------------------------------------------


def between(n: int, m: int, d: int) -> cg.transport.SquaredEuclidean:
    rng = np.random.default_rng(n)
    return cg.transport.SquaredEuclidean(rng.standard_normal((n, d)), rng.standard_normal((m, d)))


def from_other_points(plan: str) -> Any:
    start = solve(between(5, 6, 2), entropy=0.1)
    return solve(between(7, 8, 3), entropy=0.1, start=start, plan=plan)


ROWS |= rows(
    "start",
    solve,
    [
        (
            {"start": np.ones((6, 7))},
            r"^start must have the shape of the cost, \(7, 6\), got \(6, 7\)",
        ),
        (
            {"start": np.ones((7, 6))},
            r"^start must lie in Transport\(7 x 6\): .* its largest violation is 6",
        ),
        ({"start": np.full((7, 6), np.nan)}, r"^start must be finite"),
        ({"start": np.ones(42)}, r"^start must have 2 dimension"),
    ],
    ValueError,
    cost=DATA.C,
    entropy=0.1,
)
ROWS["start in words"] = (
    lambda: solve(DATA.C, entropy=0.1, start="plan"),
    TypeError,
    r"^start must be an array of numbers, got str",
)
ROWS |= {
    f"start between other points, {plan}": (
        lambda plan=plan: from_other_points(plan),
        ValueError,
        r"start .* sources have the shape \(5, 2\), .* \(7, 3\): .* leave start",
    )
    for plan in ("dense", "streamed")
}
ROWS |= rows(
    "regularizers",
    solve,
    [
        (
            {"regularizers": [Laplacian(DATA.Xt, DATA.Xs, 0.5, neighbors=2)]},
            r"regularizers\[0\], transport.Laplacian\(6 x 7.* cost of 7 x 6: .*\(6, 7\)",
        ),
        (
            {"regularizers": [Laplacian(DATA.Xs * np.nan, DATA.Xt, 0.5, neighbors=2)]},
            r"regularizers\[0\], .*: Xs must be finite",
        ),
    ],
    ValueError,
    cost=DATA.C,
    entropy=0.1,
)
ROWS["torch: a regulariser that cannot follow the cost"] = (
    lambda: solve(
        DATA.C,
        entropy=0.1,
        regularizers=[
            GroupLasso([0, 0, 1, 1, 2, 2, 2], 1.0),
            cg.smooth.Linear(tensor(np.ones((7, 6)))),
        ],
    ),
    TypeError,
    r"regularizers\[1\], Linear.*, does not fit a NumPy cost of 7 x 6: .*torch",
)

# Its relatives --------------------------------------------------------------------------------------------------------

UNIFORM = np.full(7, 1 / 7), np.full(6, 1 / 6)
ROWS |= rows(
    "unbalanced",
    unbalanced,
    [
        ({"penalty": 0.0}, "penalty must be finite and > 0"),
        ({"penalty": (1.0, 2.0, 3.0)}, "penalty must be a number or a pair"),
        ({"penalty": math.inf}, "use transport.solve"),
        ({"penalty": 1.0, "entropy": 0.0}, "entropy must be finite and > 0"),
        ({"penalty": 1.0, "a": DATA.b}, "a must have 7 weights"),
        ({"penalty": 1.0, "a": -DATA.a}, "a must hold weights >= 0, not all 0"),
        ({"penalty": 1.0, "tol": -1.0}, "tol must be finite and >= 0"),
    ],
    cost=DATA.C,
    entropy=0.1,
)
ROWS |= rows(
    "partial",
    partial,
    [
        ({"a": DATA.a, "b": DATA.b, "mass": 1.2}, "mass must be no more than 1"),
        ({"regularizers": [3]}, r"regularizers\[0\] must be"),
        ({"cost": np.zeros((0, 2))}, "cost must not be empty"),
    ],
    cost=DATA.C,
    mass=0.5,
    entropy=0.1,
)
ROWS |= rows(
    "divergence",
    divergence,
    [
        ({"Xt": DATA.Xt[:, :1]}, "points of one dimension"),
        ({"entropy": 0.0}, "entropy must be finite and > 0"),
        ({"a": DATA.b}, "a must have 7 weights"),
    ],
    ValueError,
    Xs=DATA.Xs,
    Xt=DATA.Xt,
    entropy=0.1,
)
ROWS |= rows(
    "PartialTransport",
    PartialTransport,
    [
        ((-HALF, HALF, 0.5), "a must hold one or more weights >= 0"),
        ((HALF, HALF, 1.5), "mass must be no more than 1, the smaller mass"),
        ((HALF, HALF, 0.0), "mass must be finite and > 0"),
        ({"a": HALF, "b": HALF, "mass": 0.5, "engine": "abacus"}, "engine must be one of"),
    ],
    ValueError,
)
ROWS |= rows(
    "SharedMarginal",
    SharedMarginal,
    [
        ((0, [HALF]), "n must be >= 1"),
        ((2, HALF), "marginals must be a list"),
        ((2, []), "marginals must be a list"),
        ((2, [HALF, -HALF]), r"marginals\[1\] must hold one or more weights >= 0"),
        ((2, [HALF, 2.0 * HALF]), r"marginals\[0\] sums to 1, marginals\[1\] to 2"),
        ((2, [0.0 * HALF]), "same mass > 0"),
        (
            {"n": 2, "marginals": [HALF, HALF], "weights": [1.0, 0.0]},
            "weights must be 2 numbers > 0",
        ),
    ],
)

# Barycentres: a support of 6 points, measures of 5 and 4
SUPPORT = cloud(6, 5, seed=3).Xs
POINTS = [cloud(6, size, seed=size).Xt for size in (5, 4)]
MEASURES = [np.full(size, 1.0 / size) for size in (5, 4)]
COSTS = [((SUPPORT[:, None] - each[None]) ** 2).sum(axis=2) for each in POINTS]
MISFIT = Laplacian(SUPPORT, POINTS[1], 1.0)
ROWS |= rows(
    "barycenter",
    barycenter,
    [
        ((COSTS, MEASURES[0]), "marginals must be a list"),
        ((COSTS[:1], MEASURES), "costs must be one array, or 2"),
        ((COSTS[0], MEASURES), r"the cost to marginals\[1\] must have the shape \(6, 4\)"),
        ((COSTS, MEASURES, [1.0]), "weights must be 2 numbers > 0"),
        ((COSTS, MEASURES, [1.0, -1.0]), "weights must be 2 numbers > 0"),
        ((COSTS, [MEASURES[0], 2.0 * MEASURES[1]]), r"marginals\[1\] to 2"),
    ],
    entropy=0.1,
)
ROWS |= rows(
    "barycenter, options",
    lambda **options: barycenter(COSTS, MEASURES, **options),
    [
        ({"entropy": -1.0}, "entropy must be finite and >= 0"),
        ({"regularizers": [[MISFIT], []]}, r"regularizers\[0\]\[0\]"),
        ({"regularizers": [[], [3]]}, r"regularizers\[1\]\[0\] must be"),
        ({"regularizers": [MISFIT]}, "regularizers must be 2 lists"),
    ],
    entropy=0.1,
)
ROWS |= rows(
    "free_barycenter",
    free_barycenter,
    [
        ((SUPPORT, [POINTS[0], POINTS[1][:, :1]]), r"points\[1\] must hold points of 2 dimensions"),
        ((SUPPORT[:0], POINTS), "start must hold one or more points"),
        ((SUPPORT, POINTS, MEASURES[:1]), "marginals must be 2 arrays"),
    ],
    ValueError,
    entropy=0.1,
)
ROWS["free_barycenter, weights of 0"] = (
    lambda: free_barycenter(SUPPORT, POINTS, entropy=0.1, support_weights=np.eye(6)[0]),
    ValueError,
    "support_weights must be > 0",
)

# Batches
STACK = np.random.default_rng(0).random((3, 4, 5))
LIST = [np.ones((2, 3)), np.ones((3, 2))]
ROWS |= rows(
    "solve_batch",
    solve_batch,
    [
        ((STACK, np.ones(5)), r"a must have the shape \(4,\) or \(3, 4\), got \(5,\)"),
        ((STACK, np.ones(4), np.ones(5)), "the same mass > 0: of problem 0 a sums to 4, b to 5"),
        ((STACK, np.array([1.0, 1.0, 2.0, -1.0])), "a must be >= 0, got -1"),
        ((np.ones((2, 0, 3)),), "must not be empty"),
        ((STACK[0],), "cost"),
        ((LIST, np.ones(2)), r"a must be a list of 2 arrays of weights"),
        ((LIST, None, [np.ones(3) / 3, np.ones(3) / 3]), r"b\[1\] must have the shape \(2,\)"),
        ((LIST, None, [np.ones(3) / 3, np.ones(2)]), r"of problem 1 a sums to 1, b to 2"),
        (([np.ones((2, 3)), np.ones((0, 2))],), r"cost\[1\] must not be empty"),
    ],
    ValueError,
    entropy=1.0,
)
ROWS |= rows(
    "solve_batch, entropy",
    solve_batch,
    [
        ({"entropy": 0.0}, "entropy must be"),
        ({"entropy": np.array([1.0, 0.0, 1.0])}, "one for each problem"),
    ],
    ValueError,
    cost=STACK,
)
ROWS["solve_batch, a plan that avoids all"] = (
    lambda: solve_batch([np.ones((2, 3)), np.full((2, 2), np.inf)], entropy=1.0),
    cg.InfeasibleError,
    "problem 1: no plan avoids",
)

# The loss of torch ----------------------------------------------------------------------------------------------------


def torch_loss(wrong: Callable[[Any, Any], dict[str, Any]]) -> Any:
    Xs, Xt = tensor(DATA.Xs[:5]), tensor(DATA.Xt)
    Xs.requires_grad_()
    return cg.transport.loss(**{"entropy": 0.1, "Xs": Xs, "Xt": Xt, **wrong(Xs, Xt)})


TORCH_LOSS: list[tuple[Callable[[Any, Any], dict[str, Any]], str]] = [
    (lambda Xs, _: {"Xs": Xs.detach().numpy()}, "Xs must be a torch tensor"),
    (lambda _, Xt: {"Xt": Xt[:, :1]}, "same dimension, got 2 and 1"),
    (lambda _, Xt: {"Xt": Xt[0]}, r"Xt must hold points in rows, got shape \(2,\)"),
    (lambda Xs, _: {"Xs": Xs * math.nan}, "Xs must be finite"),
    (lambda _, Xt: {"Xt": Xt.long()}, "Xt must be of a floating-point dtype"),
    (lambda *_: {"a": [1.0]}, "a must be a torch tensor"),
    (lambda *_: {"b": tensor(np.full(5, 0.2))}, "b must have 6 weights"),
    (lambda *_: {"a": tensor(np.full(5, 0.4))}, "a sums to 2, b to 1"),
    (
        lambda *_: {"a": tensor(np.array([0.0, 0.25, 0.25, 0.25, 0.25])).requires_grad_()},
        "a must have weights > 0 if it requires a gradient",
    ),
    (lambda *_: {"regularizers": 3}, "regularizers must be a list"),
    (
        lambda Xs, Xt: {"regularizers": [Laplacian(Xt, Xs.detach(), 0.5, neighbors=2)]},
        r"regularizers\[0\] must have graphs of 5 and 6 points.*got 6 and 5",
    ),
    (lambda *_: {"entropy": -1.0}, "entropy must be finite and >= 0"),
]
ROWS |= {
    f"torch: loss: {sentence}": (lambda wrong=wrong: torch_loss(wrong), WRONG, sentence)
    for wrong, sentence in TORCH_LOSS
}

# Estimators -----------------------------------------------------------------------------------------------------------

XS, XT = cloud(24, 18).Xs, cloud(24, 18).Xt
YS, YT = np.arange(24) % 3, np.arange(18) % 3
for kind in (EntropicTransport, LaplaceTransport, GroupTransport):
    ROWS |= rows(
        kind.__name__,
        lambda kind=kind, Xs=XS, ys=YS, Xt=XT, yt=None, entropy="auto", **options: kind(
            entropy, **options
        ).fit(Xs, ys, Xt, yt),
        [
            ({"Xs": None}, "Xs is needed"),
            ({"Xt": None}, "Xt is needed"),
            ({"Xt": np.random.default_rng(0).random((5, 3))}, "Xs has 2 features, Xt has 3"),
            (
                {"ys": YS[:5]},
                r"ys must have one label for each of the 24 samples, got shape \(5,\)",
            ),
            (
                {"yt": YT[:5]},
                r"yt must have one label for each of the 18 samples, got shape \(5,\)",
            ),
            ({"Xs": XS * np.nan}, "NaN"),
            ({"Xt": XT * np.nan}, "NaN"),
            ({"entropy": -1.0}, "entropy must be finite and >= 0, got -1"),
            ({"norm": "mean"}, "norm must be one of .*'max', 'median', .* got 'mean'"),
        ],
        ValueError,
    )
ROWS["GroupTransport without classes"] = (
    lambda: GroupTransport().fit(XS, Xt=XT),
    ValueError,
    r"ys is needed: GroupTransport\.fit\(Xs, ys, Xt\)",
)
for name in ("entropy", "weight"):
    ROWS[f"LaplaceTransport with {name} in words"] = (
        lambda name=name: LaplaceTransport().set_params(**{name: "automatic"}).fit(XS, Xt=XT),
        ValueError,
        f"{name} must be a number >= 0 or 'auto', got 'automatic'",
    )
ROWS |= rows(
    "EntropicTransport, weights",
    lambda weights: EntropicTransport().fit(XS, Xt=XT, sample_weight=weights),
    [
        (
            (np.ones(5),),
            "sample_weight must have one weight for each of the 24 samples, got 5",
        ),
        ((-np.ones(24),), "sample_weight must be >= 0 and not all 0, got values from -1 to -1"),
        ((np.zeros(24),), "sample_weight must be >= 0 and not all 0"),
        ((np.full(24, np.nan),), "sample_weight must be finite"),
    ],
    ValueError,
)

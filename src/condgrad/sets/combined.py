"""Sets made of others: products, and hulls of points."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from condgrad.arrays import Array, Space, dot, double, host, like, namespace
from condgrad.arrays.inputs import floating
from condgrad.problem import Answer, Set, checked_set, linear_answer


class Product(Set):
    """{(x_1, ..., x_k) : x_i in P_i}: a vector of k blocks, each in its own set.

    It has a method, such as `project`, if all its parts have it.

    Parameters
    ----------
    *sets : Set
        The parts, in the order of their blocks.
    shapes : sequence of shapes, optional
        The shape of the points of each part; a number is the length of a vector. A matrix is
        flattened in the joint vector. Give None for parts that know their shape, such as `Simplex`.
        Parts such as `L1Ball` do not know their shape.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> P = cg.sets.Product(cg.sets.Simplex(2), cg.sets.L1Ball(1.0), shapes=[None, 3])
    >>> P.linear_argmin(np.array([3.0, 1.0, 0.0, -2.0, 1.0])).point.tolist()
    [0.0, 1.0, 0.0, 1.0, 0.0]
    """

    def __init__(self, *sets: Set, shapes: Sequence[Any] | None = None) -> None:
        if not sets:
            raise ValueError("Product needs at least one set, got none")
        self.sets = tuple(checked_set(part) for part in sets)
        given = [None] * len(sets) if shapes is None else list(shapes)
        if len(given) != len(sets):
            raise ValueError(
                f"shapes must have one entry for each of the {len(sets)} sets, got {len(given)}"
            )
        self.shapes = tuple(_shape_of(part, shape) for part, shape in zip(sets, given, strict=True))
        ends = np.cumsum([0, *(math.prod(shape) for shape in self.shapes)])
        self._slices = [slice(a, b) for a, b in pairwise(ends.tolist())]
        self.shape = (int(ends[-1]),)
        self.scale = max(part.scale for part in sets)
        entries = [part.largest_entry for part in sets]
        self.largest_entry = None if None in entries else max(entries)  # type: ignore[type-var]
        self.smallest_entry = min(part.smallest_entry for part in sets)
        self.nonnegative = all(part.nonnegative for part in sets)
        self.solid = all(part.solid for part in sets)

    def __repr__(self) -> str:
        return f"Product({', '.join(map(repr, self.sets))})"

    @property
    def projection_rounding(self) -> float:
        return max(part.projection_rounding for part in self.sets)

    @property
    def abilities(self) -> tuple[str, ...]:
        """The methods that all parts have."""
        return tuple(
            name for name in super().abilities if all(name in part.abilities for part in self.sets)
        )

    def blocks(self, x: Array) -> list[Array]:
        """The points of the parts, each in its shape."""
        xp = namespace(x)
        cut = zip(self._slices, self.shapes, strict=True)
        return [xp.reshape(x[where], shape) for where, shape in cut]

    def _joined(self, blocks: Sequence[Array]) -> Array:
        xp = namespace(blocks[0])
        return xp.concat([xp.reshape(block, (-1,)) for block in blocks])

    def start(self, space: Space) -> Array:
        parts = zip(self.sets, self.shapes, strict=True)
        spaces = [
            (part, Space(shape, space.xp, space.dtype, space.device)) for part, shape in parts
        ]
        return self._joined([part.start(own) for part, own in spaces])

    def violation(self, x: Array) -> float:
        return max(
            part.violation(block) for part, block in zip(self.sets, self.blocks(x), strict=True)
        )

    def project(self, x: Array) -> Array:
        return self._joined(
            [p.project(block) for p, block in zip(self.sets, self.blocks(x), strict=True)]
        )

    def linear_argmin(self, c: Array) -> Answer:
        return self._answer(c, lambda part, block: linear_answer(part.linear_argmin(block), block))

    def entropic_argmin(
        self, c: Array, weight: float, *, warm: Any = None, accuracy: float = 0.0
    ) -> Answer:
        before = dict(enumerate(warm or ()))
        each = iter(range(len(self.sets)))
        for_each = accuracy / len(self.sets)
        return self._answer(
            c,
            lambda part, block: part.entropic_argmin(
                block, weight, warm=before.get(next(each)), accuracy=for_each
            ),
        )

    def _answer(self, c: Array, ask: Callable[[Set, Array], Answer]) -> Answer:
        """The answers of all parts as one: points side by side, bounds and values added up."""
        answers = [ask(part, block) for part, block in zip(self.sets, self.blocks(c), strict=True)]
        values = [answer.value for answer in answers]
        return Answer(
            self._joined([answer.point for answer in answers]),
            sum(answer.bound for answer in answers),
            None if None in values else sum(values),  # type: ignore[arg-type]
            sum(answer.inner_iterations for answer in answers),
            tuple(answer.warm for answer in answers),
            sum(answer.magnitude + abs(answer.bound) for answer in answers),
        )


def _shape_of(part: Set, shape: Any) -> tuple[int, ...]:
    """The shape of the points of a part, by itself or as given."""
    given = (int(shape),) if isinstance(shape, int) else None if shape is None else tuple(shape)
    if part.shape is None and given is None:
        raise ValueError(
            f"{part!r} does not know the shape of its points: give it, as in shapes=[3, None]"
        )
    if part.shape is not None and given is not None and part.shape != given:
        raise ValueError(f"{part!r} has points of shape {part.shape}, got {given} in shapes")
    return part.shape if given is None else given  # type: ignore[return-value]


class Hull(Set):
    """The convex hull of given points.

    Parameters
    ----------
    vertices : array, shape (points, ...)
        The points, along the first axis. Points in the interior of the hull are allowed.

    Examples
    --------
    >>> import numpy as np, condgrad as cg
    >>> triangle = cg.sets.Hull([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> triangle.linear_argmin(np.array([-1.0, -2.0])).point.tolist()
    [0.0, 1.0]
    >>> triangle.violation(np.array([0.2, 0.2])), round(triangle.violation(np.array([1.0, 1.0])), 3)
    (0.0, 0.707)
    """

    def __init__(self, vertices: Any) -> None:
        self.vertices = floating("vertices", vertices)
        if self.vertices.ndim < 2 or 0 in self.vertices.shape:
            shape = tuple(self.vertices.shape)
            raise ValueError(
                f"vertices must have shape (points, ...) with at least one point, got {shape}"
            )
        self.shape = tuple(self.vertices.shape[1:])
        self.space = Space.of(self.vertices, shape=self.shape)
        xp = namespace(self.vertices)
        largest = float(xp.max(xp.abs(self.vertices)))
        self.largest_entry = largest
        self.scale = largest or 1.0
        self.smallest_entry = float(xp.min(self.vertices))
        self.nonnegative = self.smallest_entry >= 0.0

    def __repr__(self) -> str:
        return f"Hull({self.vertices.shape[0]} points of shape {self.shape})"

    def start(self, space: Space) -> Array:
        """The mean of the points."""
        xp = namespace(self.vertices)
        return like(xp.mean(self.vertices, axis=0), space.full(0.0))

    def violation(self, x: Array) -> float:
        """The distance of x to the hull. It is 0 if rounding explains it."""
        from scipy.optimize import nnls

        points = double(host(self.vertices)).reshape(self.vertices.shape[0], -1) / self.scale
        at = double(host(x)).ravel() / self.scale
        # weights of sum 1, up to what so large an equation leaves
        rows = np.vstack([points.T, np.full(len(points), FIRMLY)])
        weights, _ = nnls(rows, np.append(at, FIRMLY))
        distance = self.scale * float(np.linalg.norm(points.T @ (weights / weights.sum()) - at))
        return 0.0 if distance <= ON_HULL * self.scale else distance

    def linear_argmin(self, c: Array) -> Answer:
        xp = namespace(c)
        vertices = like(self.vertices, c)
        slopes = xp.reshape(vertices, (vertices.shape[0], -1)) @ xp.reshape(c, (-1,))
        point = vertices[int(xp.argmin(slopes))]
        return Answer(point, dot(c, point), value=0.0)


FIRMLY = 1e3
"""The weights of a hull are found by least squares. This is the weight of the equation that they
sum to 1; the other equations are of size 1.
"""
ON_HULL = 1e-12
"""A point outside a hull by at most this share of its size counts as inside."""

"""Who takes part, and how each is drawn: the same colour, dash and marker in all figures.

Colours are Okabe and Ito's, an indigo and a brown, which colour-blind readers tell apart; where two solvers share one,
dash and marker differ. Each has a lighter twin for a dark page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Style:
    """How a solver is named and drawn; `dash` is "solid", "dash", "dot" or "dashdot", `dark` the colour by night."""

    label: str
    color: str
    dash: str
    marker: str
    dark: str


SOLVERS: Mapping[str, Style] = MappingProxyType(
    {
        "cgs-exact": Style("CGS, exact step", "#0072B2", "solid", "circle", "#4FA3EE"),
        "cgs-armijo": Style("CGS, Armijo", "#56B4E9", "solid", "square", "#A9DCFA"),
        "cgs-open-loop": Style("CGS, 2/(k+2)", "#009E73", "dash", "triangle-up", "#2CC79A"),
        "cgs-short": Style("CGS, short step", "#8C5A2B", "dot", "diamond-tall", "#D2A679"),
        "cgs-memory": Style("CGS, memory", "#332288", "dashdot", "diamond", "#A597FF"),
        "newton": Style("Newton", "#CC79A7", "solid", "star", "#F0A3CB"),
        "cg": Style("CG", "#D55E00", "solid", "x", "#FF8640"),
        "cg-emd": Style("CG, network simplex", "#D55E00", "solid", "x", "#FF8640"),
        "cg-highs": Style("CG, HiGHS", "#D55E00", "dash", "cross", "#FF8640"),
        "cg-cvxopt": Style("CG, CVXOPT", "#D55E00", "dot", "triangle-down", "#FF8640"),
        "cg-mosek": Style("CG, MOSEK", "#D55E00", "dashdot", "triangle-left", "#FF8640"),
        "pot-gcg": Style("POT gcg", "#7F7F7F", "dash", "pentagon", "#ABABAB"),
        "spg": Style("SPG", "#E69F00", "solid", "hexagon", "#FFC14D"),
        "pqn": Style("PQN", "#A89A00", "dashdot", "triangle-right", "#E3D54F"),
    }
)

BOUNDS: Mapping[str, Style] = MappingProxyType(
    {
        "bound": Style("2 C_f / (k + 2)", "#7F7F7F", "dash", "", "#ABABAB"),
        "linear-bound": Style("linear rate", "#7F7F7F", "dot", "", "#ABABAB"),
        "least": Style("the least possible", "#7F7F7F", "dashdot", "", "#ABABAB"),
        "true-error": Style("F(x) - F*", "#333333", "solid", "", "#E0E0E0"),
        "gap": Style("our gap", "#0072B2", "solid", "", "#4FA3EE"),
        "classical-gap": Style("classical gap", "#D55E00", "dash", "", "#FF8640"),
    }
)

STYLES: Mapping[str, Style] = MappingProxyType({**SOLVERS, **BOUNDS})

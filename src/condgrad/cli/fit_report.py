"""What a fit leaves behind in words and numbers: the report, the coefficients, the certificate."""

from __future__ import annotations

import csv
import hashlib
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from condgrad.cli.files import counted, shortened
from condgrad.cli.fit_design import Design
from condgrad.cli.fit_solve import Fitted, Options, Proof, coefficients_within
from condgrad.cli.model_file import HINGE, LOGISTIC, SQUARES
from condgrad.cli.report import not_converged
from condgrad.paper.machine import versions

NAMES = {
    LOGISTIC: "logistic regression (a sum of log(1 + exp(-margin)))",
    SQUARES: "least squares (half a sum of squared errors)",
    HINGE: "support vector machine (a sum of squared hinges)",
}
SHOWN = 10
"""Coefficients in the report; the file has all."""

INTERCEPT = "(intercept)"


@dataclass(frozen=True, eq=False)
class Source:
    """The file that was fitted."""

    path: Path
    content: bytes

    def facts(self) -> dict[str, Any]:
        digest = hashlib.sha256(self.content).hexdigest()
        return {"file": self.path.name, "bytes": len(self.content), "sha256": digest}


@dataclass(frozen=True)
class Row:
    """A feature of one problem."""

    feature: str
    coefficient: float
    standardised: float


def rows(fitted: Fitted, problem: int) -> list[Row]:
    """The features of a problem, those with a coefficient first, by falling size of the standardised one."""
    model = fitted.model
    plain, standard = model.plain_coef[problem], np.array(model.coef[problem])
    order = np.argsort(-np.abs(standard), kind="stable")
    return [Row(model.features[j], float(plain[j]), float(standard[j])) for j in order]


def write_coefficients(file: Path, fitted: Fitted) -> None:
    """One block of rows for each problem; the intercept leads it."""
    several = len(fitted.proofs) > 1
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow([*(["class"] if several else []), "feature", "coefficient", "standardised_coefficient"])
        for k, proof in enumerate(fitted.proofs):
            first = Row(INTERCEPT, float(fitted.model.plain_intercept[k]), fitted.model.intercept[k])
            for row in (first, *rows(fitted, k)):
                label = [proof.label] if several else []
                writer.writerow([*label, row.feature, repr(row.coefficient), repr(row.standardised)])


def certificate(problem: Design, fitted: Fitted, options: Options, source: Source) -> dict[str, Any]:
    """The proof of each problem, and all that is needed to obtain it again."""
    model = fitted.model
    return {
        "certified": fitted.certified,
        "statement": "the least objective lies between lower_bound and value",
        "problems": [_proof_facts(proof, model.ridge) for proof in fitted.proofs],
        "radius": model.radius,
        "ridge": model.ridge,
        "loss": model.kind,
        "target": model.target,
        "chosen_by": fitted.chosen_by,
        "folds": fitted.folds,
        "unfinished_trials": fitted.unfinished_trials,
        "measure": fitted.measure,
        "training_score": fitted.training_score,
        "cross_validated_score": fitted.held_out_score,
        "settings": asdict(options),
        "data": {**source.facts(), "rows": problem.rows, "features": len(problem.features)},
        "versions": versions(),
    }


def _proof_facts(proof: Proof, ridge: float) -> dict[str, Any]:
    return {
        "class": proof.label,
        "value": proof.value,
        "lower_bound": proof.lower_bound,
        "gap": proof.gap,
        "relative_gap": proof.relative_gap,
        "multiplier": proof.multiplier,
        "iterations": proof.iterations,
        "standardised_coefficients_within": coefficients_within(proof, ridge),
    }


def report(problem: Design, fitted: Fitted, options: Options, source: Source) -> str:
    """The fit in words, 80 columns wide."""
    lines = [f"{source.path.name}, target {problem.target!r}", "", *_facts(problem, fitted, options)]
    for k, proof in enumerate(fitted.proofs):
        lines += ["", *_coefficient_lines(fitted, k, proof)]
    lines += ["", "Certificate"]
    for proof in fitted.proofs:
        lines += textwrap.wrap(_proof_sentence(fitted, proof), 78, initial_indent="  ", subsequent_indent="  ")
    lines += textwrap.wrap(_verdict(fitted), 78, initial_indent="  ", subsequent_indent="  ")
    return "\n".join(lines) + "\n"


def _facts(problem: Design, fitted: Fitted, options: Options) -> Iterator[str]:
    model = fitted.model
    used, features = int(model.used.sum()), len(model.features)
    flat = f" ({len(problem.constant)} constant)" if problem.constant else ""
    weighted = ", weighted" if problem.weights is not None else ""
    yield _fact(
        "data",
        f"{counted(problem.rows, 'row')}{weighted}, {counted(features, 'feature')}{flat}{_class_counts(problem)}",
    )
    yield _fact("model", NAMES[model.kind])
    how = f"chosen by cross-validated {fitted.chosen_by}, {fitted.folds} folds"
    yield _fact("radius", f"{model.radius:.6g}  ({'given' if options.radius is not None else how})")
    yield _fact("ridge", f"{model.ridge:.6g}  ({'given' if options.ridge is not None else how})")
    yield _fact("non-zeros", f"{used} of {features} features have a coefficient other than 0")
    held_out = (
        "too few rows for cross-validation"
        if fitted.held_out_score is None
        else f"{fitted.held_out_score:.4f} on held-out rows ({_which_folds(fitted, options)})"
    )
    yield _fact(fitted.measure, f"{fitted.training_score:.4f} on the rows fitted, {held_out}")
    if fitted.unfinished_trials:
        yield _fact("note", "some fits of the cross-validation ended before their tolerance")


def _which_folds(fitted: Fitted, options: Options) -> str:
    """A score on the folds that made the choice is a little too good."""
    chosen = [name for name in ("radius", "ridge") if getattr(options, name) is None]
    if not chosen:
        return f"{fitted.folds} folds"
    return f"the {fitted.folds} folds that chose {' and '.join(chosen)}, so new rows may do worse"


def _fact(name: str, text: str) -> str:
    return textwrap.fill(text, 78, initial_indent=f"{name:<11}", subsequent_indent=" " * 11)


def _class_counts(problem: Design) -> str:
    if problem.kind == SQUARES:
        return ""
    labels, counts = np.unique(problem.y, return_counts=True)
    shown = [f"{shortened(str(label), 16)} {count}" for label, count in zip(labels[:6], counts[:6], strict=True)]
    return f"; classes: {', '.join(shown)}{', ...' if len(labels) > 6 else ''}"


def _coefficient_lines(fitted: Fitted, k: int, proof: Proof) -> Iterator[str]:
    """The largest coefficients of a problem as a small table."""
    several = len(fitted.proofs) > 1
    found = [row for row in rows(fitted, k) if row.standardised != 0.0]
    shown = found[:SHOWN] if not several else found[:5]
    of = ""
    if proof.label is not None:
        of = f", class {proof.label!r} against {'the rest' if several else repr(fitted.model.classes[0])}"
    yield f"Coefficients{of}"
    yield f"  {'feature':<34} {'per unit':>14} {'standardised':>14}"
    yield f"  {INTERCEPT:<34} {fitted.model.plain_intercept[k]:>14.6g} {fitted.model.intercept[k]:>14.6g}"
    for row in shown:
        yield f"  {shortened(row.feature, 34):<34} {row.coefficient:>14.6g} {row.standardised:>14.6g}"
    if len(found) > len(shown):
        yield f"  and {len(found) - len(shown)} more in coefficients.csv"
    if not found:
        yield "  all features have coefficient 0"


def _proof_sentence(fitted: Fitted, proof: Proof) -> str:
    several = len(fitted.proofs) > 1
    who = f"Class {proof.label!r}: the" if several else "The"
    return (
        f"{who} objective is {proof.value:.9g}, and no coefficients within the radius bring it below "
        f"{proof.lower_bound:.9g} (gap {proof.gap:.2g}). The best standardised coefficients are within "
        f"{coefficients_within(proof, fitted.model.ridge):.2g} of these. {_radius_sentence(fitted, proof)}"
    )


def _radius_sentence(fitted: Fitted, proof: Proof) -> str:
    """What the radius does: multiplier * radius is what it costs to first order, which may be less than was asked."""
    radius = fitted.model.radius
    if proof.multiplier == 0.0:
        return "The radius is not felt: a larger one changes nothing."
    if radius > 0.0 and proof.multiplier * radius <= max(proof.gap, fitted.tol * abs(proof.value)):
        return "The radius is not felt within the accuracy asked for."
    if proof.relative_gap > fitted.tol:
        return f"A penalty of about {proof.multiplier:.2g} |coef|_1 in place of the radius would give a similar fit."
    return f"A penalty of {proof.multiplier:.6g} |coef|_1 in place of the radius has the same solution."


def _verdict(fitted: Fitted) -> str:
    if fitted.certified:
        return f"Certified: the relative gap is {_worst(fitted):.2g}, at most the {fitted.tol:g} asked for."
    return f"{shortfall(fitted)}."


def shortfall(fitted: Fitted) -> str:
    """Where a fit ended too early."""
    advice = "raise --max-iter or --tol, or take a larger --ridge"
    return f"{not_converged(_worst(fitted), fitted.tol)}; {advice}"


def _worst(fitted: Fitted) -> float:
    return max(proof.relative_gap for proof in fitted.proofs)

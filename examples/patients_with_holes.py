"""Patients with missing values
============================

From a table with empty cells to a report, a saved model and predictions: in a terminal, and in Python.

Run it by ``python examples/patients_with_holes.py --out out``.
A table has 80 patients, 200 genes and more than a hundred empty cells. ``condgrad fit`` says how many cells are empty,
and ``--impute median`` fills them. Cross-validation chooses the radius and the ridge. In each fold, the medians and the
standard deviations come from the patients that are not held out. The report ends with Python code that gives the same
model, to the last digit.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold

import condgrad as cg
from condgrad.linear_model import ConstrainedLogisticRegressionCV

PATIENTS, NEW, GENES = 80, 40, 200
SHARE_EMPTY = 0.01


def write_tables(folder: Path) -> None:
    """Patients whose outcome is known, and new patients. A cell in a hundred is empty."""
    rng = np.random.default_rng(4)
    signal = rng.standard_normal((PATIENTS + NEW, GENES))
    score = signal[:, :5] @ [1.5, -1.2, 1.0, -0.8, 0.6] + 0.5 * rng.standard_normal(len(signal))
    expression = 8.0 + signal * rng.uniform(0.2, 3.0, GENES)  # each gene has its own scale
    expression[rng.random(expression.shape) < SHARE_EMPTY] = np.nan
    table = pd.DataFrame(expression.round(3), columns=[f"gene{k}" for k in range(GENES)])
    table.insert(0, "patient", [f"p{k:03}" for k in range(len(table))])
    table["outcome"] = np.where(score > 0.0, "ill", "well")
    table[:PATIENTS].to_csv(folder / "patients.csv", index=False)
    table[PATIENTS:].to_csv(folder / "new.csv", index=False)


def terminal(folder: Path, command: str) -> None:
    """Runs a command as a terminal does, and prints what the command prints."""
    program = [sys.executable, "-c", "from condgrad.cli import main; main()"]
    done = subprocess.run(
        [*program, *command.split()[1:]], cwd=folder, capture_output=True, text=True, check=False
    )
    print(f"$ {command}\n{done.stdout}{textwrap.fill(done.stderr, 80)}\n")


def in_python(folder: Path) -> ConstrainedLogisticRegressionCV:
    """The same model, by the code in the report of the command."""
    table = pd.read_csv(folder / "patients.csv", index_col="patient")
    return ConstrainedLogisticRegressionCV(
        standardize=True,
        impute="median",
        cv=StratifiedKFold(n_splits=5, random_state=0, shuffle=True),
    ).fit(table.drop(columns=["outcome"]), table["outcome"])


def main(out: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder)
        terminal(folder, "condgrad fit patients.csv --target outcome --id patient")
        terminal(folder, "condgrad fit patients.csv --target outcome --id patient --impute median")
        terminal(folder, "condgrad predict condgrad-fit/model.json new.csv")

        saved = cg.linear_model.load(folder / "condgrad-fit" / "model.json")
        model = in_python(folder)
        print("largest difference of the two:", np.abs(saved.coef_ - model.coef_).max())
        new = pd.read_csv(folder / "new.csv", index_col="patient")
        X = new.drop(columns=["outcome"])
        print("new patients, accuracy:", model.score(X, new["outcome"]))

        patients = pd.read_csv(folder / "patients.csv", index_col="patient")
        filled = patients.drop(columns=["outcome"]).fillna(
            dict(zip(X, model.fill_values_, strict=True))
        )
        radii = np.linspace(0.0, 1.5 * model.radius_, 30)
        path = cg.linear_model.path(
            filled, patients["outcome"], radii=radii, ridge=model.ridge_, standardize=True
        )

    figure, (above, below) = plt.subplots(2, 1, figsize=(6.4, 8.0), layout="constrained")
    path.plot(names=list(X), ax=above)
    above.axvline(model.radius_, color="black", linestyle=":")
    above.set_title("Coefficients; dotted: the chosen radius")
    chances = model.predict_proba(X)[:, 0]
    order = np.argsort(chances)
    for label, color, marker in (("ill", "#D55E00", "^"), ("well", "#0072B2", "o")):
        here = (new["outcome"] == label).to_numpy()[order]
        below.scatter(
            np.flatnonzero(here), chances[order][here], color=color, marker=marker, label=label
        )
    below.axhline(0.5, color="black", linewidth=0.8)
    below.set(xlabel="new patients, in the order of the prediction", ylabel="probability of ill")
    below.set_title("New patients")
    below.legend(frameon=False)
    below.spines[["top", "right"]].set_visible(False)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "patients_with_holes.png", dpi=130)
    print(f"Picture: {out / 'patients_with_holes.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("out"))
    matplotlib.use("Agg")
    main(parser.parse_args().out)

"""Runs the cases of a problem, and counts what is wrong with their answers."""

from __future__ import annotations

import re
import signal
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numba.core.compiler_lock import global_compiler_lock

import condgrad as cg
from tests.fuzz.families import drawn, family_of
from tests.fuzz.judges import EXTENDED_UNIT, Array, Sized, Wide, by_cvxpy, wide
from tests.fuzz.problems import OWN_PARTS, Case, Claim, Finding, Target, reference_case

COUNTS = {
    "false certificate": "a lower bound above the value of a feasible point (see judges)",
    "above by rounding": "the same, by no more than the rounding of the uncancelled terms",
    "wrong value": "value is not F(x), beyond the same rounding",
    "wrong status": "converged with a gap above tol, a limit that was not reached, stalled far from the best point",
    "infeasible": "x outside its set by more than rounding",
    "not finite": "NaN or infinite numbers in an answer",
    "exception": "anything but a clear ValueError or TypeError where one is due",
    "warning": "anything but a UserWarning that says how far an answer is from the optimum",
    "units": "a decision that changed when f and g were multiplied by a number",
    "slow": "more than 2 s of processor time, or 100 times the median of its kind and 0.25 s",
    "time limit": "exceeded by more than 0.5 s of processor time",
}
NOTED = ("above by rounding", "slow", "time limit")
"""Counts that are reported but not asserted: two depend on the machine, one is not wrong by definition."""

HANG = 5.0
"""Seconds of processor time after which a run is ended."""
SLOW = 2.0
SLOW_AT_ALL = 0.25
VIOLATION_UNITS = 1000.0
STATUS_SLACK = 8.0
"""How far the library's idea of the size of F may be from the judge's."""


class Failure(NamedTuple):
    kind: str
    """One of `COUNTS`."""
    group: tuple[str, ...]
    """What makes two failures the same."""
    case: tuple[str, ...]
    """The kinds of the case."""
    detail: str
    reproducer: str


class Timing(NamedTuple):
    kinds: tuple[str, ...]
    wall: float
    """What medians are taken of: the clock of the processor may be too coarse for them."""
    processor: float
    reproducer: str
    """Kept for runs that might turn out to be slow."""


class Tally(NamedTuple):
    """The problems of a family."""

    problems: int = 0
    judged: int = 0
    """Those whose answers claimed something: all but refusals and wrong input."""
    seconds: float = 0.0
    """What drawing, solving and judging them took."""

    def plus(self, other: Tally) -> Tally:
        return Tally(*(mine + its for mine, its in zip(self, other, strict=True)))


@dataclass
class Report:
    """What came of some problems."""

    problems: int = 0
    runs: int = 0
    failures: list[Failure] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    families: dict[str, Tally] = field(default_factory=dict)

    def merge(self, other: Report) -> None:
        for family, tally in other.families.items():
            self.families[family] = self.families.get(family, Tally()).plus(tally)
        self.problems += other.problems
        self.runs += other.runs
        self.failures += other.failures
        self.timings += other.timings

    def counted(self, *, noted: bool = True) -> dict[str, int]:
        """How many failures of each kind."""
        kinds = [kind for kind in COUNTS if noted or kind not in NOTED]
        return {kind: sum(failure.kind == kind for failure in self.failures) for kind in kinds}


# Runs -----------------------------------------------------------------------------------------------------------------


class Hung(BaseException):
    """No exception of the library's."""


@contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """Raise `Hung` in what keeps the processor busy for too long."""

    def ring(*_: Any) -> None:
        if global_compiler_lock.is_locked():  # an exception there breaks the compiler, later too
            signal.setitimer(signal.ITIMER_PROF, seconds)
            return
        raise Hung

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


class Outcome(NamedTuple):
    """What a case came to."""

    case: Case
    claims: list[Claim]
    error: BaseException | None
    findings: list[Finding]
    warned: list[warnings.WarningMessage]
    wall: float
    processor: float


def run(case: Case, c: float = 1.0) -> Outcome:
    """The case, with f and g multiplied by c."""
    code = case.code(c)
    names: dict[str, Any] = {"np": np, "cg": cg, **case.values}
    if "own" in code.lower():
        exec(COMPILED_OWN_PARTS, names)
    claims: list[Claim] = []
    findings: list[Finding] = []
    error: BaseException | None = None
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        begin, begin_processor = time.perf_counter(), time.process_time()
        try:
            with ended_after(HANG):
                exec(code, names)
        except (Exception, Hung) as raised:
            error = raised
        wall, processor = time.perf_counter() - begin, time.process_time() - begin_processor
        if error is None and not case.hostile:
            fell_short = any(issubclass(w.category, UserWarning) for w in warned)
            claims = case.claims(names["answer"], c, fell_short)
            findings = case.findings(names["answer"]) if c == 1.0 else []
    return Outcome(case, claims, error, findings, list(warned), wall, processor)


COMPILED_OWN_PARTS = compile(OWN_PARTS, "own parts", "exec")


# Reproducers ----------------------------------------------------------------------------------------------------------


def literal(value: Any) -> str:
    """Source for a value of a case."""
    if scipy.sparse.issparse(value):
        return f"scipy.sparse.csr_array({literal(value.toarray())})"
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "fiu" or value.size == 0:
            return (
                f"np.array({value.tolist()!r}, dtype={str(value.dtype)!r}).reshape({value.shape})"
            )
        return f"np.array({value.tolist()!r}, dtype=np.{value.dtype.name})"
    if type(value).__module__ == "torch":
        return f"torch.tensor({value.tolist()!r}, dtype={value.dtype})"
    return repr(value)


def reproducer(case: Case, finding: str, c: float = 1.0) -> str:
    """A program that shows the finding."""
    code = case.code(c)
    lines = ["# " + line for line in finding.splitlines()]
    lines += ["import numpy as np", "import condgrad as cg"]
    spoken_of = set(re.findall(r"\w+", code))
    texts = {name: literal(value) for name, value in case.values.items() if name in spoken_of}
    for module in ("scipy.sparse", "torch"):
        if any(module in text for text in texts.values()):
            lines.append(f"import {module}")
    if "own" in code.lower():
        lines.append(OWN_PARTS)
    lines += [f"{name} = {text}" for name, text in texts.items()]
    return "\n".join([*lines, code, "print(answer)", ""])


# Checks ---------------------------------------------------------------------------------------------------------------


class Judged(NamedTuple):
    """A claim with what the judge finds at its point."""

    case: Case
    claim: Claim
    x: Array
    unit: float
    """The rounding unit of the answer."""
    here: Sized
    """F at x, as it is."""
    point: Array
    """x made feasible."""
    there: Sized
    """F at that point."""


def host(x: Any) -> Array:
    """An answer's point as a NumPy array."""
    return np.asarray(x.detach().cpu() if hasattr(x, "detach") else x)


def judged(case: Case, claim: Claim) -> Judged:
    x = host(claim.x)
    exact, target = wide(x), claim.target
    point = target.region.feasible(exact)
    unit = float(np.finfo(x.dtype).eps)
    return Judged(
        case, claim, exact, unit, target.objective.at(exact), point, target.objective.at(point)
    )


def place_of(error: BaseException) -> str:
    """The line of the library that raised."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "condgrad" in f.filename]
    if not frames:
        return "outside the library"
    last = frames[-1]
    return f"{Path(last.filename).name}:{last.lineno} {last.name}"


def is_fair(error: BaseException, case: Case) -> bool:
    """Whether an exception is an answer."""
    if case.hostile:
        clear = (ValueError, TypeError, cg.NotFiniteError)
        return isinstance(error, clear) and not isinstance(error, cg.ContradictionError)
    return case.may_refuse and isinstance(error, cg.MissingAbility)


def outcome_failures(outcome: Outcome) -> Iterator[Failure]:
    """Exceptions, warnings, overrun limits."""
    case = outcome.case
    group = (case.kinds[0], *case.kinds[2:4], case.kinds[4].split()[0], case.kinds[5])

    def failure(kind: str, group: Sequence[str], detail: str) -> Failure:
        finding = f"{kind}: {' | '.join(case.kinds)}: {detail}"
        return Failure(kind, tuple(group), case.kinds, detail, reproducer(case, finding))

    if isinstance(outcome.error, Hung):
        yield failure("slow", ("hangs", *group), f"did not end within {HANG:g} s")
    elif outcome.error is not None and not is_fair(outcome.error, case):
        name, place = type(outcome.error).__name__, place_of(outcome.error)
        yield failure(
            "exception", (name, place, case.kinds[0]), f"{name} at {place}: {outcome.error}"
        )
    for finding in outcome.findings:
        yield failure(finding.kind, (finding.detail.split()[0], *group), finding.detail)
    for message in outcome.warned:
        # other libraries have such strings, which are told of where a module is compiled
        of_strings = "invalid escape sequence" in str(message.message)
        if not (case.hostile or of_strings or issubclass(message.category, UserWarning)):
            where = f"{Path(message.filename).name}:{message.lineno}"
            yield failure(
                "warning", (message.category.__name__, where), f"{message.message} at {where}"
            )
    if outcome.processor > SLOW and not isinstance(outcome.error, Hung):
        yield failure("slow", ("long", *group), f"{outcome.processor:.2f} s of processor time")
    if case.time_limit is not None:
        over = min(outcome.wall, outcome.processor) - case.time_limit
        if over > 0.5:
            yield failure("time limit", group, f"of {case.time_limit:g} s exceeded by {over:.2f} s")


def null_size(target: Target) -> float:
    """The size of the terms of F at the point nearest to the origin, or nearly so: the null model."""
    null = target.region.feasible(wide(np.zeros(target.shape)))
    return float(target.objective.at(null).size)


def claim_failures(judged: Judged, best: Judged) -> Iterator[Failure]:
    """What is wrong with a claim, given the best point known."""
    case, claim = judged.case, judged.claim
    lowest, size = float(best.there.value), float(judged.here.size)
    rounding = best.there.rounding(judged.unit) + judged.here.rounding(judged.unit)
    noise = best.there.rounding(EXTENDED_UNIT) + judged.here.rounding(EXTENDED_UNIT)
    scale = max(size, float(best.there.size), null_size(claim.target), abs(claim.start_value))
    gap = claim.value - claim.lower_bound

    def failure(kind: str, detail: str) -> Failure:
        said = f"{claim.status} value {claim.value!r} bound {claim.lower_bound!r} after {claim.iterations}"
        known = (
            f"lowest known {lowest!r}, at a feasible point near {best.point.astype(float).tolist()}"
        )
        finding = f"{kind}: {' | '.join(case.kinds)}: {detail}\nanswer: {said}\n{known}"
        what = (
            (detail.split()[0], *case.kinds[2:4])
            if kind != "wrong status"
            else (" ".join(detail.split()[:2]),)
        )
        group = (*what, case.kinds[0], case.kinds[4].split()[0], case.kinds[5])
        return Failure(kind, group, case.kinds, detail, reproducer(case, finding))

    excess = float(Wide(claim.lower_bound) - best.there.value)
    if excess > noise:
        kind = "false certificate" if excess > rounding else "above by rounding"
        yield failure(
            kind,
            f"by {excess:.3g}, {excess / rounding:.2g} times what rounding allows; gap {gap:.3g}",
        )
    error = abs(float(Wide(claim.value) - judged.here.value))
    if error > judged.here.rounding(judged.unit) + claim.value_slack:
        yield failure(
            "wrong value", f"value {claim.value!r} where F(x) is {float(judged.here.value)!r}"
        )
    outside = claim.target.region.violation(judged.x)
    if outside > VIOLATION_UNITS * judged.unit * claim.target.region.scale:
        yield failure(
            "infeasible", f"outside by {outside:.3g}, scale {claim.target.region.scale:.3g}"
        )
    wrong = wrong_status(judged, gap - rounding, scale, lowest)
    if wrong:
        yield failure("wrong status", wrong)


def wrong_status(judged: Judged, gap: float, scale: float, lowest: float) -> str:
    """What is wrong with a status, if anything; the gap is less rounding."""
    case, claim = judged.case, judged.claim
    if claim.status == "CONVERGED":
        # below the smallest normal number all is rounding, and F may have no size at all
        smallest = np.finfo(np.float32 if judged.unit > 1e-10 else np.float64).tiny
        if gap > max(STATUS_SLACK * case.tol * scale, smallest):
            return f"CONVERGED with gap {gap:.3g}, tol {case.tol:g}, where the terms of F are of size {scale:.3g}"
        if claim.relative_gap > (1.0 + 1e-6) * case.tol:
            return f"CONVERGED with a relative gap of {claim.relative_gap:.3g}, tol {case.tol:g}"
    elif claim.status == "ITERATION_LIMIT" and claim.iterations < case.max_iter:
        return f"ITERATION_LIMIT after {claim.iterations} of {case.max_iter}"
    elif claim.status == "TIME_LIMIT" and case.time_limit is None:
        return "TIME_LIMIT without a limit"
    elif claim.status == "STALLED":
        # rounding of the size sqrt(unit) is what a search by values alone can see
        left = float(judged.here.value) - lowest
        if left > max(1e-3, 10.0 * judged.unit**0.5) * scale:
            return f"STALLED at {left:.3g} above a known point, where the terms of F are of size {scale:.3g}"
    elif claim.status in ("INTERRUPTED", "STOPPED_BY_CALLBACK"):
        return f"{claim.status} by nobody"
    return ""


def unit_failures(outcome: Outcome, c: float, *, exact: bool) -> Iterator[Failure]:
    """Multiplying f and g by c changes no decision: for a power of 2, not even a bit of x."""
    case, before = outcome.case, outcome.claims
    again = run(case, c)

    def failure(what: str, detail: str) -> Failure:
        finding = f"units: {' | '.join(case.kinds)}: times {c!r}: {detail}\nthe same times 1 is below, as a comment\n"
        text = (
            reproducer(case, finding, c)
            + "\n".join("# " + line for line in case.code(1.0).splitlines())
            + "\n"
        )
        size = "a power of 2" if exact else "any number"
        group = (what, size, case.kinds[0], case.kinds[4].split()[0])
        return Failure("units", group, case.kinds, f"times {c!r}: {detail}", text)

    if again.error is not None:
        yield failure("exception", f"{type(again.error).__name__}: {again.error}")
        return
    for one, other in zip(before, again.claims, strict=False):
        if one.status != other.status:
            changed = f"{one.status} after {one.iterations} became {other.status} after {other.iterations}"
            yield failure("status", changed)
        elif exact and one.iterations != other.iterations:
            yield failure("iterations", f"{one.iterations} iterations became {other.iterations}")
        elif not exact and abs(one.iterations - other.iterations) > 1:
            yield failure(
                "iterations", f"{one.iterations} iterations became {other.iterations}, {one.status}"
            )
        elif exact and not np.array_equal(host(one.x), host(other.x)):
            largest = float(np.abs(host(one.x) - host(other.x)).max())
            yield failure("x", f"x changed by {largest:.3g}")


def finite_failures(case: Case, claim: Claim) -> Iterator[Failure]:
    """NaN and infinite numbers in an answer; a bound of -inf is fair where there may have been no time to prove any."""
    proved = claim.lower_bound != -np.inf or case.time_limit is None
    numbers = {"value": claim.value, "lower_bound": claim.lower_bound if proved else 0.0}
    bad = [name for name, number in numbers.items() if not np.isfinite(number)]
    if not np.isfinite(host(claim.x)).all():
        bad.append("x")
    if bad:
        detail = f"{', '.join(bad)} of {claim.status}"
        group = (*bad, claim.status, case.kinds[0], case.kinds[4].split()[0], case.kinds[5])
        yield Failure(
            "not finite", group, case.kinds, detail, reproducer(case, f"not finite: {detail}")
        )


def check_target(
    target: Target, pairs: list[tuple[Case, Claim]], *, ask_cvxpy: bool
) -> tuple[list[Failure], int]:
    """The claims about one target against each other and a reference run; how many runs it took."""
    reference = run(reference_case(target))
    failures = list(outcome_failures(reference))
    pairs = pairs + [(reference.case, claim) for claim in reference.claims]
    failures += [failure for case, claim in pairs for failure in finite_failures(case, claim)]
    sound = [judged(case, claim) for case, claim in pairs if not any(finite_failures(case, claim))]
    if not sound:
        return failures, 1
    best = min(sound, key=lambda one: one.there.value)
    rivals = [] if target.rival is None else [target.region.feasible(target.rival())]
    if ask_cvxpy:
        rivals.append(by_cvxpy(target.objective, target.region, target.shape))
    for point in rivals:
        if point is not None:
            there = target.objective.at(point)
            if there.value < best.there.value:
                best = best._replace(point=point, there=there)
    for one in sound:
        failures += claim_failures(one, best)
    return failures, 1


def check_problem(
    seed: int, index: int, *, cvxpy_share: float = 0.02, unit_share: float = 0.25
) -> Report:
    """Draw a problem, run it in some ways, judge the answers."""
    rng = np.random.default_rng([seed, index, 1])
    report = Report(problems=1)
    begin = time.perf_counter()
    targets: dict[Target, list[tuple[Case, Claim]]] = {}
    for case in drawn(seed, index):
        outcome = run(case)
        report.runs += 1
        report.failures += outcome_failures(outcome)
        if outcome.claims:
            text = (
                reproducer(case, f"slow: {outcome.processor:.2f} s")
                if outcome.processor > SLOW_AT_ALL
                else ""
            )
            report.timings.append(Timing(case.kinds, outcome.wall, outcome.processor, text))
        for claim in outcome.claims:
            targets.setdefault(claim.target, []).append((case, claim))
        if outcome.claims and case.follows_units and rng.random() < unit_share:
            report.failures += check_units(outcome, rng)
            report.runs += 1
    for target, pairs in targets.items():
        failures, runs = check_target(target, pairs, ask_cvxpy=bool(rng.random() < cvxpy_share))
        report.failures += failures
        report.runs += runs
    tally = Tally(1, int(bool(targets)), time.perf_counter() - begin)
    report.families[family_of(seed, index)] = tally
    return report


def check_units(outcome: Outcome, rng: np.random.Generator) -> list[Failure]:
    """The law of units, by a power of 2 or by any number."""
    single = host(outcome.claims[0].x).dtype == np.float32
    if rng.random() < 0.6:
        # 0 is among them: the same call again has the same answer
        reach = 18 if single else 36
        k = int(rng.integers(-reach, reach + 1))
        return list(unit_failures(outcome, 2.0**k, exact=True))
    # over many steps, or below what rounding can prove, other roundings are other decisions
    if any(claim.iterations > 40 or claim.status == "STALLED" for claim in outcome.claims):
        return []
    if outcome.case.tol < (1e-4 if single else 1e-9):
        return []
    decades = 6.0 if single else 12.0
    return list(
        unit_failures(outcome, float(f"{10.0 ** rng.uniform(-decades, decades):.3g}"), exact=False)
    )

"""The process of one side: it runs the jobs that it is told to, and answers in JSON, a line each.

Requests are `{"load": file}`, which runs the job of that file once so that all is compiled, and
`{"run": seconds}`, which runs it for about so long and answers with the least CPU time of a run and
with what that proves.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from sklearn.exceptions import ConvergenceWarning

import condgrad
from experiments.gates.jobs import Job, Proof

LOAD_LIMIT = 300.0
"""Seconds of a first run, which may compile."""
RUN_LIMIT = 30.0
"""Seconds of a run that is timed."""


def run_once(job: Job, time_limit: float) -> tuple[float, Proof]:
    """CPU seconds of a run, and what it proves."""
    call = job.prepared(time_limit)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begin = time.process_time()
        answer = call()
        seconds = time.process_time() - begin
    warned = any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    return seconds, job.proof(answer, warned=warned)


def best_run(job: Job, budget: float) -> tuple[float, Proof]:
    """The fastest of the runs that start within some CPU seconds."""
    best, proof = run_once(job, RUN_LIMIT)
    spent = best
    while spent < budget:
        seconds, latest = run_once(job, RUN_LIMIT)
        spent += seconds
        if seconds < best:
            best, proof = seconds, latest
    return best, proof


def answers(requests: TextIO) -> Iterator[dict[str, Any]]:
    """What comes of each request; an error of the library is an answer too."""
    yield {"condgrad": condgrad.__file__}
    job: Any = None
    for line in requests:
        request = json.loads(line)
        try:
            if "load" in request:
                job = pickle.loads(Path(request["load"]).read_bytes())
                seconds, proof = run_once(job, LOAD_LIMIT)
            else:
                seconds, proof = best_run(job, request["run"])
            yield {"seconds": seconds, "proof": dataclasses.asdict(proof)}
        except Exception as error:
            yield {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    # a library that prints would break the lines: all but the answers goes to stderr
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as out:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        for answer in answers(sys.stdin):
            out.write(json.dumps(answer) + "\n")
            out.flush()


if __name__ == "__main__":
    main()

"""The process in which commands are tried: it imports everything once and forks for each trial.

Reads one trial a line, as JSON, and answers in a line each; ends with its input. `injector.c` is preloaded.
"""

import ctypes
import json
import os
import signal
import sys
import time
import traceback
from functools import partial
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
MODES = {"none": 0, "kill": 1, "full": 2, "read-only": 3}


def run_command(arguments: list[str]) -> int:
    """Run a command line of the package in this process; returns its exit status, 70 after a traceback."""
    from regard.cli.main import main

    if arguments[0] == "write-in-place":
        arguments, main = [], partial(Path(arguments[1]).write_text, "content")
    sys.argv = ["regard", *arguments]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 70
    return 0


def _child(trial: dict[str, Any], said: int, answer: int) -> None:
    """Run a trial's command with its fault armed, and end."""
    library = ctypes.CDLL(None)
    library.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.chdir(trial["root"])
    library.faults_arm(trial["root"].encode(), MODES[trial["mode"]], trial["event"])
    status = run_command(trial["arguments"])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            pass
    os.write(answer, str(library.faults_seen()).encode())
    os._exit(status)


def _attempt(trial: dict[str, Any], seconds: float) -> dict[str, Any]:
    """What came of a trial: exit status (negative: a signal), events, and what was printed."""
    said, (read, write) = os.memfd_create("said"), os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            _child(trial, said, write)
        finally:
            os._exit(71)
    os.close(write)
    deadline, hung = time.monotonic() + seconds, False
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > deadline and not hung:
            hung = True
            os.kill(child, signal.SIGKILL)
        time.sleep(0.002)
    events = os.read(read, 99)
    text = os.pread(said, 1_000_000, 0).decode(errors="replace")
    os.close(read)
    os.close(said)
    status = os.waitstatus_to_exitcode(ended[1])
    return {"status": status, "events": int(events or 0), "said": text[-4000:], "hung": hung}


def _serve() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a command prints must not stand among the answers
    for line in sys.stdin:
        trial = json.loads(line)
        if trial["mode"] == "warm":  # in this very process, so that the next ones find all loaded
            os.chdir(trial["root"])
            answer = {"status": run_command(trial["arguments"]), "events": 0, "said": "", "hung": False}
        else:
            answer = _attempt(trial, seconds=120)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    _serve()

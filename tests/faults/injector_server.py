"""The process in which commands run: it imports everything once and forks for each trial.

It reads one trial per line, as JSON, and writes one result per line, until its input ends. `injector.c` is
preloaded.
"""

import ctypes
import json
import os
import signal
import sys
import time
import traceback
from typing import Any

PR_SET_PDEATHSIG = 1
MODES = {"none": 0, "kill": 1, "full": 2, "read-only": 3}


def run_command(arguments: list[str]) -> int:
    """Run a command line of the package in this process; return its exit status, 70 after a traceback."""
    from regard.cli.main import main

    sys.argv = ["regard", *arguments]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 70
    return 0


def _child(trial: dict[str, Any], output: int, answer: int) -> None:
    """Arm the fault of a trial, run its command, and exit."""
    library = ctypes.CDLL(None)
    library.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.dup2(output, 1)
    os.dup2(output, 2)
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
    """Run a trial in a child process; return its outcome.

    The outcome has the exit status (negative for a signal), the number of events, the output, and whether the
    command hung.
    """
    output, (read, write) = os.memfd_create("output"), os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            _child(trial, output, write)
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
    text = os.pread(output, 1_000_000, 0).decode(errors="replace")
    os.close(read)
    os.close(output)
    status = os.waitstatus_to_exitcode(ended[1])
    return {"status": status, "events": int(events or 0), "output": text[-4000:], "hung": hung}


def _serve() -> None:
    """Answer trials until the input ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keeps the output of commands out of the answers
    for line in sys.stdin:
        trial = json.loads(line)
        if trial["mode"] == "warm":  # in this process, so that its children inherit the loaded modules
            os.chdir(trial["root"])
            answer = {"status": run_command(trial["arguments"]), "events": 0, "output": "", "hung": False}
        else:
            answer = _attempt(trial, seconds=120)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    _serve()

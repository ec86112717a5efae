"""Run the code blocks of one page in the current directory: `python -m page_runner blocks.json`.

Python blocks share one namespace, which has `regard` and the texts. Commands run in a shell in which `regard`
is a function. Checkers are trained on few synthetic errors, which takes seconds instead of a minute. A server
is started, asked for its health and stopped; requests to `localhost:8000` go to a server of `runs/first`.
"""

import json
import re
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import regard
from quick_coverage import train_quickly

FILES = ("test.de", "test.en", "train.de", "train.en")
SERVED = ["runs/first", "--checker", "checker"]
REGARD = """
import sys
from regard.cli.main import main
if "--train" in sys.argv:
    import pytest
    import quick_coverage
    quick_coverage.train_quickly(pytest.MonkeyPatch())
main()
"""
"""The program `regard` of the shell."""


def main() -> None:
    """Run the blocks of the file named by the argument; the error of a block names its line."""
    names: dict[str, object] = {"__name__": "__main__", "regard": regard, **texts()}
    sys.path.insert(0, "")
    train_quickly(pytest.MonkeyPatch())
    for block in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        where = f"{block['page']}, line {block['line']}"
        if block["language"] == "python":
            run_python(block["code"], where, names)
        else:
            run_commands(block["code"], where)


def run_python(code: str, where: str, names: dict[str, object]) -> None:
    """Execute a block. A block that is the content of `topk.py` is imported, as the page states."""
    if Path("topk.py").read_text(encoding="utf-8") == code:
        exec("from topk import *\nfrom topk import Literal, regard, softmax", names)
    else:
        exec(compile(code, where, "exec"), names)


def texts() -> dict[str, list[str]]:
    """Return the names of texts that pages use without defining them."""
    lines = (Path(name).read_text(encoding="utf-8").splitlines() for name in FILES)
    sources, references, train_sources, train_targets = lines
    targets = dict.fromkeys(("references", "targets", "outputs", "translations"), references)
    return {"sources": sources, **targets, "train_sources": train_sources, "train_targets": train_targets}


def run_commands(code: str, where: str) -> None:
    """Run the commands of a block in a shell, and stop at the first that fails."""
    commands = []
    for line in code.split("\n"):
        if line.startswith("regard init"):
            # The written run would train for minutes; the run of this name in the world is tiny.
            line = line.replace("-o first.toml", "-o written.toml && cp -r written-text first-text")
        if re.match(r"regard serve\b", line):
            with server(line.partition("#")[0].split()[2:]) as address:
                with urllib.request.urlopen(f"{address}/health") as answer:
                    assert answer.status == 200, where
        else:
            commands.append(line)
    if "localhost:8000" in code:
        with server(SERVED) as address:
            shell("\n".join(commands).replace("localhost:8000", address.removeprefix("http://")), where)
    elif any(commands):
        shell("\n".join(commands), where)


def shell(script: str, where: str) -> None:
    """Run a script; `regard` and `python` are functions of the shell."""
    python = shlex.quote(sys.executable)
    functions = f'regard() {{ {python} -c {shlex.quote(REGARD)} "$@"; }}; python() {{ {python} "$@"; }}\n'
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", functions + script],
        stdin=open("in.txt", encoding="utf-8"), capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"{where}: exit status {done.returncode}\n{script}\n{done.stdout}\n{done.stderr}")


@contextmanager
def server(arguments: list[str]) -> Iterator[str]:
    """Serve models on a free port, and yield the address."""
    command = [sys.executable, "-m", "regard", "serve", *arguments, "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    printed = []
    try:
        for line in process.stderr:
            printed.append(line)
            if found := re.search(r"http://\S+?:(\d+)", line):
                yield f"http://127.0.0.1:{found[1]}"
                return
        raise AssertionError(f"{' '.join(command)}: {''.join(printed)}")
    finally:
        process.terminate()
        process.wait(30)


if __name__ == "__main__":
    main()

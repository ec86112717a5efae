"""Files of the package in which a function runs, from a command to its work.

`train`: from `regard train` to the start of the trainer, with text already prepared. `translate`: from a
loaded model to the written translation of one line. Functions that run at import do not count.
"""

import contextlib
import io
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import regard
from regard.cli.main import app
from regard.runs import loading
from regard.training.trainer import Trainer

CONFIG = """
seed = 1
num_threads = 1
[data]
cache_dir = "{folder}/prepared"
train = [{{ source = "{folder}/text/train.de", target = "{folder}/text/train.en" }}]
valid = {{ source = "{folder}/text/valid.de", target = "{folder}/text/valid.en" }}
[model]
kind = "rnn"
[training]
max_steps = 2
"""


class Visits:
    """The files below a directory whose functions are called, in order, from the moment it is switched on."""

    def __init__(self, package: Path) -> None:
        """Count nothing yet."""
        self.prefix, self.is_on = f"{package}/", False
        self.files: dict[str, None] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Note the file of a call, unless a module is being imported; see `sys.setprofile`."""
        path = frame.f_code.co_filename
        if not self.is_on or event != "call" or not path.startswith(self.prefix):
            return
        caller: FrameType | None = frame
        while caller is not None:
            if caller.f_code.co_name == "<module>" and caller.f_code.co_filename.startswith(self.prefix):
                return
            caller = caller.f_back
        self.files.setdefault(path.removeprefix(self.prefix))


def main() -> None:
    """Print both lists."""
    package = Path(regard.__file__).parent
    to_trainer, translating = Visits(package), Visits(package)
    load = loading.load_model

    def run(*arguments: object) -> None:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            app([str(argument) for argument in arguments], standalone_mode=False)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config, line = folder / "run.toml", folder / "line.de"
        config.write_text(CONFIG.format(folder=folder))
        line.write_text("der Hund schläft .\n")
        run("phrasebook", folder / "text", "--num-train", 300, "--num-valid", 10, "--num-test", 5)
        run("train", config, "--output-dir", folder / "model")
        to_trainer.is_on = True
        with patch.object(Trainer, "run", side_effect=KeyboardInterrupt), contextlib.suppress(BaseException):
            sys.setprofile(to_trainer)
            run("train", config, "--output-dir", folder / "again")
        sys.setprofile(None)

        def load_and_count(*arguments: Any, **options: Any) -> Any:
            model = load(*arguments, **options)
            translating.is_on = True
            return model

        with patch.object(loading, "load_model", load_and_count):
            sys.setprofile(translating)
            run("translate", folder / "model", "--input", line, "--output", folder / "out.en")
            sys.setprofile(None)
        for title, visits in (("train", to_trainer), ("translate", translating)):
            print(f"{title}: {len(visits.files)} files", *visits.files, sep="\n  ")


if __name__ == "__main__":
    main()

"""What happened in a run: `record.jsonl`, one JSON object a line, and TensorBoard's files where asked for.

A line of kind `train` tells the means since the line before: `loss` (what is minimised) in nats a token,
`perplexity` (without smoothing), `norm` of the gradient, `tokens_per_second`; and `rate`, `tokens`, `flops`
and `seconds` so far. A line of kind `validation` tells `loss`, `perplexity`, `bleu` or `accuracy`
where it is measured, and whether it is the `best`.
"""

import json
import logging
import os
from pathlib import Path
from typing import IO, Any

from regard.data.files import write_atomic
from regard.data.reading import LARGEST_JSON, NotJson, parse_json, read_limited
from regard.errors import CheckpointError, ConfigError, DataError

__all__ = ["RECORD_FILE", "Record", "read_record"]

RECORD_FILE = "record.jsonl"

_log = logging.getLogger(__name__)


class Record:
    """The record of a run, open for appending.

    Args:
        folder: The model folder.
        update: The update the run goes on from; what was recorded of later ones is cut off.
        tensorboard: Whether to write TensorBoard's files too.

    Raises:
        CheckpointError: if it cannot be written.
        ConfigError: if TensorBoard is asked for and not installed.
    """

    def __init__(self, folder: Path, update: int = 0, tensorboard: bool = False) -> None:
        """Cut the record back and open it."""
        self.path = folder / RECORD_FILE
        self._board = _open_board(folder / "tensorboard", update) if tensorboard else None
        kept = [entry for entry in read_record(folder) if entry.get("update", 0) <= update]
        try:
            write_atomic(self.path, "".join(_line(entry) for entry in kept).encode())
        except DataError as error:
            raise CheckpointError(str(error)) from None
        self._file: IO[str] = open(self.path, "a", encoding="utf-8")

    def add(self, entry: dict[str, Any]) -> None:
        """Append a line.

        Raises:
            CheckpointError: if it cannot be written (disk full).
        """
        try:
            self._file.write(_line(entry))
            self._file.flush()
        except OSError as error:
            raise CheckpointError(f"{self.path}: cannot be written: {error.strerror}") from None
        if self._board is not None:
            numbers = {k: v for k, v in entry.items() if isinstance(v, int | float) and k != "update"}
            for name, value in numbers.items():
                self._board.add_scalar(f"{entry['kind']}/{name}", value, entry["update"])

    def sync(self) -> None:
        """Flush to disk, before a checkpoint vouches for what was recorded."""
        os.fsync(self._file.fileno())
        if self._board is not None:
            self._board.flush()

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        if self._board is not None:
            self._board.close()


def read_record(folder: Path | str) -> list[dict[str, Any]]:
    """The lines of a model folder's record; a last line that was cut off by a kill is left out.

    Raises:
        CheckpointError: if another line is no JSON object; names it.
    """
    path = Path(folder) / RECORD_FILE
    try:
        lines = read_limited(path, LARGEST_JSON).splitlines(keepends=True) if path.exists() else []
    except DataError as error:
        raise CheckpointError(str(error)) from None
    entries = []
    for number, line in enumerate(lines, 1):
        try:
            entries.append(parse_json(line, dict[str, Any]))
        except NotJson:
            if number == len(lines) and not line.endswith(b"\n"):
                break
            raise CheckpointError(f"{path}: line {number} is not a JSON object") from None
    return entries


def _line(entry: dict[str, Any]) -> str:
    return json.dumps(entry) + "\n"


def _open_board(folder: Path, update: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ConfigError(
            "training.record.tensorboard needs the package tensorboard: pip install 'regard[tensorboard]'"
        ) from None
    return SummaryWriter(str(folder), purge_step=update + 1)

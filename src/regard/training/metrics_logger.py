"""The metrics log of a run: `record.jsonl`, one JSON object per line, and optional TensorBoard event files.

A line of kind `train` contains the means since the previous line: `loss` (the minimized loss) in nats per
token, `perplexity` (without label smoothing), `grad_norm` and `tokens_per_second`. It also contains the
`learning_rate` and the totals of `tokens` and `seconds` since the start of the run. A line of kind
`validation` contains `loss`, `perplexity`, `bleu` or `accuracy` if that is the metric, and whether the score
is the `best` so far. A value that is not finite, such as a perplexity above e^700, is null.
"""

import logging
import os
from pathlib import Path
from typing import IO, Any

from regard.config.results import json_value
from regard.errors import CheckpointError, ConfigError, DataError
from regard.text.files import format_json, write_atomic
from regard.text.reading import MAX_JSON_BYTES, InvalidJsonError, parse_json, read_bytes

METRICS_FILE = "record.jsonl"

_log = logging.getLogger(__name__)


class MetricsLogger:
    """The metrics log of a run, open for appending.

    Args:
        output_dir: The model directory.
        step: The step from which the run resumes; lines of later steps are removed.
        tensorboard: Whether to write TensorBoard event files as well.

    Raises:
        CheckpointError: if the file cannot be written.
        ConfigError: if `tensorboard` is set and TensorBoard is not installed.
    """

    def __init__(self, output_dir: Path, step: int = 0, tensorboard: bool = False) -> None:
        """Remove the lines after `step` and open the file."""
        self.path = output_dir / METRICS_FILE
        self._board = _open_board(output_dir / "tensorboard", step) if tensorboard else None
        # The steps after the checkpoint are run again, so their old lines would be duplicates.
        entries = [entry for entry in read_metrics(output_dir) if entry.get("step", 0) <= step]
        try:
            write_atomic(
                self.path, "".join(f"{format_json(json_value(entry))}\n" for entry in entries).encode()
            )
        except DataError as error:
            raise CheckpointError(str(error)) from None
        self._file: IO[str] = open(self.path, "a", encoding="utf-8")

    def log(self, entry: dict[str, Any]) -> None:
        """Append a line.

        Raises:
            CheckpointError: if it cannot be written, for example because the disk is full.
        """
        try:
            self._file.write(f"{format_json(json_value(entry))}\n")
            # A flushed line survives a crash of this process; `sync` protects it from one of the machine.
            self._file.flush()
        except OSError as error:
            raise CheckpointError(f"{self.path}: cannot be written: {error.strerror}") from None
        if self._board is not None:
            # In Python, booleans such as `best` are integers: they become 0 or 1.
            numbers = {k: v for k, v in entry.items() if isinstance(v, int | float) and k != "step"}
            for name, value in numbers.items():
                self._board.add_scalar(f"{entry['kind']}/{name}", value, entry["step"])

    def sync(self) -> None:
        """Flush the files to disk, so that a checkpoint never refers to lines that are not stored."""
        os.fsync(self._file.fileno())
        if self._board is not None:
            self._board.flush()

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        if self._board is not None:
            self._board.close()


def read_metrics(output_dir: Path | str) -> list[dict[str, Any]]:
    """Return the lines of a model directory's metrics log; an incomplete last line is skipped.

    Raises:
        CheckpointError: if another line is not a JSON object; the message gives its number.
    """
    path = Path(output_dir) / METRICS_FILE
    try:
        lines = read_bytes(path, MAX_JSON_BYTES).splitlines(keepends=True) if path.exists() else []
    except DataError as error:
        raise CheckpointError(str(error)) from None
    entries = []
    for number, line in enumerate(lines, 1):
        try:
            entries.append(parse_json(line, dict[str, Any]))
        except InvalidJsonError:
            # A process that was killed while writing leaves an incomplete last line.
            if number == len(lines) and not line.endswith(b"\n"):
                break
            raise CheckpointError(f"{path}: line {number} is not a JSON object") from None
    return entries


def _open_board(directory: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ConfigError(
            "training.logging.tensorboard = true needs the package tensorboard; install it with "
            "pip install 'regard[tensorboard]'"
        ) from None
    # TensorBoard then hides the old events of the steps that are run again.
    return SummaryWriter(str(directory), purge_step=step + 1)

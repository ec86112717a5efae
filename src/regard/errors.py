"""The exceptions that regard raises on purpose; the command line prints only their messages."""


class RegardError(Exception):
    """Base class of all errors that regard raises on purpose.

    The command line prints the message and exits with `exit_status`.
    """

    exit_status = 1


class UsageError(RegardError):
    """The command or its arguments are invalid."""

    exit_status = 2


class ConfigError(UsageError):
    """A configuration is invalid: an unknown key, a value of the wrong type, or options that conflict."""


class PluginError(UsageError):
    """A plugin is missing, fails when it is imported, or registers a part in a wrong way."""


class DeviceError(UsageError):
    """A requested device is not available."""


class DataError(RegardError):
    """A file of text, alignments or scores is missing or malformed, or does not match a parallel file.

    The message names the file and the line.
    """


class CheckpointError(RegardError):
    """A model directory or checkpoint is missing, truncated or modified; the message names the file."""


class InfeasibleBoundsError(RegardError, ValueError):
    """No probability distribution satisfies the bounds of a row; the message gives the row and its sums.

    Attributes:
        row: Index of the row along the leading dimensions.
    """

    def __init__(self, message: str, row: tuple[int, ...] = ()) -> None:
        """Store the message and the row."""
        super().__init__(message)
        self.row = row


class TrainingDivergedError(RegardError):
    """The training loss is repeatedly not finite; the message suggests remedies."""


class TrainingInterruptedError(RegardError):
    """A signal stopped a training, whose state is saved.

    Attributes:
        signal: The number of the signal.
    """

    def __init__(self, signal: int) -> None:
        """Store the number of the signal."""
        super().__init__("The state is saved. Run the same command again to resume.")
        # Shells report a process that a signal ended with status 128 + signal number.
        self.signal, self.exit_status = signal, 128 + signal


EXTRAS = {
    "torch": "torch sentencepiece subword_nmt",
    "hf": "transformers tokenizers",
    "serve": "fastapi uvicorn sentencex",
}
"""The modules that an extra installs, of those that are imported without a message of their own."""


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """Return the end of a message that names the extra with a missing module; None if no extra has it."""
    # The name of a missing package has no dot; `torch._C` is a part of a package that is damaged.
    extra = next((extra for extra, modules in EXTRAS.items() if error.name in modules.split()), None)
    return extra and f"needs the package {error.name}: pip install 'regard[{extra}]'"

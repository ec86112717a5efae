"""The exceptions a user can meet: each is one clear message, without a traceback at the command line."""

__all__ = [
    "CheckpointError",
    "ConfigError",
    "DataError",
    "DeviceError",
    "InfeasibleBounds",
    "RegardError",
    "TrainingDiverged",
    "UsageError",
]


class RegardError(Exception):
    """The root of every error that regard raises on purpose.

    The command line prints the message alone and exits with `exit_status`.
    """

    exit_status = 1


class UsageError(RegardError):
    """The command or its arguments are wrong."""

    exit_status = 2


class ConfigError(UsageError):
    """A configuration is wrong: an unknown key, a value of the wrong type, parts that do not fit together."""


class DeviceError(UsageError):
    """A device was asked for that is not there."""


class DataError(RegardError):
    """A file of text, links or scores is missing, broken or does not fit its companion; names file, line."""


class CheckpointError(RegardError):
    """A model folder or checkpoint is missing, truncated or altered; names the file."""


class InfeasibleBounds(RegardError, ValueError):
    """No distribution fits between a row's bounds; names the row and what its bounds sum to.

    Attributes:
        row: The index of the row along the leading dimensions.
    """

    def __init__(self, message: str, row: tuple[int, ...] = ()) -> None:
        """Keep the row beside the message."""
        super().__init__(message)
        self.row = row


class TrainingDiverged(RegardError):
    """The training loss stayed not finite; says what to try."""

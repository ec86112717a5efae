"""Handling of Ctrl-C and SIGTERM as a request to stop after the current step."""

import signal
import threading
from types import FrameType
from typing import Any

__all__ = ["SignalHandler"]

HANDLED_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class SignalHandler:
    """A context in which the first Ctrl-C or SIGTERM is recorded and the second has its usual effect.

    Attributes:
        signal_number: The number of the received signal, or None. Signals are caught only in the main thread.
    """

    def __init__(self) -> None:
        """Create the context without installing handlers."""
        self.signal_number: int | None = None
        self._before: dict[int, Any] = {}

    def stop_requested(self) -> bool:
        """Return whether a signal was received."""
        return self.signal_number is not None

    def __enter__(self) -> "SignalHandler":
        """Install the signal handlers."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle) for number in HANDLED_SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the previous signal handlers."""
        self._restore()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.signal_number = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

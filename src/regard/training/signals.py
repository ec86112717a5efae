"""Ctrl-C and SIGTERM as a wish to stop that is granted between two updates."""

import signal
import threading
from types import FrameType
from typing import Any

__all__ = ["Interrupts"]

CAUGHT = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """A context in which the first Ctrl-C or SIGTERM is noted, and the second acts as ever.

    Attributes:
        number: The signal that came, if any. Outside the main thread none can be caught.
    """

    def __init__(self) -> None:
        """Wait to be entered."""
        self.number: int | None = None
        self._before: dict[int, Any] = {}

    def came(self) -> bool:
        """Whether a signal came."""
        return self.number is not None

    def __enter__(self) -> "Interrupts":
        """Begin to catch."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in CAUGHT}
        return self

    def __exit__(self, *error: object) -> None:
        """Let signals act as before."""
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

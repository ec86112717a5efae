"""Progress bars and messages on stderr. Progress bars are shown only if stderr is a terminal."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["preparation_progress", "print_message", "track"]

_T = TypeVar("_T")


@contextmanager
def preparation_progress() -> Iterator[Callable[[str, int, int | None], None]]:
    """Show progress bars for `regard.data.dataset.prepare_data`, one per stage.

    Yields:
        A callback that receives the name of a stage, the number of finished items, and their total or None.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        stages: dict[str, TaskID] = {}

        def report(stage: str, done: int, total: int | None) -> None:
            # The stages are not known in advance, so bars are added when a stage begins.
            if stage not in stages:
                stages[stage] = bar.add_task(stage, total=total)
            bar.update(stages[stage], completed=done, total=total)

        yield report


def track(items: Iterable[_T], name: str, total: int) -> Iterator[_T]:
    """Yield the items and show a progress bar.

    Args:
        items: The items.
        name: Label of the bar.
        total: Number of items.
    """
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=total)
        for item in items:
            bar.advance(task)
            yield item


def print_message(message: str) -> None:
    """Print a message to stderr."""
    from rich.console import Console

    Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(message)

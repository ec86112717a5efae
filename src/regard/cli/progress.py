"""What commands tell a person on stderr; progress bars are silent where it is not a terminal."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["following", "preparing", "say"]

T = TypeVar("T")


@contextmanager
def preparing() -> Iterator[Callable[[str, int, int | None], None]]:
    """A bar for `regard.data.prepared.prepare`: told of a stage's name, what is done and what there is."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        stages: dict[str, TaskID] = {}

        def tell(stage: str, done: int, total: int | None) -> None:
            if stage not in stages:
                stages[stage] = bar.add_task(stage, total=total)
            bar.update(stages[stage], completed=done, total=total)

        yield tell


def following(items: Iterable[T], name: str, total: int) -> Iterator[T]:
    """The items as they come, with a bar.

    Args:
        items: The items.
        name: What is done.
        total: How many there will be.
    """
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=total)
        for item in items:
            bar.advance(task)
            yield item


def say(message: str) -> None:
    """Print a line."""
    from rich.console import Console

    Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(message)

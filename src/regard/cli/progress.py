"""Progress bars on stderr, silent where it is not a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["preparing"]


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

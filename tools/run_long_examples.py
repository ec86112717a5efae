"""Run the code blocks of the documentation that are marked as long, with all other blocks of their pages.

    python tools/run_long_examples.py [PAGE...] [--directory examples-run]

The tests run the other blocks on tiny models and skip these. Here every command runs as typed, in order, in
one directory per page: training takes minutes. The script prints the time of each block, and ends with status
1 at the first error. `regard` must be on the path.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

from doc_blocks import ROOT, Block, blocks, pages, runnable

import regard

BLEU_FLOORS = {"docs/tutorials/bound_attention.md": ("bounded.en", "corpus/test.en", 60.0)}
"""Translations that a page writes, their references, and the minimum of their BLEU."""


def main() -> None:
    """Run the pages that have long blocks, or the given ones."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pages", nargs="*", type=Path, help="default: all pages with a long block")
    parser.add_argument("--directory", type=Path, default=Path("examples-run"))
    parser.add_argument("--data", type=Path, help="directory of the data sets, such as multi30k and hansards")
    options = parser.parse_args()
    chosen = [path.resolve() for path in options.pages]
    for path in chosen or [one for one in pages() if any(block.mark == "long" for block in blocks(one))]:
        directory = options.directory / path.relative_to(ROOT).with_suffix("")
        directory.mkdir(parents=True, exist_ok=True)
        for data in options.data.resolve().iterdir() if options.data else ():
            (directory / data.name).symlink_to(data)
        run_page(blocks(path), directory)
        check_quality(path.relative_to(ROOT).as_posix(), directory)


def run_page(found: list[Block], directory: Path) -> None:
    """Run the blocks of a page in a directory; TOML after the words "as `NAME`" is written to this file."""
    python = ""
    for block in found:
        if block.language == "toml" and (name := file_name(block)):
            (directory / name).write_text(block.code + "\n", encoding="utf-8")
        if block.mark == "illustration" or block.language not in ("sh", "python"):
            continue
        if block.language == "python":
            python += block.code + "\n"  # later blocks use the names of earlier ones
            command = [sys.executable, "-c", python]
        else:
            lines = [line for line in runnable(block.code).split("\n") if "regard serve" not in line]
            command = ["bash", "-euo", "pipefail", "-c", "\n".join(lines)]
        start = time.monotonic()
        done = subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL)
        print(f"{block.page}, line {block.line}: {time.monotonic() - start:.0f} s", flush=True)
        if done.returncode != 0:
            sys.exit(f"{block.page}, line {block.line}: exit status {done.returncode}")


def check_quality(page: str, directory: Path) -> None:
    """End with an error if the translations that a page writes have a lower BLEU than its floor."""
    if page not in BLEU_FLOORS:
        return
    outputs, references, floor = BLEU_FLOORS[page]
    texts = [(directory / name).read_text(encoding="utf-8").splitlines() for name in (outputs, references)]
    result = regard.evaluate(*texts, metrics=["bleu"])
    score = result.to_dict()["metrics"][0]["score"]
    if score < floor:
        sys.exit(f"{page}: BLEU {score:.1f} is below {floor}")


def file_name(block: Block) -> str | None:
    """Return the name of the file that the line above a block gives, as in "Save this file as `run.toml`"."""
    lines = (ROOT / block.page).read_text(encoding="utf-8").split("\n")
    above = "\n".join(lines[max(0, block.line - 6) : block.line - 1])
    _, found, rest = above.rpartition("file as `")
    return rest.partition("`")[0] if found else None


if __name__ == "__main__":
    main()

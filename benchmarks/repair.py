r"""Repair of omissions on Multi30k: BLEU, REP and DROP of models before and after `regard translate --check`.

    regard reproduce malaviya2018-table1 --data-dir DATA/multi30k --size small --rows softmax,csparsemax \
        --output-dir TABLE
    python benchmarks/repair.py TABLE TABLE/runs/softmax-* TABLE/runs/csparsemax-* --checker CHECKER

TABLE contains the text of the table in `text` (tokenized) and the aligner for DROP. The coverage model is
trained on the training text of TABLE, and saved in CHECKER unless it exists there. `--split valid` is for
choices; the test text is for the final figures. BLEU is tokenized and lowercased, as in the table. Intervals
are those of a paired bootstrap over the sentences: the score after the repair minus the score before it.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import regard
from regard.alignment import Corpus, WordAligner
from regard.config import from_dict
from regard.extensions.check.api import CoverageModel
from regard.generation.base import BaseTranslator
from regard.generation.lines import enumerate_lines
from regard.generation.repair import Repair, configure_translator
from regard.metrics.base import SentenceCounts, paired_bootstrap
from regard.metrics.coverage import count_drops, count_repetitions
from regard.metrics.translation import count_statistics
from regard.text.corpus import read_lines
from regard.text.links import Links


def links(aligner: WordAligner, sources: Sequence[str], targets: Sequence[str]) -> list[Links]:
    """Return the links of each pair, by the method of DROP."""
    pairs = ((a.split(), b.split()) for a, b in zip(sources, targets, strict=True))
    corpus = Corpus.from_tokens(pairs, aligner.words, allow_empty=True)
    return list(aligner.align(corpus, "grow-diag-final-and"))


def count(
    aligner: WordAligner, sources: Sequence[str], references: Sequence[str], outputs: Sequence[str]
) -> list[SentenceCounts]:
    """Return the statistics of BLEU, REP and DROP of each sentence."""
    words = [[line.split() for line in lines] for lines in (outputs, references)]
    linked = (links(aligner, sources, lines) for lines in (references, outputs))
    return [
        count_statistics("bleu", outputs, [references], tokenize="none", lowercase=True),
        count_repetitions(words[0], words[1]),
        count_drops(*linked),
    ]


def checker(directory: Path, text: Path) -> CoverageModel:
    """Return the coverage model of a directory, trained on the training text of the table if it is new."""
    if not directory.exists():
        start = time.perf_counter()
        CoverageModel.train(text / "train.source", text / "train.target").save(directory)
        print(f"coverage model trained in {time.perf_counter() - start:.0f} s", file=sys.stderr)
    return CoverageModel.load(directory)


def repaired(
    translator: BaseTranslator, judge: CoverageModel, config: Repair, sources: Sequence[str]
) -> tuple[list[str], list[str], str]:
    """Return the translations before and after the repair, and its summary."""
    # The repair keeps the first translations, so one run gives both.
    repairing = configure_translator(translator, repair=config, checker=judge)
    results = list(repairing.translate(enumerate_lines(sources)))
    records = [one.repair for one in results]
    firsts = [one.text if one.repair is None else one.repair.text_before for one in results]
    summary = f"{sum(record is not None and record.changed for record in records)} translations changed"
    return firsts, [one.text for one in results], summary


def main() -> None:
    """Translate with and without repair, and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("table", type=Path, help="Output directory of `regard reproduce`.")
    parser.add_argument("models", type=Path, nargs="+", help="Model directories.")
    parser.add_argument("--checker", type=Path, required=True, help="Directory of the coverage model.")
    parser.add_argument("--split", choices=("valid", "test"), default="test")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="Settings of the repair.")
    parser.add_argument("--resamples", type=int, default=1000)
    args = parser.parse_args()

    text = args.table / "text"
    judge = CoverageModel(checker(args.checker, text).model)
    given = dict(one.split("=", 1) for one in args.set)
    config = from_dict(Repair, {key: float(value) for key, value in given.items()})
    aligner = WordAligner.load(text / "aligner")
    sources, references = (list(read_lines(text / f"{args.split}.{side}")) for side in ("source", "target"))
    print("| model | metric | before | after | difference, 95 % | p |\n| --- | --- | --- | --- | --- | --- |")
    for directory in args.models:
        translator = regard.load(directory, tokenized=True).backend
        start = time.perf_counter()
        firsts, outputs, summary = repaired(translator, judge, config, sources)
        seconds = time.perf_counter() - start
        before, after = (count(aligner, sources, references, lines) for lines in (firsts, outputs))
        for old, new in zip(before, after, strict=True):
            pair = paired_bootstrap(old.rows, new.rows, old.aggregate, args.resamples)
            gap = pair.difference
            print(
                f"| {directory.name} | {old.name} | {pair.first.value:.2f} | {pair.other.value:.2f} | "
                f"{gap.value:+.2f} ({gap.low:+.2f} to {gap.high:+.2f}) | {pair.p_value:.3f} |",
                flush=True,
            )
        print(f"{directory.name}: {summary}; {seconds:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()

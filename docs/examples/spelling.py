"""From letters to letters: transliteration, or from spelling to sound, with the commands' own training.

    python docs/examples/spelling.py transliteration [--epochs 8] [--folder spelling]
    python docs/examples/spelling.py sounds

Words are made up by rules that need more than one letter at a time: Cyrillic names in Latin letters (`щ`
becomes four letters, `ь` none, `е` depends on what stands before it), or the sounds of German-looking words
(`sch` is one sound, `s` before a vowel is voiced, a final `d` is not). A small recurrent model with attention
learns them from a table of two columns, through `regard.train`; then it spells words it never saw, and shows
where it looked.
"""

import argparse
import random
from pathlib import Path

from rich.console import Console

from regard import RunConfig, Translator, load_model, train
from regard.config import from_dict
from regard.decoding.translate import Line
from regard.report import terminal_map

CYRILLIC = dict(
    zip("бвгджзклмнпрстфхцчшщ", "b v g d zh z k l m n p r s t f kh ts ch sh shch".split(), strict=True)
)
VOWELS = dict(zip("аиоуыэюя", "a i o u y e yu ya".split(), strict=True))


def transliterated(draw: random.Random) -> tuple[str, str]:
    """A name in Cyrillic, and in Latin letters."""
    source, target = "", ""
    for _ in range(draw.randint(2, 4)):
        if draw.random() < 0.85:
            consonant = draw.choice(list(CYRILLIC))
            source, target = source + consonant, target + CYRILLIC[consonant]
        if draw.random() < 0.3:
            # е is ye at the start and after a vowel.
            target += "e" if source and source[-1] in CYRILLIC else "ye"
            source += "е"
        else:
            vowel = draw.choice(list(VOWELS))
            source, target = source + vowel, target + VOWELS[vowel]
        if draw.random() < 0.2:
            consonant = draw.choice("лнртс")
            source, target = source + consonant + "ь", target + CYRILLIC[consonant]
    return source, target


SOUNDS = {"sch": "ʃ", "ch": "x", "ei": "aɪ", "ie": "iː", "eu": "ɔʏ", "z": "ts", "w": "v", "v": "f", "ß": "s"}
PLAIN = {letter: letter for letter in "abdefgiklmnoprtu"}
HARD = {"b": "p", "d": "t", "g": "k"}


def spoken(draw: random.Random) -> tuple[str, str]:
    """A word, and its sounds, a blank between two."""
    onsets, nuclei = [*"bdfgklmnprtwvzs", "sch", "st", "sp"], [*"aeiou", "ei", "ie", "eu"]
    word = "".join(draw.choice(onsets) + draw.choice(nuclei) for _ in range(draw.randint(1, 3)))
    word += draw.choice(["", "n", "r", "d", "b", "g", "ch", "t", "ß"])
    sounds, at = [], 0
    while at < len(word):
        size = next(size for size in (3, 2, 1) if word[at : at + size] in SOUNDS or size == 1)
        piece, last = word[at : at + size], at + size == len(word)
        if piece == "s" and word[at + 1 : at + 2] in ("t", "p"):
            sounds.append("ʃ")
        elif piece == "s":
            sounds.append("z")
        else:
            sounds.append(HARD.get(piece, piece) if last else SOUNDS.get(piece) or PLAIN[piece])
        at += size
    return word, " ".join(sounds)


TASKS = {"transliteration": transliterated, "sounds": spoken}


def main() -> None:
    """Make the tables, train, and spell the words of the test table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--words", type=int, default=4000)
    parser.add_argument("--folder", type=Path, default=Path("spelling"))
    arguments = parser.parse_args()
    draw, folder = random.Random(1), arguments.folder / arguments.task
    words = list(dict.fromkeys(TASKS[arguments.task](draw) for _ in range(arguments.words + 600)))
    folder.mkdir(parents=True, exist_ok=True)
    tables = {"test": words[:200], "valid": words[200:400], "train": words[400:]}
    for name, pairs in tables.items():
        (folder / f"{name}.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
    letters = {"kind": "characters"}
    corpora = {name: {"tsv": str(folder / f"{name}.tsv"), "columns": [1, 2]} for name in tables}
    config = {
        "data": {
            "folder": str(folder / "prepared"),
            "train": [corpora["train"]],
            "valid": corpora["valid"],
            "source_tokenizer": letters,
            "target_tokenizer": letters if arguments.task == "transliteration" else {"kind": "words"},
        },
        "model": {
            "embedding": 64,
            "encoder": {"layers": 1, "width": 128},
            "decoder": {"layers": 1, "width": 128},
            "attention": {"kind": "soft", "map": "sparsemax"},
            "dropout": 0.1,
        },
        "training": {
            "batch": {"size": 32},
            "optimizer": {"kind": "adam", "rate": 3e-3, "clip": 1.0},
            "validation": {"metric": "accuracy"},
            "stop": {"epochs": arguments.epochs},
        },
    }
    train(from_dict(RunConfig, config), folder / "model")
    loaded = load_model(folder / "model", "cpu")
    translator = Translator(loaded.model, loaded.text, loaded.config.search)
    results = translator.block([Line(number, word) for number, (word, _) in enumerate(tables["test"], 1)])
    right = [result.text == wanted for result, (_, wanted) in zip(results, tables["test"], strict=True)]
    print(f"right in every sign: {sum(right) / len(right):.1%} of {len(right)} words never seen\n")
    for result, (word, wanted) in list(zip(results, tables["test"], strict=True))[:8]:
        print(f"{word:16} {result.text:28} {'' if result.text == wanted else wanted}".rstrip())
    best = results[0].translations[0]
    print()
    Console(highlight=False).print(terminal_map(best.weights, results[0].source_tokens, best.tokens))


if __name__ == "__main__":
    main()

"""Directories of parallel text, as read by the experiments."""

import gzip
import re
from pathlib import Path

import pytest

from regard.errors import DataError
from regard.extensions.reproduce.experiment_text import NUM_HELD_OUT, find_tables, write_text


def _corpus(directory: Path, names: dict[str, int], tokenized: bool = False) -> Path:
    """Write parallel files with numbered sentences, and return their directory."""
    directory.mkdir()
    for name, count in names.items():
        for language, start in (("de", "Das Haus"), ("en", "The house")):
            end = " ." if tokenized else "."
            text = "".join(f"{start} x{number}{end}\n" for number in range(count))
            path = directory / f"{name}.{language}"
            if name.startswith("train"):
                gzip.open(f"{path}.gz", "wt").write(text)
            else:
                path.write_text(text)
    return directory


def test_raw_text_is_tokenized_and_lowercased(tmp_path: Path) -> None:
    data = _corpus(tmp_path / "raw", {"train": 120, "val": 3, "test_2016": 2})
    text = write_text(data, tmp_path / "text")
    assert (text.pair, text.num_pairs) == ("de-en", {"train": 120, "valid": 3, "test": 2})
    assert text.preprocessing == "tokenized with Moses, lowercased"
    assert text.lines("test", "source") == ["das haus x0 .", "das haus x1 ."]
    assert text.lines("train", "target")[-1] == "the house x119 ."
    raw = write_text(data, tmp_path / "unchanged", raw=True)
    assert raw.preprocessing == "not preprocessed" and raw.checksum != text.checksum
    assert raw.lines("test", "source") == ["Das Haus x0.", "Das Haus x1."]


def test_raw_text_without_spaces_between_words_is_rejected(tmp_path: Path) -> None:
    data = _corpus(tmp_path / "raw", {"train": 120, "val": 3, "test": 2})
    for path in list(data.glob("*.de*")):
        path.rename(path.with_name(path.name.replace(".de", ".ja")))
    with pytest.raises(DataError, match="ja or en: the text is not tokenized"):
        write_text(data, tmp_path / "text")


def test_tokenized_text_is_not_tokenized_again(tmp_path: Path) -> None:
    data = _corpus(tmp_path / "cut", {"train": 120, "dev": 1, "tst": 1}, tokenized=True)
    (data / "tst.de").write_text("&apos;Na , so was!\n")
    text = write_text(data, tmp_path / "text")
    assert text.preprocessing == "already tokenized, lowercased"
    assert text.lines("test", "source") == ["&apos;na , so was!"]


def test_without_test_set_validation_data_is_taken_from_the_end_of_training_data(tmp_path: Path) -> None:
    data = _corpus(tmp_path / "two", {"train": NUM_HELD_OUT + 5, "dev": 4})
    text = write_text(data, tmp_path / "text")
    assert "no test set" in text.preprocessing
    assert text.num_pairs == {"train": 5, "valid": NUM_HELD_OUT, "test": 4}
    assert text.lines("valid", "target")[0] == "the house x5 ."


def test_only_training_pairs_with_an_empty_side_are_dropped(tmp_path: Path) -> None:
    data = _corpus(tmp_path / "gaps", {"train": 3, "val": 1, "test": 2})
    (data / "train.de.gz").unlink()
    (data / "train.de").write_text("Eins.\n\nDrei.\n")
    (data / "test.de").write_text("Eins.\n\n")
    text = write_text(data, tmp_path / "text")
    assert text.lines("train", "source") == ["eins .", "drei ."]
    assert text.lines("train", "target") == ["the house x0 .", "the house x2 ."]
    assert text.num_pairs["test"] == 2


def test_digest_depends_on_training_text_but_not_on_test_text(tmp_path: Path) -> None:
    data = _corpus(tmp_path / "raw", {"train": 3, "val": 1, "test": 1})
    first = write_text(data, tmp_path / "text")
    assert write_text(data, tmp_path / "text") == first
    first.aligner.mkdir()
    (data / "test.de").write_text("Anders.\n")
    second = write_text(data, tmp_path / "text")
    assert second.lines("test", "source") == ["anders ."]
    assert (second.checksum == first.checksum, second.test_checksums == first.test_checksums) == (True, False)
    assert not second.aligner.exists()
    limited = write_text(data, tmp_path / "text", max_pairs=2)
    assert limited.checksum != first.checksum and limited.test_checksums == second.test_checksums
    assert write_text(data, tmp_path / "text").checksum == first.checksum


def test_gold_links_form_a_separate_split(tmp_path: Path) -> None:
    data = _corpus(tmp_path / "raw", {"train": 3, "val": 1, "test": 2, "gold-test": 1})
    assert write_text(data, tmp_path / "text").gold_path is None
    (data / "gold-test.talp").write_text("0-0 1p1\n")
    text = write_text(data, tmp_path / "text")
    assert text.gold_path == str(data / "gold-test.talp")
    assert text.num_pairs == {"train": 3, "valid": 1, "test": 2, "gold": 1}
    assert text.lines("gold", "target") == ["the house x0 ."]
    assert text.test_checksums["gold"] != text.test_checksums["test"]


@pytest.mark.parametrize(
    ("remove", "add", "message"),
    [
        ("train.en.gz", None, "expected training files of two languages, one of them .en; found: de"),
        ("val.de", None, "expected one file val or dev*.de; found: none"),
        ("test.de", None, "expected one file test or tst*.de; found: none"),
        (None, "test_b.de", "expected one file test or tst*.de; found: test.de, test_b.de"),
        (None, "train.fr", "one of them .en; found: de, en, fr"),
    ],
)
def test_missing_or_ambiguous_files_are_named(tmp_path: Path, remove, add, message) -> None:
    data = _corpus(tmp_path / "raw", {"train": 2, "val": 1, "test": 1})
    if remove:
        (data / remove).unlink()
    if add:
        (data / add).write_text("x\n")
    with pytest.raises(DataError, match=re.escape(message)):
        write_text(data, tmp_path / "text")
    assert not (tmp_path / "text").exists()


def test_tables_are_read_in_place(tmp_path: Path) -> None:
    for kind, forms in (("train", 3), ("dev", 1), ("test", 2)):
        text = "".join(f"Haus{n}\tN;PL\tHäuser{n}\n" for n in range(forms))
        (tmp_path / f"de_noun.{kind}.tsv").write_text(text)
    text = find_tables(tmp_path / "de_noun", tmp_path / "text")
    assert (text.pair, text.num_pairs) == ("de_noun", {"train": 3, "valid": 1, "test": 2})
    assert text.lines("test", "target") == ["Häuser0", "Häuser1"]
    assert find_tables(tmp_path / "de_noun", tmp_path / "text") == text
    with pytest.raises(
        DataError, match=r"de_noun\.train\.tsv: column 2 should contain forms, but 'N;PL' looks like features"
    ):
        find_tables(tmp_path / "de_noun", tmp_path / "text", (1, 3, 2))
    with pytest.raises(DataError, match=re.escape("expected de_verb.train.tsv or de_verb.train.tsv.gz")):
        find_tables(tmp_path / "de_verb", tmp_path / "other")


def test_sigmorphon_tables_have_another_column_order_and_no_test_forms(tmp_path: Path) -> None:
    for kind, forms in (("train-high", NUM_HELD_OUT + 5), ("train-low", 7), ("dev", 4)):
        text = "".join(f"Haus{n}\tHäuser{n}\tN;PL\n" for n in range(forms))
        gzip.open(tmp_path / f"de.{kind}.gz", "wt").write(text)
    with pytest.raises(DataError, match=re.escape("use --columns 1,3,2")):
        find_tables(tmp_path / "de", tmp_path / "text")
    found = find_tables(tmp_path / "de", tmp_path / "text", (1, 3, 2))
    assert found.num_pairs == {"train": 5, "valid": NUM_HELD_OUT, "test": 4}
    assert find_tables(tmp_path / "de", tmp_path / "forms", (1, 2)).lines("test", "target")[0] == "Häuser0"
    assert found.lines("train", "target")[-1] == "Häuser4"
    assert found.lines("valid", "source")[0] == "Haus5\tN;PL"
    assert found.lines("test", "target")[0] == "Häuser0"
    assert "no test table" in found.preprocessing
    assert find_tables(tmp_path / "de", tmp_path / "text", (1, 3, 2)) == found
    moved = (tmp_path / "text").rename(tmp_path / "moved")
    again = find_tables(tmp_path / "de", moved, (1, 3, 2))
    assert again.lines("train", "target") == [*found.lines("test", "target"), "Häuser4"]

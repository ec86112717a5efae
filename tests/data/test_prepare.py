"""Tests of preprocessing: ids, vocabularies, splits, manifest, statistics, and memory."""

import json
import logging
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from made_corpora import KINDS, both, configure, corpus, sentences

from regard.data import arrays, preprocessing
from regard.data.batch import BatchConfig
from regard.data.dataset import PreparedData, prepare_data
from regard.errors import DataError
from regard.text.vocabulary import EOS, UNK


@pytest.mark.parametrize("kind", KINDS)
def test_prepared_ids_equal_the_encoded_lines(data, kind):
    prepared = prepare_data(configure(data, **both(kind), min_frequency=2))
    for name, seed, number in (("train", 0, 60), ("valid", 1, 7)):
        split = prepared.split(name)
        assert len(split) == number
        for row, (source, target) in enumerate(zip(*sentences(number, seed), strict=True)):
            ids = split.example(row)
            assert ids[0].tolist() == prepared.text.source.encode(source)
            assert ids[1].tolist() == [*prepared.text.target.encode(target), EOS]
            assert [len(side) for side in ids] == [int(side[row]) for side in split.lengths]


@pytest.mark.slow
def test_result_does_not_depend_on_the_number_of_processes(data, tmp_path, monkeypatch):
    monkeypatch.setattr(preprocessing, "CHUNK_LINES", 7)
    monkeypatch.setattr(preprocessing, "SINGLE_PROCESS_PAIRS", 0)
    contents = []
    for processes in (1, 2):
        monkeypatch.setattr(preprocessing, "num_available_cpus", lambda number=processes: number)
        config = configure(data, cache_dir=str(tmp_path / f"p{processes}"), **both("bpe"))
        directory = prepare_data(config).directory
        contents.append({path.name: path.read_bytes() for path in directory.iterdir()})
    assert contents[0] == contents[1]


def test_sampling_weights_set_the_frequency_of_a_corpus(tmp_path, data):
    corpora = [
        corpus(tmp_path, "twice", *sentences(10, 1), sampling_weight=2.5),
        corpus(tmp_path, "half", *sentences(20, 2), sampling_weight=0.5),
        corpus(tmp_path, "once", *sentences(5, 3)),
    ]
    split = prepare_data(configure(data, train=corpora)).split("train")
    counts = np.bincount(split.epoch_rows(1, 0), minlength=35)
    assert counts[:10].sum() == 25 and set(counts[:10]) == {2, 3}
    assert counts[10:30].sum() == 10 and set(counts[10:30]) == {0, 1}
    assert set(counts[30:]) == {1}
    assert split.epoch_rows(1, 0).tolist() == split.epoch_rows(1, 0).tolist()
    assert split.epoch_rows(1, 0).tolist() != split.epoch_rows(1, 1).tolist()
    rows = np.concatenate(split.batches(BatchConfig(batch_size=4), 1, 0))
    assert np.bincount(rows, minlength=35).tolist() == counts.tolist()


def test_source_prefix_precedes_every_sentence_of_its_corpus(tmp_path, data):
    corpora = [data["train"][0], corpus(tmp_path, "back", *sentences(5, 3), source_prefix="<bt>")]
    prepared = prepare_data(configure(data, train=corpora, source_vocab_size=4, **both("bpe")))
    split, vocabulary = prepared.split("train"), prepared.text.source.vocabulary
    prefix = vocabulary.to_ids(["<bt>"])[0]
    assert prefix != UNK
    assert [int(split.example(row)[0][0]) == prefix for row in (0, 59, 60, 64)] == [False, False, True, True]
    expected = prepared.text.source.encode("<bt> " + sentences(5, 3)[0][0])
    assert split.example(60)[0].tolist() == expected
    assert PreparedData.open(prepared.directory).text.source.encode("<bt> Der Hund.")[0] == prefix


def test_vocabularies_are_built_from_training_text_only(tmp_path, data):
    valid = corpus(tmp_path, "odd", ["Ungesehen"], ["unseen"])
    prepared = prepare_data(configure(data, valid=valid))
    assert prepared.split("valid").example(0)[0].tolist() == [UNK]


def test_empty_and_long_training_pairs_are_dropped_and_counted(tmp_path, data, caplog):
    sources, targets = sentences(10, 5)
    sources[2], targets[4], sources[7] = "", "   ", "wort " * 100_000
    targets[9] = "a b c d e f g h"
    data["train"] = [corpus(tmp_path, "mixed", sources, targets)]
    with caplog.at_level(logging.WARNING):
        split = prepare_data(configure(data, max_length=7, **both("moses"))).split("train")
    assert len(split) < 8 and (split.source_lengths <= 7).all() and (split.target_lengths <= 8).all()
    assert "2 dropped with an empty side" in caplog.text
    assert f"{8 - len(split)} with more than 7 tokens" in caplog.text
    assert [int(split.location(row).rpartition(" ")[2]) for row in range(len(split))] == sorted(
        i + 1 for i in range(10) if i not in (2, 4, 7, 9) and len(sources[i].split()) + 1 <= 7
    )


def test_evaluation_text_is_stored_unchanged(tmp_path, data):
    valid = corpus(tmp_path, "odd", ["eins  zwei", "", "drei"], ["one", "two", "three \u2028 x"])
    prepared = prepare_data(configure(data, valid=valid))
    assert prepared.split("valid").raw_lines() == (["eins  zwei", "drei"], ["one", "three \u2028 x"])
    with pytest.raises(DataError, match="training"):
        prepared.split("train").raw_lines()


def test_evaluation_text_that_changes_meanwhile_is_an_error(data, monkeypatch):
    write_split = preprocessing.write_split

    def change(*arguments):
        for side in ("source", "target"):
            with open(data["valid"][side], "a") as file:
                file.write("one more line\n")
        return write_split(*arguments)

    monkeypatch.setattr(preprocessing, "write_split", change)
    with pytest.raises(DataError, match="the valid corpora changed during preprocessing; run it again"):
        prepare_data(configure(data))


def test_manifest_describes_the_data(data):
    prepared = prepare_data(configure(data, **both("sentencepiece")))
    manifest = json.loads((prepared.directory / "manifest.json").read_text())
    assert manifest["wanted"]["settings"]["source_tokenizer"]["vocab_size"] == 330
    assert set(manifest["inputs"]) == {f"{n}.{s}" for n in ("train.0", "valid") for s in ("source", "target")}
    assert manifest["splits"]["train"]["corpora"][0]["kept"] == 60
    names = {path.name for path in prepared.directory.iterdir()} - {"manifest.json"}
    assert set(manifest["files"]) == names
    assert list(prepared) == ["train", "valid"]
    with pytest.raises(DataError, match="no split 'test'; available: train, valid"):
        prepared.split("test")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(tmp_path, data, monkeypatch):
    monkeypatch.setattr(arrays, "CHUNK_ROWS", 500)
    monkeypatch.setattr(preprocessing, "CHUNK_LINES", 500)
    peaks = []
    for number in (4_000, 16_000):
        data["train"] = [
            corpus(tmp_path, f"c{number}", ["Der Hund und die Katze ."] * number, ["The dog ."] * number)
        ]
        config = configure(data, cache_dir=str(tmp_path / f"p{number}"))
        tracemalloc.start()
        prepare_data(config)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # Each additional pair has 34 bytes of text, 40 of ids and 24 of offsets: it must not stay in memory.
    assert peaks[1] - peaks[0] < 10 * 12_000


def test_unknown_tokens_are_reported_per_split(data, caplog):
    config = configure(data, **both("words"))
    lines = Path(config.valid.source).read_text().splitlines()
    Path(config.valid.source).write_text(
        "".join(f"{line}\n" for line in [*lines[:-1], "Der H\u00fcnd H\u00fcnd"])
    )
    total = sum(len(line.split()) for line in lines[:-1]) + 3
    with caplog.at_level("INFO"):
        prepared = prepare_data(config)
        expected = f"valid: 2 of {total:,} source tokens are unknown ({200 / total:.2f} %)"
        assert f"{expected};" in caplog.text
        assert re.search(r"train: 0 of [\d,]+ source tokens are unknown \(0.00 %\);", caplog.text)
        caplog.clear()
        prepare_data(config)  # existing data is reported once
        assert not caplog.text
    about = prepared.manifest["splits"]["valid"]["unknown"]["source"]
    assert about == {"tokens": total, "unknown": 2}


def test_byte_fallback_leaves_no_unknown_tokens(data):
    config = configure(data, **both("sentencepiece"), min_frequency=3)
    lines = Path(config.valid.source).read_text().splitlines()
    Path(config.valid.source).write_text("".join(f"{line}\n" for line in [*lines[:-1], "\u65e5\u65e5\u672c"]))
    prepared = prepare_data(config)
    split = prepared.split("valid")
    source = prepared.text.source
    found = [source.decode(split.example(row)[0]) for row in range(len(split))]
    assert found == split.raw_lines()[0]
    for other in map(prepared.split, prepared):
        assert all(UNK not in ids for row in range(len(other)) for ids in other.example(row))

"""Tests of `regard figures` on malformed input files."""

from test_figures import run

from regard.errors import DataError


def test_malformed_input_files_are_reported(tmp_path):
    """Wrong types, deep nesting and very long numbers in an input file give one error message."""
    path = tmp_path / "wrong.json"
    deep, digits = "[" * 4000 + "]" * 4000, "9" * 5000
    one = '{"models": {"a": {"sentences": 1, "steps": 1, "accuracy": %s, "entropy": 1, "support": 1,'
    one += ' "coverage": 1, "entropies": {"edges": [0, 1], "counts": [%s]},'
    one += ' "coverages": {"edges": [1, 0], "counts": [1]}}}}'
    bucket = '{"buckets": [{"low": %s, "high": 3, "sentences": 2}], "systems": {"a": {"bleu": %s}}}'
    texts = [
        "",
        "{}",
        "[]",
        "null",
        "\x00",
        deep,
        digits,
        '{"models": []}',
        '{"models": {"a": 1}}',
        one % (1, 1),
    ]
    texts += [one % (value, value) for value in (digits, deep, "1e400", '"x"', "null", "-1", "NaN")]
    texts += [bucket % (value, '{"buckets": [], "all": {"value": 1}}') for value in (1, digits, '"x"', deep)]
    texts += [
        bucket % (1, f'{{"buckets": [{{"value": {value}}}], "all": 3}}') for value in (1, "null", "1e308")
    ]
    texts += [
        f'{{"rows": {value}}}'
        for value in ("1", "[1]", '[{"row": "a", "metrics": {"bleu:1": {"score": "x"}}}]')
    ]
    for text in texts:
        path.write_text(text)
        for name in ("attention", "length"):
            result = run(name, "--input", path, "-o", tmp_path / "out")
            assert isinstance(result.exception, DataError) and "wrong.json" in str(result.exception)
    lines = [digits, deep, "{}", '{"line": "x"}', '{"line": 1, "source": 3, "target": [], "weights": []}']
    lines += [
        f'{{"line": 1, "source": ["a"], "target": ["b"], "weights": {value}}}'
        for value in (
            "1",
            "[1]",
            "[[[[1, 2]]]]",
            "[[[1], [1, 2]]]",
            '[[[["x"]]]]',
            "[[[[NaN]]]]",
            f"[[[[{digits}]]]]",
        )
    ]
    for line in lines:
        path.write_text(line + "\n")
        for name in ("translations", "history"):
            result = run(name, "--input", path, "-o", tmp_path / "out")
            assert isinstance(result.exception, DataError) and "wrong.json" in str(result.exception)
    (tmp_path / "record.jsonl").write_text(
        f'{digits}\n{deep}\n{{"kind": "train", "step": 1{"0" * 400}, "perplexity": 2}}\n'
    )
    result = run("training", "--input", tmp_path, "-o", tmp_path / "out")
    assert isinstance(result.exception, DataError) and "no record of training" in str(result.exception)
    assert not (tmp_path / "out").exists()

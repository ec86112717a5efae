"""The figure of scores by length shows each score, its interval and the number of sentences."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from regard.metrics.by_length import BucketScore, LengthScores, bucket_by_length
from regard.report.length_charts import plot_by_length

SVG = "{http://www.w3.org/2000/svg}"
BUCKETS = bucket_by_length([3] * 1200 + [15] * 5 + [70])


def scores(name, *values):
    found = [None if v is None else BucketScore(v, (v - 1.5, v + 2)) for v in values]
    return LengthScores(name, "", tuple(found), BucketScore(20.0))


def plot(systems):
    return ET.fromstring(plot_by_length(systems, BUCKETS))


def words(root):
    return [text.text for text in root.iter(f"{SVG}text")]


def tips(root):
    return [tip for tip in (each.findtext(f"{SVG}title") for each in root) if tip]


@pytest.fixture
def root():
    values = (30.0, 25.0, None, None, None, None, 12.25)
    return plot(
        {name: {"bleu": scores("BLEU", *values), "rep": scores("REP", *values)} for name in ("soft", "hard")}
    )


def test_buckets_are_labeled_with_number_of_sentences(root):
    assert words(root).count("61+") == words(root).count("1,200") == 2
    assert words(root).count("0") >= 8  # an empty bucket is labeled with 0


def test_points_show_scores_and_intervals_except_for_empty_buckets(root):
    found = [tip for tip in tips(root) if tip.startswith("hard")]
    assert (
        found
        == [
            "hard, 1-10: 30.00 (28.50 to 32.00)",
            "hard, 11-20: 25.00 (23.50 to 27.00)",
            "hard, 61+: 12.25 (10.75 to 14.25)",
        ]
        * 2
    )


def test_metrics_to_minimize_are_labeled(root):
    assert {"BLEU", "REP (lower is better)"} <= set(words(root))


def test_scores_have_no_percent_sign_and_axis_covers_the_intervals(root):
    assert not any(text.endswith("%") for text in words(root) if text)
    assert "35" in words(root) or "40" in words(root)
    assert root.findtext(f"{SVG}desc").startswith("soft: BLEU 20.00 overall; hard: BLEU 20.00 overall")


def test_systems_of_a_bucket_are_placed_side_by_side():
    root = plot({name: {"bleu": scores("BLEU", *[20.0] * 7)} for name in ("a", "b", "c")})
    bars = [path.get("d") for path in root.iter(f"{SVG}path") if path.get("stroke-width") == "1.2"]
    assert len(set(bars)) == len(bars) == 21


def test_zero_scores_can_be_plotted():
    zero = LengthScores("DROP", "", (None,) * 7, BucketScore(0.0))
    root = plot({"a": {"drop": zero}})
    assert tips(root) == [] and np.isfinite(float(root.get("height")))


def test_score_without_interval_has_a_point_but_no_bar():
    one = LengthScores("BLEU", "", (None,) * 6 + (BucketScore(40.0),), BucketScore(40.0))
    root = plot({"a": {"bleu": one}})
    assert tips(root) == ["a, 61+: 40.00"]
    assert not [path for path in root.iter(f"{SVG}path") if path.get("stroke-width") == "1.2"]

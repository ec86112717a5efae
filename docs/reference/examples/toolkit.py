import regard

# --- regard.train
result = regard.train("first.toml", "runs/other")
print(result)
# --- regard.load
model = regard.load("runs/first", beam_size=3)
ensemble = regard.load("runs/first", "runs/second")
# --- regard.upload
regard.upload("runs/first", "organization/name", dry_run=True)  # writes the card
# --- regard.Translator
model = regard.load("runs/first")
model.translate("ein Hund läuft .").text
model.score("ein Hund läuft .", "a dog runs .").log_probability
# --- regard.Translation
t = regard.load("runs/first").translate("ein Hund läuft .", num_return=2)
t.text, t.score
t.alignment  # [L, 2]: source word and target word
t.attention_map  # [T, S]
[one.text for one in t.nbest]
# --- regard.Translations
found = regard.load("runs/first").translate(["ein Hund läuft .", "er schläft ."])
found.to_pandas()
found[0].text
# --- regard.Scores
scores = regard.load("runs/first").score(["ein Hund ."], ["a dog ."])
scores[0].token_log_probs  # nats
# --- regard.Sampling
model.translate("ein Hund läuft .", sampling=regard.Sampling(top_p=0.9), num_return=3)
# --- regard.MBR
model.translate("ein Hund läuft .", beam_size=10, mbr=regard.MBR(utility="bleu"))
# --- regard.Repair
repair = regard.Repair(threshold=0.5)  # an argument of `translate`, with a `checker`
# --- regard.load_config
config = regard.load_config("runs/first")
config.training.max_steps
# --- regard.RunConfig
config: regard.RunConfig = regard.load_config("runs/first")
config.model.kind


# --- regard.Callback
class PrintLoss(regard.Callback):
    """Print the statistics of every step."""

    def on_step(self, statistics):
        print(statistics)


regard.train("first.toml", "runs/printed", callbacks=[PrintLoss()])
# --- regard.configure_threads
regard.configure_threads()  # before the first import of torch
# --- regard.load_plugins
regard.load_plugins(["topk.py"])
# --- regard.tune
options = regard.PenaltyTuningOptions(length_penalties=(0.6, 1.0), coverage_penalties=(0.0,))
regard.tune("runs/first", "valid.de", "valid.en", options=options)
# --- regard.PenaltyTuningOptions
regard.PenaltyTuningOptions(length_penalties=(0.6, 1.0), coverage_penalties=(0.0, 0.2))
# --- regard.evaluate
result = regard.evaluate(["a dog runs ."], ["a dog sleeps ."], metrics=["bleu", "chrf"])
result.bleu
result["chrf"].low, result["chrf"].high
# --- regard.Evaluation
result = regard.evaluate(["a dog runs ."], ["a dog sleeps ."], metrics=["chrf"])
result.rows()
# --- regard.EvaluationOptions
options = regard.EvaluationOptions(tokenize="none")
regard.evaluate(["a dog runs ."], ["a dog sleeps ."], metrics=["bleu"], options=options)
# --- regard.evaluate_links
links = regard.align(["der Hund läuft"] * 3, ["the dog runs"] * 3)
regard.evaluate_links(links, ["0-0 1-1 2-2"] * 3).aer
# --- regard.FileOptions
with open("new.csv", "w") as file:
    file.write("id,mt,src\n7,a dog runs,ein Hund läuft\n")
options = regard.FileOptions(columns=("src", "mt"))
regard.check("new.csv", file_options=options).sentences[0].id
# --- regard.align
links = regard.align(["der Hund läuft", "der Hund"], ["the dog runs", "the dog"])
links[0]
# --- regard.Aligner
aligner = regard.Aligner.load("aligner")
aligner.align("test.de", "test.en")
# --- regard.fertilities
regard.fertilities("train.de", "train.en").to_pandas()
# --- regard.check
check = regard.check("source.txt", "translation.txt", checker="checker")
print(check.summary())
# --- regard.CoverageCheck
check = regard.check("source.txt", "translation.txt", checker="checker")
check.worst(3)
# --- regard.CheckedSentence
sentence = regard.check("source.txt", "translation.txt", checker="checker").sentences[0]
sentence.omitted  # the probability of each source word
# --- regard.check_report
check = regard.check("source.txt", "translation.txt", checker="checker")
regard.check_report(check, "check.html")
# --- regard.corrupt
made = regard.corrupt("test.de", "test.en", seed=1)
# --- regard.report
regard.report(["runs/first"], test=("test.de", "test.en"), output="report.html")
# --- regard.analyze
analysis = regard.analyze.errors("runs/first", "test.de", "test.en", aligner="aligner")
analysis.rows()[0]
# --- regard.register_attention
import topk  # the tutorial "Extending regard" writes this file

topk.TopKAttentionConfig(k=4)


# --- regard.register_normalizer
from regard.functional import softmax


@regard.register_normalizer("softmax_sharp")
def softmax_sharp(scores, *, mask):
    return softmax(2 * scores, mask=mask)


# --- regard.register_metric
from regard.metrics.base import SentenceCounts


@regard.register_metric("length_ratio", label="length ratio")
def length_ratio(data):
    pairs = zip(data.outputs, data.references[0], strict=True)
    return SentenceCounts.ratio("length ratio", [(len(a.split()), len(b.split())) for a, b in pairs])


# --- regard.configclass
@regard.configclass
class WindowConfig:
    """A window."""

    size: int = regard.option(default=3, help="Size in words.", ge=1)


WindowConfig(size=5)
# --- regard.option
size: int = regard.option(default=3, help="Size in words.", ge=1)
# --- regard.CoverageModel
model = regard.CoverageModel.load("checker")
regard.check(["der Hund läuft ."], ["the dog ."], checker=model)
# --- regard.CoverageEvaluation
check = regard.check("source.txt", "translation.txt", checker="checker")
check.summary()
# --- regard.CorruptedText
made = regard.corrupt("test.de", "test.en", kinds=["deletion"], seed=1)
made.to_dict()["schema"]
# --- regard.ReportOptions
check = regard.ReportCheck(checker="checker")
options = regard.ReportOptions(title="Two models", tokenize="none", check=check)
regard.report(["runs/first", "runs/second"], test=("test.de", "test.en"), output="two.html", options=options)
# --- regard.ReportCheck
check = regard.ReportCheck(checker="checker", threshold=0.3)
# --- regard.analyze.ErrorAnalysis
regard.analyze.errors("runs/first", "test.de", "test.en", aligner="aligner").to_pandas()
# --- regard.analyze.AttentionAnalysis
analysis = regard.analyze.attention(["runs/first", "runs/second"], "test.de", "test.en")
analysis.to_pandas()
# --- regard.analyze.LengthAnalysis
regard.analyze.length(["runs/first"], "test.de", "test.en").to_pandas()
# --- regard.analyze.errors
regard.analyze.errors("runs/first", "test.de", "test.en", aligner="aligner").rows()[0]
# --- regard.analyze.attention
regard.analyze.attention(["runs/first", "runs/second"], "test.de", "test.en").to_pandas()
# --- regard.analyze.length
regard.analyze.length(["runs/first", "runs/second"], "test.de", "test.en").to_pandas()
# --- regard.register_loss
from typing import Literal

from regard.training.losses.base import LossTerm


@regard.configclass
class EntropyConfig:
    kind: Literal["entropy"] = "entropy"
    weight: float = regard.option(default=0.1, help="Weight of the entropy.", ge=0)


@regard.register_loss("entropy", EntropyConfig)
class Entropy(LossTerm):
    output_attentions = True

    def add(self, total, batch, outcome, own):
        weights = outcome.cross_attentions[-1].mean(2)  # [B, T, S]
        entropy = -(weights * weights.clamp_min(1e-9).log()).sum(-1)
        return total + self.config.weight * entropy.masked_fill(~outcome.mask, 0.0).sum()


# --- regard.analyze.AttentionOptions
options = regard.analyze.AttentionOptions(bin_width=0.5)
regard.analyze.attention(["runs/first"], "test.de", "test.en", options=options).to_pandas()
# --- regard.analyze.LengthOptions
options = regard.analyze.LengthOptions(bucket_width=5)
regard.analyze.length(["runs/first"], "test.de", "test.en", options=options).to_pandas()
# --- regard.analyze.faithfulness
regard.analyze.faithfulness("runs/first", "test.de", "test.en", map="gradient").to_pandas()
# --- regard.init_run
made = regard.init_run("train.de", "train.en", "made.toml")

"""The options of `regard translate` that choose among candidates: samples, minimum Bayes risk, and repair."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from regard.cli.command import require_flag, setting
from regard.cli.options import CheckerOption
from regard.cli.output import print_message
from regard.errors import UsageError

if TYPE_CHECKING:
    from regard.generation.base import BaseTranslator
    from regard.generation.config import SamplingConfig
    from regard.generation.coverage import LineRepair
    from regard.generation.mbr import MbrConfig
    from regard.generation.repair_candidates import RepairConfig
    from regard.generation.translation import Translation

__all__ = ["CandidateOptions", "SamplingOptions"]

SAMPLING = "regard.generation.config.SamplingConfig"
MBR = "regard.generation.mbr.MbrConfig"
REPAIR = "regard.generation.repair_candidates.RepairConfig"
_PANEL = "Check and repair of omissions"
_SETTINGS = ("threshold", "strategies", "weight", "max_loss")


@dataclass(frozen=True)
class SamplingOptions:
    """Sampling instead of beam search, and the choice from the beam or the samples by expected utility."""

    panel: ClassVar[str] = "Sampling and minimum Bayes risk decoding"

    sample: Annotated[
        bool, typer.Option("--sample", help="Sample translations from the model instead of beam search.")
    ] = False
    temperature: Annotated[float | None, setting(f"{SAMPLING}:temperature")] = None
    top_k: Annotated[int | None, setting(f"{SAMPLING}:top_k")] = None
    top_p: Annotated[float | None, setting(f"{SAMPLING}:top_p")] = None
    seed: Annotated[int | None, setting(f"{SAMPLING}:seed")] = None
    mbr: Annotated[
        str | None,
        typer.Option(
            help="Minimum Bayes risk decoding: choose from the beam, or from the samples of --sample, by "
            "expected utility. Utilities are bleu, chrf, rep (100 minus the repetitions per 100 words) and "
            "coverage (100 minus the omitted, added and repeated words per 100 words, by --checker). "
            "Scores in the output are expected utilities.",
            show_default=False,
        ),
    ] = None
    mbr_candidates: Annotated[int | None, setting(f"{MBR}:num_candidates")] = None
    mbr_weighting: Annotated[str | None, setting(f"{MBR}:weighting")] = None

    def configs(self) -> "tuple[SamplingConfig | None, MbrConfig | None]":
        """Return the settings of sampling and of minimum Bayes risk decoding, None if it is not used.

        Raises:
            UsageError: If a flag is given without --sample or --mbr, or its value is wrong.
        """
        sampled = {name: getattr(self, name) for name in ("temperature", "top_k", "top_p", "seed")}
        require_flag("--sample", self.sample, sampled)
        mbr_flags = {"mbr_candidates": self.mbr_candidates, "mbr_weighting": self.mbr_weighting}
        require_flag("--mbr", self.mbr is not None, mbr_flags)

        from regard.config import from_dict
        from regard.generation.config import SamplingConfig
        from regard.generation.mbr import MbrConfig

        sampled = {name: value for name, value in sampled.items() if value is not None}
        chosen = {
            "utility": self.mbr,
            "num_candidates": self.mbr_candidates,
            "weighting": self.mbr_weighting,
        }
        chosen = {name: value for name, value in chosen.items() if value is not None}
        return (
            from_dict(SamplingConfig, sampled, origin="sampling options") if self.sample else None,
            from_dict(MbrConfig, chosen, origin="--mbr options") if self.mbr is not None else None,
        )


@dataclass(frozen=True)
class CandidateOptions(SamplingOptions):
    """Sampling, and the check and repair of translations that omit words."""

    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Check the translations with --checker, and translate sentences again whose translation "
            "probably omits a word. Each change is reported. --tokens-output and --attention-output contain "
            "the translation and the probabilities before and after.",
            rich_help_panel=_PANEL,
        ),
    ] = False
    checker: CheckerOption = None
    check_threshold: Annotated[float | None, setting(f"{REPAIR}:threshold", rich_help_panel=_PANEL)] = None
    check_strategies: Annotated[
        list[str] | None,
        setting(f"{REPAIR}:strategies", note="The option may be repeated.", rich_help_panel=_PANEL),
    ] = None
    check_weight: Annotated[float | None, setting(f"{REPAIR}:weight", rich_help_panel=_PANEL)] = None
    check_max_loss: Annotated[float | None, setting(f"{REPAIR}:max_loss", rich_help_panel=_PANEL)] = None

    def repair_config(self) -> "RepairConfig":
        """Return the settings of the repair.

        Raises:
            UsageError: If a flag is given without --check, or --check or --mbr coverage without --checker.
            ConfigError: If a setting is invalid; names it.
        """
        from regard.config import from_dict
        from regard.generation.repair_candidates import RepairConfig

        flags: dict[str, Any] = {name: getattr(self, f"check_{name}") for name in _SETTINGS}
        require_flag("--check", self.check, {f"check_{name}": value for name, value in flags.items()})
        by_coverage = self.mbr == "coverage"
        if self.check and (self.sample or self.mbr is not None):
            raise UsageError("--check repairs translations of beam search: leave out --sample and --mbr")
        if (self.check or by_coverage) and self.checker is None:
            flag = "--check" if self.check else "--mbr coverage"
            raise UsageError(
                f"{flag} needs a model of good translations: give its directory with --checker; "
                "`regard check --save-checker DIR` trains one"
            )
        require_flag("--check or --mbr coverage", self.check or by_coverage, {"checker": self.checker})
        settings = {name: value for name, value in flags.items() if value is not None}
        return from_dict(RepairConfig, settings, origin="--check options")

    def checked(
        self,
        loaded: "BaseTranslator",
        options: Mapping[str, Any],
        configs: "tuple[SamplingConfig | None, MbrConfig | None]",
        fertilities: Mapping[str, tuple[float, float]],
    ) -> "BaseTranslator":
        """Return a translator with the settings, which checks its translations if --check is given.

        Raises:
            UsageError: If the translator does not support one of them.
            DataError: If the checker cannot be read.
        """
        config = self.repair_config()
        if self.checker is None:
            return loaded.with_search(options, *configs, fertilities)
        from regard.api.loading import load_checker
        from regard.generation.repair import RepairingTranslator

        judge = load_checker(self.checker)
        if not self.check:
            return loaded.with_search(options, *configs, fertilities, judge)
        return RepairingTranslator.wrap(loaded.with_search(options, *configs, fertilities), judge, config)

    def report_repairs(self, results: "Iterator[Translation]") -> "Iterator[Translation]":
        """Yield the results with a message for each changed translation, and the totals at the end."""
        from regard.generation.repair import RepairSummary

        config = self.repair_config()
        summary = RepairSummary(config.threshold)
        for result in results:
            summary.add(result.repair)
            if result.repair is not None and result.repair.changed:
                print_message(_describe(result.number, result.repair, result.text, config.threshold))
            yield result
        print_message(str(summary))


def _describe(line: int, record: "LineRepair", text: str, threshold: float) -> str:
    """Return a message about a changed translation: the omitted words, both texts and their probabilities."""
    pairs = zip(record.before.source_words, record.before.omitted, strict=True)
    words = ", ".join(f"{word} ({share:.2f})" for word, share in pairs if share >= threshold)
    return (
        f"line {line} is repaired ({record.strategy}): {words} probably omitted; probability of an omission "
        f"{record.before.omission:.2f} before, {record.after.omission:.2f} after\n"
        f"  - {record.text_before}\n  + {text}"
    )

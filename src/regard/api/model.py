"""`regard.load`: a trained model, or an ensemble, that translates and scores text.

model = regard.load("runs/first")
t = model.translate("Ein Hund läuft.")
t.plot()
"""

import dataclasses
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from regard.api.arguments import as_list, for_each, sentences, terms_line
from regard.api.fertilities import Wanted, fertility_line
from regard.api.found import Looked, scored, translated
from regard.api.loading import load_models, search_settings
from regard.api.phrases import is_phrase_based, load_phrase_model, no_probability, phrase_search
from regard.api.result import TranslationResult
from regard.config import from_dict
from regard.data.text import TextPair
from regard.decoding.by_hand import check_bounded
from regard.decoding.config import SamplingConfig, SearchConfig
from regard.decoding.mbr import MbrConfig
from regard.decoding.pairs import KeptPair
from regard.decoding.phrases import PhraseTranslator
from regard.decoding.scoring import score_lines
from regard.decoding.translate import Line, Translator
from regard.errors import DataError, UsageError
from regard.models.base import TranslationModel
from regard.smt.model import PhraseModel

__all__ = ["Model", "load"]


def load(
    *folders: Path | str,
    device: str = "auto",
    precision: str = "float32",
    settings: Sequence[str] = (),
    tokenized: bool = False,
    **search: Any,
) -> "Model":
    """Load a trained model; several make an ensemble.

    Args:
        folders: Model folders, as `regard train` leaves them.
        device: `auto` (a GPU if there is one), `cpu`, `cuda`, `cuda:1`...
        precision: What products are made in: `float32`; `bfloat16` or, on a CPU, `int8`: faster.
        settings: Other settings than those it was trained with, as `model.attention.contexts=0`.
        tokenized: Whether all text is tokenised as the training text is, and taken as it stands; else the
            punctuation of plain text is set apart where the training text is tokenised.
        search: Search settings by name in the place of the model's own: `beam`, `length_penalty`,
            `coverage_penalty`, `no_repeat_ngram`, `max_length_ratio`, `batch` (sentences at once)...; all of
            them stand under `[search]` in `regard config`. `layer`, `head` (or `heads`) and `shift` choose
            the attention that word links, maps and replaced unknown words come from (`[search.alignment]`).

    Raises:
        UsageError: if no folder is given, models of an ensemble do not fit each other, or the precision is
            not known or not for this model.
        CheckpointError: if a folder is missing or broken; names the file.
        ConfigError: if a setting is wrong; names it.
        DeviceError: if the device is not there, or has no exact products of 8-bit integers.
    """
    if not folders:
        raise UsageError("regard.load() needs a model folder: regard.load('runs/first')")
    for folder in folders:
        if not isinstance(folder, str | Path):
            raise UsageError(
                f"regard.load({folder!r}): expected folders, one after the other, for an ensemble"
            )
    paths = [Path(folder) for folder in folders]
    if is_phrase_based(paths):
        if settings:
            raise UsageError(f"settings: not for phrase-based models; {paths[0]} is one")
        phrases, config = load_phrase_model(paths)
        if tokenized:
            phrases = dataclasses.replace(phrases, text=phrases.text.as_written())
        return Model(tuple(paths), phrases, phrases.text, phrase_search(config.search, search))
    model, text, base = load_models(paths, device, precision, settings)
    text = text.as_written() if tokenized else text
    return Model(tuple(paths), model, text, search_settings(base, search))


@dataclass(frozen=True, eq=False)
class Model:
    """A trained model, or an ensemble of some. Threads may share it: their calls wait for one another.

    Attributes:
        folders: Where it came from.
        model: The PyTorch module; or a phrase-based system, which has none and scores no translations.
        text: How its two sides are written.
        search: How it searches, unless told otherwise.
    """

    folders: tuple[Path, ...]
    model: TranslationModel | PhraseModel
    text: TextPair
    search: SearchConfig
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock, init=False)

    # A text is an iterable of texts, too.
    @overload
    def translate(  # pyright: ignore[reportOverlappingOverload]
        self,
        text: str,
        *,
        fertilities: Wanted | None = None,
        prefix: str = "",
        terms: Sequence[str] = (),
        sample: bool | Mapping[str, Any] = False,
        mbr: str | Mapping[str, Any] | None = None,
        look: Looked = "source",
        **search: Any,
    ) -> TranslationResult: ...

    @overload
    def translate(
        self,
        text: Iterable[str],
        *,
        fertilities: Wanted | Sequence[Wanted | None] | None = None,
        prefix: str | Sequence[str] = "",
        terms: Sequence[str] | Sequence[Sequence[str]] = (),
        sample: bool | Mapping[str, Any] = False,
        mbr: str | Mapping[str, Any] | None = None,
        look: Looked = "source",
        **search: Any,
    ) -> list[TranslationResult]: ...

    def translate(
        self,
        text: str | Iterable[str],
        *,
        fertilities: Any = None,
        prefix: Any = "",
        terms: Any = (),
        sample: bool | Mapping[str, Any] = False,
        mbr: str | Mapping[str, Any] | None = None,
        look: Looked = "source",
        **search: Any,
    ) -> TranslationResult | list[TranslationResult]:
        """Translate a sentence, or several at once.

        Args:
            text: A sentence; or some, whose translations come as a list in their order.
            fertilities: The most attention that words may receive, for models that bound it: `{"Hund": 1}`
                for a word wherever it stands, or a list of a number for each word in turn (none leaves the
                model's own). `(least, most)` asks for attention too. Of several sentences: the first form for
                all, or a list of either form (or none) for each.
            prefix: What the translation must start with; of several sentences one for all, or a list.
            terms: Words and phrases that it must hold; of several sentences the same for all, or a list of
                lists.
            sample: Draw from the model instead of searching for the best: true, or `temperature`, `top_k`,
                `top_p` and `seed` by name. `nbest` are drawn.
            mbr: Of the beam, or of samples, give the translation that is best on average if any of them may
                be right (minimum Bayes risk): `bleu`, `chrf` or `rep`; or `utility`, `candidates` and
                `weights` by name, see `regard.decoding.mbr`.
            look: `all` looks at the encoder's and the decoder's attention to themselves too, where the model
                is one Transformer.
            search: Search settings for this call, by name, such as `beam`, `nbest`, `layer` and `head`; see
                `load`. A beam is made as wide as `nbest` unless it is given.

        Returns:
            A result, or a list of as many as there are sentences. In a list a sentence that is refused (too
            long) has a result that says so in `refused`.

        Raises:
            DataError: if a single sentence is refused; says why.
            UsageError: if an argument does not fit the text or the model.
            ConfigError: if a search setting is wrong; names it.
        """
        if look not in ("source", "all"):
            raise UsageError(f"look={look!r}: expected 'source' or 'all'")
        single = isinstance(text, str)
        texts = sentences([text] if single else text, "text")
        lines = self._lines(texts, single, fertilities, prefix, terms)
        if isinstance(self.model, PhraseModel):
            if look == "all":
                raise UsageError(
                    f"look='all': {self.folders[0]} is phrase-based: it has no attention to itself"
                )
            if sample or mbr:
                raise UsageError(f"sample and mbr: not for phrase-based models; {self.folders[0]} is one")
            neural, translator = None, PhraseTranslator(self.model, self._search(search))
        else:
            neural = self.model
            translator = self._translator(neural, search, sample, mbr)
        with self._lock:
            step = translator.search.batch.block
            blocks = [lines[start : start + step] for start in range(0, len(lines), step)]
            results = [
                translated(neural, self.text, each, look)
                for block in blocks
                for each in translator.block(block)
            ]
        if single and results[0].refused:
            raise DataError(f"the text is refused: {results[0].refused}")
        return results[0] if single else results

    @overload
    def score(  # pyright: ignore[reportOverlappingOverload]
        self, source: str, target: str | TranslationResult, **search: Any
    ) -> TranslationResult: ...

    @overload
    def score(
        self, source: Iterable[str], target: Iterable[str | TranslationResult], **search: Any
    ) -> list[TranslationResult]: ...

    def score(
        self,
        source: str | Iterable[str],
        target: str | TranslationResult | Iterable[str | TranslationResult],
        **search: Any,
    ) -> TranslationResult | list[TranslationResult]:
        """What the model thinks of a translation that is given, or of several.

        Args:
            source: A sentence, or some.
            target: Its translation, or those of each. Results of `translate` are scored with the tokens that
                were generated; a text is segmented again, which may give other ones.
            search: Search settings by name; the length and the coverage penalty make the score, `layer`,
                `head` and `shift` choose the attention of the links.

        Returns:
            A result, or a list of as many as there are sentences, with the translations given as their text.

        Raises:
            DataError: if a single sentence is refused (empty, too long); says why.
            UsageError: if there are not as many translations as sentences, or the model is phrase-based.
            ConfigError: if a search setting is wrong; names it.
        """
        if isinstance(self.model, PhraseModel):
            raise no_probability(self.folders[0])
        single = isinstance(source, str)
        if single != isinstance(target, str | TranslationResult):
            raise UsageError("source and target: expected two texts, or two lists of texts")
        sources = sentences([source] if single else source, "source")
        targets = as_list([target] if single else target, "target")
        if len(sources) != len(targets):
            raise UsageError(f"{len(sources)} sources and {len(targets)} targets; expected as many")
        pairs = [self._pair(*pair) for pair in zip(sources, targets, strict=True)]
        settings = self._search(search)
        with self._lock:
            found = list(score_lines(self.model, self.text, pairs, settings))
        results = [scored(self.text, pair, one, settings) for pair, one in zip(pairs, found, strict=True)]
        if single and results[0].refused:
            raise DataError(f"the translation cannot be scored: {results[0].refused}")
        return results[0] if single else results

    def _pair(self, source: str, target: Any) -> tuple[str, str] | KeptPair:
        """A pair to score, with the tokens of a result."""
        if not isinstance(target, TranslationResult):
            return source, sentences([target], "target")[0]
        read = target.source_tokens[: len(target.source_tokens) - len(self.text.sink)]
        return KeptPair(source, target.text, read if source == target.source else None, target.tokens)

    def _search(self, options: dict[str, Any], least: int = 1) -> SearchConfig:
        """The settings of a call, the beam as wide as what is returned or compared unless it is given."""
        if isinstance(self.model, PhraseModel):
            return phrase_search(self.search, options)
        nbest = options.get("nbest")
        wanted = max(least, nbest) if isinstance(nbest, int) else least
        if wanted > 1 and options.get("beam") is None:
            options = {**options, "beam": max(self.search.beam, wanted)}
        return search_settings(self.search, options) if options else self.search

    def _translator(
        self,
        model: TranslationModel,
        options: dict[str, Any],
        sample: bool | Mapping[str, Any],
        mbr: str | Mapping[str, Any] | None,
    ) -> Translator:
        """What searches, draws or compares, as a call asks."""
        sampling = choice = None
        if sample:
            given = dict(sample) if isinstance(sample, Mapping) else {}
            sampling = from_dict(SamplingConfig, given, where="sample")
        if mbr:
            given = dict(mbr) if isinstance(mbr, Mapping) else {"utility": mbr}
            choice = from_dict(MbrConfig, given, where="mbr")
        settings = self._search(options, 1 if choice is None else choice.candidates)
        return Translator(model, self.text, settings, sampling, mbr=choice)

    def _lines(self, texts: list[str], single: bool, fertilities: Any, prefix: Any, terms: Any) -> list[Line]:
        """The sentences with what is asked of each."""
        if fertilities is not None:
            check_bounded(self.model, self.text, str(self.folders[0]))
        if isinstance(terms, str):
            raise UsageError(f"terms={terms!r}: expected a list of words and phrases")
        terms = as_list(terms, "terms")
        alike = single or fertilities is None or isinstance(fertilities, Mapping)
        wanted = for_each(fertilities, alike, len(texts), "fertilities")
        prefixes = for_each(prefix, single or isinstance(prefix, str), len(texts), "prefix")
        asked = for_each(terms, single or all(isinstance(term, str) for term in terms), len(texts), "terms")
        return [
            Line(
                number,
                text,
                sentences([before], "prefix")[0],
                fertility_line(text, self.text.source, bounds),
                terms_line(phrases),
            )
            for number, (text, before, bounds, phrases) in enumerate(
                zip(texts, prefixes, wanted, asked, strict=True), 1
            )
        ]

    def __repr__(self) -> str:
        """Where it came from."""
        return f"Model({', '.join(repr(str(folder)) for folder in self.folders)})"

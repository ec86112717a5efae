"""The configuration of the data of a run: its text, tokenizers, vocabularies and fertilities."""

from regard.config import configclass, option
from regard.data.fertility import FertilityConfig
from regard.text.corpus import CorpusConfig
from regard.text.tokenizers.base import TOKENIZERS, TokenizerConfig, check_joint_tokenizers
from regard.text.tokenizers.words import WordsConfig

__all__ = ["DataConfig"]


def _vocab_size_option(side: str, other: str) -> int | None:
    return option(
        default=None,
        help=f"Maximum size of the {side} vocabulary, without special symbols, by decreasing frequency. With "
        f"`shared_vocab`: size of the common vocabulary, equal to `{other}_vocab_size`. Default: no limit.",
        ge=1,
        le=10_000_000,
    )


@configclass
class DataConfig:
    """Corpora, tokenizers and vocabularies.

    Relative paths start at the current directory.
    """

    cache_dir: str | None = option(
        default=None,
        help="Directory of the preprocessed data. Default: `prepared/NAME` in the current directory for a "
        "config file `NAME.toml`.",
    )
    train: tuple[CorpusConfig, ...] = option(help="Training corpora, one table per corpus.", min_length=1)
    valid: CorpusConfig = option(
        help="Validation corpus, required. All of it is used: it has no `sampling_weight`. Pairs with more "
        "than max(`max_length`, 1024) tokens on a side are dropped. `source_prefix` is prepended for every "
        "validation metric."
    )
    test: CorpusConfig | None = option(
        default=None,
        help="Corpus that `regard report` uses instead of data.valid, without `source_prefix`; it has no "
        "`sampling_weight`. It is preprocessed, but not used in training.",
    )
    source_tokenizer: TokenizerConfig = option(default=WordsConfig, help="Source tokenizer.")
    target_tokenizer: TokenizerConfig = option(default=WordsConfig, help="Target tokenizer.")
    source_vocab_size: int | None = _vocab_size_option("source", "target")
    target_vocab_size: int | None = _vocab_size_option("target", "source")
    min_frequency: int = option(
        default=1,
        help="Minimum frequency of a token in the training text. Rarer tokens are unknown.",
        ge=1,
        le=1_000_000_000,
    )
    shared_vocab: bool = option(
        default=False,
        help='Use one vocabulary for source and target, as model.tie_embeddings = "all" requires.',
    )
    max_length: int = option(
        default=200,
        help="Maximum number of tokens in a source or target sentence. Training pairs with longer sentences "
        "are dropped.",
        ge=1,
        le=100_000,
    )
    fertility: FertilityConfig | None = option(
        default=None,
        help="Maximum amount of attention that each source token may receive, which attention `constrained` "
        "requires. Other kinds of attention use only the sink.",
    )

    def __post_init__(self) -> None:
        """Check that the settings of source and target are compatible."""
        if TOKENIZERS.part_of(self.source_tokenizer).serves_both_sides:
            # The options are given once. The dataclass is frozen.
            object.__setattr__(self, "target_tokenizer", self.source_tokenizer)
        check_joint_tokenizers(self.source_tokenizer, self.target_tokenizer)
        for name, corpus in (("valid", self.valid), ("test", self.test)):
            if corpus is not None and corpus.sampling_weight != 1:
                raise ValueError(f"{name}.sampling_weight: the whole text is used: remove this key")
        if self.shared_vocab and self.source_vocab_size != self.target_vocab_size:
            raise ValueError(
                "shared_vocab requires the same value for source_vocab_size and target_vocab_size"
            )
        if (
            getattr(self.target_tokenizer, "prefix", "")
            and self.target_tokenizer is not self.source_tokenizer
        ):
            # Translations would have to be generated with the prefix.
            raise ValueError(
                "target_tokenizer.prefix: a prefix is prepended to source lines only: remove this key"
            )
        for side in ("source", "target"):
            tokenizer = getattr(self, f"{side}_tokenizer")
            sized = self.shared_vocab or getattr(self, f"{side}_vocab_size") is not None
            if sized and TOKENIZERS.part_of(tokenizer).has_vocabulary:
                raise ValueError(
                    f"{side}_tokenizer.kind = {tokenizer.kind!r} has its own vocabulary: remove shared_vocab "
                    f"and {side}_vocab_size"
                )

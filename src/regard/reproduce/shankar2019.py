"""Tables 1 to 3 of Shankar & Sarawagi (2019): translation, inflection and alignment."""

from regard.reproduce.tables import Row, Table, TableMetric

__all__ = ["SHANKAR2019_TABLES"]

PERPLEXITY = TableMetric("perplexity", "PPL", higher_is_better=False)
BEAMS = (TableMetric("bleu-4", "BLEU, beam 4"), TableMetric("bleu-10", "BLEU, beam 10"))
ACCURACY = TableMetric("accuracy", "accuracy")
EDITS = TableMetric("edits", "edits per word", higher_is_better=False)
AER = (TableMetric("aer", "AER", higher_is_better=False), TableMetric("one-minus-aer", "1 - AER"))

# Perplexity, and BLEU at beam sizes 4 and 10. The paper labels "vi-en" as IWSLT14, but the data are IWSLT15.
_PUBLISHED = {
    "Soft": {
        "de-en": (9.61, 28.6, 28.5),
        "en-de": (10.68, 24.2, 24.2),
        "en-vi": (10.27, 26.6, 26.4),
        "vi-en": (8.30, 24.7, 24.6),
        "ja-en": (12.46, 18.9, 18.5),
    },
    "Sparse": {
        "de-en": (9.85, 28.4, 28.0),
        "en-de": (10.89, 23.4, 23.3),
        "en-vi": (10.13, 26.6, 26.1),
        "vi-en": (8.48, 24.2, 23.9),
        "ja-en": (14.18, 17.5, 16.8),
    },
    "Variational": {"de-en": (None, 29.8, 29.8), "en-de": (None, 25.2, 25.3)},
    "Prior-Joint": {
        "de-en": (8.47, 29.7, 29.6),
        "en-de": (8.72, 25.4, 25.3),
        "en-vi": (9.67, 27.4, 27.3),
        "vi-en": (7.57, 25.7, 25.6),
        "ja-en": (10.00, 20.6, 20.2),
    },
    "Postr-Joint": {
        "de-en": (8.51, 29.8, 29.7),
        "en-de": (8.60, 25.6, 25.4),
        "en-vi": (9.11, 27.6, 27.4),
        "vi-en": (7.34, 25.9, 25.8),
        "ja-en": (9.96, 20.5, 20.3),
    },
    "Mono-Postr-Joint": {
        "de-en": (8.23, 30.0, 29.9),
        "en-de": (8.45, 25.7, 25.6),
        "en-vi": (9.52, 27.6, 27.3),
        "vi-en": (7.14, 25.9, 25.6),
        "ja-en": (9.98, 20.7, 20.5),
    },
    "Prox-Postr-Joint": {
        "de-en": (8.26, 29.8, 29.7),
        "en-de": (8.52, 25.6, 25.5),
        "en-vi": (9.59, 27.5, 27.3),
        "vi-en": (7.26, 25.9, 25.9),
        "ja-en": (9.78, 20.9, 20.5),
    },
    "Fusedmax (ours)": {},
    "Prior-Joint with the remainder (ours)": {},
    "Postr-Joint with the remainder (ours)": {},
}
RECIPES = {
    "Soft": "soft",
    "Sparse": "sparse",
    "Variational": "variational",
    "Prior-Joint": "prior",
    "Postr-Joint": "posterior",
    "Mono-Postr-Joint": "monotonic",
    "Prox-Postr-Joint": "proximity",
    "Fusedmax (ours)": "fusedmax",
    "Prior-Joint with the remainder (ours)": "prior-remainder",
    "Postr-Joint with the remainder (ours)": "posterior-remainder",
}


def _row(label: str) -> Row:
    names = [metric.name for metric in (PERPLEXITY, *BEAMS)]
    printed = {
        pair: {name: value for name, value in zip(names, numbers, strict=True) if value is not None}
        for pair, numbers in _PUBLISHED[label].items()
    }
    return Row(label, RECIPES[label], published=printed)


SHANKAR2019_TABLE1 = Table(
    "shankar2019-table1",
    "Shankar & Sarawagi (2019), Table 1: translation",
    "shankar2019",
    (PERPLEXITY, *BEAMS),
    tuple(_row(label) for label in _PUBLISHED),
)

SHANKAR2019_TABLE2 = Table(
    "shankar2019-table2",
    "Shankar & Sarawagi (2019), Table 2: inflection",
    "shankar2019",
    (ACCURACY, EDITS),
    tuple(
        Row(
            label,
            f"inflection-{recipe}",
            published={"de_noun": {"accuracy": noun}, "de_verb": {"accuracy": verb}} if noun and verb else {},
        )
        for label, recipe, noun, verb in (
            ("Soft", "soft", 85.50, 94.91),
            ("Hard-Mono", "hard", 85.65, 95.31),
            ("Prior-Joint", "prior", 85.81, 95.52),
            ("Postr-Joint", "posterior", 85.88, 95.5),
            ("Mono-Postr-Joint", "monotonic", 86.87, 95.71),
            ("Prox-Postr-Joint", "proximity", 85.81, 95.4),
            ("Wu & Cotterell (2019), exact (ours)", "exact", None, None),
            ("Wu & Cotterell (2019), exact, monotonic (ours)", "exact-monotonic", None, None),
        )
    ),
    text_kind="tables",
    has_sizes=False,
)

SHANKAR2019_TABLE3 = Table(
    "shankar2019-table3",
    "Shankar & Sarawagi (2019), Table 3: alignment (the paper reports 1 - AER on other data)",
    "shankar2019",
    AER,
    tuple(
        Row(
            label,
            RECIPES[label],
            published={"de-en": {"aer": 100 * (1 - value), "one-minus-aer": 100 * value}} if value else {},
        )
        for label, value in (
            ("Soft", 0.449),
            ("Prior-Joint", 0.502),
            ("Postr-Joint", 0.583),
            ("Prior-Joint with the remainder (ours)", None),
            ("Postr-Joint with the remainder (ours)", None),
        )
    ),
    text_kind="gold",
    published_pair="de-en",
)

SHANKAR2019_TABLES = (SHANKAR2019_TABLE1, SHANKAR2019_TABLE2, SHANKAR2019_TABLE3)

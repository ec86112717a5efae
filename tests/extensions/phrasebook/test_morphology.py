"""Tests of German and English inflection against grammar tables (Duden; Quirk et al.), and of the lexicon."""

import gzip
from pathlib import Path

import pytest

from regard.extensions.phrasebook import morphology
from regard.extensions.phrasebook.lexicon import lexicon

DATA = Path(__file__).parents[3].parent / "shared" / "data" / "inflection"

DECLENSIONS = {  # endings: masculine, feminine, neuter, plural
    # guter Wein, gute Milch, gutes Bier, gute Weine
    morphology.STRONG: "er en em en | e e er er | es es em en | e e en er",
    # der gute Wein, die gute Milch, das gute Bier, die guten Weine
    morphology.WEAK: "e en en en | e e en en | e e en en | en en en en",
    # kein guter Wein, keine gute Milch, kein gutes Bier, keine guten Weine
    morphology.MIXED: "er en en en | e e en en | es es en en | en en en en",
}


@pytest.mark.parametrize("declension", DECLENSIONS)
def test_adjectives_follow_the_three_declensions(declension):
    for column, row in enumerate(DECLENSIONS[declension].split("|")):
        forms = [morphology.adjective_form("gut", declension, column, case) for case in range(4)]
        assert forms == ["gut" + ending for ending in row.split()]


def test_articles_follow_the_tables():
    table = "der den dem des | die die der der | das das dem des | die die den der"
    assert " | ".join(" ".join(row) for row in morphology.DEFINITE_FORMS) == table
    assert morphology.ein_word("mein")[morphology.MASCULINE] == ("mein", "meinen", "meinem", "meines")
    assert morphology.ein_word("euer")[morphology.FEMININE] == ("eure", "eure", "eurer", "eurer")
    assert morphology.ein_word("unser")[morphology.NEUTER] == ("unser", "unser", "unserem", "unseres")
    assert morphology.der_word("dies")[morphology.NEUTER] == ("dieses", "dieses", "diesem", "dieses")


NOUNS = """
    Mann Mann Mann Mannes | Männer Männer Männern Männer
    Junge Jungen Jungen Jungen | Jungen Jungen Jungen Jungen
    Herr Herrn Herrn Herrn | Herren Herren Herren Herren
    Auto Auto Auto Autos | Autos Autos Autos Autos
    Lehrer Lehrer Lehrer Lehrers | Lehrer Lehrer Lehrern Lehrer
    Name Namen Namen Namens | Namen Namen Namen Namen
"""


@pytest.mark.parametrize("line", NOUNS.strip().splitlines())
def test_noun_declension_matches_the_grammar(line):
    singular, plural = (tuple(number.split()) for number in line.split("|"))
    forms = {noun.lemma: noun.forms for table in lexicon().nouns.values() for noun in table.items}
    assert forms[singular[0]] == (singular, plural)


CONJUGATIONS = """
    spielen | spiele spielst spielt spielen spielt spielen | spielte spieltest spielte spielten | spiel
    arbeiten | arbeite arbeitest arbeitet arbeiten arbeitet arbeiten | arbeitete arbeitetest | arbeite
    öffnen | öffne öffnest öffnet öffnen öffnet öffnen | öffnete öffnetest öffnete öffneten | öffne
    lernen | lerne lernst lernt lernen lernt lernen | lernte lerntest lernte lernten lerntet | lern
    reisen | reise reist reist reisen reist reisen | reiste reistest reiste reisten reistet | reise
    nehmen nimmt nahm genommen | nehme nimmst nimmt nehmen nehmt nehmen | nahm nahmst nahm nahmen | nimm
    lesen liest las gelesen | lese liest liest lesen lest lesen | las lasest las lasen last lasen | lies
    halten hält hielt gehalten | halte hältst hält halten haltet halten | hielt hieltest hielt | halte
    laden lädt lud geladen | lade lädst lädt laden ladet laden | lud ludest lud luden ludet luden | lade
    finden findet fand gefunden | finde findest findet finden findet finden | fand fandest fand | finde
    wissen weiß wusste gewusst | weiß weißt weiß wissen wisst wissen | wusste wusstest wusste wussten | -
"""


@pytest.mark.parametrize("line", CONJUGATIONS.strip().splitlines())
def test_verb_conjugation_matches_the_grammar(line):
    parts, present, preterite, imperative = (field.split() for field in line.split("|"))
    forms = morphology.conjugate(parts)
    assert list(forms.present) == present
    assert list(forms.preterite[: len(preterite)]) == preterite
    assert imperative in ([forms.imperative], ["-"])


def test_weak_participles_have_ge_only_before_a_stressed_stem():
    participles = {"machen": "gemacht", "antworten": "geantwortet", "besuchen": "besucht"}
    participles |= {"reparieren": "repariert", "erinnern": "erinnert", "übernachten": "übernachtet"}
    assert {verb: morphology.conjugate([verb]).participle for verb in participles} == participles


def test_english_endings_follow_the_spelling_rules():
    plurals = {"cat": "cats", "box": "boxes", "lady": "ladies", "boy": "boys", "watch": "watches"}
    assert {noun: morphology.regular_plural(noun) for noun in plurals} == plurals
    assert morphology.english_verb(["study"])[:5] == ("study", "studies", "studied", "studied", "studying")
    assert morphology.english_verb(["plan"])[:5] == ("plan", "plans", "planned", "planned", "planning")
    assert morphology.english_verb(["lie", "lay", "lain"])[:5] == ("lie", "lies", "lay", "lain", "lying")
    assert morphology.english_verb(["have", "had", "had"])[:5] == ("have", "has", "had", "had", "having")
    assert morphology.english_verb(["use"])[:5] == ("use", "uses", "used", "used", "using")


def test_the_article_depends_on_the_sound_of_the_next_word():
    vowels = ("apple", "egg", "honest", "umbrella", "ice")
    consonants = ("book", "university", "young", "useful", "well-known")
    assert {morphology.article(word) for word in vowels} == {"an"}
    assert {morphology.article(word) for word in consonants} == {"a"}


def _rows(*names):
    for path in (DATA / name for name in names):
        if not path.exists():
            pytest.skip(f"{path} is missing")
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield line.rstrip("\n").split("\t")


def test_noun_tables_agree_with_wiktionary():
    known = {}
    for lemma, features, form in _rows(*(f"de_noun.{part}.tsv.gz" for part in ("train", "dev", "test"))):
        known.setdefault((lemma, features), set()).add(form)
    checked = 0
    for noun in (noun for table in lexicon().nouns.values() for noun in table.items):
        if noun.lemma == "Bank":
            continue  # Banken (financial institutions) and Bänke (benches)
        for number, label in enumerate(("singular",) if noun.mass else ("singular", "plural")):
            for case, name in enumerate(("nominative", "accusative", "dative", "genitive")):
                forms = known.get((noun.lemma, f"case={name},number={label}"))
                if forms:
                    # Genitives in -es and in -s are both correct.
                    ours = noun.forms[number][case].replace("es", "s")
                    assert ours in {form.replace("es", "s") for form in forms}
                    checked += 1
    assert checked > 50


def test_verb_forms_agree_with_unimorph():
    tenses = {"IND;PRS": "present", "IND;PST": "preterite"}
    persons = ("1;SG", "2;SG", "3;SG", "1;PL", "2;PL", "3;PL")
    verbs = [verb for table in lexicon().verbs.values() for verb in table.items if not verb.prefix]
    conjugations = {verb.forms.infinitive: verb.forms for verb in verbs}
    checked = 0
    for lemma, form, features in _rows("sigmorphon2017-de.train-high.gz", "sigmorphon2017-de.dev.gz"):
        part_of_speech, _, rest = features.partition(";")
        tense, person = rest[:7], rest[8:]
        if lemma not in conjugations or not part_of_speech.startswith("V"):
            continue
        if tense in tenses and person in persons:
            # Both du lasest and du last, du schlosst and du schlossest are in use.
            ours = getattr(conjugations[lemma], tenses[tense])[persons.index(person)]
            assert form.replace("est", "st") == ours.replace("est", "st"), features
            checked += 1
        elif features == "V.PTCP;PST":
            assert form == conjugations[lemma].participle
            checked += 1
    assert checked > 20


def test_verbs_and_adjectives_select_classes_that_have_nouns():
    words = lexicon()
    verbs = [verb for table in words.verbs.values() for verb in table.items]
    classes = {kind for verb in verbs for kind in (*verb.subjects, *verb.objects)} | words.describing.keys()
    assert classes <= {*words.nouns, "es"}
    assert {feature for verb in verbs for feature in verb.features} <= set(
        "stative passive manner durative preterite dwelling distant local".split()
    )


def test_expressions_link_each_english_word_to_words_of_the_expression():
    for table in lexicon().expressions.values():
        for expression in table.items:
            assert len(expression.links) == len(expression.english)
            assert {i for links in expression.links for i in links} <= set(range(len(expression.german)))

"""Tests of the tables of the lexicon: the entries refer to each other, and the links to their words."""

from regard.extensions.phrasebook.lexicon import lexicon


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

/* Marks of words in which a detector found an error, shared by the report and the served page. The background and the
 * underline become stronger with the probability, and omissions, additions and repetitions have underlines of their
 * own, so that the marks differ without color. `check` is a sentence of `CoverageCheck.to_dict()`. */
"use strict";

const regardMarks = (() => {
  /**
   * The errors: their names and, where a check has a probability for each word, the side of the words and the field.
   * Words of the others are among the mismatches of a check, on either side; an unrelated translation has none.
   */
  const KINDS = {
    omission: { side: "source", field: "omitted", name: "omitted", tip: "Source words that are not translated, according to the detector." },
    addition: { side: "target", field: "added", name: "added", tip: "Target words that translate nothing in the source, according to the detector." },
    repetition: { side: "target", field: "repeated", name: "repeated", tip: "Target words that repeat others, without a repetition in the source, according to the detector." },
    number: { name: "changed number", tip: "Numbers without a counterpart in the other text, according to the detector." },
    name: { name: "changed name", tip: "Names without a counterpart in the other text, according to the detector." },
    negation: { name: "lost negation", tip: "Negations without a counterpart in the other text, according to the detector." },
    markup: { name: "changed markup", tip: "Addresses, placeholders and tags without a counterpart in the other text, according to the detector." },
    unrelated: { name: "unrelated", tip: "The translation is that of another sentence, according to the detector." },
  };
  const SIDES = ["source", "target"];
  const TEXTS = { source: "source", target: "translation" };

  function percent(p) {
    return `${p > 0 && p < 0.005 ? "< 1" : p < 1 && p > 0.995 ? "> 99" : Math.round(100 * p)} %`;
  }

  /** Return the adverb for errors with at least this probability. */
  function adverb(threshold) {
    return threshold < 0.5 ? "possibly" : "probably";
  }

  /** Return the words of one side as the detector splits the text. */
  function words(check, side) {
    // The server counts code points, JavaScript counts UTF-16 code units.
    const letters = [...check[TEXTS[side]]];
    return check[`${side}_words`].map(([start, end]) => letters.slice(start, end).join(""));
  }

  /** Return the probabilities of an error for the words of a side, empty without any. */
  function values(check, kind, side) {
    if (KINDS[kind].field) return side === KINDS[kind].side ? check[KINDS[kind].field] || [] : [];
    const mismatches = (check.mismatches || []).filter((one) => one.error === kind && one.side === side);
    return mismatches.length ? check[`${side}_words`].map(([start, end]) =>
      Math.max(0, ...mismatches.filter((one) => one.start < end && start < one.end).map((one) => one.probability))) : [];
  }

  /** Return the probability of an error for the whole sentence, 0 if the detector does not find it. */
  function sentence(check, kind) {
    return check.probabilities[kind] ?? 0;
  }

  /** Return the expected number of wrong words, by which sentences with equal probabilities are sorted. */
  function expected(check) {
    return Object.values(KINDS).flatMap(({ field }) => check[field] || []).reduce((sum, p) => sum + p, 0);
  }

  /** Return the errors of the sentence from a probability on as [kind, probability], in decreasing order. */
  function errors(check, threshold) {
    return Object.keys(KINDS).map((kind) => [kind, sentence(check, kind)])
      .filter(([, p]) => p >= threshold).sort((a, b) => b[1] - a[1]);
  }

  /**
   * List the words with an error from a probability on, in decreasing order; empty without one. Every word of an
   * unrelated translation has at least the probability of this error, so only words with a higher one are listed.
   */
  function listed(check, kind, threshold) {
    const floor = KINDS[kind].field ? sentence(check, "unrelated") + 0.001 : 0;
    return SIDES.flatMap((side) => {
      const own = words(check, side);
      return values(check, kind, side).map((p, i) => [own[i], p]);
    }).filter(([, p]) => p >= threshold && p > floor)
      .sort((a, b) => b[1] - a[1]).map(([word, p]) => `${word} ${percent(p)}`).join(", ");
  }

  /**
   * Return for each displayed word the largest value of the detector's words that it contains, null without one.
   * The words of a system and those of a detector split the same text at different places.
   */
  function spread(shown, own, numbers) {
    const found = shown.map(() => null), owner = [];
    let text = "";
    shown.forEach((word, i) => {
      const letters = word.replace(/\s+/gu, "").toLowerCase();
      for (let k = 0; k < letters.length; k++) owner.push(i);
      text += letters;
    });
    let from = 0;
    own.forEach((word, i) => {
      const letters = word.toLowerCase();
      const at = text.indexOf(letters, from);
      // A word that was changed by a tokenizer is skipped; a distant one is probably another occurrence.
      if (at < 0 || at - from > 40) return;
      from = at + letters.length;
      for (let k = at; k < from; k++) found[owner[k]] = Math.max(found[owner[k]] ?? 0, numbers[i]);
    });
    return found;
  }

  /** Return for each word of one side its most probable error as [kind, probability], null below the threshold. */
  function find(check, side, shown, threshold) {
    const found = shown.map(() => null), own = words(check, side);
    for (const kind of Object.keys(KINDS)) {
      const numbers = values(check, kind, side);
      if (!numbers.length) continue;
      // A sentence with a probable error but no such word gets a weak mark at its most probable word.
      const from = KINDS[kind].field && sentence(check, kind) >= threshold ? Math.min(threshold, Math.max(...numbers)) : threshold;
      spread(shown, own, numbers).forEach((p, i) => {
        if (p !== null && p >= from && (!found[i] || p > found[i][1])) found[i] = [kind, p];
      });
    }
    return found;
  }

  /** Return the class of the marks of an error: words that the translation changes have the same one. */
  function look(kind) {
    return ["number", "name", "negation", "markup"].includes(kind) ? "changed" : kind;
  }

  /** Mark an element; its tooltip has the probability and the detector. */
  function mark(element, kind, probability, detector, note = "") {
    // Scores of a detector from a plugin may lie outside of the range of probabilities.
    const p = Math.min(Math.max(probability, 0), 1);
    element.classList.add("mark", look(kind));
    element.style.setProperty("--p", p.toFixed(3));
    element.title = `${KINDS[kind].name} with probability ${percent(p)} (detector: ${detector})${note}`;
    return element;
  }

  /** Return the samples of the legend; `make(name, attributes, text)` creates an element. The last four errors look alike. */
  function samples(make, detector) {
    const shown = [...Object.entries(KINDS).filter(([, { field }]) => field).map(([kind, { name }]) => [kind, name]),
      ["number", "changed number, name, negation or tag"]];
    return shown.flatMap(([kind, name]) => [mark(make("span", {}, name), kind, 0.8, detector), " "]);
  }

  return { KINDS, adverb, errors, expected, find, listed, look, mark, percent, samples, sentence, words };
})();

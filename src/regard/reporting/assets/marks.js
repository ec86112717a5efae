/* Marks of words that a detector found to be omitted, added or repeated, shared by the report and the served page.
 * The background and the underline become stronger with the probability, and each error has an underline of its
 * own, so that the marks differ without color. `check` is a sentence of `CoverageCheck.to_dict()`. */
"use strict";

const regardMarks = (() => {
  /** The errors: the side of the words, and their names. */
  const KINDS = {
    omission: { side: "source", name: "omitted", tip: "Source words that are probably not translated." },
    addition: { side: "target", name: "added", tip: "Target words that probably translate nothing in the source." },
    repetition: { side: "target", name: "repeated", tip: "Target words that probably repeat others, without a repetition in the source." },
  };
  /** Return the probabilities of an error for the words of its side, empty if the detector gives none. */
  const words = (check, kind) => check.words[kind] || [];
  /** Return the probability of an error for the whole sentence, 0 if the detector does not find it. */
  const sentence = (check, kind) => check.sentence[kind] || 0;
  const percent = (p) => `${p > 0 && p < 0.005 ? "< 1" : p < 1 && p > 0.995 ? "> 99" : Math.round(100 * p)} %`;

  /**
   * Return for each displayed word the largest value of the detector's words that it contains, null without one.
   * The words of a system and those of a detector split the same text at different places.
   */
  function spread(shown, own, values) {
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
      for (let k = at; k < from; k++) found[owner[k]] = Math.max(found[owner[k]] ?? 0, values[i]);
    });
    return found;
  }

  /** Return for each word of one side its most probable error as [kind, probability], null below the threshold. */
  function find(check, side, shown, threshold) {
    const found = shown.map(() => null);
    for (const [kind, own] of Object.entries(KINDS)) {
      const values = words(check, kind);
      if (own.side !== side || !values.length) continue;
      spread(shown, check[`${side}_words`], values).forEach((p, i) => {
        if (p !== null && p >= threshold && (!found[i] || p > found[i][1])) found[i] = [kind, p];
      });
    }
    return found;
  }

  /** Mark an element; its tooltip has the probability and the detector. */
  function mark(element, kind, probability, detector, note = "") {
    element.classList.add("mark", kind);
    element.style.setProperty("--p", probability.toFixed(3));
    element.title = `${KINDS[kind].name} with probability ${percent(probability)} (detector: ${detector})${note}`;
    return element;
  }

  return { KINDS, find, mark, percent, sentence, words };
})();

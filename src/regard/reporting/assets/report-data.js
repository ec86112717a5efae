/* The data of the report's page: its JSON, its attention maps, decompressed on demand, and its tooltip texts. */
"use strict";

const reportData = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const LEVEL = 0.05; // of significance
  const inflated = new Map();

  /** The lines that the reader has reviewed. */
  const reviews = regardShared.ticks("reviewed", data.sentences.map((sentence) =>
    [sentence.source_words, sentence.reference_words, ...sentence.systems.map((own) => own.target_words)]));
  /** Explanations of the numbers of whole systems, shown as tooltips. */
  const TIPS = {
    system: "Name of the model or of the file of translations.",
    bleu: "BLEU: precision of the n-grams of up to 4 words against the reference, with a penalty for short translations. 0 to 100; higher is better.",
    chrf: "chrF: F-score of the character n-grams of up to 6 characters against the reference; recall counts twice. 0 to 100; higher is better.",
    rep: "REP: repeated word pairs and doubled words that the reference does not have, per 100 reference words (Malaviya et al., 2018). Lower is better.",
    drop: "DROP: percentage of the source words with a link to the reference that have no link to the translation (Malaviya et al., 2018). Lower is better.",
    aer: "AER: alignment error rate. Word links computed from attention are compared with gold links, in percent; 0 is perfect agreement. Lower is better.",
    perplexity: "Perplexity of the references per target token: exp of the mean negative log-probability. Lower is better.",
    accuracy: "Accuracy of the next token under forced decoding: percentage of time steps whose most probable token is the reference token. Higher is better.",
    entropy: "Entropy of attention in nats, the mean over time steps and heads under forced decoding. 0: all attention on one source token; larger values: attention spread over many tokens.",
    support: "Support of attention: mean number of source tokens with a weight above exactly 0 per time step and head, under forced decoding.",
    coverage: "Coverage of the source: for each source word the attention received over all time steps, at most 1, averaged over words and sentences. 100 %: every word received a total of at least 1. Forced decoding. A word with little attention may still be translated, and an omitted word may receive much.",
    MB: "Size of the model file in megabytes.",
    "training, min": "Training time in minutes.",
    "sentences/s": "Translated sentences per second.",
    interval: "95 % interval of the score, by bootstrap resampling of the sentences.",
    difference: "Difference from the first system and its two-sided p-value, by paired bootstrap resampling; with more than two systems, adjusted for their number by Holm's method. Colored where p < 0.05: green is better, red is worse.",
    training: "Perplexity of the training text and of the validation text after each number of optimizer steps. Lower is better; the vertical axis is logarithmic.",
  };
  const SCORE_GLOSSES = { bleu: "n-grams", chrf: "character n-grams", rep: "repeated words", drop: "dropped words", aer: "wrong word links" };
  /** Explanations of the numbers of single sentences. */
  const SENTENCE_TIPS = {
    line: "Line number in the source file, counted from 1.",
    length: "Number of words of the source sentence.",
    bleu: "Sentence BLEU: n-gram precision against the reference, smoothed for short sentences. 0 to 100; higher is better.",
    chrf: "Sentence chrF: F-score of character n-grams against the reference. 0 to 100; higher is better.",
    rep: "Repetitions in the translation that the reference does not have: repeated word pairs count 1, doubled words count 2. Lower is better.",
    drop: "Dropped words: number of source words with a link to the reference but not to the translation. Lower is better.",
    wrong: "Number of dropped source words and repeated target words, by comparison with the reference. Lower is better.",
    entropy: "Entropy of attention in nats, the mean over the time steps of the system's own translation. 0: all attention on one source token.",
    coverage: "Coverage of the source by the system's own translation: for each source word the attention received, at most 1, averaged over words. Between 0 and 1. A word with little attention may still be translated, and an omitted word may receive much.",
    log_prob: "Mean log-probability of a token of the system's own translation, in nats. 0 is a probability of 1; values closer to 0 mean a more confident model.",
    weight: "Attention weights are between 0 and 1; the weights of one time step add up to at most 1.",
    difference: "Difference of two attention weights, between −1 and 1.",
    check: "Largest probability of an error. The worst sentences have the largest values.",
    omission: "Probability that the translation omits something of the source.",
    addition: "Probability that the translation adds something that the source does not have.",
    repetition: "Probability that the translation repeats something that the source has only once.",
    unrelated: "Probability that the translation is that of another sentence.",
    number: "Largest probability that a number without a counterpart in the other text is an error.",
    name: "Largest probability that a name without a counterpart in the other text is an error.",
    negation: "Largest probability that a negation without a counterpart in the other text is an error.",
    markup: "Largest probability that an address, placeholder or tag without a counterpart in the other text is an error.",
    again: "Repeated word pairs and doubled words, with their excess over the reference.",
    excessive: "Source words whose attention, summed over all time steps, exceeds their fertility; without fertilities, twice the mean of the sentence.",
    sink: "Attention of the sink, summed over all time steps: an extra position that receives the attention not given to any source word.",
  };

  // With several systems, Holm's method adjusts the p-values of each score for the number of comparisons with the first.
  for (const { systems } of data.metrics) {
    const compared = systems.filter((score) => score && score.difference !== null).sort((a, b) => a.p - b.p);
    compared.reduce((least, score, i) => {
      score.adjusted = Math.min(1, Math.max(least, (compared.length - i) * score.p));
      return score.adjusted;
    }, 0);
  }

  /** Return whether a difference from the first system is significant, and which system is better: 1 this one, -1 the first, 0 neither. */
  function better(score, metric) {
    return score.adjusted < LEVEL ? ((score.difference > 0) !== metric.lower ? 1 : -1) : 0;
  }

  /** Return a promise of the decompressed bytes of a chunk of maps. */
  function chunk(number) {
    if (!inflated.has(number)) {
      const text = document.getElementById(`maps-${number}`).textContent;
      const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
      inflated.set(number, new Response(stream).arrayBuffer().then((buffer) => new Uint8Array(buffer)));
    }
    return inflated.get(number);
  }

  /** Return the words of a sentence as the tokenizers of a system split them. */
  function words(sentence, system, side) {
    return sentence.systems[system][side] || sentence[side];
  }

  /** Return the map of a sentence: { rows, columns, sink, weights: a Float32Array }, or null. */
  async function map(sentence, system, view) {
    const own = sentence.systems[system][view];
    if (!own) return null;
    const [rows, columns] = own.shape;
    const bytes = await chunk(own.at[0]);
    const source = words(sentence, system, "source_words");
    return {
      rows: own.rows || (view === "own" ? sentence.systems[system].target_words : words(sentence, system, "reference_words")),
      columns: own.columns || source,
      sink: columns > source.length,
      weights: Float32Array.from(bytes.subarray(own.at[1], own.at[1] + rows * columns), (level) => (level / 255) ** 2),
    };
  }

  /** Return a number with a fixed number of decimals; a dash for a missing number. */
  function shown(value, digits) {
    return value === null || value === undefined ? "–" : value.toFixed(digits).replace("-", "−");
  }

  function signed(value) {
    return `${value > 0 ? "+" : ""}${shown(value, 2)}`;
  }

  return { SCORE_GLOSSES, better, data, element: regardShared.element, map, reviews, words, shown, signed, TIPS, SENTENCE_TIPS };
})();

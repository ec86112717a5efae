/* The summary of the report: which system is better in one sentence, the numbers of wrong sentences in words, the scores
 * with their intervals as bars, and a card for each model. */
"use strict";

const reportSummary = (() => {
  const { better, data, element, shown, signed, SCORE_GLOSSES } = reportData;
  const VERBS = {
    omission: ["omits", "omit"], drop: ["drops", "drop"],
    repetition: ["repeats", "repeat"], rep: ["repeats", "repeat"],
    addition: ["adds", "add"],
    number: ["changes a number", "change a number"],
    name: ["changes a name", "change a name"],
    negation: ["loses a negation", "lose a negation"],
    markup: ["changes an address, placeholder or tag", "change an address, placeholder or tag"],
    unrelated: ["is unrelated to the source", "are unrelated to the source"],
  };
  const WORDS = ["omission", "drop", "repetition", "rep", "addition"]; // errors whose verb has the object "a word"
  const TIPS = {
    omission: "Sentences with a source word that is not translated, according to the detector.",
    drop: "Sentences with a source word that is linked to the reference but not to the translation.",
    repetition: "Sentences whose translation repeats a word without a repetition in the source, according to the detector.",
    rep: "Sentences whose translation repeats a word or a pair of words more often than the reference.",
    addition: "Sentences whose translation has a word that translates nothing in the source, according to the detector.",
  };

  const listed = (parts, type = "conjunction") => new Intl.ListFormat("en", { type }).format(parts);
  const named = (system) => element("bdi", { class: `name system-${system % 6}` }, data.systems[system].name);

  /** Return in words how a system compares with the first one; empty if it has no score in common with it. */
  function comparison(system) {
    const compared = data.metrics.map((metric) => ({ ...metric, score: metric.systems[system] }))
      .filter(({ score }) => score && score.difference !== null);
    if (!compared.length) return [];
    const [losses, unclear, gains] = [-1, 0, 1].map((side) => compared.filter((one) => better(one.score, one) === side));
    const values = (scores) => scores.map(({ score }) => score.adjusted);
    const parts = [["better", gains], ["worse", losses]].filter(([, scores]) => scores.length).map(([verb, scores]) =>
      `${verb} in ${listed(scores.map(({ name, score }) => `${name} (${signed(score.difference)})`))}, p ${scores.length > 1 ? "≤" : "="} ${shown(Math.max(...values(scores)), 3)}`);
    const open = unclear.map(({ name }) => name);
    if (!parts.length) return [named(system), ` does not differ significantly in ${listed(open, "disjunction")}, p ≥ ${shown(Math.min(...values(unclear)), 3)}`];
    return [named(system), ` is significantly ${parts.join(", and ")}`, open.length ? `, without a significant difference in ${listed(open, "disjunction")}` : ""];
  }

  /** Return the interval of a score in words; empty for a single sentence, which has none. */
  function interval([low, high]) {
    return low === null ? "" : `${shown(low, 2)} to ${shown(high, 2)}`;
  }

  /** Return one sentence that names the systems that are better than the first one at what, or the scores of a single system. */
  function headline() {
    const others = data.systems.slice(1).map((_, i) => comparison(i + 1)).filter((words) => words.length);
    if (others.length) return ["Compared with ", named(0), ", ", ...others.flatMap((words, i) => [i ? "; " : "", ...words]), "."];
    const scores = data.metrics.filter((metric) => metric.systems[0]).map(({ name, systems: [score] }) =>
      `${name} ${shown(score.value, 2)}${score.interval[0] === null ? "" : ` (${interval(score.interval)})`}`);
    return [named(0), ` has ${listed(scores)}, with 95 % intervals.`];
  }

  /** Return the scores of all systems as bars with their intervals, one figure for each score. */
  function bars() {
    return data.metrics.filter((metric) => metric.systems.some(Boolean)).map((metric) => {
      const largest = Math.max(...metric.systems.flatMap((score) => (score ? [score.value, score.interval[1]] : []))) || 1;
      const rows = metric.systems.map((score, system) => score && element("div", { class: `system-${system % 6}` },
        element("dt", {}, named(system)), element("dd", {}, bar(score, largest), element("strong", {}, shown(score.value, 2)),
          element("span", { class: "soft" }, interval(score.interval)))));
      const gloss = `${SCORE_GLOSSES[metric.key]}, ${metric.lower ? "lower" : "higher"} is better`;
      return element("figure", { class: "card" }, element("figcaption", {}, metric.name, " ", element("span", { class: "soft" }, gloss)), element("dl", {}, ...rows));
    });
  }

  function bar(score, largest) {
    const made = element("span", { class: "bar-track", "aria-hidden": "true" });
    const [low, high] = score.interval;
    for (const [name, value] of [["value", score.value], ["low", low ?? score.value], ["high", high ?? score.value]])
      made.style.setProperty(`--${name}`, value / largest);
    return made;
  }

  /** Return the number of sentences of a system with each error, as [key of its figure, number, smallest value]. */
  function counts(system, marking) {
    const detected = marking.by === "detector";
    const keys = detected ? Object.keys(VERBS).filter((key) => key in regardMarks.KINDS) : ["drop", "rep"];
    return keys.map((key) => [key, data.figures.find((figure) => figure.key === key)]).filter(([, figure]) => figure)
      .map(([key, figure]) => {
        const from = detected ? marking.from : 1;
        return [key, figure.values[system].filter((value) => value !== null && value >= from).length, from];
      });
  }

  /** Return one line of the summary; `pick(key, system, from)` shows the sentences of a number. */
  function verdict(system, marking, pick) {
    const total = data.sentences.length, all = counts(system, marking);
    const found = all.filter(([, count]) => count);
    const name = data.systems.length > 1 ? [named(system), ": "] : [];
    const line = element("p", { class: `verdict system-${system % 6}` }, ...name);
    const adverb = marking.by === "detector" ? `${regardMarks.adverb(marking.from)} ` : "";
    const whole = total.toLocaleString("en");
    if (!found.length) {
      const verbs = all.filter(([key]) => WORDS.includes(key)).map(([key]) => VERBS[key][0]);
      line.append(`${name.length ? "none" : "None"} of the ${whole} sentences ${adverb}${verbs.join(" or ")} a word.`);
      return line;
    }
    found.forEach(([key, count, from], i) => {
      const number = element("button", { type: "button", class: "tally", title: `${TIPS[key] || regardMarks.KINDS[key].tip} Click to list them.` }, count.toLocaleString("en"));
      number.addEventListener("click", () => pick(key, system, from));
      const noun = !WORDS.includes(key) ? "" : i ? " one" : " a word";
      line.append(i ? ", " : "", number, i ? " " : ` of ${whole} sentences ${adverb}`, VERBS[key][count === 1 ? 0 : 1], noun);
    });
    line.append(".");
    return line;
  }

  /** Return how the errors are counted. */
  function basis(marking) {
    if (marking.by === "detector") return ["By the detector ", element("b", {}, data.check.detector),
      `, from a probability of ${regardMarks.percent(marking.from)}; some of its marks are wrong.`];
    return ["By comparison with the reference",
      data.figures.some((figure) => figure.key === "drop") ? " and its word links." : ". Dropped words are not counted, because there is no word aligner."];
  }

  /** Return the lines of the summary. */
  function verdicts(marking, pick) {
    const [first, ...others] = data.systems.map((_, i) => verdict(i, marking, pick));
    // On a phone, the lines of many systems would hide the sentences.
    const folded = others.length > 1 && matchMedia("(max-width: 40rem)").matches;
    return [first, ...(folded ? [element("details", {}, element("summary", {}, "Errors of the other systems"), ...others)] : others),
      element("p", { class: "soft" }, ...basis(marking), " A number lists its sentences.")];
  }

  /** Return the date, the title and the text of the report as one line. */
  function about() {
    const total = data.sentences.length, count = `${total.toLocaleString("en")} sentence${total === 1 ? "" : "s"}`;
    const day = data.date && new Date(`${data.date}T12:00`).toLocaleDateString("en", { year: "numeric", month: "long", day: "numeric" });
    return [day ? `${day} · ` : "", count, " of ", element("bdi", {}, data.source), ", references: ", element("bdi", {}, data.reference),
      data.notes.length ? " · " : "", data.notes.length ? element("a", { href: "#scores" }, `${data.notes.length} note${data.notes.length > 1 ? "s" : ""}`) : ""];
  }

  /** Return the card of each model: its properties with tooltips. */
  function cards() {
    return data.systems.map((system, i) => element("article", { class: `card model system-${i % 6}` },
      element("h3", {}, element("bdi", {}, system.name)),
      element("dl", {}, ...system.card.map(([name, value, tip]) =>
        element("div", { title: tip }, element("dt", {}, name), element("dd", {}, element("bdi", {}, value)))))));
  }

  return { about, bars, cards, headline, verdicts };
})();

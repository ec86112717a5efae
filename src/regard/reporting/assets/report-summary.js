/* The summary of the report: the number of wrong sentences in words, and a card for each model. */
"use strict";

const reportSummary = (() => {
  const { data, element } = reportData;
  const VERBS = {
    omission: ["omits", "omit"], drop: ["drops", "drop"],
    repetition: ["repeats", "repeat"], rep: ["repeats", "repeat"],
    addition: ["adds", "add"],
    unrelated: ["is unrelated to the source", "are unrelated to the source"],
  };
  const TIPS = {
    omission: "Sentences with a source word that is not translated, according to the detector.",
    drop: "Sentences with a source word that is linked to the reference but not to the translation.",
    repetition: "Sentences whose translation repeats a word without a repetition in the source, according to the detector.",
    rep: "Sentences whose translation repeats a word or a pair of words more often than the reference.",
    addition: "Sentences whose translation has a word that translates nothing in the source, according to the detector.",
    unrelated: "Sentences whose translation is that of another sentence, according to the detector.",
  };

  /** Return the number of sentences of a system with each error, as [key of its figure, number, smallest value]. */
  function counts(system, marking) {
    const detected = marking.by === "detector";
    const keys = detected ? ["omission", "repetition", "addition", "unrelated"] : ["drop", "rep"];
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
    const name = data.systems.length > 1 ? [element("bdi", { class: "name" }, data.systems[system].name), ": "] : [];
    const line = element("p", { class: `verdict system-${system % 6}` }, ...name);
    const adverb = marking.by === "detector" ? `${regardMarks.adverb(marking.from)} ` : "";
    const whole = total.toLocaleString("en");
    if (!found.length) {
      const verbs = all.filter(([key]) => key !== "unrelated").map(([key]) => VERBS[key][0]);
      line.append(`${name.length ? "none" : "None"} of the ${whole} sentences ${adverb}${verbs.join(" or ")} a word.`);
      return line;
    }
    found.forEach(([key, count, from], i) => {
      const number = element("button", { type: "button", class: "tally", title: `${TIPS[key]} Click to list them.` }, count.toLocaleString("en"));
      number.addEventListener("click", () => pick(key, system, from));
      const noun = key === "unrelated" ? "" : i ? " one" : " a word";
      line.append(i ? ", " : "", number, i ? " " : ` of ${whole} sentences ${adverb}`, VERBS[key][count === 1 ? 0 : 1], noun);
    });
    line.append(".");
    return line;
  }

  /** Return how the errors are counted. */
  function basis(marking) {
    if (marking.by === "detector") return ["By the detector ", element("b", {}, data.check.detector),
      `: sentences with a probability of at least ${regardMarks.percent(marking.from)}. The detector does not use references; some of its marks are wrong. `];
    return ["By comparison with the reference",
      data.figures.some((figure) => figure.key === "drop") ? " and its word links. " : ". Dropped words are not counted, because there is no word aligner. "];
  }

  /** Return the lines of the summary. */
  function verdicts(marking, pick) {
    return [...data.systems.map((_, i) => verdict(i, marking, pick)),
      element("p", { class: "soft" }, ...basis(marking), "Click a number to list its sentences.")];
  }

  /** Return the date, the title and the text of the report as one line. */
  function about() {
    const count = `${data.sentences.length.toLocaleString("en")} sentences`;
    const day = data.date && new Date(`${data.date}T12:00`).toLocaleDateString("en", { year: "numeric", month: "long", day: "numeric" });
    return [day ? `${day} · ` : "", count, " of ", element("bdi", {}, data.source), ", references: ", element("bdi", {}, data.reference)];
  }

  /** Return the card of each model: its properties with tooltips. */
  function cards() {
    return data.systems.map((system, i) => element("article", { class: `card model system-${i % 6}` },
      element("h3", {}, element("bdi", {}, system.name)),
      element("dl", {}, ...system.card.map(([name, value, tip]) =>
        element("div", { title: tip }, element("dt", {}, name), element("dd", {}, element("bdi", {}, value)))))));
  }

  return { about, cards, verdicts };
})();

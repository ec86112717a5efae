/* One sentence of the report: its texts with the errors marked; when opened, its attention and the errors. */
"use strict";

const reportSentence = (() => {
  const { data, element, map, reviews, words, shown, SENTENCE_TIPS } = reportData;
  // The display settings of maps, which stay the same from sentence to sentence.
  const look = { view: "own", links: true, first: 0, second: 1 };
  const drawable = data.systems.map((system, i) => i).filter((i) => data.systems[i].attends);
  if (drawable.length > 1) [look.first, look.second] = drawable;
  const COUNT_TIPS = {
    repeated: "Number of words that the translation repeats more often than the reference.",
    dropped: "Number of source words with a link to the reference but not to the translation.",
  };
  // The marks of words: those of the detector, or those that compare with the reference.
  const marking = { by: data.check ? "detector" : "reference", from: data.check ? data.check.threshold : 0 };

  /** Return words as text; `marks` maps a word's index to [class, tooltip], or to a function that marks the word. */
  function line(tokens, marks) {
    const made = element("bdi", { dir: "auto" });
    tokens.forEach((word, i) => {
      made.append(i ? " " : "");
      const mark = marks && marks.get(i);
      const finish = typeof mark === "function" ? mark : (one) => one;
      const [kind, tip] = Array.isArray(mark) ? mark : ["", null];
      made.append(finish(element("span", { class: `word ${kind}`.trim(), title: tip, "data-word": i }, word)));
    });
    return made;
  }

  /** Return the marks of a detector for the words of one side; the source may have marks for several systems. */
  function detected(systems, side, shown) {
    const by = new Map();
    for (const system of systems) {
      const { check } = system.own;
      if (check) regardMarks.find(check, side, shown, marking.from).forEach((found, i) => {
        if (found) by.set(i, [...(by.get(i) || []), { ...system, kind: found[0], p: found[1] }]);
      });
    }
    return new Map([...by].map(([i, all]) => {
      const [worst] = [...all].sort((a, b) => b.p - a.p);
      const note = systems.length > 1 ? `: ${all.map((one) => `${one.name} ${regardMarks.percent(one.p)}`).join(", ")}` : "";
      return [i, (word) => owned(regardMarks.mark(word, worst.kind, worst.p, data.check.detector, note), all.map((one) => one.system), systems.length)];
    }));
  }

  /** Add a dot in the color of each system with the error to a word of the source that several systems share. */
  function owned(word, owners, count) {
    if (count > 1) for (const system of owners) word.append(element("span", { class: `owner system-${system % 6}` }));
    return word;
  }

  /** Return the legend of these dots. */
  function owners() {
    return element("p", { class: "soft owners" }, "A dot at a marked source word has the color of a system that drops the word: ",
      ...data.systems.map((system, i) => element("span", { class: `system-${i % 6}` }, element("span", { class: "owner" }), " ", element("bdi", {}, system.name))));
  }

  function sourceMarks(sentence) {
    const by = new Map();
    if (marking.by === "detector")
      return detected(sentence.systems.map((own, system) => ({ own, system, name: data.systems[system].name })), "source", sentence.source_words);
    sentence.systems.forEach((own, system) => {
      // Indices refer to the common words; systems with other source words list dropped words in `remarks`.
      if (!own.source_words) for (const i of own.dropped || []) by.set(i, [...(by.get(i) || []), system]);
    });
    return new Map([...by].map(([i, owners]) => [i, (word) => {
      word.classList.add("dropped");
      word.title = `dropped by ${owners.map((system) => data.systems[system].name).join(", ")}`;
      return owned(word, owners, sentence.systems.length);
    }]));
  }

  function outputMarks(own) {
    if (marking.by === "detector") return detected([{ own }], "target", own.target_words);
    return new Map((own.repeated || []).map((i) => [i, ["repeated", `repeated: ${repetitions(own)}`]]));
  }

  /** Return the repetitions of a translation with their excess over the reference. */
  function repetitions(own) {
    return (own.again || []).map(([text, times, doubled]) => `${text}${doubled ? " doubled" : ""} (+${times})`).join(", ");
  }

  /** Return the scores of a translation as tags. */
  function tags(index, system) {
    const own = data.sentences[index].systems[system].check;
    const errors = own && marking.by === "detector" ? regardMarks.errors(own, marking.from) : [];
    const probable = errors.map(([kind, p]) => {
      const tag = element("span", { class: "tag" }, `${regardMarks.KINDS[kind].name} ${regardMarks.percent(p)}`);
      regardMarks.mark(tag, kind, p, data.check.detector).title = `${SENTENCE_TIPS[kind]} Detector: ${data.check.detector}.`;
      return tag;
    });
    if (own && own.note) probable.push(element("span", { class: "tag" }, data.check.notes[own.note]));
    const found = data.figures.filter((figure) => ["bleu", "chrf", "rep", "drop"].includes(figure.key));
    return probable.concat(found.map((figure) => {
      const value = figure.values[system][index];
      if (value === null) return null;
      const bad = (figure.key === "rep" || figure.key === "drop") && value > 0;
      if ((figure.key === "rep" || figure.key === "drop") && !bad) return null;
      if (!bad) return element("span", { class: "tag", title: SENTENCE_TIPS[figure.key] }, `${figure.name} ${shown(value, figure.digits)}`);
      // The number of words with this mark; the figures weight repetitions, and are those of the table of scores.
      const kind = figure.key === "rep" ? "repeated" : "dropped", count = (data.sentences[index].systems[system][kind] || []).length;
      const text = `${kind} ${count || shown(value, figure.digits)}`;
      // Next to the marks of a detector, the tag has no color, because other words are marked.
      return marking.by === "detector" ? element("span", { class: "tag", title: `${COUNT_TIPS[kind]} These words are not marked here.` }, `by reference: ${text}`)
        : element("span", { class: `tag ${kind}`, title: COUNT_TIPS[kind] }, text);
    })).filter(Boolean);
  }

  function row(name, content, extra, attributes) {
    return element("div", { class: "row", ...attributes }, element("dt", {}, element("bdi", {}, name)),
      element("dd", {}, content, ...(extra || [])));
  }

  /** Return the card of a sentence, closed. */
  function card(index) {
    const sentence = data.sentences[index];
    const texts = element("dl", {},
      row("source", line(sentence.source_words, sourceMarks(sentence)), [], { class: "row source" }),
      row("reference", line(sentence.reference_words), [], { class: "row reference" }));
    sentence.systems.forEach((own, system) => {
      const output = own.error ? element("em", { class: "soft" }, `not translated: ${own.error}`)
        : own.target_words.length ? line(own.target_words, outputMarks(own)) : element("em", { class: "soft" }, "(empty)");
      texts.append(row(data.systems[system].name, output, [element("span", { class: "tags" }, ...tags(index, system))],
        { class: `row output system-${system % 6}`, "data-system": system }));
    });
    const button = element("button", { class: "button open", type: "button", "aria-expanded": "false" }, drawable.length ? "Attention" : "Words");
    const isReviewed = reviews.ticked.has(sentence.line);
    return element("li", { class: `card sentence ${isReviewed ? "reviewed" : ""}`, id: `s${sentence.line}`, "data-index": index, tabindex: -1 },
      element("div", { class: "head" },
        element("a", { href: `#s${sentence.line}`, class: "number", title: `Link to this sentence. ${SENTENCE_TIPS.line}` }, `#${sentence.line}`),
        element("label", { class: "review" }, element("input", { type: "checkbox", checked: isReviewed }), "reviewed"), button),
      texts);
  }

  // The opened sentence

  function select(name, options, value, change) {
    const chosen = element("select", { class: "field" }, ...options.map(([key, label]) =>
      element("option", { value: key, selected: key === String(value) }, label)));
    chosen.addEventListener("change", () => change(chosen.value));
    return element("label", {}, element("span", {}, name), chosen);
  }

  function toolbar(sentence, redraw) {
    const set = (name, value) => { look[name] = value; redraw(); };
    const views = [
      ["own", "Own translation", "Attention while the system generates its own translation."],
      ["forced", "Reference (forced decoding)", "Attention while the system is forced to produce the reference, so that all systems have the same target words."],
    ].map(([view, label, tip]) => {
      const button = element("button", { class: "button", type: "button", title: tip, "aria-pressed": String(look.view === view) }, label);
      button.addEventListener("click", () => set("view", view));
      return button;
    });
    const bar = element("div", { class: "tools" }, element("div", { class: "views", role: "group", "aria-label": "Target words" }, ...views));
    if (drawable.length > 2) {
      const names = drawable.map((i) => [String(i), data.systems[i].name]);
      bar.append(select("Difference: first system", names, look.first, (value) => set("first", Number(value))),
        select("minus second system", names, look.second, (value) => set("second", Number(value))));
    }
    if (sentence.gold || sentence.systems.some((own) => own.links)) {
      const box = element("input", { type: "checkbox", checked: look.links });
      box.addEventListener("change", () => set("links", box.checked));
      bar.append(element("label", { class: "check", title: "Word links of the aligner, or gold links. A ring marks two linked words." },
        box, element("span", {}, "word links (rings)")));
    }
    bar.append(regardColors.control(element));
    return bar;
  }

  function linksOf(sentence, system) {
    if (!look.links) return [];
    const own = sentence.systems[system];
    return look.view === "own" ? own.links || [] : sentence.gold || own.wanted || [];
  }

  /** List the five source words with the largest weights in a time step. */
  function topWords(found, row) {
    const width = found.columns.length;
    const order = found.columns.map((word, s) => [word, found.weights[row * width + s]])
      .filter(([, weight]) => weight > 0).sort((a, b) => b[1] - a[1]).slice(0, 5);
    return order.length ? order.map(([word, weight]) => `${word} ${regardMap.number(weight)}`).join(", ") : "nothing";
  }

  /** Shade the source words of a card by their attention in a time step; without a map, remove the shades. */
  function tint(card, found, row) {
    card.querySelectorAll(".source .word").forEach((word, s) => {
      const weight = found && s < found.columns.length ? found.weights[row * found.columns.length + s] : 0;
      word.style.boxShadow = weight > 0 ? `inset 0 ${(-0.15 - 1.05 * weight).toFixed(2)}em 0 0 var(--look)` : "";
    });
  }

  function figure(card, name, found, settings, system) {
    const tip = settings.difference ? SENTENCE_TIPS.difference : SENTENCE_TIPS.weight;
    const value = element("p", { class: "value", "aria-live": "polite", title: tip });
    const quiet = () => { value.textContent = settings.difference
      ? "Red: the first system attends more; blue: the second system attends more." : "Point at a cell or choose a time step."; };
    quiet();
    const svg = regardMap.draw({ columns: found.columns, rows: found.rows, weights: found.weights, title: name, ...settings });
    const words = found.rows.length * found.columns.length ? svg : element("p", { class: "soft" }, "no words");
    const marked = system === undefined ? null : card.querySelector(`.output[data-system="${system}"]`);
    const step = (row, column) => {
      const text = column === null ? topWords(found, row)
        : `${found.columns[column]} ${regardMap.number(found.weights[row * found.columns.length + column])}`;
      value.replaceChildren(element("bdi", {}, found.rows[row]), " ← ", element("bdi", {}, text));
      if (!settings.difference && look.same) tint(card, found, row);
      if (marked && look.view === "own") marked.querySelectorAll(".word").forEach((word, t) => word.classList.toggle("now", t === row));
    };
    svg.addEventListener("cell", (event) => {
      if (event.detail) step(event.detail.row, event.detail.column);
      else settle();
    });
    const files = words === svg ? reportExport.figure(svg, `${name} sentence ${card.id.slice(1)}`) : null;
    const steps = select("Time step", [["", "all"], ...found.rows.map((word, t) => [String(t), `${t}: ${word}`])], "", () => settle());
    const chooser = steps.querySelector("select");
    function settle() {
      tint(card, null, 0);
      if (marked) marked.querySelectorAll(".now").forEach((word) => word.classList.remove("now"));
      const row = chooser.value === "" ? null : Number(chooser.value);
      regardMap.highlight(svg, { rows: row === null ? [] : [row] });
      svg.classList.toggle("one-step", row !== null);
      svg.querySelectorAll("rect[data-row]").forEach((cell) => {
        cell.style.opacity = row === null || Number(cell.dataset.row) === row ? "" : "0.25";
      });
      if (row === null) quiet(); else step(row, null);
    }
    svg.addEventListener("pick", (event) => { chooser.value = String(event.detail.row); settle(); });
    return element("figure", { class: "map" }, element("figcaption", {}, element("bdi", {}, name), settings.difference ? null : steps, files),
      regardScroll.watch(element("div", { class: "map-box" }, words)), value);
  }

  /** Return a list of remarks on a system's translation: its errors and its unusual attention. */
  function remarks(sentence, system) {
    const own = sentence.systems[system], source = words(sentence, system, "source_words");
    const listed = (places) => places.map((i) => `${source[i]} ${shown(own.received_attention[i], 2)}`
      + (own.fertility ? ` of ${own.fertility[i] === null ? "∞" : +own.fertility[i].toFixed(2)}` : "")).join(", ");
    const found = [];
    if (own.check) for (const [kind, { name, tip }] of Object.entries(regardMarks.KINDS)) {
      const words = regardMarks.listed(own.check, kind, marking.from);
      if (words) found.push([`${regardMarks.adverb(marking.from)} ${name}`, words, `${tip} With a probability of at least ${regardMarks.percent(marking.from)}, by the detector ${data.check.detector}.`]);
    }
    if (own.source_words) found.push(["source words of this system", source.join(" "), "The tokenizers of this system split the source into these words."]);
    if (own.dropped && own.dropped.length) found.push(["dropped", own.dropped.map((i) => source[i]).join(", "), SENTENCE_TIPS.drop]);
    if (own.again) found.push(["repeated", repetitions(own), SENTENCE_TIPS.again]);
    if (own.excessive && own.excessive.length) found.push([own.fertility ? "more than its fertility" : "more than twice the mean", listed(own.excessive), SENTENCE_TIPS.excessive]);
    if (own.sink !== undefined) found.push(["sink", shown(own.sink, 2), SENTENCE_TIPS.sink]);
    return found.length ? [element("dl", { class: "remarks" }, ...found.map(([name, text, tip]) =>
      element("div", { title: tip }, element("dt", {}, name), element("dd", {}, element("bdi", {}, text)))))] : [];
  }

  /** Draw the details of an opened card; the result of an earlier call that is still loading is discarded. */
  async function open(card) {
    const index = Number(card.dataset.index), sentence = data.sentences[index];
    const call = card.reportCall = (card.reportCall || 0) + 1;
    const found = await Promise.all(data.systems.map((_, system) => map(sentence, system, look.view)));
    if (call !== card.reportCall || !card.isConnected) return;
    const detail = element("div", { class: "detail" });
    if (drawable.length) detail.append(toolbar(sentence, () => open(card)));
    const side = element("div", { class: "maps" });
    found.forEach((own, system) => {
      const name = data.systems[system].name, translation = sentence.systems[system];
      const block = element("div", { class: `of-system system-${system % 6}` });
      if (own) {
        look.same = !translation.source_words;
        const settings = { links: linksOf(sentence, system) };
        if (look.view === "own" && translation.fertility) {
          settings.bounds = own.columns.map((_, i) => translation.fertility[i] ?? null);
          settings.received = [...translation.received_attention, translation.sink ?? 0].slice(0, own.columns.length);
        }
        block.append(figure(card, name, own, settings, system));
      } else if (drawable.length) block.append(element("p", { class: "soft" }, element("bdi", {}, name), " has no attention map for this sentence."));
      else if (found.length > 1) block.append(element("p", { class: "soft small" }, element("bdi", {}, name)));
      block.append(...remarks(sentence, system));
      side.append(block);
    });
    const [first, second] = [found[look.first], found[look.second]];
    if (first && second && look.first !== look.second) side.append(difference(card, first, second));
    detail.append(side);
    card.querySelector(".detail")?.remove();
    card.append(detail);
  }

  function difference(card, first, second) {
    const names = [look.first, look.second].map((i) => data.systems[i].name);
    const found = regardMap.subtract(first, second, names);
    if (found.why) {
      const own = found.side === "translation" && look.view === "own";
      const problem = own ? "The translations differ" : `The systems split the ${found.side} into different words`;
      const advice = own ? ": choose “Reference (forced decoding)” to compare them." : ".";
      return element("p", { class: "soft apart" }, element("bdi", {}, `${problem} (${found.why})`),
        `, so the maps cannot be subtracted${advice}`);
    }
    return element("div", { class: "of-system" }, figure(card, names.join(" − "), found, { difference: true }));
  }

  function close(card) {
    card.reportCall = (card.reportCall || 0) + 1;
    card.querySelector(".detail")?.remove();
    tint(card, null, 0);
  }

  return { card, open, close, marking, owners };
})();

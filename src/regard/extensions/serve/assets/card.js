/* The card of one model for one sentence: words with lines of attention, the attention map, the translations. */
import { checkTags, markWords } from "./check.js";
import { make, weave } from "./weave.js";

const number = (value) => regardMap.number(value);
const SMALLEST = 0.85; // minimum scale of a map; in smaller maps the labels would be unreadable

/** Let a map shrink with its box, so that its last columns are visible; a very wide map is scrolled. */
export function fitted(map) {
  map.style.minWidth = `${SMALLEST * map.getAttribute("width")}px`;
  return map;
}

/** Return the attention map of an answer in the form of `regardMap.subtract`; null without attention. */
export function mapOf(answer, translation) {
  if (translation.word_attention_map === null || !translation.target_words.length) return null;
  const columns = [...answer.source_words, ...(answer.sink ? ["sink"] : [])];
  return { columns, sink: answer.sink, rows: translation.target_words, weights: translation.word_attention_map.flat() };
}

/** Return the properties of a model as tags with tooltips. */
function tags(model) {
  const attention = model.attention === "none" ? "no attention" : `${model.attention} attention`;
  const found = [[attention, "Attention mechanism of the model"]];
  if (model.normalizer) found.push([model.normalizer, "Transformation of attention scores to attention weights"]);
  if (model.fertility) found.push([`fertility: ${model.fertility}`, "Source of the fertilities, the upper bounds of the attention that each source word may receive"]);
  return found.map(([text, tip]) => make("span", { class: "tag", title: tip }, text));
}

/** Return the list of translations as a radio group, in which arrow keys move the selection. */
function ranking(answer, pick, choose) {
  const best = answer.translations[0].score;
  const list = make("ul", { class: "best", role: "radiogroup", "aria-label": "Translations, best first" });
  answer.translations.forEach((one, rank) => {
    const bar = make("i");
    // Scores are length-normalized log-probabilities, so exp of a difference is a ratio to the best translation.
    bar.style.width = `${(100 * Math.exp(Math.min(0, one.score - best))).toFixed(1)}%`;
    const button = make("button", {
      type: "button", role: "radio", "aria-checked": String(rank === pick), tabindex: rank === pick ? 0 : -1,
    }, make("bdi", {}, one.plain || "(empty)"), make("span", { class: "soft", title: SCORE_TIP }, `score ${score(one.score)}`),
    make("span", { class: "bar", title: "exp(score − best score): the score relative to that of the best translation" }, bar));
    button.addEventListener("click", () => choose(rank));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      choose((rank + step + answer.translations.length) % answer.translations.length);
    });
    list.append(make("li", { role: "presentation" }, button));
  });
  return list;
}

const score = (value) => value.toFixed(2).replace("-", "−");
const SCORE_TIP = "Score by which the search ranks translations: log-probability in nats, with the model’s length and coverage penalties. Higher, that is, closer to 0, is better.";
const READING_TIP = "Attention weights between 0 and 1; the five largest of at least 0.05. “Received” is the attention of a source word summed over all target time steps, “at most” its fertility.";

/**
 * Draw a card. `check` has the probable errors of the translation, if it was checked. `held` is the scroll position and focus of the previous card, from its `held()`.
 * The caller must call `placed()` after it has inserted the element into the page.
 */
export function drawCard({ answer, pick, check, model, levels, focus, bend, free, choose, focused, held }) {
  const translation = answer.translations[pick];
  const columns = [...answer.source_words, ...(answer.sink ? ["sink"] : [])];
  const seen = mapOf(answer, translation), hasMap = seen !== null;
  const reading = make("p", { class: "reading", title: READING_TIP });
  let current = focus;

  const woven = weave({
    answer, translation, levels, bend,
    chosen: (next) => show(current && current.side === next.side && current.word === next.word ? null : next),
  });
  const map = hasMap ? regardMap.draw({
    ...seen,
    title: `attention of ${model.name}`,
    bounds: answer.fertility_bounds ? [...answer.fertility_bounds.map((one) => one.upper), ...(answer.sink ? [null] : [])] : null,
  }) : null;

  /** Highlight a word in all views, and describe its attention in words. */
  function show(next) {
    current = next;
    focused(next);
    woven.focus(next);
    if (map) regardMap.highlight(map, next === null ? {} : next.side === "source" ? { columns: [next.word] } : { rows: [next.word] });
    reading.textContent = next === null ? "" : sentenceOf(next);
  }

  function sentenceOf({ side, word }) {
    if (!hasMap) return "";
    const own = side === "source" ? columns[word] : translation.target_words[word];
    const others = side === "source" ? translation.target_words : columns;
    const found = others
      .map((text, place) => [text, side === "source" ? translation.word_attention_map[place][word] : translation.word_attention_map[word][place]])
      .filter(([, share]) => share >= 0.05)
      .sort((a, b) => b[1] - a[1])
      .slice(0, 5)
      .map(([text, share]) => `${text} ${number(share)}`);
    const list = found.length ? found.join(", ") : "nothing";
    if (side === "target") return `${own} ← ${list}`;
    const upper = answer.fertility_bounds && word < answer.fertility_bounds.length ? answer.fertility_bounds[word].upper : null;
    const received = `received ${translation.received_attention[word].toFixed(2)}${upper === null ? "" : ` of at most ${+upper.toFixed(2)}`}`;
    return `${own} → ${list} (${received})`;
  }

  const head = make("div", { class: "card-head" }, make("b", {}, model.name), ...tags(model), ...(check ? checkTags(check) : []));
  if (check) {
    markWords(check, "source", answer.source_words, woven.names.source);
    markWords(check, "target", translation.target_words, woven.names.target);
  }
  if (levels && levels.size) {
    const button = make("button", {
      type: "button", class: "button quiet free", title: "Reset the fertilities of all words to the model’s defaults",
    }, "Reset");
    button.addEventListener("click", free);
    head.append(button);
  }
  const detail = make("div", { class: "detail" });
  const mapBox = make("div", { class: "map-box" });
  if (map) {
    mapBox.append(fitted(map));
    map.addEventListener("cell", (event) => {
      const cell = event.detail;
      if (!cell) show(current);
      else reading.textContent = `${translation.target_words[cell.row]} ← ${columns[cell.column]}: ${number(cell.weight)}`;
    });
    map.addEventListener("pick", (event) => show({ side: "target", word: event.detail.row }));
    const mapHead = make("div", { class: "map-head" }, make("h3", {}, "Attention"), regardColors.control(make));
    detail.append(make("div", {}, mapHead, regardScroll.watch(mapBox)));
  } else {
    const why = translation.word_attention_map === null ? "This model has no attention." : "The translation is empty.";
    detail.append(make("div", {}, make("h3", {}, "Attention"), make("p", { class: "note-text" }, why)));
  }
  detail.append(make("div", {}, make("h3", { title: SCORE_TIP }, "Translations, best first"), ranking(answer, pick, choose)));
  const element = make("article", { class: "card", "aria-label": model.name }, head);
  element.append(make("p", { class: "note-text" }, levels
    ? "Drag the handle of a source word, or use the arrow keys, to adjust the attention that the word receives."
    : "The attention of this model cannot be adjusted: it was trained without fertilities."));
  element.append(woven.element, reading, detail);

  const focusable = () => [...element.querySelectorAll("button, [tabindex]")];
  return {
    element,
    placed() {
      if (held) {
        mapBox.scrollTo(...held.scroll);
        const again = held.focus && element.querySelectorAll(held.focus[0])[held.focus[1]];
        if (again) again.focus({ preventScroll: true });
        held = null;
      }
      if (current && current.word >= (current.side === "source" ? columns : translation.target_words).length) current = null;
      show(current);
    },
    /** Return the scroll position and focus for the next card of the same sentence. */
    held() {
      const active = focusable().find((one) => one === document.activeElement);
      const kinds = [".handle", ".row:not(.target-row) .name", ".target-row .name", ".best button", ".regard-map"];
      const kind = active && kinds.find((one) => active.matches(one));
      const checked = kind === ".best button";
      return {
        scroll: [mapBox.scrollLeft, mapBox.scrollTop],
        focus: !kind ? null : checked ? [".best button[aria-checked=true]", 0]
          : [kind, [...element.querySelectorAll(kind)].indexOf(active)],
      };
    },
  };
}

/* One sentence and its translation: source words above, target words below, lines of attention between them, and
 * handles to adjust fertilities. */
import { FREE, LEVELS } from "./state.js";

/** Return an element with attributes; children that are strings become text, never markup. */
export function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (value !== undefined && value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
  made.append(...children);
  return made;
}

const SVG = "http://www.w3.org/2000/svg";
const FAINT = 0.04; // lines of smaller weights are omitted, because they would only look gray

/** Return a word as a button; `label` is its tooltip and accessible name. */
function word(text, label) {
  const name = make("button", { type: "button", class: "name", "aria-pressed": "false", "aria-label": label, title: label });
  name.append(make("bdi", {}, text));
  return name;
}

/**
 * Return a slider with the five positions of LEVELS; `bend(level)` is called with the chosen position.
 * `own` describes the model's own bound.
 */
function handle(text, level, own, bend) {
  const caption = make("span", { class: "caption" });
  const track = make("span", { class: "track" });
  const knob = make("span", { class: "knob" });
  const last = LEVELS.length - 1;
  for (let i = 0; i <= last; i++) {
    const dot = make("span", { class: "dot" });
    dot.style.top = `${(100 * (last - i)) / last}%`;
    track.append(dot);
  }
  track.append(knob);
  const made = make("div", {
    class: "handle", role: "slider", tabindex: 0, "aria-label": `Fertility of ${text}`, "aria-orientation": "vertical",
    "aria-valuemin": 0, "aria-valuemax": last,
  }, track, caption);
  let shown = level;
  const show = (next) => {
    shown = Math.min(Math.max(next, 0), last);
    const { label } = LEVELS[shown];
    const long = shown === FREE ? `model default${own}` : label;
    caption.textContent = label;
    knob.style.top = `${(100 * (last - shown)) / last}%`;
    made.classList.toggle("bent", shown !== FREE);
    made.setAttribute("aria-valuenow", shown);
    made.setAttribute("aria-valuetext", long);
    made.title = `${text}: ${long}. Fertility: bounds of the attention that the word receives over the whole translation. Drag, or use the arrow keys; Delete resets.`;
  };
  const at = (event) => {
    const box = track.getBoundingClientRect();
    return Math.round((last * (box.bottom - event.clientY)) / box.height);
  };
  made.addEventListener("pointerdown", (event) => {
    made.setPointerCapture(event.pointerId);
    made.focus();
    show(at(event));
    const moved = (next) => show(at(next));
    const stop = (next) => {
      made.removeEventListener("pointermove", moved);
      made.removeEventListener("pointerup", stop);
      made.removeEventListener("pointercancel", stop);
      if (next.type === "pointercancel") show(level);
      else if (shown !== level) bend(shown);
    };
    made.addEventListener("pointermove", moved);
    made.addEventListener("pointerup", stop);
    made.addEventListener("pointercancel", stop);
    event.preventDefault();
  });
  made.addEventListener("keydown", (event) => {
    const to = {
      ArrowUp: shown + 1, ArrowRight: shown + 1, ArrowDown: shown - 1, ArrowLeft: shown - 1, Home: 0, End: last,
      Delete: FREE, Backspace: FREE,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    show(to);
    if (shown !== level) bend(shown);
  });
  show(level);
  return made;
}

/**
 * Draw a sentence with one of its translations.
 * `levels` (word -> level) and `bend(word, level)` are for models with fertilities, otherwise `levels` is null.
 * Returns the element, the elements of the words, `focus({side, word})` and `redraw()`.
 */
export function weave({ answer, translation, levels, bend, chosen }) {
  const columns = [...answer.source_words, ...(answer.sink ? ["sink"] : [])];
  const weights = translation.word_attention_map;
  const source = make("div", { class: "row", role: "group", "aria-label": "Source words" });
  const target = make("div", { class: "row target-row", role: "group", "aria-label": "Target words" });
  const threads = document.createElementNS(SVG, "svg");
  threads.setAttribute("class", "threads");
  threads.setAttribute("aria-hidden", "true");
  const above = columns.map((text, place) => {
    const isSink = place === answer.source_words.length;
    const unknown = answer.unknown_words.includes(place);
    const name = word(text, isSink ? "Sink: an extra position for attention that is not given to any source word"
      : `${text}: show the target words that attend to it${unknown ? ". Unknown word: it has a token that is not in the vocabulary" : ""}`);
    if (unknown) name.classList.add("unknown");
    const box = make("div", { class: isSink ? "word sink" : "word" });
    if (levels && !isSink) {
      const upper = answer.fertility_bounds && answer.fertility_bounds[place].upper;
      const bent = levels.has(place);
      const own = upper === null || bent ? "" : ` (at most ${+upper.toFixed(2)})`;
      box.append(handle(text, bent ? levels.get(place) : FREE, own, (level) => bend(place, level)));
    }
    box.append(name);
    name.addEventListener("click", () => chosen({ side: "source", word: place }));
    source.append(box);
    return name;
  });
  const below = translation.target_words.map((text, place) => {
    const name = word(text, `${text}: show the source words that it attends to`);
    name.addEventListener("click", () => chosen({ side: "target", word: place }));
    target.append(make("div", { class: "word" }, name));
    return name;
  });
  const element = make("div", { class: "weave" }, threads, source, target);
  let focused = null;

  const weight = (row, column) => (weights ? weights[row][column] : 0);

  function redraw() {
    threads.replaceChildren();
    const box = threads.getBoundingClientRect();
    if (!box.width || !weights) return;
    // Long rows wrap, so words have different vertical positions.
    const end = (edge) => (name) => {
      const place = name.getBoundingClientRect();
      return [place.left + place.width / 2 - box.left, place[edge] - box.top];
    };
    const from = above.map(end("bottom")), to = below.map(end("top"));
    to.forEach(([x, y], row) => from.forEach(([start, top], column) => {
      const share = weight(row, column);
      if (share < FAINT) return;
      const path = document.createElementNS(SVG, "path");
      const middle = (top + y) / 2;
      path.setAttribute("d", `M${start} ${top}C${start} ${middle} ${x} ${middle} ${x} ${y}`);
      path.setAttribute("stroke-width", (0.75 + 4.25 * share).toFixed(2));
      const off = focused && focused.word !== (focused.side === "source" ? column : row);
      path.setAttribute("opacity", (off ? 0.05 : 0.12 + 0.73 * share).toFixed(3));
      threads.append(path);
    }));
  }

  /** Highlight a word and the words linked to it by attention; null removes the highlight. */
  function focus(next) {
    focused = next;
    const shade = (names, side, share) => names.forEach((name, place) => {
      const own = next !== null && next.side === side && next.word === place;
      name.setAttribute("aria-pressed", String(own));
      const value = next === null || next.side === side ? 0 : share(place);
      name.style.setProperty("--share", value < FAINT ? 0 : value);
    });
    shade(above, "source", (place) => (next && next.word < below.length ? weight(next.word, place) : 0));
    shade(below, "target", (place) => (next && next.word < above.length ? weight(place, next.word) : 0));
    redraw();
  }

  return { element, names: { source: above, target: below }, focus, redraw };
}

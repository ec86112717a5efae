/* The page: split the text into sentences, translate them, and show the details of one sentence. */
import { beginChecks, checkOf, checkPairs, markSentence } from "./check.js";
import { Refused, models as askModels, separator, split, translate } from "./client.js";
import { drawCard } from "./card.js";
import { drawDifference, shared } from "./difference.js";
import { nameOf, showExamples } from "./examples.js";
import { emptyState, FREE, LEVELS, readState, writeState } from "./state.js";
import { make } from "./weave.js";

const NBEST = 5, PAUSE = 120, KEPT = 2000;
const $ = (name) => document.getElementById(name);

let served = [], limits = {}, checks = null;
let state = emptyState();
let sentences = [];
const answers = new Map(); // request key -> answer, a cache of at most KEPT entries
const shown = [[], []]; // for each side, the answers displayed last: they remain, dimmed, until newer ones arrive
const running = [null, null]; // for each side, the AbortController of the running request
let splitting = null;
let timer = 0;
let focus = null;

const model = (side) => served.find((one) => one.name === state.models[side]);
const sides = () => (state.compare ? [0, 1] : [0]);
/** Return the source language of a model as a code of two or three letters; null if unknown. */
const languageOf = (side) => (/^[a-z]{2,3}(?![a-z])/.exec(model(side).languages[0] || "") || [null])[0];
const levelsOf = (side, place) => state.bent[side].get(place) || new Map();

function keyOf(side, place) {
  const levels = model(side).fertility ? [...levelsOf(side, place)].sort((a, b) => a[0] - b[0]) : [];
  return JSON.stringify([state.models[side], sentences[place].text, levels]);
}

function showStatus(text, wrong = false) {
  $("status").textContent = text;
  $("status").classList.toggle("wrong", wrong);
}

function remember(key, answer) {
  if (answers.size >= KEPT) answers.delete(answers.keys().next().value);
  answers.set(key, answer);
}

/** Split the text into sentences and translate new sentences. */
async function refresh() {
  if (splitting) splitting.abort();
  const controller = (splitting = new AbortController());
  try {
    const found = state.text.trim() ? await split(state.text, languageOf(0), controller.signal) : [];
    if (controller !== splitting) return;
    moveBent(found);
    sentences = found;
  } catch (error) {
    return controller.signal.aborted ? undefined : complain(error, refresh);
  }
  state.sentence = Math.min(state.sentence, Math.max(0, sentences.length - 1));
  if (!sentences.length) showStatus("");
  draw();
  await Promise.all(sides().map(ask));
}

/** Move fertilities and chosen translations with their sentences; drop those of sentences that have changed. */
function moveBent(found) {
  if (!sentences.length) return;
  const before = (place) => (sentences[place] ? sentences[place].text : null);
  for (const kept of [...state.bent, ...state.picks]) {
    const entries = [...kept];
    kept.clear();
    for (const [place, value] of entries) {
      const same = found[place] && found[place].text === before(place);
      const to = same ? place : found.findIndex((one) => one.text === before(place));
      if (to >= 0) kept.set(to, value);
    }
  }
}

/** Request the missing translations of a side; abort its previous request. */
async function ask(side) {
  if (running[side]) running[side].abort();
  const places = sentences.map((_, place) => place).filter((place) => !answers.has(keyOf(side, place)));
  running[side] = null;
  if (!places.length) return;
  const controller = (running[side] = new AbortController());
  const keys = places.map((place) => keyOf(side, place));
  const fertilities = places.flatMap((place, number) => (model(side).fertility
    ? [...levelsOf(side, place)].map(([word, level]) => ({
      sentence: number, word, lower: LEVELS[level].lower, upper: LEVELS[level].upper }))
    : []));
  const began = performance.now();
  try {
    await translate({
      model: state.models[side], texts: places.map((place) => sentences[place].text), num_return: Math.min(NBEST, limits.max_beam_size || 1), fertilities,
      signal: controller.signal,
      each: (number, answer) => {
        if (controller.signal.aborted) return;
        if (answer.error && !answer.source_words) answer.failed = true;
        if (!answer.failed) remember(keys[number], answer);
        shown[side][places[number]] = answer;
        draw();
      },
    });
    if (controller === running[side]) {
      const count = places.length === 1 ? "1 sentence" : `${places.length} sentences`;
      showStatus(`${count} translated in ${Math.round(performance.now() - began)} ms`);
      examine(side);
    }
  } catch (error) {
    if (!controller.signal.aborted) complain(error, () => ask(side));
  } finally {
    if (controller === running[side]) running[side] = null;
    draw();
  }
}

/** Return the sentences with the chosen translations of a side. */
function pairsOf(side) {
  return sentences.flatMap(({ text }, place) => {
    const { answer, fresh } = current(side, place);
    return fresh && answer && !answer.failed && answer.translations.length
      ? [{ source: text, target: picked(side, place, answer).text }] : [];
  });
}

/** Check the chosen translations of a side, and mark their errors. */
async function examine(side) {
  try {
    if (await checkPairs(pairsOf(side))) draw();
  } catch (error) {
    showStatus(`not checked: ${error.message}`, true);
  }
}

function complain(error, again) {
  if (error instanceof Refused && error.retry) {
    showStatus(`${error.message}…`, true);
    clearTimeout(timer);
    timer = setTimeout(again, 1000 * error.retry);
  } else showStatus(error instanceof Refused ? error.message : "the server cannot be reached", true);
}

function later(pause = PAUSE) {
  clearTimeout(timer);
  timer = setTimeout(refresh, pause);
}

/** Store the state in the address. */
function keep() {
  history.replaceState(null, "", writeState(state));
}

function current(side, place) {
  const answer = answers.get(keyOf(side, place));
  if (answer) {
    shown[side][place] = answer;
    return { answer, fresh: true };
  }
  const old = shown[side][place];
  return { answer: old, fresh: Boolean(old && old.failed) };
}

function draw() {
  keep();
  const length = [...state.text].length;
  $("count").textContent = limits.max_characters && length > 0.8 * limits.max_characters
    ? `${length} of ${limits.max_characters} characters` : "";
  $("pane-1").hidden = !state.compare;
  $("compare").setAttribute("aria-pressed", String(state.compare));
  sides().forEach(drawOutput);
  $("look").hidden = !sentences.length;
  $("welcome").hidden = sentences.length > 0;
  showExamples(sentences.length ? [] : model(0).examples, enter);
  if (sentences.length) drawLook();
}

function drawOutput(side) {
  const output = $(`output-${side}`);
  const parts = [];
  let end = 0, before = "";
  sentences.forEach((sentence, place) => {
    const gap = state.text.slice(end, sentence.start);
    end = sentence.end;
    const { answer, fresh } = current(side, place);
    const failed = answer && answer.failed;
    const button = make("span", {
      class: `sentence${fresh ? "" : " waiting"}${failed ? " wrong" : ""}`, role: "button", tabindex: 0,
      "aria-current": String(place === state.sentence), "data-place": place, dir: "auto",
    });
    if (failed) button.append(answer.error);
    else if (answer && answer.translations.length) {
      button.append(...marked(side, place, answer, fresh));
      if (fresh) markSentence(button, checkOf(sentence.text, picked(side, place, answer).text));
    }
    else button.append("…");
    parts.push(before ? separator(gap, before, button.textContent) : gap, button);
    before = button.textContent;
  });
  output.replaceChildren(...parts);
}

const picked = (side, place, answer) =>
  answer.translations[Math.min(state.picks[side].get(place) || 0, answer.translations.length - 1)];

/** Return a translation in which the words are marked that the other model's translation does not contain. */
function marked(side, place, answer, fresh) {
  const { plain: text } = picked(side, place, answer);
  if (!state.compare || !fresh) return [text];
  const other = current(1 - side, place);
  if (!other.fresh || !other.answer || other.answer.failed || !other.answer.translations.length) return [text];
  const ours = text.split(/(\s+)/u), theirs = picked(1 - side, place, other.answer).plain.split(/\s+/u);
  const common = shared(ours.filter((_, i) => i % 2 === 0), theirs);
  return ours.map((part, i) => (i % 2 || common.has(i / 2) ? part : make("mark", { class: "differs" }, part)));
}

const cards = [null, null];

function drawLook() {
  const place = state.sentence;
  const count = sentences.length;
  $("look-title").textContent = count === 1 ? "Sentence" : `Sentence ${place + 1} of ${count}`;
  $("before").disabled = place === 0;
  $("after").disabled = place === count - 1;
  $("before").parentElement.hidden = count === 1;
  const wanted = sides().map((side) => {
    const { answer, fresh } = current(side, place);
    if (!answer || answer.failed || !answer.translations.length) return null;
    const pick = Math.min(state.picks[side].get(place) || 0, answer.translations.length - 1);
    const key = JSON.stringify([keyOf(side, place), place, pick, fresh]);
    const check = fresh ? checkOf(sentences[place].text, picked(side, place, answer).text) : cards[side]?.check;
    // Keep an unchanged card, so that a focused handle keeps its focus and a map its scroll position.
    if (cards[side] && cards[side].answer === answer && cards[side].pick === pick && cards[side].place === place
      && cards[side].check === check) {
      cards[side].key = key;
      cards[side].element.classList.toggle("stale", !fresh);
      return cards[side];
    }
    const before = cards[side];
    const card = drawCard({
      answer, pick, check, model: model(side), levels: model(side).fertility ? levelsOf(side, place) : null,
      focus: focus && focus.place === place && focus.at === side ? focus : null,
      bend: (word, level) => bend(side, place, word, level),
      free: () => bend(side, place, null),
      choose: (rank) => choose(side, place, rank),
      focused: (next) => { focus = next && { ...next, place, at: side }; },
      held: before && before.place === place ? before.held() : null,
    });
    return Object.assign(card, { answer, pick, place, key, check });
  });
  const elements = wanted.filter(Boolean).map((card) => card.element);
  const old = [...$("cards").children];
  if (elements.length !== old.length || elements.some((one, i) => one !== old[i])) $("cards").replaceChildren(...elements);
  $("cards").classList.toggle("two", elements.length > 1);
  wanted.forEach((card, i) => {
    if (card && card !== cards[i]) card.placed();
    cards[i] = card;
  });
  if (wanted.length < 2) cards[1] = null;
  compareMaps(wanted);
}

let compared = "";

/** Draw the difference of the two maps below the cards, unless it has not changed. */
function compareMaps(both) {
  const ready = both.length === 2 && both.every((card) => card && !card.element.classList.contains("stale"));
  const key = ready ? JSON.stringify(both.map((card) => card.key)) : "";
  if (key === compared) return;
  compared = key;
  $("difference").replaceChildren(...(ready ? [drawDifference(both, state.models)] : []));
}

/** Choose the model of a side. If the other side shows this model, the two sides are swapped. */
function chooseModel(side, name) {
  const put = (where, what) => {
    state.models[where] = what;
    state.bent[where].clear();
    state.picks[where].clear();
    shown[where] = [];
    $(`model-${where}`).value = what;
  };
  const before = state.models[side];
  put(side, name);
  if (state.models[1 - side] === name && before !== name) put(1 - side, before);
}

function bend(side, place, word, level) {
  const levels = new Map(levelsOf(side, place));
  if (word === null) levels.clear();
  else if (level === FREE) levels.delete(word);
  else levels.set(word, level);
  if (levels.size) state.bent[side].set(place, levels);
  else state.bent[side].delete(place);
  state.picks[side].delete(place);
  draw();
  ask(side);
}

function choose(side, place, rank) {
  if (rank) state.picks[side].set(place, rank);
  else state.picks[side].delete(place);
  draw();
  examine(side);
}

function look(place) {
  state.sentence = Math.min(Math.max(place, 0), sentences.length - 1);
  draw();
}

function enter(text) {
  state.text = $("text").value = text;
  refresh();
}

function listen() {
  $("text").addEventListener("input", () => {
    state.text = $("text").value;
    later();
  });
  document.addEventListener("selectionchange", () => {
    if (document.activeElement !== $("text") || $("text").value !== state.text) return;
    const caret = $("text").selectionStart;
    const place = sentences.findIndex((one) => caret >= one.start && caret <= one.end);
    if (place >= 0 && place !== state.sentence) look(place);
  });
  for (const side of [0, 1]) {
    $(`model-${side}`).addEventListener("change", (event) => {
      chooseModel(side, event.target.value);
      refresh(); // sentence splitting depends on the language of the first model
    });
    const pick = (event) => {
      const found = event.target.closest("[data-place]");
      if (!found || (event.type === "keydown" && event.key !== "Enter" && event.key !== " ")) return;
      event.preventDefault();
      look(Number(found.dataset.place));
      const again = $(`output-${side}`).querySelector(`[data-place="${state.sentence}"]`);
      if (event.type === "keydown" && again) again.focus();
    };
    // An answer that arrives while the button is pressed replaces the sentence, and then there is no click on it.
    $(`output-${side}`).addEventListener("pointerup", pick);
    $(`output-${side}`).addEventListener("click", pick);
    $(`output-${side}`).addEventListener("keydown", pick);
  }
  $("before").addEventListener("click", () => look(state.sentence - 1));
  $("after").addEventListener("click", () => look(state.sentence + 1));
  $("compare").addEventListener("click", () => {
    state.compare = !state.compare;
    draw();
    if (state.compare) ask(1);
  });
  $("copy").addEventListener("click", async () => {
    keep();
    try {
      await navigator.clipboard.writeText(location.href);
      showStatus("Link copied");
    } catch {
      showStatus("Copy the link from the address bar");
    }
  });
  $("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = regardColors.mode() === "dark" ? "light" : "dark";
  });
  addEventListener("hashchange", () => {
    if (location.hash !== writeState(state)) restore();
  });
  addEventListener("resize", () => cards.forEach((card) => card && card.placed()));
}

/** Restore the state from the address. */
function restore() {
  state = readState(location.hash);
  sentences = [];
  for (const side of [0, 1]) {
    const free = served.filter((one) => side === 0 || one.name !== state.models[0]);
    if (!free.includes(model(side))) state.models[side] = (free[0] || served[0]).name;
    $(`model-${side}`).value = state.models[side];
    shown[side] = [];
  }
  state.compare = state.compare && served.length > 1;
  $("text").value = state.text;
  refresh();
}

async function begin() {
  try {
    ({ models: served, limits, checks } = await askModels());
  } catch (error) {
    return complain(error);
  }
  for (const side of [0, 1]) $(`model-${side}`).append(...served.map((one) => make("option", { value: one.name }, nameOf(one))));
  $("compare").hidden = served.length < 2;
  // The user may have entered text before the models were known.
  const typed = $("text").value;
  listen();
  beginChecks(checks, () => pairsOf(0), () => sides().forEach(examine));
  restore();
  if (!state.text && typed) enter(typed);
  if (!state.text) $("text").focus();
}

begin();

/* Checks of translations: marks of probable errors in the cards, and the form for other translations. */
import { check, Refused } from "./client.js";
import { make } from "./weave.js";

const KEPT = 2000;
const $ = (name) => document.getElementById(name);
const found = new Map(); // key of a pair -> its check, a cache of at most KEPT entries
let settings = null; // { detectors, threshold } of the server, null if it checks nothing
let detector = null;

const keyOf = (source, target) => JSON.stringify([detector, source, target]);
const kinds = Object.entries(regardMarks.KINDS);

/** Return the check of a pair, undefined if it is not available yet. */
export const checkOf = (source, target) => found.get(keyOf(source, target));

function remember(key, one) {
  if (found.size >= KEPT) found.delete(found.keys().next().value);
  found.set(key, one);
}

/** Check the pairs that are not in the cache; returns whether one of them was new. */
export async function checkPairs(pairs, signal) {
  const missing = settings ? pairs.filter((pair) => pair.source.trim() && !found.has(keyOf(pair.source, pair.target))) : [];
  if (!missing.length) return false;
  const asked = detector;
  const answer = await check({ pairs: missing, detector: asked, signal });
  answer.sentences.forEach((one, i) => remember(JSON.stringify([asked, missing[i].source, missing[i].target]), one));
  return true;
}

/** Return the probable errors of a sentence as [kind, probability], most probable first. */
function errorsOf(one) {
  return regardMarks.errors(one, settings.threshold);
}

/** Mark a sentence of a translation by its most probable error, if it was checked. */
export function markSentence(element, one) {
  const [error] = one ? errorsOf(one) : [];
  if (!error) return;
  element.classList.add("suspect", regardMarks.look(error[0]));
  element.title = `${regardMarks.KINDS[error[0]].name} with probability ${regardMarks.percent(error[1])}. ${regardMarks.KINDS[error[0]].tip}`;
}

/** Return the probable errors of a sentence as tags. */
export function checkTags(one) {
  return errorsOf(one).map(([kind, p]) => {
    const { name, tip } = regardMarks.KINDS[kind];
    const tag = regardMarks.mark(make("span", { class: "tag" }, `${name} ${regardMarks.percent(p)}`), kind, p, detector);
    tag.title = `${name} with probability ${regardMarks.percent(p)}, by the detector ${detector}. ${tip}`;
    return tag;
  });
}

/** Mark displayed words; `names` are their elements, which keep their tooltips. */
export function markWords(one, side, shown, names) {
  regardMarks.find(one, side, shown, settings.threshold).forEach((error, place) => {
    if (!error) return;
    const { title } = names[place];
    regardMarks.mark(names[place], error[0], error[1], detector);
    if (!title) return;
    names[place].title = `${title}. It is ${names[place].title}`;
    names[place].setAttribute("aria-label", names[place].title);
  });
}

/** Return a text with its words marked, split where the detector splits it. */
function markedText(one, side, text) {
  const words = regardMarks.words(one, side), names = words.map((word) => make("span", {}, word));
  markWords(one, side, words, names);
  const line = make("bdi", { dir: "auto" });
  let end = 0;
  words.forEach((word, i) => {
    const start = text.indexOf(word, end);
    if (start < 0) return;
    line.append(text.slice(end, start), names[i]);
    end = start + word.length;
  });
  line.append(text.slice(end));
  return line;
}

/** Return the words that are probably wrong, with their probabilities, for those who have no tooltips. */
function wordList(one) {
  return kinds.map(([kind, { name }]) => [name, regardMarks.listed(one, kind, settings.threshold)])
    .filter(([, words]) => words).map((part) => part.join(": ")).join(" · ");
}

function resultOf({ number, source, target, one }) {
  const errors = errorsOf(one), list = wordList(one);
  const head = make("div", { class: "card-head" }, make("b", {}, `Line ${number}`),
    ...(errors.length ? checkTags(one) : [make("span", { class: "soft" }, "no probable error")]),
    ...(one.note ? [make("span", { class: "soft" }, settings.notes[one.note])] : []));
  return make("li", { class: "card checked" }, head,
    make("p", { class: "source" }, markedText(one, "source", source)),
    make("p", { class: "target" }, target.trim() ? markedText(one, "target", target) : make("em", { class: "soft" }, "(empty)")),
    ...(list ? [make("p", { class: "note-text" }, make("bdi", {}, list))] : []));
}

/** Return the legend of the marks. */
function legend() {
  return ["Marks: ", ...regardMarks.samples(make, detector), "The stronger a mark, the more probable is the error."];
}

function show(text, wrong = false) {
  $("check-status").textContent = text;
  $("check-status").classList.toggle("wrong", wrong);
}

const lines = (name) => $(name).value.replace(/\s+$/u, "").split("\n").map((line) => line.trim());

/** Check the two texts of the form, line by line, and show the results, worst first. */
async function run() {
  const [sources, targets] = [lines("check-source"), lines("check-target")];
  // An empty translation is an error of the translation, but missing lines at the end of it are a mistake.
  while (sources.length === 1 && targets.length > 1 && !targets.at(-1)) targets.pop();
  if (!sources.join("")) return show("Enter a text and its translation.", true);
  if (sources.length !== targets.length)
    return show(`The text has ${sources.length} lines, but the translation has ${targets.length}: line N is the translation of line N.`, true);
  const pairs = sources.map((source, i) => ({ number: i + 1, source, target: targets[i] })).filter((pair) => pair.source);
  $("check").disabled = true;
  show("…");
  const began = performance.now();
  try {
    await checkPairs(pairs.map(({ source, target }) => ({ source, target })));
    const results = pairs.map((pair) => ({ ...pair, one: checkOf(pair.source, pair.target) }));
    const worst = ({ one }) => Math.max(...kinds.map(([kind]) => regardMarks.sentence(one, kind)));
    results.sort((a, b) => worst(b) - worst(a) || a.number - b.number);
    $("check-results").replaceChildren(...results.map(resultOf));
    $("check-legend").replaceChildren(...legend());
    $("check-legend").hidden = false;
    show(`${pairs.length === 1 ? "1 line" : `${pairs.length} lines`} checked in ${Math.round(performance.now() - began)} ms${pairs.length > 1 ? ", the worst first" : ""}`);
  } catch (error) {
    show(error instanceof Refused ? error.message : "the server cannot be reached", true);
  } finally {
    $("check").disabled = false;
  }
}

/** Show the form or the translation; `fill` returns the pairs with which an empty form is filled. */
function choose(checking, fill) {
  $("checker").hidden = !checking;
  $("translator").hidden = checking;
  $("to-check").setAttribute("aria-pressed", String(checking));
  $("to-translate").setAttribute("aria-pressed", String(!checking));
  if (checking && !$("check-source").value.trim()) {
    const pairs = fill();
    $("check-source").value = pairs.map((pair) => pair.source).join("\n");
    $("check-target").value = pairs.map((pair) => pair.target).join("\n");
  }
  if (checking) $("check-source").focus();
}

/** Prepare the page for the detectors of the server; `changed` is called when another detector is chosen. */
export function beginChecks(given, fill, changed) {
  if (!given) return;
  settings = given;
  [detector] = given.detectors;
  $("modes").hidden = false;
  $("detector").append(...given.detectors.map((name) => make("option", { value: name }, name)));
  $("detector").addEventListener("change", () => {
    detector = $("detector").value;
    $("check-results").replaceChildren();
    changed();
  });
  $("to-check").addEventListener("click", () => choose(true, fill));
  $("to-translate").addEventListener("click", () => choose(false));
  $("check").addEventListener("click", run);
  for (const name of ["check-source", "check-target"])
    $(name).addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
    });
}

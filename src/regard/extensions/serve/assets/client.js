/* The requests of the page to the server. */

/** An error response: `message` is the server's message, `retry` the time in seconds after which to retry. */
export class Refused extends Error {
  constructor(message, status, retry) {
    super(message);
    this.status = status;
    this.retry = retry;
  }
}

async function checked(response) {
  if (response.ok) return response;
  let message = `the server responded with status ${response.status}`;
  try {
    message = (await response.json()).error || message;
  } catch {
    // The body is not JSON: a proxy between the page and the server responded.
  }
  throw new Refused(message, response.status, Number(response.headers.get("Retry-After")) || 0);
}

function post(path, content, signal) {
  return fetch(path, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(content), signal,
  }).then(checked);
}

/** Return the models and the limits of the server. */
export async function models() {
  return (await checked(await fetch("models"))).json();
}

/** Return the errors that a detector finds in pairs of `source` and `target`. */
export async function check({ pairs, detector, signal }) {
  return (await post("check", { pairs, detector }, signal)).json();
}

/** Return the sentences of a text with their positions in UTF-16 code units, as JavaScript counts. */
export async function split(text, language, signal) {
  const { sentences } = await (await post("split", { text, language }, signal)).json();
  // The server counts code points, JavaScript counts UTF-16 code units.
  const places = new Map();
  let number = 0, place = 0;
  for (const character of text) {
    places.set(number++, place);
    place += character.length;
  }
  places.set(number, place);
  return sentences.map((one) => ({ text: one.text, start: places.get(one.start), end: places.get(one.end) }));
}

const WIDE = "\\u3000-\\u303f\\uff00-\\uffef", UNSPACED = `\\p{sc=Han}\\p{sc=Hira}\\p{sc=Kana}\\p{sc=Bopo}\\p{sc=Yiii}${WIDE}`;
const MARKS = "[^\\p{L}\\p{N}\\s]*";
const unspacedMark = new RegExp(`(?<! )[${WIDE}]$`, "u"), unspacedEnd = new RegExp(`(?<! )[${UNSPACED}]${MARKS}$`, "u");
const unspacedStart = new RegExp(`^${MARKS}[${UNSPACED}]`, "u");

/** Return the separator of two translated sentences, as `separator` in validation.py does. */
export function separator(gap, before, after) {
  if (/[^ \u00a0\u3000]/u.test(gap)) return gap;
  if (unspacedMark.test(before) || (unspacedEnd.test(before) && unspacedStart.test(after))) return gap.replace(/[ \u00a0]/gu, "");
  return gap.replaceAll("\u3000", " ") || " ";
}

/**
 * Return an answer with `translations`, best first: the answer and its alternatives; none if it has no translation.
 * `plain` is the text of a translation with punctuation attached to words.
 */
function ranked(answer) {
  const found = answer.token_log_probs && answer.token_log_probs.length;
  const translations = found ? [answer, ...answer.alternatives] : [];
  return { ...answer, translations: translations.map((one, i) => ({ ...one, plain: answer.plain_texts[i] })) };
}

/**
 * Translate sentences; `each(number, answer)` is called for each sentence as soon as it is translated.
 * `fertilities` are `{sentence, word, lower, upper}`.
 */
export async function translate({ model, texts, num_return, fertilities, signal, each }) {
  const asked = { model, texts, num_return, fertilities, split: false, stream: true };
  const response = await post("translate", asked, signal);
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    rest += decoder.decode(value, { stream: !done });
    const lines = rest.split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const answer = JSON.parse(line);
      if (!answer.done) each(answer.sentence, ranked(answer));
    }
    if (done) return;
  }
}

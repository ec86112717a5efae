/* What the page asks of the server. */

/** An answer that is none: `message` is the server's sentence, `retry` the seconds after which to ask again. */
export class Refused extends Error {
  constructor(message, status, retry) {
    super(message);
    this.status = status;
    this.retry = retry;
  }
}

async function checked(response) {
  if (response.ok) return response;
  let message = `the server answered ${response.status}`;
  try {
    message = (await response.json()).error || message;
  } catch {
    // No JSON: something between here and the server answered.
  }
  throw new Refused(message, response.status, Number(response.headers.get("Retry-After")) || 0);
}

function post(path, content, signal) {
  return fetch(path, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(content), signal,
  }).then(checked);
}

/** The models, and what the server takes on. */
export async function models() {
  return (await checked(await fetch("/models"))).json();
}

/** The sentences of a text, with their places in it (as JavaScript counts). */
export async function split(text, language, signal) {
  const { sentences } = await (await post("/split", { text, language }, signal)).json();
  // The server counts characters, JavaScript counts halves of the rare ones.
  const places = new Map();
  let number = 0, place = 0;
  for (const character of text) {
    places.set(number++, place);
    place += character.length;
  }
  places.set(number, place);
  return sentences.map((one) => ({ text: one.text, start: places.get(one.start), end: places.get(one.end) }));
}

/**
 * Translate sentences; `each(number, answer)` is called for each as it is done.
 * `fertilities` are `{sentence, word, least, most}`.
 */
export async function translate({ model, texts, nbest, fertilities, signal, each }) {
  const asked = { model, texts, nbest, fertilities, split: false, stream: true };
  const response = await post("/translate", asked, signal);
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
      if (!answer.done) each(answer.sentence, answer);
    }
    if (done) return;
  }
}

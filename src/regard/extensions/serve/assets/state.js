/* The state of the page as a link: text, models, sentence, fertilities and chosen translations. The state is
 * stored in the fragment of the address, which a browser does not send to the server. */

/** The positions of a handle from bottom to top, with the bounds of the word's attention (null: no upper bound). */
export const LEVELS = [
  { code: "never", label: "never", lower: 0, upper: 0 },
  { code: "once", label: "at most once", lower: 0, upper: 1 },
  { code: "twice", label: "at most twice", lower: 0, upper: 2 },
  { code: "free", label: "default" },
  { code: "least", label: "at least once", lower: 1, upper: null },
];
export const FREE = 3;

export function emptyState() {
  return {
    text: "", models: [null, null], compare: false, sentence: 0,
    bent: [new Map(), new Map()], // for each side: sentence -> Map(word -> level)
    picks: [new Map(), new Map()], // for each side: sentence -> rank
  };
}

const small = (text) => (/^\d{1,4}$/.test(text) ? Number(text) : null);

/** Return the state of a fragment; invalid parts are ignored. */
export function readState(fragment) {
  const state = emptyState();
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  state.text = given.get("text") || "";
  state.models = [given.get("model"), given.get("second")];
  state.compare = given.has("second");
  state.sentence = Math.max(0, (small(given.get("sentence") || "") || 1) - 1);
  for (const field of (given.get("bent") || "").split("_")) {
    const [side, sentence, word, code] = field.split(".");
    const level = LEVELS.findIndex((one) => one.code === code);
    if ((side !== "0" && side !== "1") || small(sentence) === null || small(word) === null || level < 0) continue;
    const words = state.bent[side].get(small(sentence)) || new Map();
    state.bent[side].set(small(sentence), words.set(small(word), level));
  }
  for (const field of (given.get("pick") || "").split("_")) {
    const [side, sentence, rank] = field.split(".");
    if ((side === "0" || side === "1") && small(sentence) !== null && small(rank) !== null)
      state.picks[side].set(small(sentence), small(rank));
  }
  return state;
}

/** Return the fragment of a state. */
export function writeState(state) {
  const given = new URLSearchParams();
  if (state.text) given.set("text", state.text);
  if (state.models[0]) given.set("model", state.models[0]);
  if (state.compare && state.models[1]) given.set("second", state.models[1]);
  if (state.sentence) given.set("sentence", state.sentence + 1);
  const bent = state.bent.flatMap((sentences, side) => [...sentences].flatMap(([sentence, words]) =>
    [...words].map(([word, level]) => [side, sentence, word, LEVELS[level].code].join("."))));
  if (bent.length) given.set("bent", bent.join("_"));
  const picks = state.picks.flatMap((sentences, side) => [...sentences].map((pair) => [side, ...pair].join(".")));
  if (picks.length) given.set("pick", picks.join("_"));
  return `#${given}`;
}

/* What the report's page knows: its JSON, its maps inflated when they are wanted, and elements made of text. */
"use strict";

const reportData = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const inflated = new Map();

  /** An element with attributes and children; strings become text, never markup. */
  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === true) made.setAttribute(key, "");
      else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
    return made;
  }

  /** The bytes of a chunk of maps, a promise of them. */
  function chunk(number) {
    if (!inflated.has(number)) {
      const text = document.getElementById(`maps-${number}`).textContent;
      const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
      inflated.set(number, new Response(stream).arrayBuffer().then((buffer) => new Uint8Array(buffer)));
    }
    return inflated.get(number);
  }

  /** The words of a sentence as a system has them. */
  function words(sentence, system, side) {
    return sentence.systems[system][side] || sentence[side];
  }

  /** All maps of a sentence: { rows, columns, kinds, maps: one Float32Array a kind }, or null without any. */
  async function maps(sentence, system, view) {
    const own = sentence.systems[system][view];
    if (!own) return null;
    const [rows, columns] = own.shape;
    const kinds = data.systems[system][view];
    const bytes = await chunk(own.at[0]);
    const size = rows * columns;
    const source = words(sentence, system, "source");
    return {
      rows: own.rows || (view === "own" ? sentence.systems[system].output : words(sentence, system, "reference")),
      columns: own.columns || source,
      sink: columns > source.length,
      kinds,
      maps: kinds.map((_, i) => Float32Array.from(
        bytes.subarray(own.at[1] + i * size, own.at[1] + (i + 1) * size), (level) => level / 255)),
    };
  }

  /** The map of a layer (null: the one of word links) and a head (null: the mean of all heads), before or after words were known. */
  function pick(found, layer, head, prior) {
    const there = (wanted) => found.kinds.map((_, i) => i)
      .filter((i) => found.kinds[i][0] === layer && found.kinds[i][2] === wanted);
    let places = there(prior);
    if (!places.length) places = there(false);
    if (head !== null) {
      const exact = places.filter((i) => found.kinds[i][1] === head);
      if (exact.length) places = exact;
    }
    if (places.length === 1) return found.maps[places[0]];
    return found.maps[places[0]].map((_, cell) =>
      places.reduce((sum, i) => sum + found.maps[i][cell], 0) / places.length);
  }

  /** A number with so many decimals; a dash where there is none. */
  function shown(value, digits) {
    return value === null || value === undefined ? "–" : value.toFixed(digits).replace("-", "−");
  }

  return { data, element, maps, pick, words, shown };
})();

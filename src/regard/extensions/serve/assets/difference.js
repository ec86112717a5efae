/* The differences between two models: different words of the translations, and the difference of two maps. */
import { fitted, mapOf } from "./card.js";
import { make } from "./weave.js";

/** Return the indices of `ours` in a longest common subsequence of two lists of words. */
export function shared(ours, theirs) {
  const best = Array.from({ length: ours.length + 1 }, () => new Uint16Array(theirs.length + 1));
  for (let i = ours.length - 1; i >= 0; i--)
    for (let j = theirs.length - 1; j >= 0; j--)
      best[i][j] = ours[i] === theirs[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
  const found = new Set();
  for (let i = 0, j = 0; i < ours.length && j < theirs.length;) {
    if (ours[i] === theirs[j]) {
      found.add(i++);
      j++;
    } else if (best[i + 1][j] >= best[i][j + 1]) i++;
    else j++;
  }
  return found;
}

/** Draw the difference of two maps. `cards` are the two cards with their answers and picks, `names` the models. */
export function drawDifference(cards, names) {
  const title = names.join(" − ");
  const element = make("article", { class: "card difference", "aria-label": `Difference: ${title}` },
    make("div", { class: "card-head" }, make("b", {}, title)));
  const say = (text) => element.append(make("p", { class: "note-text" }, make("bdi", {}, text)));
  const maps = cards.map(({ answer, pick }) => mapOf(answer, answer.translations[pick]));
  const without = names.filter((_, side) => maps[side] === null);
  if (without.length) {
    say(`The attention maps cannot be subtracted: no attention map of ${without.join(" and ")}.`);
    return element;
  }
  const found = regardMap.subtract(...maps, names);
  if (found.why) {
    const target = found.side === "translation";
    say(`${target ? "The translations differ" : "The models split the source into different words"} (${found.why}), `
      + `so the maps cannot be subtracted${target ? ": choose translations with the same words in the two lists above" : ""}.`);
    return element;
  }
  say(`Red: ${names[0]} attends more; blue: ${names[1]} attends more; white: equal weights.`);
  const map = regardMap.draw({ ...found, difference: true, title: `difference of the attention of ${title}` });
  const reading = make("p", { class: "reading", title: "Difference of two attention weights, between −1 and 1" });
  map.addEventListener("cell", (event) => {
    const cell = event.detail;
    reading.textContent = cell
      ? `${found.rows[cell.row]} ← ${found.columns[cell.column]}: ${regardMap.number(cell.weight)}` : "";
  });
  element.append(regardScroll.watch(make("div", { class: "map-box" }, fitted(map))), reading);
  return element;
}

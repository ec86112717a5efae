/* What differs between two models: the words of their translations, and their maps of one sentence. */
import { fitted, mapOf } from "/card.js";
import { make } from "/weave.js";

/** The places of `ours` in a longest common subsequence. */
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

/** Their maps as one. `cards` are the two as they are drawn, with their answers and picks, `names` their models'. */
export function drawDifference(cards, names) {
  const title = names.join(" − ");
  const element = make("article", { class: "card difference", "aria-label": `Difference: ${title}` },
    make("div", { class: "card-head" }, make("b", {}, title)));
  const say = (text) => element.append(make("p", { class: "told" }, make("bdi", {}, text)));
  const maps = cards.map(({ answer, pick }) => mapOf(answer, answer.translations[pick]));
  const without = names.filter((_, side) => maps[side] === null);
  if (without.length) {
    say(`There is nothing to subtract: ${without.join(" and ")} shows no attention here.`);
    return element;
  }
  const found = regardMap.subtract(...maps, names);
  if (found.why) {
    const said = found.side === "translation";
    say(`${said ? "The translations differ" : "The models read other source words"} (${found.why}), `
      + `so their maps cannot be subtracted${said ? ": choose translations with the same words in the two lists above" : ""}.`);
    return element;
  }
  say(`Red: ${names[0]} attends more; blue: ${names[1]} does; white: both alike.`);
  const map = regardMap.draw({ ...found, difference: true, title: `difference of the attention of ${title}` });
  const reading = make("p", { class: "reading" });
  map.addEventListener("cell", (event) => {
    const cell = event.detail;
    reading.textContent = cell
      ? `${found.rows[cell.row]} ← ${found.columns[cell.column]}: ${regardMap.number(cell.weight)}` : "";
  });
  element.append(make("div", { class: "map-box" }, fitted(map)), reading);
  return element;
}

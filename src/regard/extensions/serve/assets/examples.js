/* The example sentences of the empty page, and the names of the models with their attention. */
import { make } from "./weave.js";

/** Return the name of a model with its attention mechanism, as short as fits a selection. */
export function nameOf(model) {
  const attention = model.attention === "none" ? "no attention" : model.attention;
  return `${model.name} · ${attention}${model.normalizer ? `, ${model.normalizer}` : ""}`;
}

/** Show sentences that a click enters into the page; `enter(text)` enters one. */
export function showExamples(sentences, enter) {
  const place = document.getElementById("examples");
  place.hidden = !sentences.length;
  place.replaceChildren(make("span", { class: "soft" }, "Try an example:"), ...sentences.map((text) => {
    const button = make("button", { type: "button", class: "button example", title: "Translate this sentence" }, make("bdi", {}, text));
    button.addEventListener("click", () => enter(text));
    return button;
  }));
}

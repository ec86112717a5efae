/* The report's page as a whole: its sections, and the list of sentences with sorting, filters, search and pages. */
"use strict";

(() => {
  const { data, element, reviews, SENTENCE_TIPS } = reportData;
  const byId = (id) => document.getElementById(id);
  const PAGE = 50;
  /** The keys of the probabilities of a detector. */
  const DETECTED = ["check", ...Object.keys(regardMarks.KINDS)];
  // The worst sentences come first: those of a detector, or else by dropped and repeated words.
  const start = data.figures.findIndex((figure) => figure.key === (data.check ? "check" : "wrong"));
  const first = { figure: start < 0 ? null : start, of: "0", down: start >= 0 };
  const state = { ...first, show: "all", low: null, high: null, query: "", page: 0, open: null };
  let order = [];
  let texts = null;

  // Order and filters

  /** Return the value of a sentence for sorting and filtering; null for a missing value. */
  function value(index) {
    if (state.figure === null) return data.sentences[index].line;
    const values = data.figures[state.figure].values;
    const [one, other] = state.of.split("-").map(Number);
    if (other === undefined) return values[one][index];
    const [a, b] = [values[one][index], values[other][index]];
    return a === null || b === null ? null : a - b;
  }

  function text(index) {
    if (!texts) texts = data.sentences.map((sentence) => [sentence.source_words, sentence.reference_words,
      ...sentence.systems.map((own) => own.target_words)].map((side) => side.join(" ")).join("\n").normalize("NFC").toLowerCase());
    return texts[index];
  }

  function arrange() {
    const wanted = state.query.normalize("NFC").toLowerCase().split(/\s+/).filter(Boolean);
    order = data.sentences.map((_, i) => i).filter((i) => {
      const own = value(i);
      if (state.low !== null && (own === null || own < state.low)) return false;
      if (state.high !== null && (own === null || own > state.high)) return false;
      if (state.show !== "all" && reviews.ticked.has(data.sentences[i].line) !== (state.show === "reviewed")) return false;
      return wanted.every((word) => text(i).includes(word));
    });
    const checked = state.figure !== null && DETECTED.includes(data.figures[state.figure].key) && !state.of.includes("-");
    const expected = (i) => {
      const { check } = data.sentences[i].systems[Number(state.of)];
      return check ? regardMarks.expected(check) : 0;
    };
    order.sort((a, b) => {
      const [one, other] = [value(a), value(b)];
      if (one === null || other === null) return (one === null) - (other === null) || a - b;
      const [high, low] = state.down ? [a, b] : [b, a];
      if (!checked) return (state.down ? other - one : one - other) || a - b;
      // As in `CoverageCheck.worst`: of equal percentages, the expected number of wrong words decides.
      return Math.round(100 * value(low)) - Math.round(100 * value(high)) || expected(low) - expected(high) || a - b;
    });
  }

  // The list

  function show() {
    const pages = Math.max(1, Math.ceil(order.length / PAGE));
    state.page = Math.min(Math.max(state.page, 0), pages - 1);
    const first = state.page * PAGE, here = order.slice(first, first + PAGE);
    byId("list").replaceChildren(...here.map(reportSentence.card));
    const total = data.sentences.length.toLocaleString("en");
    byId("found").textContent = order.length === data.sentences.length ? `${total} sentences` : `${order.length.toLocaleString("en")} of ${total} sentences`;
    byId("page").textContent = order.length ? `${first + 1} to ${first + here.length}` : "none";
    byId("back").disabled = state.page === 0;
    byId("forth").disabled = state.page === pages - 1;
    byId("pager").hidden = pages === 1;
    if (state.open !== null) {
      const card = byId(`s${state.open}`);
      if (card) unfold(card);
      else state.open = null;
    }
  }

  function progress() {
    byId("progress").textContent = reviews.ticked.size ? `${reviews.ticked.size.toLocaleString("en")} reviewed` : "";
  }

  /** Remember that a sentence is reviewed, or that it is not. It stays in the list until the list changes. */
  function review(card, isReviewed) {
    reviews.tick([data.sentences[Number(card.dataset.index)].line], isReviewed);
    card.classList.toggle("reviewed", isReviewed);
    card.querySelector(".review input").checked = isReviewed;
    progress();
  }

  function renew() {
    state.page = 0;
    arrange();
    show();
  }

  function unfold(card) {
    card.classList.add("opened");
    card.querySelector(".open").setAttribute("aria-expanded", "true");
    return reportSentence.open(card);
  }

  function fold() {
    const card = state.open !== null && byId(`s${state.open}`);
    state.open = null;
    if (!card) return;
    card.classList.remove("opened");
    card.querySelector(".open").setAttribute("aria-expanded", "false");
    reportSentence.close(card);
  }

  /** Open a sentence by its line number, on any page of the list. */
  function go(line, focus = true) {
    const index = data.sentences.findIndex((sentence) => sentence.line === line);
    if (index < 0) return;
    if (!order.includes(index)) clear();
    const page = Math.floor(order.indexOf(index) / PAGE);
    fold();
    if (page !== state.page || !byId(`s${line}`)) {
      state.page = page;
      show();
    }
    state.open = line;
    const card = byId(`s${line}`);
    history.replaceState(null, "", `#s${line}`);
    unfold(card).then(() => card.scrollIntoView({ block: "nearest" }));
    if (focus) card.focus({ preventScroll: true });
    card.scrollIntoView({ block: "start" });
  }

  function move(step) {
    if (!order.length) return;
    const here = state.open === null ? -1 : order.findIndex((i) => data.sentences[i].line === state.open);
    const start = here < 0 ? state.page * PAGE - (step > 0 ? 1 : -1) : here;
    const to = Math.min(Math.max(start + step, 0), order.length - 1);
    go(data.sentences[order[to]].line);
  }

  // Controls

  function options(select, pairs) {
    select.replaceChildren(...pairs.map(([key, name]) => element("option", { value: key }, name)));
  }

  function numberOf(id) {
    const field = byId(id);
    return field.value === "" || Number.isNaN(field.valueAsNumber) ? null : field.valueAsNumber;
  }

  function named() {
    const figure = state.figure === null ? "line number" : data.figures[state.figure].name;
    byId("range-name").textContent = figure;
    byId("sort-tip").textContent = SENTENCE_TIPS[state.figure === null ? "line" : data.figures[state.figure].key] || "";
    byId("order").textContent = state.down ? "Largest first" : "Smallest first";
    byId("of").disabled = state.figure === null;
  }

  function clear() {
    byId("controls").reset();
    Object.assign(state, { ...first, show: "all", low: null, high: null, query: "" });
    byId("sort").value = state.figure ?? "";
    named();
    renew();
  }

  /** Show only the sentences with a number of a system from a value on. */
  function pick(key, system, from) {
    clear();
    Object.assign(state, { figure: data.figures.findIndex((figure) => figure.key === key), of: String(system), low: from, down: true });
    byId("sort").value = state.figure;
    byId("of").value = state.of;
    byId("low").value = from;
    named();
    renew();
    byId("sentences").scrollIntoView();
  }

  function summarize() {
    byId("verdicts").replaceChildren(...reportSummary.verdicts(reportSentence.marking, pick));
  }

  function controls() {
    options(byId("sort"), [["", "line number"], ...data.figures.map((figure, i) => [String(i), figure.name])]);
    byId("sort").value = state.figure ?? "";
    const names = data.systems.map((system) => system.name);
    const differences = names.slice(1).map((name, i) => [`${i + 1}-0`, `${name} − ${names[0]}`]);
    options(byId("of"), [...names.map((name, i) => [String(i), name]), ...differences]);
    byId("of").closest("label").hidden = names.length === 1;
    byId("sort").addEventListener("change", (event) => {
      state.figure = event.target.value === "" ? null : Number(event.target.value);
      const key = state.figure === null ? "" : data.figures[state.figure].key;
      // The worst sentences come first.
      state.down = ["rep", "drop", "wrong", "entropy", ...DETECTED].includes(key);
      named();
      renew();
    });
    byId("of").addEventListener("change", (event) => { state.of = event.target.value; renew(); });
    byId("order").addEventListener("click", () => { state.down = !state.down; named(); renew(); });
    byId("low").addEventListener("input", () => { state.low = numberOf("low"); renew(); });
    byId("high").addEventListener("input", () => { state.high = numberOf("high"); renew(); });
    byId("state").addEventListener("change", (event) => { state.show = event.target.value; renew(); });
    byId("search").addEventListener("input", (event) => { state.query = event.target.value; renew(); });
    byId("clear").addEventListener("click", clear);
    byId("controls").addEventListener("submit", (event) => event.preventDefault());
    for (const [id, step] of [["back", -1], ["forth", 1]])
      byId(id).addEventListener("click", () => { state.page += step; show(); byId("sentences").scrollIntoView(); });
    named();
  }

  /** Fill in the line of the detector: a legend of its marks, the smallest marked probability, and the kind of marks. */
  function marks() {
    if (data.systems.length > 1) {
      byId("marks").append(reportSentence.owners());
      byId("marks").hidden = false;
    }
    if (!data.check) return;
    const { marking } = reportSentence, { detector } = data.check;
    const shown = element("output", { for: "from" }, regardMarks.percent(marking.from));
    const from = element("input", { id: "from", type: "range", min: 0.05, max: 0.95, step: 0.05, value: marking.from });
    from.addEventListener("input", () => {
      marking.from = from.valueAsNumber;
      shown.textContent = regardMarks.percent(marking.from);
      summarize();
      show();
    });
    const legend = element("p", { class: "soft" }, "Marks of the detector ", element("b", {}, detector), ": ",
      ...regardMarks.samples(element, detector), "The stronger a mark, the more probable is the error.");
    byId("marks").prepend(legend);
    byId("marks").append(element("label", {}, element("span", {}, "Mark words from "), from, " ", shown));
    const by = element("select", { class: "field", id: "by" });
    options(by, [["detector", "the detector"], ["reference", "a comparison with the reference"]]);
    by.addEventListener("change", () => { marking.by = by.value; from.disabled = by.value !== "detector"; summarize(); show(); });
    byId("marks").append(element("label", {}, element("span", {}, "Marks of "), by));
    byId("marks").hidden = false;
  }

  function listen() {
    byId("list").addEventListener("click", (event) => {
      const card = event.target.closest(".sentence");
      if (!event.target.closest(".open, .number")) return;
      event.preventDefault();
      const line = data.sentences[Number(card.dataset.index)].line;
      if (state.open === line && event.target.closest(".open")) {
        fold();
        history.replaceState(null, "", "#sentences");
      } else go(line);
    });
    byId("list").addEventListener("change", ({ target }) => target.closest(".review") && review(target.closest(".sentence"), target.checked));
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const typing = event.target.closest("input:not([type=checkbox]), select, textarea, .regard-map, .map-box, .scroll");
      const card = event.target.closest(".sentence");
      if (event.key === "Escape") {
        if (event.target === byId("search")) event.target.blur();
        else if (!typing && state.open !== null) { const opened = byId(`s${state.open}`); fold(); opened.focus(); }
        return;
      }
      if (typing) return;
      if (event.key === "Enter" && event.target.matches(".sentence")) go(data.sentences[Number(event.target.dataset.index)].line);
      else if (event.key === "j" || event.key === "ArrowRight") move(1);
      else if (event.key === "k" || event.key === "ArrowLeft") move(-1);
      else if (event.key === "r" && card) review(card, !card.classList.contains("reviewed"));
      else if (event.key === "/") byId("search").focus();
      else return;
      event.preventDefault();
    });
    addEventListener("hashchange", follow);
  }

  function follow() {
    const found = /^#s(\d+)$/.exec(location.hash);
    if (found) go(Number(found[1]));
    return found !== null;
  }

  /** Draw the charts when their part is opened, and open a part when a link leads to it or the page is printed. */
  function parts() {
    const draw = () => byId("chart-grid").childElementCount || byId("chart-grid").append(...reportCharts.charts());
    const open = (part) => {
      part.open = true;
      if (part.closest("#charts")) draw();
    };
    document.querySelector("#charts > .part").addEventListener("toggle", draw, { once: true });
    const lead = (hash) => ["#scores", "#charts"].includes(hash) && open(document.querySelector(`${hash} > .part`));
    document.addEventListener("click", ({ target }) => lead(target.closest("a")?.hash));
    lead(location.hash);
    addEventListener("beforeprint", () => document.querySelectorAll(".part").forEach(open));
  }

  // All parts

  regardShared.theme();
  byId("headline").append(...reportSummary.headline());
  summarize();
  byId("bars").append(...reportSummary.bars());
  regardScroll.watch(byId("bars"));
  byId("about").append(...reportSummary.about());
  byId("models").append(...reportSummary.cards());
  byId("intervals").append("95 % intervals by bootstrap resampling",
    data.systems.length > 1 ? `; below them, the difference from ${data.systems[0].name} and its p-value` : "", ".");
  byId("table").append(...reportCharts.table());
  regardScroll.watch(document.querySelector(".scroll"));
  byId("columns").append(...reportCharts.explanations());
  byId("downloads").append(...reportExport.tables(() => order));
  byId("notes").append(...data.notes.map((note) => element("li", {}, note)));
  byId("legend").append(...reportCharts.legend());
  const sections = [["summary", "Summary"], ["sentences", "Sentences"], ["scores", "Scores"], ["charts", "Charts"]];
  controls();
  marks();
  listen();
  progress();
  arrange();
  show();
  document.querySelector("nav").append(...sections.map(([id, name]) => element("a", { href: `#${id}` }, name)));
  parts();
  follow();
  document.documentElement.dataset.ready = "true";
})();

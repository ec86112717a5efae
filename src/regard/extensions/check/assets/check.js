/* The page of a check: its segments by decreasing risk, with filters, their context, and accepted findings.
 * The list consists of blocks of segments. A block is filled when it comes near the window, so that a large text
 * opens at once. */
"use strict";

(() => {
  const { element, save, theme, ticks } = regardShared, { percent } = regardMarks;
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const BLOCK = 50, HEIGHT = 9; // segments in a block, and the height of one before it is filled, in rem
  const NEIGHBORS = 2; // segments on each side of one in its context
  const SEVERITIES = ["critical", "major", "minor"];
  const findings = data.sentences.flatMap((sentence) => sentence.findings);
  const kinds = Object.keys(data.kinds).filter((kind) => findings.some((finding) => finding.kind === kind));

  // Accepted findings: those of --ignore, with the later changes of the reader in this browser.
  const { ticked: accepted, tick } = ticks("accepted", data.sentences.map(({ source, target }) => [source, target]), data.accepted);
  let shown = []; // the indices of the sentences in the list
  let texts = null; // of the sentences, for the search
  const place = (i) => byId(`s${i + 1}`);

  // One segment

  /** Return a text with its findings marked. Where several overlap, it is the one with the highest probability. One of the whole text has no mark. */
  function marked(sentence, side) {
    const letters = [...sentence[side]]; // findings count code points
    if (!letters.length) return element("em", { class: "soft" }, "(empty)");
    const spans = sentence.findings.filter((one) => one.side === side && one.span[1] - one.span[0] < letters.length)
      .sort((a, b) => b.probability - a.probability);
    const ends = [...new Set([0, letters.length, ...spans.flatMap((one) => one.span)])].sort((a, b) => a - b);
    const line = element("bdi", { dir: "auto" });
    ends.slice(1).forEach((end, n) => {
      const part = letters.slice(ends[n], end).join("");
      const finding = spans.find(({ span }) => span[0] <= ends[n] && end <= span[1]);
      line.append(finding ? mark(element("span", {}, part), finding) : part);
    });
    return line;
  }

  function mark(made, { kind, probability, severity }) {
    made.classList.add("mark", regardMarks.look(kind));
    made.style.setProperty("--p", Math.min(probability, 1).toFixed(3));
    made.title = `${data.kinds[kind]} (${kind}, ${percent(probability)}, ${severity})`;
    return made;
  }

  /** Return a box per type of the findings of a sentence. */
  function boxes(sentence) {
    return kinds.map((kind) => sentence.findings.filter((finding) => finding.kind === kind)).filter((same) => same.length).map((same) => {
      const [worst] = same.toSorted((a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity));
      const box = element("input", { type: "checkbox", "data-key": worst.key });
      const label = `${worst.kind} ${percent(worst.probability)}, ${worst.severity}${same.length > 1 ? `, ${same.length} places` : ""}`;
      return mark(element("label", { class: "tag" }, box, label), worst);
    });
  }

  /** Show which findings of a card are accepted. */
  function refresh(card) {
    const inputs = [...card.querySelectorAll("input")];
    for (const box of inputs) box.checked = accepted.has(box.dataset.key);
    card.classList.toggle("accepted", inputs.length > 0 && inputs.every((box) => box.checked));
    return card;
  }

  function card(i) {
    const sentence = data.sentences[i], worst = SEVERITIES.find((severity) => sentence.findings.some((one) => one.severity === severity));
    const row = (side, name) => element("div", { class: "row" }, element("dt", {}, name), element("dd", {}, marked(sentence, side)));
    const made = element("li", { class: `card sentence ${worst || ""}`, id: `s${i + 1}`, "data-index": i, tabindex: -1 },
      element("div", { class: "head" },
        element("span", { class: "risk", title: "The largest probability of an error" }, percent(sentence.risk)),
        element("a", { class: "number", href: `#s${i + 1}`, title: "Link to this segment" }, `line ${sentence.line}`),
        element("button", { class: "button neighbors", type: "button", "aria-expanded": "false" }, "Context")),
      element("dl", { class: "texts" }, row("source", "source"), row("target", "translation")));
    if (sentence.id) made.querySelector(".number").after(element("span", { class: "segment" }, element("bdi", {}, sentence.id)));
    const notes = sentence.note ? [element("span", { class: "tag" }, data.notes[sentence.note])] : [];
    if (sentence.findings.length) notes.unshift(element("span", { class: "soft" }, "accept:"), ...boxes(sentence));
    if (notes.length) made.append(element("div", { class: "accept" }, ...notes));
    return refresh(made);
  }

  /** Show or hide the segments before and after one. */
  function toggleContext(i) {
    const here = place(i), shown = here.querySelectorAll(".context");
    here.querySelector(".neighbors").setAttribute("aria-expanded", String(!shown.length));
    if (shown.length) return shown.forEach((list) => list.remove());
    const list = (from, to) => element("ol", { class: "context" }, ...data.sentences.slice(from, to).map((sentence, n) =>
      element("li", {}, element("a", { class: "number", href: `#s${from + n + 1}` }, sentence.line), marked(sentence, "source"), marked(sentence, "target"))));
    here.prepend(list(Math.max(i - NEIGHBORS, 0), i));
    here.append(list(i + 1, i + 1 + NEIGHBORS));
    here.scrollIntoView({ block: "nearest" });
  }

  // Accepting

  function accept(keys, isAccepted) {
    tick(keys, isAccepted);
    // Equal segments are accepted together.
    const cards = keys.flatMap((key) => [...document.querySelectorAll(`[data-key="${key}"]`)]).map((box) => box.closest(".sentence"));
    new Set(cards).forEach(refresh);
    progress();
  }

  function progress() {
    const count = findings.filter((finding) => accepted.has(finding.key)).length;
    byId("progress").textContent = `${count.toLocaleString("en")} of ${findings.length.toLocaleString("en")} findings accepted`;
    byId("download").disabled = !accepted.size;
  }

  // The list

  const observer = new IntersectionObserver((entries) => entries.forEach((entry) => entry.isIntersecting && fill(entry.target)), { rootMargin: "1500px" });

  function fill(block) {
    observer.unobserve(block);
    if (block.childElementCount) return;
    const first = Number(block.dataset.first);
    block.style.minHeight = "";
    block.append(...shown.slice(first, first + BLOCK).map(card));
  }

  const checkedIn = (id) => new Set([...byId(id).querySelectorAll(":checked")].map((box) => box.value));

  /** List the segments that pass the filters. */
  function arrange() {
    const state = byId("state").value, chosen = [checkedIn("kinds"), checkedIn("severities")];
    const words = byId("search").value.normalize("NFC").toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length && !texts) texts = data.sentences.map(({ source, target, id }) => `${source}\n${target}\n${id || ""}`.normalize("NFC").toLowerCase());
    const all = state === "all" && checkboxes().every((box) => box.checked);
    const passes = ({ kind, severity, key }) => chosen[0].has(kind) && chosen[1].has(severity) && (state === "all" || accepted.has(key) === (state === "accepted"));
    const order = byId("order").value === "risk" ? data.by_risk : data.sentences.keys();
    shown = [...order].filter((i) => (all || data.sentences[i].findings.some(passes)) && words.every((word) => texts[i].includes(word)));
    observer.disconnect();
    const blocks = [];
    for (let first = 0; first < shown.length; first += BLOCK) {
      const block = element("ol", { class: "list", "data-first": first });
      block.style.minHeight = `${HEIGHT * Math.min(BLOCK, shown.length - first)}rem`;
      blocks.push(block);
    }
    byId("list").replaceChildren(...blocks);
    if (!blocks.length) byId("list").append(element("p", { class: "card empty" }, findings.length && findings.every(({ key }) => accepted.has(key)) && state === "open"
      ? "All findings are accepted." : "No segment passes the filters."));
    else fill(blocks[0]);
    blocks.forEach((block) => observer.observe(block));
    byId("count").textContent = `${shown.length.toLocaleString("en")} of ${data.sentences.length.toLocaleString("en")} segments`;
  }

  /** Go to a segment, which is listed without filters if it does not pass them. */
  function go(i) {
    if (!data.sentences[i]) return;
    if (!shown.includes(i)) {
      byId("controls").reset();
      byId("state").value = "all";
      arrange();
    }
    fill(byId("list").children[Math.floor(shown.indexOf(i) / BLOCK)]);
    place(i).focus({ preventScroll: true });
    place(i).scrollIntoView({ block: "nearest" });
  }

  /** Return the index of the segment with the focus; undefined without one. */
  function current() {
    const here = document.activeElement.closest(".sentence");
    return here ? Number(here.dataset.index) : undefined;
  }

  // Controls

  const checkboxes = () => [...byId("controls").querySelectorAll("[type=checkbox]")];

  function chips(id, values, field) {
    byId(id).hidden = values.length < 2;
    byId(id).append(...values.map((value) => {
      const count = findings.filter((finding) => finding[field] === value).length;
      return element("label", { class: "chip" }, element("input", { type: "checkbox", value, checked: true }),
        element("span", { class: field === "kind" ? `mark ${regardMarks.look(value)}` : null }, value), element("small", { class: "soft" }, count.toLocaleString("en")));
    }));
  }

  const follow = () => go(Number(location.hash.slice(2)) - 1);

  const KEYS = {
    j: () => move(1), ArrowRight: () => move(1), k: () => move(-1), ArrowLeft: () => move(-1),
    a: (i) => {
      const keys = i === undefined ? [] : [...new Set(data.sentences[i].findings.map((finding) => finding.key))];
      accept(keys, !keys.every((key) => accepted.has(key)));
    },
    c: (i) => i !== undefined && toggleContext(i),
    Enter: (i) => i !== undefined && toggleContext(i),
    "/": () => byId("search").focus(),
    "?": () => byId("help").showModal(),
    Escape: (i) => i !== undefined && place(i).querySelector(".context") && toggleContext(i),
  };

  function move(step) {
    const i = current(), at = i === undefined ? -1 : shown.indexOf(i);
    if (shown.length) go(shown[Math.min(Math.max(at + step, 0), shown.length - 1)]);
  }

  function listen() {
    byId("controls").addEventListener("input", arrange);
    byId("controls").addEventListener("submit", (event) => event.preventDefault());
    byId("clear").addEventListener("click", () => {
      byId("controls").reset();
      arrange();
    });
    byId("keys").addEventListener("click", () => byId("help").showModal());
    byId("download").addEventListener("click", () =>
      save("accepted.txt", new Blob([data.header, ...[...accepted].sort().map((key) => `${key}\n`)], { type: "text/plain" })));
    byId("list").addEventListener("change", ({ target }) => accept([target.dataset.key], target.checked));
    byId("list").addEventListener("click", ({ target }) => target.closest(".neighbors") && toggleContext(Number(target.closest(".sentence").dataset.index)));
    addEventListener("hashchange", follow);
    addEventListener("beforeprint", () => [...byId("list").children].forEach((block) => block.matches("ol") && fill(block)));
    document.addEventListener("keydown", (event) => {
      const work = KEYS[event.key], { target } = event;
      if (!work || event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
      if (target.matches("[type=search], select")) {
        if (event.key === "Escape") target.blur();
        return;
      }
      if (event.key === "Enter" && !target.matches(".sentence")) return;
      work(current());
      event.preventDefault();
    });
  }

  theme();
  byId("verdict").textContent = data.summary;
  byId("about").textContent = `${new Date(`${data.date}T12:00`).toLocaleDateString("en", { dateStyle: "long" })} · detector ${data.detector} · findings from a probability of ${percent(data.threshold)}`;
  byId("notes").append(...data.text_notes.map((note) => element("li", {}, note)));
  chips("kinds", kinds, "kind");
  chips("severities", SEVERITIES.filter((value) => findings.some(({ severity }) => severity === value)), "severity");
  if (findings.every(({ key }) => accepted.has(key))) byId("state").value = "all";
  listen();
  progress();
  arrange();
  follow();
  document.documentElement.dataset.ready = "true";
})();

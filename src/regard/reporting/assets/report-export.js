/* Downloads of the report: tables as CSV, TSV and JSON lines, figures as SVG and PNG. Figures have light colors, also in dark mode. */
"use strict";

const reportExport = (() => {
  const { data, element, reviews } = reportData, { save } = regardShared;
  const NAMESPACE = "http://www.w3.org/2000/svg";
  const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "font-size",
    "font-family", "font-weight", "text-anchor", "visibility"];
  const PIXELS = 3; // of a PNG file per pixel of the page

  /** Return a text as the name of a file. */
  function fileName(text, ending) {
    return `${text.normalize("NFKD").replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60) || "report"}.${ending}`;
  }

  // Tables

  /**
   * Return rows as a table that spreadsheets read. The byte order mark makes Excel recognize UTF-8, and an apostrophe keeps
   * text from being evaluated as a formula.
   */
  function delimited(rows, delimiter) {
    const plain = (value) => (typeof value === "string" && /^[=+@-]/.test(value) ? `'${value}` : String(value ?? ""));
    const quoted = (text) => (/[",\t\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);
    return "\ufeff" + rows.map((row) => row.map((value) => quoted(plain(value))).join(delimiter) + "\r\n").join("");
  }

  const FORMATS = {
    csv: { type: "text/csv", write: (rows) => delimited(rows, ",") },
    tsv: { type: "text/tab-separated-values", write: (rows) => delimited(rows, "\t") },
    jsonl: { type: "application/jsonl", write: ([head, ...rows]) =>
      rows.map((row) => `${JSON.stringify(Object.fromEntries(head.map((name, i) => [name, row[i]])))}\n`).join("") },
  };

  /** Return the table of scores: one row per system, one column per number. */
  function scoreRows() {
    const attention = ["accuracy", "entropy", "support", "coverage"];
    const head = ["system", ...data.metrics.flatMap(({ name }) =>
      [name, `${name} low`, `${name} high`, `${name} difference`, `${name} p`]), "perplexity", ...attention, ...data.columns.map(([name]) => name)];
    return [head, ...data.systems.map((system, i) => [
      system.name,
      ...data.metrics.flatMap((metric) => {
        const one = metric.systems[i];
        return one ? [one.value, ...one.interval, one.difference, one.p] : Array(5).fill(null);
      }),
      system.perplexity,
      ...attention.map((key) => data.attention[i] && data.attention[i][key]),
      ...data.columns.map(([, cells]) => cells[i]),
    ])];
  }

  /** Return the table of sentences by their indices: one row per sentence and system. */
  function sentenceRows(indices) {
    const head = ["line", "reviewed", "system", "source", "reference", "translation",
      ...data.figures.map((figure) => figure.name)];
    return [head, ...indices.flatMap((index) => {
      const sentence = data.sentences[index];
      return sentence.systems.map((own, i) => [
        sentence.line, Number(reviews.ticked.has(sentence.line)), data.systems[i].name, sentence.source_words.join(" "),
        sentence.reference_words.join(" "), own.target_words.join(" "), ...data.figures.map((figure) => figure.values[i][index]),
      ]);
    })];
  }

  function button(label, tip, work) {
    const made = element("button", { type: "button", class: "button download", title: tip }, label);
    made.addEventListener("click", work);
    return made;
  }

  function table(name, format, rows) {
    const { type, write } = FORMATS[format];
    return button(`${name} as ${format.toUpperCase()}`, `Download the ${name.toLowerCase()}`, () =>
      save(fileName(`${data.title} ${name}`, format), new Blob([write(rows())], { type: `${type};charset=utf-8` })));
  }

  /** Return the buttons of the tables; `listed` returns the indices of the listed sentences. */
  function tables(listed) {
    return [...Object.keys(FORMATS).map((format) => table("Listed sentences", format, () => sentenceRows(listed()))), table("Scores", "csv", scoreRows)];
  }

  // Figures

  /** Return a figure as the text of an SVG file, with its size; it does not depend on the styles of the page. */
  function standalone(svg, title) {
    const root = document.documentElement, { theme } = root.dataset;
    root.dataset.theme = "light";
    if (svg.paint) {
      svg.paint("light");
      svg.stick(0, 0);
    }
    const copy = svg.cloneNode(true);
    const [from, to] = [svg, copy].map((tree) => [tree, ...tree.querySelectorAll("*")]);
    from.forEach((one, i) => {
      const style = getComputedStyle(one);
      for (const name of STYLES) to[i].setAttribute(name, style.getPropertyValue(name));
      for (const name of ["class", "style", "tabindex", "role"]) to[i].removeAttribute(name);
    });
    if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
    if (svg.paint) {
      svg.paint();
      svg.parentElement.dispatchEvent(new Event("scroll"));
    }
    const { width, height } = svg.viewBox.baseVal;
    for (const [name, value] of Object.entries({ xmlns: NAMESPACE, width, height })) copy.setAttribute(name, value);
    const paper = document.createElementNS(NAMESPACE, "rect");
    for (const [name, value] of Object.entries({ width, height, fill: "#ffffff" })) paper.setAttribute(name, value);
    const named = document.createElementNS(NAMESPACE, "title");
    named.textContent = title;
    copy.prepend(named, paper);
    return { text: new XMLSerializer().serializeToString(copy), width, height };
  }

  async function png({ text, width, height }) {
    const picture = new Image();
    picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await picture.decode();
    const canvas = element("canvas", { width: PIXELS * width, height: PIXELS * height });
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  }

  /** Return the buttons of a figure; `title` is its title and the name of the file. */
  function figure(svg, title) {
    return element("span", { class: "downloads" },
      button("SVG", `Download this figure as SVG: ${title}`, () =>
        save(fileName(title, "svg"), new Blob([standalone(svg, title).text], { type: "image/svg+xml" }))),
      button("PNG", `Download this figure as PNG: ${title}`, async () =>
        save(fileName(title, "png"), await png(standalone(svg, title)))));
  }

  return { figure, tables };
})();

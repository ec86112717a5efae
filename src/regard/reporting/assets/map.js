/* Draw an attention map as SVG, for the report and the served page; no dependencies but map-colors.js.
 *
 * A weight of exactly 0 has the color of the background; any other weight has a color, even a very small one.
 * In a box that scrolls, `stick` keeps the labels in view. A map follows the color scale and the light or dark mode of the page. Text is inserted as text, never as markup.
 */
"use strict";

const regardMap = (() => {
  const NAMESPACE = "http://www.w3.org/2000/svg";
  const CELL = 24, FONT = 13, GAP = 8, MARGIN = 10;
  const LONGEST = matchMedia("(max-width: 40rem)").matches ? 84 : 150; // width of a label
  const SLOPE = Math.SQRT1_2;
  const FACE = "system-ui, sans-serif";
  let pen = null;

  /** Return the width of a text in pixels. */
  function width(text) {
    pen = pen || document.createElement("canvas").getContext("2d");
    pen.font = `${FONT}px ${FACE}`;
    return pen.measureText(text).width;
  }

  /** Return a text cut to the maximum label width; an ellipsis marks a text that was longer. */
  function clip(text) {
    if (width(text) <= LONGEST) return text;
    const letters = Array.from(text);
    while (letters.length > 1 && width(letters.join("") + "…") > LONGEST) letters.pop();
    return letters.join("") + "…";
  }

  function node(name, attributes, text) {
    const made = document.createElementNS(NAMESPACE, name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  /** Return a weight with two decimals, or one significant digit if it is small; only exactly 0 becomes "0". */
  function number(weight) {
    if (weight === 0) return "0";
    const size = Math.abs(weight);
    if (size < 5e-5) return weight < 0 ? "> −0.0001" : "< 0.0001";
    return (size < 0.01 ? String(Number(weight.toPrecision(1))) : weight.toFixed(2)).replace("-", "−");
  }

  function label(text, attributes, title) {
    const shown = clip(text);
    const made = node("text", attributes, shown);
    made.append(node("title", {}, title || text));
    return made;
  }

  /**
   * Draw a map; rows are target words, columns are source words.
   * `weights` is row-major; `links` are [row, column] pairs; `bounds` has the fertility of each column.
   */
  function draw({ columns, rows, weights, links = [], difference = false, title = "", bounds = null, received: given = null }) {
    // For a target word of several tokens, a row is a mean over tokens. A column sum is then smaller than the
    // attention received, which callers can pass instead.
    const received = given
      || columns.map((_, s) => rows.reduce((sum, _row, t) => sum + weights[t * columns.length + s], 0));
    const left = MARGIN + GAP + Math.max(0, ...rows.map((row) => width(clip(row))));
    const reaches = columns.map((column) => SLOPE * (width(clip(column)) + FONT));
    const top = MARGIN + GAP + Math.max(0, ...reaches);
    const across = CELL * columns.length, down = CELL * rows.length;
    // The slanted labels extend to the right beyond the last column.
    const lean = Math.max(0, ...reaches.map((reach, s) => CELL * (s + 0.5) + reach - across));
    const under = bounds && !difference ? 40 : 0;
    const whole = [Math.ceil(Math.max(left + across + lean, MARGIN + regardColors.WIDTH) + MARGIN),
      Math.ceil(top + down + under + regardColors.HEIGHT + MARGIN)];
    const svg = node("svg", {
      class: "regard-map", width: whole[0], height: whole[1], viewBox: `0 0 ${whole[0]} ${whole[1]}`,
      role: "application", tabindex: 0, "font-family": FACE, "font-size": FONT,
      "aria-label": `${title || "attention map"}: ${rows.length} by ${columns.length} words; use the arrow keys to move between cells`,
    });
    const paper = node("rect", { width: "100%", height: "100%", rx: 6 });
    svg.append(paper);
    const ground = node("g", { transform: `translate(${left} ${top})` });
    svg.append(ground);

    const names = { rows: [], columns: [] };
    columns.forEach((column, s) => {
      const place = `translate(${CELL * (s + 0.5) + FONT / 4} ${-GAP}) rotate(-45)`;
      names.columns.push(label(column, { transform: place, class: "column-label", direction: "ltr" }));
    });
    rows.forEach((row, t) => {
      const y = CELL * (t + 0.5) + FONT * 0.36;
      names.rows.push(label(row, { x: -GAP, y, "text-anchor": "end", class: "row-label", direction: "ltr" }));
    });
    const cells = node("g");
    const rects = [];
    rows.forEach((row, t) => columns.forEach((column, s) => {
      const weight = weights[t * columns.length + s];
      const cell = node("rect", {
        x: CELL * s, y: CELL * t, width: CELL, height: CELL,
        "data-row": t, "data-column": s, "data-weight": weight,
      });
      cell.append(node("title", {}, `${row} → ${column}: ${number(weight)}`));
      rects.push(cell);
    }));
    cells.append(...rects);
    ground.append(cells);

    const rings = node("g", { fill: "none", "stroke-width": 2, "pointer-events": "none" });
    for (const [t, s] of links) {
      if (!(t < rows.length && s < columns.length)) continue;
      // An orange ring with a white border is visible on any color.
      for (const [stroke, wide] of [["#ffffff", 4], ["#d9480f", 2]])
        rings.append(node("circle", {
          cx: CELL * (s + 0.5), cy: CELL * (t + 0.5), r: 7, stroke, "stroke-width": wide, class: "link",
        }));
    }
    ground.append(rings);

    if (under) {
      columns.forEach((column, s) => {
        const bound = bounds[s];
        const free = bound === null || bound === undefined || !Number.isFinite(bound);
        const full = free ? 1 : Math.max(bound, 1e-6);
        const share = Math.min(received[s] / (free ? Math.max(received[s], 1) : full), 1);
        const bar = node("g", { transform: `translate(${CELL * s + 4} ${down + 8})`, class: "bound" });
        const tip = free ? `${column}: attention received ${received[s].toFixed(2)}, no upper bound`
          : `${column}: attention received ${received[s].toFixed(2)} of at most ${bound} (fertility)`;
        bar.append(node("title", {}, tip));
        bar.append(node("rect", { width: CELL - 8, height: 8, class: "limit", "stroke-width": 0.75 }));
        bar.append(node("rect", { width: (CELL - 8) * share, height: 8, class: "received" }));
        const text = free ? "∞" : String(+Number(bound).toFixed(1));
        bar.append(node("text", {
          x: (CELL - 8) / 2, y: 21, "text-anchor": "middle", "font-size": 10, class: "small", direction: "ltr",
        }, text));
        ground.append(bar);
      });
    }

    const cursor = node("rect", {
      width: CELL, height: CELL, fill: "none", stroke: "#d9480f", "stroke-width": 2.5, "pointer-events": "none",
      visibility: "hidden", class: "cursor",
    });
    // The labels are above the cells, on paper of their own.
    const sheet = (x, y, width, height) => node("rect", { x, y, width, height, class: "sheet", stroke: "none" });
    const heads = [node("g"), node("g"), node("g")];
    heads[0].append(sheet(-left, -top, whole[0], top), ...names.columns);
    heads[1].append(sheet(-left, 0, left, down + under), ...names.rows);
    heads[2].append(sheet(-left, -top, left, top));
    ground.append(cursor, ...heads);

    const legend = node("g", { class: "scale" });
    svg.append(legend);

    /** Move the labels and the legend with a box that is scrolled by a distance, in pixels of the page. */
    svg.stick = (x, y) => {
      const scale = svg.clientWidth ? whole[0] / svg.clientWidth : 1;
      heads.forEach((head, i) => head.setAttribute("transform", `translate(${i ? scale * x : 0} ${i === 1 ? 0 : scale * y})`));
      legend.setAttribute("transform", `translate(${MARGIN + scale * x} ${top + down + under + 12})`);
    };
    svg.stick(0, 0);
    // A cell that is scrolled into view must not be behind the labels.
    svg.heads = { left, top };

    /** Color the map in the scale and the mode of the page, or in a given mode. */
    svg.paint = (mode = regardColors.mode()) => {
      const look = regardColors.LOOKS[mode];
      svg.setAttribute("fill", look.ink);
      for (const sheet of [paper, ...ground.querySelectorAll(".sheet")]) sheet.setAttribute("fill", look.paper);
      cells.setAttribute("stroke", look.grid);
      rects.forEach((cell, i) => cell.setAttribute("fill", regardColors.color(weights[i], difference, mode)));
      for (const [name, fill, stroke] of [[".limit", look.limit, look.edge], [".received", look.received, "none"], [".small", look.soft, "none"]])
        ground.querySelectorAll(name).forEach((one) => { one.setAttribute("fill", fill); one.setAttribute("stroke", stroke); });
      svg.querySelectorAll(".row-label, .column-label").forEach((text) =>
        text.setAttribute("fill", text.getAttribute("font-weight") === "700" ? look.chosen : look.ink));
      legend.replaceChildren(...regardColors.legend(node, difference, mode));
    };
    svg.paint();

    let at = null;

    function emit(name, detail) {
      svg.dispatchEvent(new CustomEvent(name, { bubbles: true, detail }));
    }

    function move(row, column) {
      at = [row, column];
      cursor.setAttribute("x", CELL * column);
      cursor.setAttribute("y", CELL * row);
      cursor.setAttribute("visibility", "visible");
      highlight(svg, { rows: [row], columns: [column] });
      emit("cell", { row, column, weight: weights[row * columns.length + column] });
    }

    function leave() {
      at = null;
      cursor.setAttribute("visibility", "hidden");
      highlight(svg, {});
      emit("cell", null);
    }

    function placeOf(event) {
      const cell = event.target.closest("rect[data-row]");
      return cell && [Number(cell.dataset.row), Number(cell.dataset.column)];
    }

    cells.addEventListener("pointerover", (event) => {
      const place = placeOf(event);
      if (place) move(...place);
    });
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("blur", leave);
    cells.addEventListener("click", (event) => {
      const place = placeOf(event);
      if (place) emit("pick", { row: place[0], column: place[1] });
    });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!rows.length || !columns.length) return;
      if (step) {
        const [row, column] = at || [0, 0];
        const to = at ? [row + step[0], column + step[1]] : [0, 0];
        move(Math.min(Math.max(to[0], 0), rows.length - 1), Math.min(Math.max(to[1], 0), columns.length - 1));
        cursor.scrollIntoView({ block: "nearest", inline: "nearest" });
      } else if (event.key === "Enter" && at) emit("pick", { row: at[0], column: at[1] });
      else if (event.key === "Escape") leave();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    return svg;
  }

  /** Highlight the labels of some rows and columns, and reset all others. */
  function highlight(svg, { rows = [], columns = [] }) {
    const look = regardColors.LOOKS[regardColors.mode()];
    const emphasize = (name, chosen) => svg.querySelectorAll(name).forEach((text, i) => {
      const on = chosen.includes(i);
      text.setAttribute("font-weight", on ? "700" : "400");
      text.setAttribute("fill", on ? look.chosen : look.ink);
    });
    emphasize(".row-label", rows);
    emphasize(".column-label", columns);
  }

  /** Describe the first difference between two lists of words; null if they are equal. */
  function apart(side, first, second, names) {
    const place = Array.from({ length: Math.max(first.length, second.length) }, (_, i) => i).find((i) => first[i] !== second[i]);
    if (place === undefined) return null;
    const found = [first, second].map((words, i) =>
      `${place < words.length ? `“${words[place]}”` : "missing"} in ${names[i]}`);
    return { side, why: `word ${place + 1} of the ${side} is ${found.join(", and ")}` };
  }

  /**
   * Subtract the second map from the first, as regard.metrics.alignment does: { columns, rows, weights }. `sink` is
   * true if the last column of a map is the sink; a map without a sink gets a column of zeros for it.
   * If the words of the maps differ, the result is { side, why }, with the side and the first different word.
   */
  function subtract(first, second, names) {
    const words = ({ columns, sink }) => (sink ? columns.slice(0, -1) : columns);
    const reason = apart("translation", first.rows, second.rows, names)
      || apart("source", words(first), words(second), names);
    if (reason) return reason;
    const columns = first.sink ? first.columns : second.columns;
    const weight = (map, row, column) =>
      (column < map.columns.length ? map.weights[row * map.columns.length + column] : 0);
    const weights = first.rows.flatMap((_, row) =>
      columns.map((_, column) => weight(first, row, column) - weight(second, row, column)));
    return { columns, rows: first.rows, weights };
  }

  return { draw, highlight, subtract, number };
})();

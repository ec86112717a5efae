/* An attention map as SVG, for the report and the served page: one global, no modules, nothing from elsewhere.
 *
 * Exactly 0 is white, any other weight is tinted, however small (the colours are those of
 * regard.report.heatmap and regard.report.difference). Text is set as text, never as markup.
 */
"use strict";

const regardMap = (() => {
  const NAMESPACE = "http://www.w3.org/2000/svg";
  const BLUES = [[234, 242, 251], [150, 191, 229], [70, 136, 199], [26, 80, 152], [6, 34, 84]];
  const REDS = [[253, 238, 232], [246, 178, 147], [217, 95, 70], [168, 22, 40], [92, 0, 24]];
  const LESS = [[234, 242, 251], [156, 198, 232], [70, 136, 199], [26, 80, 152], [6, 34, 84]];
  const CELL = 24, FONT = 13, GAP = 8, MARGIN = 10, LONGEST = 150;
  const SLOPE = Math.SQRT1_2;
  const FACE = "system-ui, sans-serif";
  let pen = null;

  /** How wide a text is, in pixels. */
  function width(text) {
    pen = pen || document.createElement("canvas").getContext("2d");
    pen.font = `${FONT}px ${FACE}`;
    return pen.measureText(text).width;
  }

  /** A text cut to the longest label, with an ellipsis where it was longer. */
  function clip(text) {
    if (width(text) <= LONGEST) return text;
    const letters = Array.from(text);
    while (letters.length > 1 && width(letters.join("") + "…") > LONGEST) letters.pop();
    return letters.join("") + "…";
  }

  function mix(stops, share) {
    const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
    const left = Math.min(Math.floor(place), stops.length - 2);
    const parts = stops[left].map((a, i) => Math.round(a + (place - left) * (stops[left + 1][i] - a)));
    return `rgb(${parts.join(" ")})`;
  }

  /** The colour of a weight, or of a difference of weights. */
  function colour(weight, difference) {
    if (weight === 0) return "#ffffff";
    if (!Number.isFinite(weight)) return "#ff4fa3";
    if (difference) return mix(weight > 0 ? REDS : LESS, Math.abs(weight));
    return weight > 0 ? mix(BLUES, weight) : "#ff4fa3";
  }

  function node(name, attributes, text) {
    const made = document.createElementNS(NAMESPACE, name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  /** A weight as people read it: 0 is exactly 0. */
  function number(weight) {
    if (weight === 0) return "0";
    const size = Math.abs(weight);
    if (size < 0.005) return weight < 0 ? "> −0.01" : "< 0.01";
    return weight.toFixed(2).replace("-", "−");
  }

  function label(text, attributes, title) {
    const shown = clip(text);
    const made = node("text", attributes, shown);
    made.append(node("title", {}, title || text));
    return made;
  }

  /** Draw a map; see the arguments' names. Rows are target words, columns source words. */
  function draw({ columns, rows, weights, links = [], difference = false, title = "", bounds = null, received: given = null }) {
    // A word of several pieces receives more than its rows, which are means, add up to.
    const received = given
      || columns.map((_, s) => rows.reduce((sum, _row, t) => sum + weights[t * columns.length + s], 0));
    const left = MARGIN + GAP + Math.max(0, ...rows.map((row) => width(clip(row))));
    const reaches = columns.map((column) => SLOPE * (width(clip(column)) + FONT));
    const top = MARGIN + GAP + Math.max(0, ...reaches);
    const across = CELL * columns.length, down = CELL * rows.length;
    // Slanted labels lean out to the right of the last column.
    const lean = Math.max(0, ...reaches.map((reach, s) => CELL * (s + 0.5) + reach - across));
    const under = bounds && !difference ? 40 : 0;
    const whole = [Math.ceil(left + across + lean + MARGIN), Math.ceil(top + down + under + MARGIN)];
    const svg = node("svg", {
      class: "regard-map", width: whole[0], height: whole[1], viewBox: `0 0 ${whole[0]} ${whole[1]}`,
      role: "application", tabindex: 0, "font-family": FACE, "font-size": FONT, fill: "#1a1a1a",
      "aria-label": `${title || "attention map"}: ${rows.length} by ${columns.length} words; arrow keys move over the cells`,
    });
    svg.append(node("rect", { width: "100%", height: "100%", rx: 6, fill: "#ffffff" }));
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
    ground.append(...names.columns, ...names.rows);

    const cells = node("g", { stroke: "#d9d9d9" });
    const drawn = [];
    rows.forEach((row, t) => columns.forEach((column, s) => {
      const weight = weights[t * columns.length + s];
      const cell = node("rect", {
        x: CELL * s, y: CELL * t, width: CELL, height: CELL, fill: colour(weight, difference),
        "data-row": t, "data-column": s, "data-weight": weight,
      });
      cell.append(node("title", {}, `${row} → ${column}: ${number(weight)}`));
      drawn.push(cell);
    }));
    cells.append(...drawn);
    ground.append(cells);

    const rings = node("g", { fill: "none", "stroke-width": 2, "pointer-events": "none" });
    for (const [t, s] of links) {
      if (!(t < rows.length && s < columns.length)) continue;
      // A light ring around a strong one is seen on any colour.
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
        const says = free ? `${column}: received ${received[s].toFixed(2)}, no bound`
          : `${column}: received ${received[s].toFixed(2)} of at most ${bound}`;
        bar.append(node("title", {}, says));
        bar.append(node("rect", { width: CELL - 8, height: 8, fill: "#eef1f5", stroke: "#9aa4b1", "stroke-width": 0.75 }));
        bar.append(node("rect", { width: (CELL - 8) * share, height: 8, fill: "#1a5098" }));
        const text = free ? "∞" : String(+Number(bound).toFixed(1));
        bar.append(node("text", {
          x: (CELL - 8) / 2, y: 21, "text-anchor": "middle", "font-size": 10, fill: "#4a4a4a", direction: "ltr",
        }, text));
        ground.append(bar);
      });
    }

    const cursor = node("rect", {
      width: CELL, height: CELL, fill: "none", stroke: "#d9480f", "stroke-width": 2.5, "pointer-events": "none",
      visibility: "hidden", class: "cursor",
    });
    ground.append(cursor);
    let at = null;

    function tell(name, detail) {
      svg.dispatchEvent(new CustomEvent(name, { bubbles: true, detail }));
    }

    function move(row, column) {
      at = [row, column];
      cursor.setAttribute("x", CELL * column);
      cursor.setAttribute("y", CELL * row);
      cursor.setAttribute("visibility", "visible");
      highlight(svg, { rows: [row], columns: [column] });
      tell("cell", { row, column, weight: weights[row * columns.length + column] });
    }

    function leave() {
      at = null;
      cursor.setAttribute("visibility", "hidden");
      highlight(svg, {});
      tell("cell", null);
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
      if (place) tell("pick", { row: place[0], column: place[1] });
    });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!rows.length || !columns.length) return;
      if (step) {
        const [row, column] = at || [0, 0];
        const to = at ? [row + step[0], column + step[1]] : [0, 0];
        move(Math.min(Math.max(to[0], 0), rows.length - 1), Math.min(Math.max(to[1], 0), columns.length - 1));
      } else if (event.key === "Enter" && at) tell("pick", { row: at[0], column: at[1] });
      else if (event.key === "Escape") leave();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    return svg;
  }

  /** Emphasise the labels of rows and columns; none: all plain again. */
  function highlight(svg, { rows = [], columns = [] }) {
    const emphasise = (name, chosen) => svg.querySelectorAll(name).forEach((text, i) => {
      const on = chosen.includes(i);
      text.setAttribute("font-weight", on ? "700" : "400");
      text.setAttribute("fill", on ? "#b03a06" : "#1a1a1a");
    });
    emphasise(".row-label", rows);
    emphasise(".column-label", columns);
  }

  /** The first word that two lists do not share, in words; null where they are the same. */
  function apart(side, first, second, names) {
    const place = Array.from({ length: Math.max(first.length, second.length) }, (_, i) => i).find((i) => first[i] !== second[i]);
    if (place === undefined) return null;
    const told = [first, second].map((words, i) =>
      `${place < words.length ? `“${words[place]}”` : "nothing"} in ${names[i]}`);
    return { side, why: `word ${place + 1} of the ${side} is ${told.join(", and ")}` };
  }

  /**
   * One map less another, as regard.metrics.maps has it: { columns, rows, weights }. Columns are matched by word,
   * and a sink (`sink`: whether it is the last column) that one of them lacks has received 0 there.
   * Maps of other words give { side, why }: of which side, and which word is the first that differs.
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

  return { draw, highlight, subtract, colour, number };
})();

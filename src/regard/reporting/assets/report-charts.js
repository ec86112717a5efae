/* The report's table of scores and its SVG charts; each system has one color, dash pattern and marker. */
"use strict";

const reportCharts = (() => {
  const { better, data, element, shown, signed, TIPS } = reportData;
  const NAMESPACE = "http://www.w3.org/2000/svg";
  const WIDTH = 420, HEIGHT = 250, LEFT = 46, RIGHT = 20, TOP = 12, BELOW = 46;
  const DASHES = ["", "7 3", "2 2.5", "9 3 2 3", "4 2", "1 3"];

  function node(name, attributes, text) {
    const made = document.createElementNS(NAMESPACE, name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  /** Return about `count` round tick values that span the range. */
  function ticks(low, high, count) {
    const span = high - low || 1;
    const rough = span / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((by) => by * power).find((one) => one >= rough * 0.999);
    const found = [];
    for (let n = Math.floor(low / step + 1e-9); ; n++) {
      found.push(Number((n * step).toPrecision(12)));
      if (n * step >= high - step * 1e-9) return found;
    }
  }

  /** Return the logarithms of 1, 2, 5, 10, ... that span a range of logarithms. */
  function powers(low, high) {
    const found = [];
    for (let power = Math.floor(low); power <= Math.ceil(high); power++)
      for (const digit of [1, 2, 5]) found.push(power + Math.log10(digit));
    const start = found.findLastIndex((one) => one <= low + 1e-9), end = found.findIndex((one) => one >= high - 1e-9);
    const kept = found.slice(Math.max(start, 0), end + 1);
    return kept.length > 7 ? kept.filter((one, i) => Number.isInteger(one) || i === 0 || i === kept.length - 1) : kept;
  }

  function plain(value) {
    return Math.abs(value) >= 1000 ? value.toLocaleString("en") : String(value).replace("-", "−");
  }

  function marker(system, x, y) {
    const size = 3.6;
    const shapes = [
      () => node("circle", { cx: x, cy: y, r: size }),
      () => node("rect", { x: x - size, y: y - size, width: 2 * size, height: 2 * size }),
      () => node("path", { d: `M${x} ${y - size - 1}l${size + 1} ${2 * size}h${-2 * size - 2}z` }),
      () => node("path", { d: `M${x} ${y - size - 1}l${size + 1} ${size + 1}l${-size - 1} ${size + 1}l${-size - 1} ${-size - 1}z` }),
    ];
    return shapes[system % shapes.length]();
  }

  /**
   * Draw a chart. `series` have points {x, y, low, high, tip}; the horizontal axis has `names` or numbers, and
   * `tip` is the tooltip of the whole chart.
   */
  function chart({ title, tip = null, across, note, series, names = null, counts = null, steps = false, zero = false, log = false }) {
    const points = series.flatMap((one) => one.points).filter((point) => point && point.y !== null);
    const caption = element("figcaption", {}, element("span", {}, title));
    const card = element("figure", { class: "card chart", title: tip }, caption);
    if (!points.length) {
      card.append(element("p", { class: "soft" }, "no data"));
      return card;
    }
    const ends = points.flatMap((point) => [point.y, point.low, point.high])
      .filter((value) => value !== null && value !== undefined);
    const span = [zero ? Math.min(0, ...ends) : Math.min(...ends), Math.max(...ends)];
    const vertical = log ? powers(...span) : ticks(...span, 4);
    const xs = points.flatMap((point) => (steps ? [point.from, point.x] : [point.x]));
    const horizontal = names ? null : ticks(Math.min(...xs), Math.max(...xs), 5);
    const low = names ? -0.5 : Math.min(horizontal[0], Math.min(...xs));
    const high = names ? names.length - 0.5 : horizontal[horizontal.length - 1];
    const X = (x) => LEFT + (x - low) / (high - low || 1) * (WIDTH - LEFT - RIGHT);
    const bottom = HEIGHT - BELOW;
    const Y = (y) => bottom - (y - vertical[0]) / (vertical[vertical.length - 1] - vertical[0] || 1) * (bottom - TOP);
    const svg = node("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${title}; ${across}` });
    for (const tick of vertical) {
      svg.append(node("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: Y(tick), y2: Y(tick) }));
      svg.append(node("text", { class: "tick", x: LEFT - 6, y: Y(tick) + 4, "text-anchor": "end" },
        plain(log ? Number((10 ** tick).toPrecision(3)) : tick)));
    }
    const below = names || horizontal;
    below.forEach((name, i) => {
      const x = X(names ? i : name);
      svg.append(node("text", { class: "tick", x, y: bottom + 15, "text-anchor": "middle" }, names ? name : plain(name)));
      if (counts) svg.append(node("text", { class: "tick count", x, y: bottom + 27, "text-anchor": "middle" }, counts[i].toLocaleString("en")));
    });
    svg.append(node("text", { class: "tick", x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, across));
    series.forEach((one) => svg.append(draw(one, X, Y, names, series.length, steps, bottom)));
    card.append(svg);
    caption.append(reportExport.figure(svg, title));
    if (note) card.append(element("p", { class: "soft small" }, note));
    const values = points.filter((point) => point.tip).map(({ tip }) => element("li", {}, tip));
    if (values.length) card.append(element("details", { class: "help" }, element("summary", {}, "Values"), element("ul", {}, ...values)));
    return card;
  }

  function draw(one, X, Y, names, many, steps, bottom) {
    const group = node("g", { class: `system-${one.system % 6}` });
    // On a named axis, shift the systems apart so that their error bars do not overlap.
    const shift = names ? (one.system - (many - 1) / 2) * 9 : 0;
    const there = one.points.filter((point) => point && point.y !== null);
    let path = "";
    there.forEach((point, i) => {
      const x = X(point.x) + shift, y = Y(point.y);
      if (steps) path += i ? `H${X(point.from)}V${y}H${x}` : `M${X(point.from)} ${bottom}V${y}H${x}`;
      else path += `${i ? "L" : "M"}${x} ${y}`;
    });
    if (steps) path += `V${bottom}`;
    group.append(node("path", { class: "curve", d: path, "stroke-dasharray": one.dash || DASHES[one.system % 6], opacity: one.faint ? 0.45 : 1 }));
    for (const point of there) {
      const x = X(point.x) + shift;
      if (point.low !== null && point.low !== undefined)
        group.append(node("line", { class: "whisker", x1: x, x2: x, y1: Y(point.low), y2: Y(point.high) }));
      if (steps || one.faint) continue;
      const dot = marker(one.system, x, Y(point.y));
      dot.setAttribute("class", "dot");
      dot.append(node("title", {}, point.tip));
      group.append(dot);
    }
    return group;
  }

  function legend() {
    return data.systems.map((system, i) => {
      const sample = node("svg", { class: `system-${i % 6}`, width: 34, height: 14, "aria-hidden": "true" });
      sample.append(node("path", { class: "curve", d: "M1 7H33", "stroke-dasharray": DASHES[i % 6] }));
      const dot = marker(i, 17, 7);
      dot.setAttribute("class", "dot");
      sample.append(dot);
      return element("span", {}, sample, element("bdi", {}, system.name));
    });
  }

  function byLength() {
    const kept = data.buckets.slice(0, data.buckets.findLastIndex((bucket) => bucket[1] > 0) + 1);
    const names = kept.map((bucket) => bucket[0]), counts = kept.map((bucket) => bucket[1]);
    return data.lengths.map((metric) => chart({
      title: `${metric.name} by source length${metric.lower ? " (lower is better)" : ""}`, tip: TIPS[metric.key],
      across: "source length (words); below: number of sentences", names, counts, zero: metric.lower,
      note: "error bars: 95 % intervals",
      series: metric.systems.map((values, system) => ({
        system,
        points: values.slice(0, kept.length).map((value, x) => value && {
          x, y: value[0], low: value[1], high: value[2],
          tip: `${data.systems[system].name}, ${names[x]} words: ${metric.name} ${shown(value[0], 2)}`
            + (value[1] === null ? "" : ` (${shown(value[1], 2)} to ${shown(value[2], 2)})`),
        }),
      })),
    }));
  }

  function histogram(key, title, tip, across, scale) {
    const series = data.attention.map((own, system) => own && ({
      system,
      points: own[key].counts.map((count, i) => ({
        from: own[key].edges[i] * scale, x: own[key].edges[i + 1] * scale,
        y: 100 * count / Math.max(own[key].counts.reduce((sum, one) => sum + one, 0), 1),
      })),
    })).filter((one) => one);
    return series.length ? [chart({ title, tip, across, series, steps: true, zero: true })] : [];
  }

  function training() {
    const found = [];
    const logarithm = (points) => points.filter(([, y]) => y > 0).map(([x, y]) => ({ x, y: Math.log10(y), tip: "" }));
    const own = data.systems.map((system, i) => [system.curves, i]).filter(([curves]) => curves);
    const named = (values, system, label) => values.map(([x, y]) => ({
      x, y, tip: `${data.systems[system].name}, step ${x.toLocaleString("en")}: ${label} ${shown(y, 2)}` }));
    const losses = own.flatMap(([curves, system]) => [
      { system, points: logarithm(curves.train), faint: true, dash: "none" },
      { system, points: logarithm(curves.valid).map((point, i) => ({
        ...point, tip: named(curves.valid, system, "perplexity")[i].tip })) },
    ]).filter((one) => one.points.length);
    if (losses.length) found.push(chart({
      title: "Training: perplexity", tip: TIPS.training, across: "optimizer steps", series: losses, log: true,
      note: "pale: training text; with markers: validation text",
    }));
    for (const name of new Set(own.flatMap(([curves]) => Object.keys(curves.scores)))) {
      const label = name === "bleu" ? "BLEU" : "accuracy %";
      found.push(chart({
        title: `Training: ${label} of the validation text`, across: "optimizer steps",
        tip: name === "bleu" ? `Greedy translations of the validation text. ${TIPS.bleu}`
          : "Percentage of the greedy outputs for the validation text that equal their reference. Higher is better.",
        series: own.filter(([curves]) => curves.scores[name]).map(([curves, system]) => ({
          system, points: named(curves.scores[name], system, label) })),
      }));
    }
    return found;
  }

  function charts() {
    return [
      ...byLength(),
      ...histogram("entropies", "Attention entropy: share of time steps (%)",
        `Histogram of the attention entropy. ${TIPS.entropy}`, "entropy (nats), forced decoding", 1),
      ...histogram("coverages", "Source coverage: share of sentences (%)",
        `Histogram of the coverage of each sentence. ${TIPS.coverage}`, "coverage (%), forced decoding", 100),
      ...training(),
    ];
  }

  /** Return the table of scores: one row per system, one column per number. */
  function table() {
    const head = element("tr", {}, element("th", { scope: "col", title: TIPS.system }, "system"));
    for (const metric of data.metrics)
      head.append(element("th", { scope: "col", title: headTip(metric) }, metric.name,
        element("span", { class: "visually-hidden" }, metric.lower ? ", lower is better" : ", higher is better"),
        element("span", { class: "soft", "aria-hidden": "true" }, metric.lower ? " ↓" : " ↑")));
    const attention = [["accuracy", "accuracy %", (own) => shown(100 * own.accuracy, 1)],
      ["entropy", "entropy (nats)", (own) => shown(own.entropy, 3)],
      ["support", "support (tokens)", (own) => shown(own.support, 1)],
      ["coverage", "coverage %", (own) => shown(100 * own.coverage, 1)]];
    const attends = data.attention.some((own) => own);
    const perplexed = data.systems.some((system) => system.perplexity !== null);
    if (perplexed) head.append(element("th", { scope: "col", title: TIPS.perplexity }, "perplexity", element("span", { class: "soft", "aria-hidden": "true" }, " ↓")));
    if (attends) for (const [key, name] of attention) head.append(element("th", { scope: "col", title: TIPS[key] }, name));
    for (const [name] of data.columns) head.append(element("th", { scope: "col", title: TIPS[name] }, name));
    const rows = data.systems.map((system, i) => {
      const row = element("tr", {}, element("th", { scope: "row", title: system.path }, element("bdi", {}, system.name)));
      for (const metric of data.metrics) row.append(scored(metric.systems[i], metric));
      if (perplexed) row.append(element("td", { title: TIPS.perplexity }, shown(system.perplexity, 3)));
      if (attends) for (const [key, , value] of attention)
        row.append(element("td", { title: TIPS[key] }, data.attention[i] ? value(data.attention[i]) : "–"));
      for (const [name, cells] of data.columns) row.append(element("td", { title: TIPS[name] }, cells[i]));
      return row;
    });
    return [element("caption", { class: "visually-hidden" }, "Scores of the systems with 95 % intervals"),
      element("thead", {}, head), element("tbody", {}, ...rows)];
  }

  /** Return the tooltip of a metric's heading: its explanation, and its signature of settings and version. */
  function headTip(metric) {
    return [TIPS[metric.key], metric.signature && `Signature: ${metric.signature}`].filter(Boolean).join("\n") || null;
  }

  /** Return the explanations of the columns and of the properties of models as a list, for those who have no tooltips. */
  function explanations() {
    const keys = [...data.metrics.map(({ key, name }) => [name, key])];
    if (data.systems.some((system) => system.perplexity !== null)) keys.push(["perplexity", "perplexity"]);
    if (data.attention.some((own) => own)) keys.push(...["accuracy", "entropy", "support", "coverage"].map((key) => [key, key]));
    keys.push(...data.columns.map(([name]) => [name, name]), ["interval", "interval"]);
    if (data.systems.length > 1) keys.push(["difference", "difference"]);
    const tips = [...keys.map(([name, key]) => [name, TIPS[key]]), ...data.systems.flatMap(({ card }) => card.map(([name, , tip]) => [name, tip]))];
    return [...new Map(tips.filter(([, tip]) => tip))].map(([name, tip]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, tip)));
  }

  function scored(score, metric) {
    if (!score) return element("td", {}, "–");
    const cell = element("td", {}, element("strong", { title: TIPS[metric.key] }, shown(score.value, 2)),
      element("span", { class: "interval", title: TIPS.interval },
        `${shown(score.interval[0], 2)} to ${shown(score.interval[1], 2)}`));
    if (score.difference !== null) {
      cell.append(element("span", { class: `interval ${["worse", "", "better"][better(score, metric) + 1]}`, title: TIPS.difference },
        `${signed(score.difference)}, p ${shown(score.adjusted, 3)}`));
    }
    return cell;
  }

  return { charts, explanations, legend, table };
})();

/* The colors of attention maps: scale, light and dark mode, legend. The report and the served page share them.
 *
 * The light colors are those of regard.plot.colors. On the linear scale, weights below 0.05 look nearly equal;
 * the other two scales spread small weights over more colors.
 */
"use strict";

const regardColors = (() => {
  const WIDTH = 176, HEIGHT = 40; // of the legend
  const BAR = 136, STEPS = 34;
  const DECADES = 4; // of the logarithmic scale; smaller weights have its first color
  const LOOKS = {
    light: {
      paper: "#ffffff", zero: "#ffffff", grid: "#d9d9d9", ink: "#1a1a1a", soft: "#4a4a4a", chosen: "#b03a06",
      limit: "#eef1f5", edge: "#9aa4b1", received: "#1a5098",
      more: [[253, 238, 232], [246, 178, 147], [217, 95, 70], [168, 22, 40], [92, 0, 24]],
      weights: [[234, 242, 251], [150, 191, 229], [70, 136, 199], [26, 80, 152], [6, 34, 84]],
      less: [[234, 242, 251], [156, 198, 232], [70, 136, 199], [26, 80, 152], [6, 34, 84]],
    },
    dark: {
      paper: "#1d2128", zero: "#14171c", grid: "#363d48", ink: "#e8ebef", soft: "#a6afbb", chosen: "#f2b866",
      limit: "#2a3038", edge: "#6b7684", received: "#8fbdf0",
      more: [[66, 36, 33], [138, 58, 46], [217, 95, 70], [246, 165, 130], [255, 228, 214]],
      weights: [[33, 51, 77], [41, 88, 143], [70, 136, 199], [143, 191, 240], [224, 239, 255]],
      less: [[33, 51, 77], [41, 88, 143], [70, 136, 199], [143, 191, 240], [224, 239, 255]],
    },
  };
  const same = (x) => x;
  /** Each scale: its name, the place of a weight on it and its inverse, and the ticks of its legend. */
  const SCALES = {
    linear: { name: "linear", place: same, weight: same, ticks: [0.25, 0.5, 0.75, 1], signed: [0.5, 1] },
    sqrt: { name: "square root", place: Math.sqrt, weight: (x) => x * x, ticks: [0.01, 0.1, 0.4, 1], signed: [0.1, 1] },
    log: {
      name: "logarithmic", place: (x) => Math.max(0, 1 + Math.log10(x) / DECADES), weight: (x) => 10 ** (DECADES * (x - 1)),
      ticks: [0.001, 0.01, 0.1, 1], signed: [0.01, 1],
    },
  };
  const TIP = "Color scale of the attention maps. Linear: the color is proportional to the weight. Square root and "
    + "logarithmic: small weights differ more clearly. A weight of exactly 0 has no color on any scale.";
  const dark = matchMedia("(prefers-color-scheme: dark)"), print = matchMedia("print");
  let scale = "linear";

  /** Return `light` or `dark`, the mode of the page. A page is printed in light colors. */
  function mode() {
    if (print.matches) return "light";
    return document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");
  }

  function mix(stops, share) {
    const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
    const left = Math.min(Math.floor(place), stops.length - 2);
    const parts = stops[left].map((a, i) => Math.round(a + (place - left) * (stops[left + 1][i] - a)));
    return `rgb(${parts.join(" ")})`;
  }

  /** Return the color of a weight or of a difference of weights; invalid values are pink. */
  function color(weight, difference, own = mode()) {
    const look = LOOKS[own];
    if (weight === 0) return look.zero;
    if (!Number.isFinite(weight) || (weight < 0 && !difference)) return "#ff4fa3";
    const stops = !difference ? look.weights : weight > 0 ? look.more : look.less;
    return mix(stops, SCALES[scale].place(Math.abs(weight)));
  }

  /** Return the parts of the legend: a box for exactly 0, the colors of the scale, and their numbers. */
  function legend(node, difference, own) {
    const { place, weight, ticks, signed } = SCALES[scale], look = LOOKS[own];
    const parts = [], start = difference ? 8 : 30;
    const text = (x, label) => parts.push(node("text", {
      x, y: 24, "text-anchor": "middle", "font-size": 10, fill: look.soft, direction: "ltr" }, label));
    const box = (x, width, fill) => parts.push(node("rect", { x, y: 0, width, height: 11, fill }));
    if (!difference) {
      box(2, 12, look.zero);
      parts[0].setAttribute("stroke", look.edge);
      text(8, "0");
    }
    const width = BAR / STEPS;
    for (let i = 0; i < STEPS; i++) {
      const at = (i + 0.5) / STEPS, sign = difference && at < 0.5 ? -1 : 1;
      const share = difference ? Math.abs(2 * at - 1) : at;
      // The cells overlap, because gaps between them would be visible at some zoom levels.
      box(start + i * width, Math.min(width + 0.5, BAR - i * width), color(sign * weight(share), difference, own));
    }
    const label = (value) => String(value).replace("-", "−");
    if (!difference) for (const tick of ticks) text(start + BAR * place(tick), label(tick));
    else for (const tick of [...signed.map((x) => -x).reverse(), 0, ...signed])
      text(start + BAR * (0.5 + Math.sign(tick) * (tick ? place(Math.abs(tick)) : 0) / 2), label(tick));
    return parts;
  }

  function repaint() {
    document.querySelectorAll(".regard-map").forEach((svg) => svg.paint());
  }

  /** Return a control for the scale of all maps of the page; `make(name, attributes, ...children)` creates elements. */
  function control(make) {
    const select = make("select", { class: "field map-scale", title: TIP },
      ...Object.entries(SCALES).map(([key, { name }]) => make("option", { value: key, selected: key === scale }, name)));
    select.addEventListener("change", () => {
      scale = select.value;
      document.querySelectorAll(".map-scale").forEach((other) => { other.value = scale; });
      repaint();
    });
    return make("label", { class: "scale-control", title: TIP }, make("span", {}, "Color scale"), " ", select);
  }

  dark.addEventListener("change", repaint);
  print.addEventListener("change", repaint);
  new MutationObserver(repaint).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });

  return { HEIGHT, LOOKS, WIDTH, color, control, legend, mode };
})();

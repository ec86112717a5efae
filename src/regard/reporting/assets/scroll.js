/* Boxes that scroll fade at the sides where more of their content is hidden; shared by the report and the served page. */
"use strict";

const regardScroll = (() => {
  const FADE = "2.25rem";

  function update(box) {
    const hidden = {
      left: box.scrollLeft, right: box.scrollWidth - box.clientWidth - box.scrollLeft,
      top: box.scrollTop, bottom: box.scrollHeight - box.clientHeight - box.scrollTop,
    };
    // Positions are rounded at some zoom levels, so a pixel is not enough.
    for (const [side, pixels] of Object.entries(hidden)) box.style.setProperty(`--${side}`, pixels > 2 ? FADE : "0px");
    box.classList.toggle("more", hidden.right > 2 || hidden.bottom > 2);
  }

  /** Watch a box, and return it. */
  function watch(box) {
    box.classList.add("scrolls");
    box.addEventListener("scroll", () => update(box), { passive: true });
    const sizes = new ResizeObserver(() => update(box));
    for (const one of [box, ...box.children]) sizes.observe(one);
    return box;
  }

  return { watch };
})();

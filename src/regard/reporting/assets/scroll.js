/* Boxes that scroll fade at the sides where more of their content is hidden, and the labels of attention maps in them stay
 * in view; shared by the report and the served page. */
"use strict";

const regardScroll = (() => {
  const FADE = "2.25rem";

  function update(box) {
    const hidden = {
      left: box.scrollLeft, right: box.scrollWidth - box.clientWidth - box.scrollLeft,
      top: box.scrollTop, bottom: box.scrollHeight - box.clientHeight - box.scrollTop,
    };
    const map = box.querySelector(".regard-map");
    if (map) {
      map.stick(box.scrollLeft, box.scrollTop);
      hidden.left = hidden.top = 0; // the labels are there
      const scale = map.clientWidth / map.viewBox.baseVal.width;
      box.style.scrollPadding = `${scale * map.heads.top}px 1rem 1rem ${scale * map.heads.left}px`;
    }
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

/* Parts of all pages that open offline: elements, files, and light and dark colors. */
"use strict";

const regardShared = (() => {
  const FREED = 60_000; // milliseconds until the memory of a file is freed

  /** An element with attributes and children; strings become text, never markup. */
  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === true) made.setAttribute(key, "");
      else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
    return made;
  }

  /** Download a file. */
  function save(name, blob) {
    const address = URL.createObjectURL(blob);
    const link = element("a", { href: address, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), FREED);
  }

  /** Return a value that an earlier visit of the page stored; null without one. */
  function recall(key) {
    try { return localStorage.getItem(key); } catch { return null; /* a page from a file may have no access to storage */ }
  }

  function store(key, value) {
    try { localStorage.setItem(key, value); } catch { /* as above */ }
  }

  /** Let the button of the page switch between light and dark colors. */
  function theme() {
    const button = document.getElementById("theme"), system = matchMedia("(prefers-color-scheme: dark)");
    let chosen = recall("regard-theme");
    const apply = () => {
      const dark = chosen ? chosen === "dark" : system.matches;
      if (chosen) document.documentElement.dataset.theme = chosen;
      button.textContent = dark ? "Light" : "Dark";
      button.setAttribute("aria-pressed", String(dark));
      button.setAttribute("aria-label", "dark colors");
    };
    button.addEventListener("click", () => {
      chosen = (chosen ? chosen === "dark" : system.matches) ? "light" : "dark";
      store("regard-theme", chosen);
      apply();
    });
    system.addEventListener("change", apply);
    apply();
  }

  return { element, recall, save, store, theme };
})();

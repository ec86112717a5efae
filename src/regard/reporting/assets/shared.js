/* Parts of all pages that open offline: elements, files, ticks of the reader, and light and dark colors. */
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

  /** Return a hash of a text. */
  function digest(text) {
    let [first, second] = [0xdeadbeef, 0x41c6ce57];
    for (let i = 0; i < text.length; i++) {
      first = Math.imul(first ^ text.charCodeAt(i), 2654435761);
      second = Math.imul(second ^ text.charCodeAt(i), 1597334677);
    }
    return [first, second].map((part) => (part >>> 0).toString(16)).join("");
  }

  /**
   * Return the entries that the reader ticked, a set, and the function that ticks entries or takes it back. The browser
   * remembers the changes to the initial entries for all pages of this kind with the same content.
   */
  function ticks(kind, content, initial = []) {
    const memory = `regard-${kind} ${digest(JSON.stringify(content))}`;
    const ticked = new Set(initial);
    let changes = new Map();
    try { changes = new Map(JSON.parse(recall(memory) || "[]")); } catch { /* a damaged value is ignored */ }
    const put = (isTicked, entry) => ticked[isTicked ? "add" : "delete"](entry);
    changes.forEach(put);
    const tick = (entries, isTicked) => {
      for (const entry of entries) {
        put(isTicked, entry);
        changes.set(entry, isTicked);
      }
      store(memory, JSON.stringify([...changes]));
    };
    return { ticked, tick };
  }

  /** Let the button of the page switch between light and dark colors. */
  function theme() {
    const button = document.getElementById("theme"), system = matchMedia("(prefers-color-scheme: dark)");
    let chosen = recall("regard-theme");
    const apply = () => {
      const dark = chosen ? chosen === "dark" : system.matches;
      if (chosen) document.documentElement.dataset.theme = chosen;
      button.replaceChildren(dark ? "Light" : "Dark", element("span", { class: "visually-hidden" }, " colors"));
    };
    button.addEventListener("click", () => {
      chosen = (chosen ? chosen === "dark" : system.matches) ? "light" : "dark";
      store("regard-theme", chosen);
      apply();
    });
    system.addEventListener("change", apply);
    apply();
  }

  return { element, save, theme, ticks };
})();

// Set the formulas of the page; KaTeX is a file of this site.
document.querySelectorAll(".arithmatex").forEach((element) => {
  const text = element.textContent.trim();
  const display = text.startsWith("\\[");
  katex.render(text.slice(2, -2), element, { displayMode: display, throwOnError: false });
});

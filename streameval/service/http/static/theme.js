// @ts-check
// Runs before anything is painted, so that a chosen theme does not flash in late.
// A classic script for that reason; the choice itself is wired up in header.js.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("streameval-theme");
  } catch {
    // Storage can be forbidden; then the system's theme it is.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();

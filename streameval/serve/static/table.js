// Tables that sort, by mouse and by keyboard.

import { breakable, make, setText } from "./dom.js";
import { NOTHING } from "./text.js";

/**
 * columns: [{ key, name, title, number, first: "asc" | "desc", value: row => any, cell: row => text or node }]
 * options:
 *   caption   what the table is, for those who do not see it
 *   keyOf     row => text that names the row, to keep focus and open details over a redraw
 *   empty     what to say without rows
 *   sort      { key, order } at first; null keeps the rows' own order
 *   onSort    (key) => …: sorting is done elsewhere, and given back with show()
 *   details   row => node: shown under the row when its first cell is pressed
 */
export function sortable({ columns, caption, keyOf, empty, sort = null, onSort = null, details = null }) {
  const head = make("tr");
  const body = make("tbody");
  const table = make("table", {}, make("caption", { class: "visually-hidden" }, caption), make("thead", {}, head), body);
  const scroll = make("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": caption }, table);
  const nothing = make("p", { class: "muted nothing", hidden: true }, empty);
  const node = make("div", { class: "sortable" }, scroll, nothing);
  const open = new Set();
  let shown = { columns: [], rows: [], sort, drawn: "" };

  function headers() {
    head.replaceChildren(...shown.columns.map((column) => {
      const button = make("button", { type: "button", title: column.title, onclick: () => pressed(column) },
        make("span", {}, ...breakable(column.name)), make("span", { class: "arrow", "aria-hidden": "true" }));
      return make("th", { scope: "col", class: column.number ? "number" : null, "data-key": column.key }, button);
    }));
  }

  function pressed(column) {
    if (onSort) return onSort(column);
    const first = column.first ?? (column.number ? "desc" : "asc");
    const other = first === "asc" ? "desc" : "asc";
    const order = shown.sort?.key === column.key && shown.sort.order === first ? other : first;
    show(shown.rows, { sort: { key: column.key, order }, columns: shown.columns });
  }

  function marks() {
    for (const cell of head.children) {
      const order = cell.dataset.key === shown.sort?.key ? shown.sort.order : null;
      if (order) cell.setAttribute("aria-sort", order === "asc" ? "ascending" : "descending");
      else cell.removeAttribute("aria-sort");
      setText(cell.querySelector(".arrow"), order ? (order === "asc" ? "↑" : "↓") : "");
    }
  }

  function ordered(rows) {
    const column = shown.columns.find((one) => one.key === shown.sort?.key);
    if (onSort || !column) return rows;
    const sign = shown.sort.order === "asc" ? 1 : -1;
    const pairs = rows.map((row) => [column.value(row), row]);
    // What is undefined is neither large nor small: it comes last, whatever the order.
    return pairs.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (typeof a === "number" ? a - b : String(a).localeCompare(String(b), "en"));
    }).map(([, row]) => row);
  }

  function line(row) {
    const key = keyOf(row);
    const tr = make("tr");
    shown.columns.forEach((column, place) => {
      const content = column.cell(row);
      const missing = content === NOTHING;
      const cell = make(place === 0 ? "th" : "td", {
        scope: place === 0 ? "row" : null,
        class: [column.number ? "number" : "", missing ? "missing" : "", column.class ?? ""].join(" ").trim() || null,
        title: column.hint?.(row),
      });
      if (place === 0 && details) {
        cell.append(make("button", {
          type: "button", class: "opener", "aria-expanded": String(open.has(key)), "data-focus": key,
          onclick: () => { if (!open.delete(key)) open.add(key); draw(); },
        }, content));
      } else {
        cell.append(content);
      }
      const reason = missing ? column.reason?.(row) : "";
      if (reason) {
        cell.title = reason;
        cell.append(make("span", { class: "visually-hidden" }, ` undefined: ${reason}`));
      }
      tr.append(cell);
    });
    if (!details || !open.has(key)) return [tr];
    return [tr, make("tr", { class: "details" }, make("td", { colspan: shown.columns.length }, details(row)))];
  }

  function draw() {
    const focused = body.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
    body.replaceChildren(...ordered(shown.rows).flatMap(line));
    if (focused !== undefined) {
      [...body.querySelectorAll("[data-focus]")].find((one) => one.dataset.focus === focused)?.focus({ preventScroll: true });
    }
    scroll.hidden = shown.rows.length === 0;
    nothing.hidden = shown.rows.length > 0;
    marks();
  }

  function show(rows, { sort: wanted = shown.sort, columns: which = columns, empty: words = null } = {}) {
    const names = which.map((column) => column.key).join("\n");
    const before = shown;
    shown = { columns: which, rows, sort: wanted, drawn: JSON.stringify([names, wanted, rows]) };
    if (words !== null) setText(nothing, words);
    if (shown.drawn === before.drawn) return;
    if (before.columns.map((column) => column.key).join("\n") !== names) headers();
    draw();
  }

  return { node, show };
}

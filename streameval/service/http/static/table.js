// @ts-check
// Tables that sort, by mouse and by keyboard.

import { breakable, focusedIn, make, setText } from "./dom.js";
import { NOTHING, whole } from "./text.js";

/**
 * A table that sorts by the column that is pressed.
 *
 * @template Row
 * @param {object} options
 * @param {Column<Row>[]} options.columns
 * @param {string} options.caption what the table is, for screen readers
 * @param {(row: Row) => string} options.keyOf identifies the row, to keep focus and open details over a redraw
 * @param {string} options.empty what is shown without rows
 * @param {Sort | null} [options.sort] the first order; null keeps the rows' own
 * @param {((column: Column<Row>) => void) | null} [options.onSort] sorting is done elsewhere, and passed to show()
 * @param {((row: Row) => Node) | null} [options.details] shown under the row when its first cell is pressed
 * @param {number} [options.first] so many rows are shown until all are requested
 * @param {((row: Row) => HTMLAnchorElement) | null} [options.link] the first cell's text; details have a mark beside it
 * @returns {Table<Row>}
 */
export function sortable({
  columns, caption, keyOf, empty, sort = null, onSort = null, details = null, link = null, first = Infinity,
}) {
  const head = make("tr");
  const body = make("tbody");
  const table = make("table", {},
    make("caption", { class: "visually-hidden" }, caption), make("thead", {}, head), body);
  const name = `Table: ${caption}`;
  const scroll = make("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": name }, table);
  const nothing = make("p", { class: "muted nothing", hidden: true }, empty);
  let all = false;
  const more = make("button", {
    type: "button", class: "all", hidden: true,
    onclick: () => {
      all = !all;
      draw();
    },
  }, "Show all");
  const node = make("div", { class: "sortable" }, scroll, more, nothing);
  /** @type {Set<string>} */
  const open = new Set();
  /** @type {{ columns: Column<Row>[], rows: Row[], sort: Sort | null, drawn: string }} */
  let shown = { columns: [], rows: [], sort, drawn: "" };

  function headers() {
    head.replaceChildren(...shown.columns.map((column) => {
      const press = () => pressed(column);
      const button = make("button", { type: "button", title: column.title, onclick: press },
        make("span", {}, ...breakable(column.name)), make("span", { class: "arrow", "aria-hidden": "true" }));
      return make("th", { scope: "col", class: column.number ? "number" : null, "data-key": column.key }, button);
    }));
  }

  /** @param {Column<Row>} column */
  function pressed(column) {
    if (onSort) return onSort(column);
    const begin = column.number ? "desc" : "asc";
    const other = begin === "asc" ? "desc" : "asc";
    const order = shown.sort?.key === column.key && shown.sort.order === begin ? other : begin;
    show(shown.rows, { sort: { key: column.key, order }, columns: shown.columns });
  }

  function marks() {
    for (const cell of head.querySelectorAll("th")) {
      const order = shown.sort && cell.dataset.key === shown.sort.key ? shown.sort.order : null;
      if (order) cell.setAttribute("aria-sort", order === "asc" ? "ascending" : "descending");
      else cell.removeAttribute("aria-sort");
      const arrow = cell.querySelector(".arrow");
      if (arrow) setText(arrow, order ? (order === "asc" ? "↑" : "↓") : "");
    }
  }

  /** @param {Row[]} rows */
  function ordered(rows) {
    const column = shown.columns.find((one) => one.key === shown.sort?.key);
    if (onSort || !column?.value || !shown.sort) return rows;
    const { value } = column;
    const sign = shown.sort.order === "asc" ? 1 : -1;
    const pairs = rows.map((row) => /** @type {const} */ ([value(row), row]));
    // Undefined values are last in every order.
    return pairs.sort(([a], [b]) => {
      if (a === null || b === null) return Number(a === null) - Number(b === null);
      return sign * (typeof a === "number" ? a - Number(b) : String(a).localeCompare(String(b), "en"));
    }).map(([, row]) => row);
  }

  /** @param {Row} row */
  function line(row) {
    const key = keyOf(row);
    const tr = make("tr");
    shown.columns.forEach((column, index) => {
      const content = column.cell(row);
      const missing = content === NOTHING;
      const cell = make(index === 0 ? "th" : "td", {
        scope: index === 0 ? "row" : null,
        class: [column.number ? "number" : "", missing ? "missing" : "", column.class ?? ""].join(" ").trim() || null,
        title: column.hint?.(row),
      });
      if (index === 0 && details) {
        const name = link?.(row);
        const opener = make("button", {
          type: "button", class: "opener", "aria-expanded": String(open.has(key)), "data-focus": key,
          "aria-label": name && `Details of ${name.textContent}`,
          onclick: () => {
            if (!open.delete(key)) open.add(key);
            draw();
          },
        }, name ? "" : content);
        if (name) name.dataset.focus = `${key} link`;
        cell.append(name ? make("div", { class: "linked" }, name, opener) : opener);
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
    const focused = focusedIn(body)?.dataset.focus;
    body.replaceChildren(...ordered(shown.rows).slice(0, all ? Infinity : first).flatMap(line));
    more.hidden = shown.rows.length <= first;
    setText(more, all ? `Show the first ${first}` : `Show all ${whole(shown.rows.length)}`);
    if (focused !== undefined) {
      const nodes = /** @type {NodeListOf<HTMLElement>} */ (body.querySelectorAll("[data-focus]"));
      [...nodes].find((one) => one.dataset.focus === focused)?.focus({ preventScroll: true });
    }
    scroll.hidden = shown.rows.length === 0;
    nothing.hidden = shown.rows.length > 0;
    marks();
  }

  /** @type {Table<Row>["show"]} */
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

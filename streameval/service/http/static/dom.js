// @ts-check
// Elements. Text gets into the page through textContent only, so that no text of the
// stream can ever be markup.

/**
 * make("td", { class: "number", title: "…", onclick: f, "aria-label": "…" }, "text", node)
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any>} options attributes and listeners; null, undefined and false are left out
 * @param {...(Node | string | null | undefined)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, given] of Object.entries(options)) {
    if (given === undefined || given === null || given === false) continue;
    if (name === "style" || name === "srcdoc") throw new Error(`${name} is not set here`);
    if (name.startsWith("on")) node.addEventListener(name.slice(2), given);
    else node.setAttribute(name, given === true ? "" : String(given));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/**
 * A panel's section: a heading, what its numbers are about, controls, and its content.
 *
 * @param {string} id
 * @param {string} title
 * @param {{ framed?: boolean, controls?: Node[] }} options
 * @param {...Node} children
 */
export function section(id, title, { framed = true, controls = [] }, ...children) {
  const head = make("div", { class: "head" },
    make("h2", { id: `${id}-title` }, title), make("span", { class: "about", id: `${id}-about` }), ...controls);
  return make("section", { id, class: framed && "panel", "aria-labelledby": `${id}-title` }, head, ...children);
}

/** @param {string} name @param {HTMLElement} input */
export function control(name, input) {
  return make("label", { class: "control" }, make("span", {}, name), input);
}

/** A paragraph that is hidden until `note` gives it a text. @param {string} id */
export function hiddenNote(id) {
  return make("p", { class: "note", id, hidden: true });
}

/**
 * @template {HTMLElement} [Kind=HTMLElement]
 * @param {string} id
 * @param {new () => Kind} [kind]
 * @returns {Kind}
 */
export function byId(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof (kind ?? HTMLElement))) throw new Error(`the page has no #${id}`);
  return /** @type {Kind} */ (found);
}

/**
 * Set text only where it differs: what did not change is not announced, selected text stays.
 *
 * @param {Element} node
 * @param {string} text
 */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * Set the text; an element without one is hidden.
 *
 * @param {HTMLElement} node
 * @param {string} text
 */
export function note(node, text) {
  setText(node, text);
  node.hidden = text === "";
}

/**
 * Fill a select, keeping the choice.
 *
 * @param {HTMLSelectElement} select
 * @param {[key: string, text: string][]} pairs
 * @param {string | null} chosen
 */
export function options(select, pairs, chosen) {
  const wanted = JSON.stringify(pairs);
  if (select.dataset.options !== wanted) {
    select.replaceChildren(...pairs.map(([key, text]) => make("option", { value: key }, text)));
    select.dataset.options = wanted;
  }
  select.value = chosen ?? "";
}

/** A name of words joined by "_", which may break after each of them. @param {string} name */
export function breakable(name) {
  return name.split("_").flatMap((word, n) => (n === 0 ? [word] : [make("wbr"), `_${word}`]));
}

/**
 * A label with its explanation, which shows on hover and is read out.
 *
 * @param {string} text
 * @param {string} explanation
 */
export function term(text, explanation) {
  return make("dt", { title: explanation }, text);
}

/**
 * A named number of a list of them, with its explanation, and what is said beside it.
 *
 * @param {string} name
 * @param {string} given
 * @param {string} meaning
 */
export function stat(name, given, meaning, aside = "") {
  const small = aside ? make("small", {}, ` ${aside}`) : null;
  return make("div", { title: meaning }, term(name, meaning), make("dd", {}, given, small));
}

/** The element within `box` that has the focus. @param {Element} box */
export function focusedIn(box) {
  const active = document.activeElement;
  return active instanceof HTMLElement && box.contains(active) ? active : null;
}

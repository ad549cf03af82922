// Elements. Text gets into the page through textContent only, so that no text of the
// stream can ever be markup.

/**
 * make("td", { class: "number", title: "…", onclick: f, "aria-label": "…" }, "text", node)
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

export function byId(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no #${id}`);
  return found;
}

/** Set text only where it differs: what did not change is not announced, selected text stays. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Text where there is something to say, else the element is hidden. */
export function note(node, text) {
  setText(node, text);
  node.hidden = text === "";
}

/** Fill a select, keeping the choice. */
export function options(select, pairs, chosen) {
  const wanted = JSON.stringify(pairs);
  if (select.dataset.options !== wanted) {
    select.replaceChildren(...pairs.map(([key, text]) => make("option", { value: key }, text)));
    select.dataset.options = wanted;
  }
  select.value = chosen;
}

/** A name of words joined by "_", which may break after each of them. */
export function breakable(name) {
  return name.split("_").flatMap((word, n) => (n === 0 ? [word] : [make("wbr"), `_${word}`]));
}

/** A label with its explanation, which shows on hover and is read out. */
export function term(text, explanation) {
  return make("dt", { title: explanation }, text);
}

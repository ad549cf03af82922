// @ts-check
// The slice that is opened: the numbers below are its own until it is closed.

import { byId, hiddenNote, make, note, section, setText } from "./dom.js";
import * as text from "./text.js";

const back = make("button", { type: "button", id: "slice-close" }, "Back to all events");

/** @type {Panel} */
export const panel = {
  node: section("slice", "Slice", { controls: [back] }, hiddenNote("slice-note")),
  counted: true,
  hidden: ({ chosen }) => chosen.slice === null,
  start(page) {
    byId("slice-title").tabIndex = -1;
    back.addEventListener("click", () => page.openSlice(null));
  },
  show({ chosen, missing, status }) {
    if (chosen.slice === null) return;
    setText(byId("slice-title"), `Slice ${text.visible(chosen.slice, 200)}`);
    const more = status.run?.predictions ? " predictions," : "";
    setText(byId("slice-about"),
      missing ? "" : `Metrics, the metric over time,${more} curves and confusion are of this slice`);
    note(byId("slice-note"), missing && `It cannot be shown: ${text.visible(missing, 300)}.`);
  },
};

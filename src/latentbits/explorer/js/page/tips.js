/** A small note beside an element under the pointer or in focus; readers of screens have it as its description. */
import { make } from "./dom.js";

let tipCount = 0;
/** @type {HTMLElement | null} */
let bubble = null;

/** @param {HTMLElement} element that can have focus @param {string} text */
export function addTip(element, text) {
  const id = `tip-${++tipCount}`;
  element.after(make("span", { id, class: "unseen", text }));
  element.setAttribute("aria-describedby", id);
  element.addEventListener("pointerenter", () => showTip(element, text));
  element.addEventListener("pointerleave", hideTip);
  element.addEventListener("focus", () => showTip(element, text));
  element.addEventListener("blur", hideTip);
  element.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hideTip();
  });
}

/** @param {HTMLElement} element @param {string} text */
function showTip(element, text) {
  if (!bubble) {
    bubble = make("div", { class: "tip", "aria-hidden": "true" });
    document.body.append(bubble);
  }
  bubble.textContent = text;
  bubble.hidden = false;
  const [own, box] = [bubble.getBoundingClientRect(), element.getBoundingClientRect()];
  const left = Math.min(box.left, document.documentElement.clientWidth - own.width - 8);
  const below = box.bottom + 6;
  bubble.style.left = `${Math.max(left, 8)}px`;
  bubble.style.top = `${below + own.height > innerHeight ? Math.max(box.top - own.height - 6, 0) : below}px`;
}

function hideTip() {
  if (bubble) bubble.hidden = true;
}

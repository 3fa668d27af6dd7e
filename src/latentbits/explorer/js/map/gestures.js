/** Mouse, fingers and keys on the map, as what they mean. */

/**
 * @typedef {object} Meaning
 * @property {(x: number, y: number) => void} hover the cursor is at this pixel
 * @property {() => void} leave
 * @property {(x: number, y: number, second: boolean) => void} pick
 * @property {(dx: number, dy: number) => void} pan
 * @property {(factor: number, x?: number, y?: number) => void} zoom
 * @property {(points: number[], done: boolean) => void} lasso x and y by turns, in pixels
 * @property {() => boolean} lassoing whether dragging draws a lasso
 * @property {(key: string, shift: boolean) => boolean} key whether it meant anything
 */

const STILL = 5; // pixels: less is a click
const STEP = 2.5; // pixels between points of a lasso

/** @param {HTMLElement} element @param {Meaning} meaning */
export function listenTo(element, meaning) {
  /** @type {Map<number, {x: number, y: number}>} */
  const down = new Map();
  /** @type {{x: number, y: number, moved: boolean, lasso: number[] | null} | null} */
  let drag = null;
  const at = (/** @type {MouseEvent} */ event) => {
    const box = element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };

  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const { x, y } = at(event);
    down.set(event.pointerId, { x, y });
    element.setPointerCapture(event.pointerId);
    if (down.size === 1) {
      const lasso = event.shiftKey || meaning.lassoing() ? [x, y] : null;
      drag = { x, y, moved: false, lasso };
    } else if (drag) {
      if (drag.lasso) meaning.lasso([], true); // a second finger: a pinch, not a lasso
      drag = { ...drag, moved: true, lasso: null };
    }
  });

  element.addEventListener("pointermove", (event) => {
    const now = at(event);
    const before = down.get(event.pointerId);
    if (!before || !drag) {
      if (event.pointerType !== "touch") meaning.hover(now.x, now.y);
      return;
    }
    if (down.size === 2) pinch(event.pointerId, now);
    else dragTo(now, before);
    down.set(event.pointerId, now);
  });

  /** @param {{x: number, y: number}} now @param {{x: number, y: number}} before */
  function dragTo(now, before) {
    if (!drag) return;
    if (!drag.moved && Math.hypot(now.x - drag.x, now.y - drag.y) < STILL) return;
    if (drag.lasso) {
      const [x, y] = drag.lasso.slice(-2);
      if (Math.hypot(now.x - x, now.y - y) >= STEP) drag.lasso.push(now.x, now.y);
      meaning.lasso(drag.lasso, false);
    } else {
      const from = drag.moved ? before : drag;
      meaning.pan(now.x - from.x, now.y - from.y);
      element.classList.add("dragging");
    }
    drag.moved = true;
  }

  /** @param {number} id @param {{x: number, y: number}} now */
  function pinch(id, now) {
    const before = down.get(id);
    const other = [...down].find(([key]) => key !== id)?.[1];
    if (!before || !other) return;
    const middle = { x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 };
    meaning.pan((now.x - before.x) / 2, (now.y - before.y) / 2);
    const [was, is] = [before, now].map((p) => Math.max(10, Math.hypot(p.x - other.x, p.y - other.y)));
    meaning.zoom(is / was, middle.x, middle.y);
  }

  /** @param {PointerEvent} event @param {boolean} whole whether it ended as it should */
  const release = (event, whole) => {
    const mine = down.delete(event.pointerId);
    if (!mine || down.size > 0 || !drag) return;
    const { x, y } = at(event);
    const { moved, lasso } = drag;
    drag = null;
    element.classList.remove("dragging");
    if (lasso && moved) meaning.lasso(whole ? lasso : [], true);
    else if (whole && !moved) meaning.pick(x, y, event.ctrlKey || event.altKey || event.metaKey);
  };
  element.addEventListener("pointerup", (event) => release(event, true));
  element.addEventListener("pointercancel", (event) => release(event, false));
  element.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch" && down.size === 0) meaning.leave();
  });
  element.addEventListener("dblclick", (event) => meaning.zoom(2, at(event).x, at(event).y));
  element.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const pixels = event.deltaY * (event.deltaMode === 1 ? 30 : event.deltaMode === 2 ? 300 : 1);
      meaning.zoom(Math.exp(-0.0016 * Math.max(-400, Math.min(400, pixels))), at(event).x, at(event).y);
    },
    { passive: false },
  );
  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (meaning.key(event.key, event.shiftKey)) event.preventDefault();
  });
}

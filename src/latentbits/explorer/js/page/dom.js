/** Making elements.  Text from the user's table goes in as text, here and nowhere else. */

/** @typedef {Record<string, string | number | boolean | ((event: any) => void)>} Properties */

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Properties} [properties] attributes; `on...` are listeners, `text` is the content
 * @param {Array<Node | string>} [children]
 */
export function make(tag, properties = {}, children = []) {
  const element = document.createElement(tag);
  fill(element, properties, children);
  return element;
}

/** @param {string} tag @param {Properties} [properties] @param {Array<Node | string>} [children] @returns {SVGElement} */
export function makeSvg(tag, properties = {}, children = []) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(element, properties, children);
  return element;
}

/** @param {Element} element @param {Properties} properties @param {Array<Node | string>} children */
function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name === "text") element.textContent = String(value);
    else if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false) element.setAttribute(name, String(value));
  }
  element.append(...children);
}

/** @param {string} label @param {() => void} action @param {string} [title] */
export function button(label, action, title = "") {
  const made = make("button", { type: "button", class: "small", text: label, onclick: action });
  if (title) made.title = title;
  return made;
}

/**
 * A list to choose from.
 * @param {Array<[string | number, string]>} options values and texts
 * @param {(value: string) => void} choose @param {Properties} [properties]
 */
export function selectOf(options, choose, properties = {}) {
  const entries = options.map(([value, text]) => make("option", { value, text }));
  const select = make("select", { ...properties, onchange: () => choose(select.value) }, entries);
  return select;
}

/** The head of a table. @param {string[]} texts */
export function tableHead(texts) {
  const cells = texts.map((text) => make("th", { scope: "col", text }));
  return make("thead", {}, [make("tr", {}, cells)]);
}

/** A picture with its name below. @param {Element} picture @param {string} text */
export function captioned(picture, text) {
  return make("figure", {}, [picture, make("figcaption", { text })]);
}

/** A drawing to be saved, on paper of its colour. @param {number} width @param {number} height @param {number} letters pixels */
export function fileSvg(width, height, letters) {
  const font = { "font-family": "system-ui, sans-serif", "font-size": letters, fill: themeColour("--ink") };
  const box = { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}` };
  return makeSvg("svg", { ...box, ...font }, [makeSvg("rect", { width, height, fill: themeColour("--paper") })]);
}

/** Act once on each element that comes near the window. @param {HTMLElement[]} elements @param {(element: HTMLElement) => void} act */
export function whenNear(elements, act) {
  const look = (/** @type {IntersectionObserverEntry[]} */ seen) => {
    for (const { isIntersecting, target } of seen) {
      if (!isIntersecting) continue;
      watch.unobserve(target);
      act(/** @type {HTMLElement} */ (target));
    }
  };
  const watch = new IntersectionObserver(look, { rootMargin: "400px" });
  for (const element of elements) watch.observe(element);
}

/** A field that narrows a list down. @param {string} what "columns" @param {string} label for readers of screens */
export function filterField(what, label) {
  return make("input", { type: "search", placeholder: `only ${what} with …`, "aria-label": label });
}

/** The element with this id, or null where the page has no such part. @param {string} id */
export function part(id) {
  return document.getElementById(id);
}

/** Tell those who cannot see the page what has just happened. @param {string} text */
export function say(text) {
  const place = part("say");
  if (place) place.textContent = text;
}

/** A colour of the style sheet, as it is now (light or dark). @param {string} name such as "--ink" */
export function themeColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/**
 * What a reader sees as letters, of a text that has more of them than `most`: an emoji is one, of whatever parts.
 * @param {string} text @param {number} most @returns {string[] | undefined}
 */
export function lettersOf(text, most) {
  if (text.length <= most) return undefined;
  const letters = Array.from(new Intl.Segmenter().segment(text), ({ segment }) => segment);
  return letters.length > most ? letters : undefined;
}

/** Which section is being read: its link in the bar at the top says so. */

export function followSections() {
  const links = /** @type {HTMLAnchorElement[]} */ ([...document.querySelectorAll('nav a[href^="#"]')]);
  const sections = links.map((link) => document.querySelector(link.hash));
  const mark = () => {
    const tops = sections.map((section) => section?.getBoundingClientRect().top ?? Number.POSITIVE_INFINITY);
    const passed = tops.filter((top) => top < innerHeight / 3).length;
    links.forEach((link, i) => {
      if (i === passed - 1) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
  };
  addEventListener("scroll", mark, { passive: true });
  mark();
}

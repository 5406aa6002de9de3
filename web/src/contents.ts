/** Marks the section that is being read in the list of contents beside the text. */

import { all } from "./dom";

export function contents(): void {
  const links = new Map<Element, HTMLAnchorElement>();
  for (const link of all<HTMLAnchorElement>(".il-toc a[href^='#']")) {
    const target = link.hash.length > 1 ? document.getElementById(decodeURIComponent(link.hash.slice(1))) : null;
    if (target) links.set(target, link);
  }
  if (links.size === 0) return;
  const order = [...links.keys()];
  const mark = (): void => {
    const passed = order.filter((section) => section.getBoundingClientRect().top < innerHeight * 0.3);
    const now = passed.at(-1);
    for (const [section, link] of links) {
      if (section === now) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  let asked = false;
  addEventListener(
    "scroll",
    () => {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => {
        asked = false;
        mark();
      });
    },
    { passive: true },
  );
  mark();
}

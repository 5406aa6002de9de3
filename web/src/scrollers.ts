/** What is wider than its place (code, tables, formulas) can be scrolled by keyboard too: it gets the focus only while it is wider. */

import { all } from "./dom";

const BOXES = "main pre, .il-scroll, .pst-scrollable-table-container, main div.math, .il-drawing, div.cell_output .output";

export function scrollers(root: ParentNode = document): void {
  const boxes = all(BOXES, root);
  const mark = (): void => {
    for (const box of boxes) {
      if (box.scrollWidth > box.clientWidth + 1 && getComputedStyle(box).overflowX !== "visible") box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  };
  const watch = new ResizeObserver(() => requestAnimationFrame(mark));
  for (const box of boxes) watch.observe(box);
  mark();
}

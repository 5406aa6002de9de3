/**
 * Provenance of a number: the formula with its inputs, or the device and date of a measurement.
 * Style sheets show it on hover and focus; this adds Escape, tap, and staying inside the window.
 */

import { all, one } from "./dom";

const GAP = 8;

function place(mark: HTMLElement): void {
  const tip = one(".il-tip", mark.parentElement ?? mark);
  if (!tip) return;
  tip.style.setProperty("--shift", "0px");
  tip.classList.remove("il-tip--above");
  const box = tip.getBoundingClientRect();
  const width = document.documentElement.clientWidth;
  const shift = box.left < GAP ? GAP - box.left : box.right > width - GAP ? width - GAP - box.right : 0;
  tip.style.setProperty("--shift", `${Math.round(shift)}px`);
  tip.classList.toggle("il-tip--above", box.bottom > innerHeight - GAP && mark.getBoundingClientRect().top > box.height + GAP);
}

export function tips(): void {
  const marks = all(".il-val[aria-describedby]");
  for (const mark of marks) {
    const holder = mark.parentElement ?? mark;
    const show = (): void => {
      holder.classList.remove("is-closed");
      place(mark);
    };
    holder.addEventListener("pointerenter", show);
    mark.addEventListener("focus", show);
    mark.addEventListener("click", () => {
      const again = holder.classList.contains("is-open") && !holder.classList.contains("is-closed");
      holder.classList.toggle("is-open", !again);
      if (again) holder.classList.add("is-closed");
      else show();
    });
    mark.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      mark.click();
    });
    mark.addEventListener("blur", () => holder.classList.remove("is-open"));
  }
}

/** Closes what is shown; true if something was. */
export function closeTips(): boolean {
  const shown = all(".il-mark-num:is(:hover, :focus-within, .is-open):not(.is-closed)");
  for (const holder of shown) {
    holder.classList.add("is-closed");
    holder.classList.remove("is-open");
  }
  return shown.length > 0;
}

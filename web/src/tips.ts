/**
 * Provenance of a number: the formula with its inputs, or the device and date of a measurement.
 * Style sheets show it on hover and focus; this adds Escape, tap, and a place inside the window.
 */

import { all, one } from "./dom";

const GAP = 8;
const SHOWN = ".il-mark-num:is(:hover, :focus-within, .is-open):not(.is-closed)";

/** Below the number and in line with it; above where there is no room below; never outside the window. */
function place(holder: HTMLElement): void {
  const tip = one(".il-tip", holder);
  const mark = one(".il-val", holder)?.getBoundingClientRect();
  if (!tip || !mark) return;
  const { width, height } = tip.getBoundingClientRect();
  const right = document.documentElement.clientWidth - GAP;
  const x = Math.max(GAP, Math.min(mark.left + mark.width / 2 - width / 2, right - width));
  const below = mark.bottom + 6;
  const y = below + height > innerHeight - GAP && mark.top > height + 2 * GAP ? mark.top - height - 6 : below;
  tip.style.setProperty("--x", `${Math.round(x)}px`);
  tip.style.setProperty("--y", `${Math.round(y)}px`);
}

function listen(mark: HTMLElement): void {
  const holder = mark.parentElement;
  if (!holder) return;
  const show = (): void => {
    holder.classList.remove("is-closed");
    place(holder);
  };
  holder.addEventListener("pointerenter", show);
  mark.addEventListener("focus", show);
  mark.addEventListener("blur", () => holder.classList.remove("is-open"));
  mark.addEventListener("click", () => {
    const open = holder.classList.contains("is-open") && !holder.classList.contains("is-closed");
    holder.classList.toggle("is-open", !open);
    if (open) holder.classList.add("is-closed");
    else show();
  });
  mark.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    mark.click();
  });
}

export function tips(): void {
  all(".il-val[aria-describedby]").forEach(listen);
  addEventListener("scroll", () => all(SHOWN).forEach(place), { passive: true, capture: true });
}

/** Closes what is shown; true if something was. */
export function closeTips(): boolean {
  const shown = all(SHOWN);
  for (const holder of shown) {
    holder.classList.add("is-closed");
    holder.classList.remove("is-open");
  }
  return shown.length > 0;
}

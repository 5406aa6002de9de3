/**
 * Provenance of a number: the formula with its inputs, or the device and date of a measurement.
 * Without script it is the plain title of the number. Here it becomes a note that is shown on hover, focus and tap, inside the window,
 * and that Escape closes.
 */

import { all, one } from "./dom";

const GAP = 8;
const SHOWN = ".il-mark-num:is(:hover, :focus-within, .is-open):not(.is-closed)";

/** Notes stay clear of the bar on top. */
const barHeight = (): number => (one(".il-top")?.getBoundingClientRect().bottom ?? 0) + GAP;

/** Below the number and in line with it; above where there is no room below; never outside the window. */
function place(holder: HTMLElement): void {
  const tip = one(".il-tip", holder);
  const mark = one(".il-val", holder)?.getBoundingClientRect();
  if (!tip || !mark) return;
  tip.style.removeProperty("--room");
  const { width, height } = tip.getBoundingClientRect();
  const right = document.documentElement.clientWidth - GAP;
  const x = Math.max(GAP, Math.min(mark.left + mark.width / 2 - width / 2, right - width));
  const below = mark.bottom + 6;
  const under = innerHeight - GAP - below;
  const over = mark.top - 6 - barHeight();
  const up = height > under && over > under;
  const y = up ? mark.top - 6 - Math.min(height, over) : below;
  tip.style.setProperty("--room", `${Math.round(Math.max(up ? over : under, 120))}px`);
  tip.style.setProperty("--x", `${Math.round(x)}px`);
  tip.style.setProperty("--y", `${Math.round(y)}px`);
}

/** The note as an element: the first line says what kind of number it is, a line with `= ` goes on with the one before. */
function write(text: string, id: string, measured: boolean): HTMLElement {
  const tip = document.createElement("span");
  tip.className = measured ? "il-tip il-tip--measured" : "il-tip";
  tip.id = id;
  tip.setAttribute("role", "tooltip");
  let row: HTMLElement = tip;
  text.split("\n").forEach((line, index) => {
    if (index > 0 && line.startsWith("= ")) {
      const code = document.createElement("code");
      code.textContent = line.slice(2);
      row.append(document.createElement("br"), "= ", code);
      return;
    }
    row = document.createElement("span");
    row.className = index === 0 ? "il-tip-head" : "il-tip-row";
    row.textContent = line;
    tip.append(row, " ");
  });
  return tip;
}

let notes = 0;

function listen(mark: HTMLElement): void {
  const holder = mark.parentElement;
  if (!holder) return;
  const tip = write(mark.title, `il-tip-${notes++}`, mark.classList.contains("il-measured"));
  holder.append(tip);
  mark.removeAttribute("title");
  mark.setAttribute("role", "button");
  mark.setAttribute("aria-describedby", tip.id);
  mark.tabIndex = 0;
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

/** Numbers in what a script put on the page. */
export function tipsIn(root: ParentNode): void {
  all(".il-val[title]", root).forEach(listen);
}

export function tips(): void {
  tipsIn(document);
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

/** The interview card: answer behind one action, follow-ups that unfold one after the other, a rubric to grade oneself. */

import { all, announce, one } from "./dom";
import { forget, load, save } from "./store";

/** Opens the answer of a card page. Returns false if there is none or it is open already. */
export function revealAnswer(): boolean {
  const answer = one<HTMLDetailsElement>("details.il-answer");
  if (!answer || answer.open) return false;
  answer.open = true;
  one("summary", answer)?.focus({ preventScroll: true });
  return true;
}

/** Goes to the first follow-up that is not open yet, past all the numbers on the way; the answer opens first. False when all are open. */
export function nextFollowUp(): boolean {
  revealAnswer();
  const next = all<HTMLDetailsElement>(".il-chain > li > details:not([open])")[0];
  const summary = next && one("summary", next);
  if (!next || !summary) return false;
  if (next.parentElement) next.parentElement.hidden = false; // the one before was opened just now, and its toggle event is still to come
  summary.focus();
  summary.scrollIntoView({ block: "center" });
  return true;
}

/** A link to a section of the answer opens the answer first. */
function openForHash(): void {
  if (location.hash.length < 2) return;
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  let closed = target?.closest<HTMLDetailsElement>("details:not([open])");
  if (!target) return;
  for (let item = target.closest<HTMLElement>("li[hidden]"); item; item = item.parentElement?.closest<HTMLElement>("li[hidden]") ?? null) item.hidden = false;
  if (!closed) return;
  while (closed) {
    closed.open = true;
    closed = target.closest<HTMLDetailsElement>("details:not([open])");
  }
  target.scrollIntoView();
}

/** Without script every follow-up can be seen; with it, the next one comes when the one before has been opened. */
function chain(list: HTMLElement): void {
  const links = all("li", list).filter((item) => item.parentElement === list);
  const left = one(".il-chain-left", list.parentElement ?? list);
  const show = (count: number): void => {
    links.forEach((item, index) => {
      item.hidden = index >= count;
      item.classList.toggle("is-last", index === count - 1 && count < links.length);
    });
    if (left) {
      const rest = links.length - count;
      left.textContent = rest > 0 ? `${rest} more, deeper each time` : "";
      left.hidden = rest === 0;
    }
  };
  let shown = 1;
  show(shown);
  links.forEach((item, index) => {
    one<HTMLDetailsElement>("details", item)?.addEventListener("toggle", (event) => {
      if (!(event.currentTarget as HTMLDetailsElement).open || shown > index + 1) return;
      shown = Math.min(index + 2, links.length);
      show(shown);
      if (shown > index + 1) announce(`Follow-up ${shown} of ${links.length} is open to you`);
    });
  });
}

/** Which items of the rubric the reader's own answer had; kept per card. */
function rubric(form: HTMLElement): void {
  const key = `rubric:${form.dataset.card ?? ""}`;
  const boxes = all<HTMLInputElement>("input[type=checkbox]", form);
  const score = one(".il-rubric-score", form);
  const reset = one<HTMLButtonElement>(".il-rubric-reset", form);

  const tell = (): void => {
    const parts = all(".il-rubric-level", form).map((group) => {
      const inGroup = all<HTMLInputElement>("input", group);
      const hit = inGroup.filter((box) => box.checked).length;
      return group.dataset.level === "red_flag" ? (hit > 0 ? `${hit} red flag${hit > 1 ? "s" : ""}` : "") : `${group.dataset.level} ${hit}/${inGroup.length}`;
    });
    const any = boxes.some((box) => box.checked);
    if (score) score.textContent = any ? parts.filter(Boolean).join(" · ") : "";
    if (reset) reset.hidden = !any;
  };

  const kept = new Set(load<string[]>(key, []));
  for (const box of boxes) {
    box.checked = kept.has(box.value);
    box.addEventListener("change", () => {
      save(key, boxes.filter((other) => other.checked).map((other) => other.value));
      tell();
    });
  }
  reset?.addEventListener("click", () => {
    for (const box of boxes) box.checked = false;
    forget(key);
    tell();
    boxes[0]?.focus();
  });
  tell();
}

/** Faces of formulas in a closed answer are not fetched until it opens, which is too late when it opens for the printer. */
function fetchFormulaFaces(): void {
  if (!one("details:not([open]) .math")) return;
  const wanted = ["MJXTEX", "MJXTEX-I", "MJXTEX-S1", "MJXTEX-S2"];
  setTimeout(() => {
    for (const face of document.fonts) if (wanted.includes(face.family.replace(/["']/g, ""))) void face.load().catch(() => undefined);
  }, 2000);
}

export function cards(): void {
  all(".il-chain").forEach(chain);
  all(".il-rubric").forEach(rubric);
  openForHash();
  addEventListener("load", fetchFormulaFaces);
  addEventListener("hashchange", openForHash);
  // Paper has no keys: everything is open there, and as it was afterwards.
  let opened: HTMLDetailsElement[] = [];
  addEventListener("beforeprint", () => {
    opened = all<HTMLDetailsElement>("main details:not([open])");
    for (const details of opened) details.open = true;
    for (const item of all(".il-chain > li")) item.hidden = false;
  });
  addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
    opened = [];
  });
}

/** The rubric as a checklist: what is ticked suggests a grade, and the reader decides. */

import { h } from "../dom";
import { type Card, type CardText, fragment } from "./cards";
import type { Step } from "./session";
import type { Rating } from "./progress";

const LEVELS = [
  ["junior", "A junior answer"],
  ["mid", "A mid-level answer adds"],
  ["senior", "A senior answer adds"],
  ["red_flag", "Red flags"],
] as const;
const ORDER = ["junior", "mid", "senior"];

/**
 * The grade that the ticks speak for; null where nothing is ticked. What counts are the items up to the card's own level: all of them are
 * good, half of them hard, fewer forgotten; something of the level above on top is easy. A red flag is never more than hard.
 */
export function suggestion(card: Card, ticked: readonly string[]): Rating | null {
  const known = card.rubric.filter((item) => ticked.includes(item.id));
  if (known.length === 0) return null;
  const rank = (level: string): number => ORDER.indexOf(level);
  const needed = card.rubric.filter((item) => item.level !== "red_flag" && rank(item.level) <= rank(card.level));
  const had = needed.filter((item) => ticked.includes(item.id)).length;
  const share = needed.length ? had / needed.length : 1;
  const beyond = known.some((item) => item.level !== "red_flag" && rank(item.level) > rank(card.level));
  const flagged = known.some((item) => item.level === "red_flag");
  const grade: Rating = share < 0.5 ? 1 : share < 1 ? 2 : beyond ? 4 : 3;
  return flagged && grade > 2 ? 2 : grade;
}

/** `hints`: also what an interviewer asks where an item is missing. */
export function rubric(text: CardText, step: Pick<Step, "ticked">, changed: () => void, hints = true): HTMLElement {
  const groups = LEVELS.map(([level, name]) => {
    const items = text.rubric.filter((item) => item.level === level);
    if (items.length === 0) return null;
    return h(
      "fieldset",
      { class: "il-rubric-level", "data-level": level },
      h("legend", {}, name),
      ...items.map((item) => {
        const box = h("input", { type: "checkbox", value: item.id, checked: step.ticked.includes(item.id) });
        box.addEventListener("change", () => {
          step.ticked = box.checked ? [...step.ticked, item.id] : step.ticked.filter((id) => id !== item.id);
          changed();
        });
        const said = h("span");
        said.append(fragment(item.html));
        const row = h("div", { class: "il-rubric-item" }, h("label", {}, box, said));
        if (hints && item.follow_up_html) {
          const asked = h("p", { class: "il-rubric-ask" }, h("span", { class: "il-label" }, "Missing? "));
          asked.append(fragment(item.follow_up_html));
          row.append(asked);
        }
        return row;
      }),
    );
  });
  return h("section", { class: "dr-rubric", "aria-label": "Rubric" }, h("h3", {}, "What did yours have?"), h("div", { class: "il-rubric" }, ...groups));
}

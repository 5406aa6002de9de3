/** "Your number first": asked before the answer is shown. The first number is the one that counts; the reader may go on guessing. */

import { h, one } from "../dom";
import type { Estimate } from "./cards";
import { judge, parse, says } from "./estimate";
import type { Step } from "./session";

export interface EstimateForm {
  element: HTMLFormElement;
  focus: () => void;
  /** after the answer was revealed */
  refresh: () => void;
}

export function estimateForm(asked: Estimate, step: Pick<Step, "estimate" | "typed" | "verdict" | "revealed">, changed: () => void): EstimateForm {
  const percent = Number((asked.tolerance * 100).toPrecision(3));
  const field = h("input", { id: "dr-number", type: "text", inputmode: "decimal", autocomplete: "off", spellcheck: "false", "aria-describedby": "dr-number-said" });
  const [only] = asked.choices;
  const select = asked.choices.length > 1 ? h("select", { "aria-label": "Unit of your number" }, h("option", { value: "" }, "unit"), ...asked.choices.map(([unit]) => h("option", { value: unit }, unit))) : null;
  const said = h("p", { id: "dr-number-said", class: "il-estimate-said", role: "status" });
  const unit = select ?? h("span", { class: "il-estimate-unit" }, only?.[0] ?? "");
  const form = h(
    "form",
    { class: "il-estimate dr-estimate", novalidate: true, onsubmit: submit },
    h("label", { for: "dr-number" }, "Your number first"),
    h("div", { class: "il-estimate-row" }, field, unit, h("button", { class: "il-btn il-btn--quiet" }, "Check")),
    said,
  );

  function tell(): void {
    field.value = step.typed;
    said.textContent = step.verdict?.says ?? `Counts within ${percent} %. Or go straight to the answer.`;
    form.dataset.state = step.verdict ? (step.verdict.right ? "right" : "off") : "";
    form.hidden = step.estimate === null && step.revealed; // too late for a guess
  }

  function submit(event: Event): void {
    event.preventDefault();
    const chosen = select && parse(field.value)?.unit === "" ? select.value : "";
    const judged = judge(`${field.value} ${chosen}`, asked.unit, asked.tolerance, asked.choices);
    if (select && asked.choices.some(([unit]) => unit === judged.unit)) select.value = judged.unit;
    const verdict = says(judged, asked.tolerance, asked.answer);
    if (judged.value === null) {
      said.textContent = verdict;
      (judged.state.startsWith("unit") && select ? select : field).focus();
      return;
    }
    step.estimate ??= judged.value;
    step.typed = `${field.value} ${chosen}`.trim();
    step.verdict = { right: judged.state === "right", says: verdict };
    tell();
    changed();
    if (judged.state === "right") one<HTMLButtonElement>(".dr-reveal")?.focus();
    else field.select();
  }

  tell();
  return { element: form, focus: () => field.focus(), refresh: tell };
}

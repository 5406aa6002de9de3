/** "Your number first" on a card's page: judges a number by the card's tolerance before the answer is shown. */

import { one } from "./dom";
import { type Choice, judge, parse, says, type State } from "./drill/estimate";

export function estimate(): void {
  const form = one<HTMLFormElement>("form.il-estimate");
  const field = form && one<HTMLInputElement>("input", form);
  const said = form && one(".il-estimate-said", form);
  if (!form || !field || !said) return;
  const select = one<HTMLSelectElement>("select", form);
  const given = one(".il-estimate-unit", form);
  const choices: Choice[] = select
    ? [...select.options].filter((option) => option.value).map((option) => [option.text, Number(option.value)])
    : [[given?.textContent ?? "", Number(given?.dataset.value)]];
  const tolerance = Number(form.dataset.percent) / 100;
  const toSelect: readonly State[] = ["unit-missing", "unit-unknown"];

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const chosen = parse(field.value)?.unit === "" && select ? (select.selectedOptions[0]?.value ? select.selectedOptions[0].text : "") : "";
    const judged = judge(`${field.value} ${chosen}`, "", tolerance, choices);
    const option = select && [...select.options].find(({ text }) => text === judged.unit);
    if (select && option) select.value = option.value;
    said.textContent = says(judged, tolerance, form.dataset.answer ?? "");
    form.dataset.state = judged.ratio === null ? "" : judged.state;
    if (judged.state === "right") return;
    if (select && toSelect.includes(judged.state)) return select.focus();
    field.focus();
    if (judged.state === "off") field.select();
  });
}

/** Puts the cursor there; false where the card asks for no number. */
export function toEstimate(): boolean {
  const field = one<HTMLInputElement>("form.il-estimate input");
  if (!field || field.offsetParent === null) return false;
  field.focus();
  return true;
}

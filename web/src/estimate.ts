/**
 * "Your number first": judges a number by the card's tolerance before the answer is shown. It says how far off and in which direction,
 * not what is right: that stays behind the answer.
 */

import { one } from "./dom";

const SPELT: Record<string, string> = { kib: "KiB", mib: "MiB", gib: "GiB", tib: "TiB", kb: "kB", mb: "MB", gb: "GB", tb: "TB", us: "µs" };

/** `131,072 B` → number and unit (as the list spells it, "" if none was typed). null if there is no number. */
export function parse(text: string): { number: number; unit: string } | null {
  const found = /^\s*([+-]?(?:\d[\d,_ ]*(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?)\s*([^\d\s].*)?$/i.exec(text);
  if (!found) return null;
  const number = Number((found[1] ?? "").replace(/[,_ ]/g, ""));
  const unit = (found[2] ?? "").trim();
  return Number.isFinite(number) ? { number, unit: SPELT[unit.toLowerCase()] ?? unit } : null;
}

/** What to say of a number that is `ratio` times the right one. */
export function verdict(ratio: number, percent: number, answer: string): { right: boolean; says: string } {
  if (Math.abs(ratio - 1) * 100 <= percent + 1e-9) return { right: true, says: `Right: ${answer}, and yours is within ${percent} %. Now say why.` };
  if (ratio <= 0) return { right: false, says: "It is more than nothing: write a positive number." };
  const far = ratio > 1 ? ratio : 1 / ratio;
  const times = far < 10 ? Number(far.toPrecision(2)) : Math.round(far).toLocaleString("en");
  const size = far < 2 ? `${Math.round(Math.abs(ratio - 1) * 100)} %` : `${times} times`;
  return { right: false, says: `${size} too ${ratio > 1 ? "large" : "small"}. Which factor is missing, or one too many?` };
}

export function estimate(): void {
  const form = one<HTMLFormElement>("form.il-estimate");
  const field = form && one<HTMLInputElement>("input", form);
  const said = form && one(".il-estimate-said", form);
  if (!form || !field || !said) return;
  const select = one<HTMLSelectElement>("select", form);
  const given = one(".il-estimate-unit", form);

  const tell = (says: string, state: "" | "right" | "off", focus?: HTMLElement): void => {
    said.textContent = says;
    form.dataset.state = state;
    focus?.focus();
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const mine = parse(field.value);
    if (!mine) return tell("Write a number, such as 12.5 or 4,096.", "", field);
    if (select && mine.unit) {
      const typed = [...select.options].find((option) => option.text === mine.unit);
      if (!typed) return tell(`“${mine.unit}” is none of the units here: choose one.`, "", select);
      select.value = typed.value;
    }
    const right = Number(select ? select.value : given?.dataset.value);
    if (!right) return tell("In which unit? GB is not GiB.", "", select ?? field);
    const judged = verdict(mine.number / right, Number(form.dataset.percent), form.dataset.answer ?? "");
    tell(judged.says, judged.right ? "right" : "off", judged.right ? undefined : field);
    if (!judged.right) field.select();
  });
}

/** Puts the cursor there; false where the card asks for no number. */
export function toEstimate(): boolean {
  const field = one<HTMLInputElement>("form.il-estimate input");
  if (!field || field.offsetParent === null) return false;
  field.focus();
  return true;
}

/**
 * Calculators: fields on the left, results that the library's own Python computes and writes, in the page (`infer_course.calculators.view`).
 *
 * Python is started by the first touch of a field, or at once when the address carries a state. Until then, and without script, the page
 * shows what the build computed with the same function.
 */

import { all, announce, one } from "../dom";
import { type Python, PythonError, python } from "../python";
import { scrollers } from "../scrollers";

interface View {
  html: string;
  errors: Record<string, string>;
  spelt: Record<string, string>;
  hidden: string[];
  headline: string;
  first: string;
  query: string;
}
type Control = HTMLInputElement | HTMLSelectElement;

const PAUSE = 200; // ms after the last key
const PROGRESS_KEY = "il:progress"; // the drill's progress file: the reader's own measurements are in it

for (const box of all("[data-calculator]")) calculator(box);

function calculator(box: HTMLElement): void {
  const name = box.dataset.calculator ?? "";
  const key = box.dataset.key ?? name;
  const embedded = box.classList.contains("il-calculator--embed");
  const form = one<HTMLFormElement>("form", box);
  const out = one(".il-calc-out", box);
  const status = one(".il-calc-status", box);
  const bar = one(".il-calc-bar", box); // the first words of the results, where they are below the fields
  const reset = one<HTMLButtonElement>("[data-do=reset]", box);
  if (!form || !out || !status || !reset) return;
  const fields = all(".il-calc-field", form);
  const control = (field: HTMLElement): Control | null => one<Control>("input, select", field);
  const texts = (): Record<string, string> => Object.fromEntries(fields.map((field) => [field.dataset.field ?? "", control(field)?.value ?? ""]));
  const written = JSON.stringify(texts()); // what the build computed
  let query = "";
  let asked = 0;
  let timer = 0;

  const tell = (text: string, again = false): void => {
    status.textContent = text;
    if (!again) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "il-btn il-btn--quiet";
    button.textContent = "Try again";
    button.addEventListener("click", () => void update());
    status.append(" ", button);
  };

  const show = (view: View): void => {
    for (const field of fields) {
      const id = field.dataset.field ?? "";
      const said = one(".il-calc-said", field);
      const error = view.errors[id];
      field.hidden = view.hidden.includes(id);
      control(field)?.toggleAttribute("aria-invalid", error !== undefined);
      if (error !== undefined) control(field)?.setAttribute("aria-invalid", "true");
      if (!said) continue;
      said.textContent = error ?? view.spelt[id] ?? "";
      said.toggleAttribute("data-error", error !== undefined);
    }
    const wrong = Object.keys(view.errors).length > 0;
    out.classList.toggle("is-old", wrong);
    if (wrong) {
      const folded = one<HTMLDetailsElement>("details:not([open]):has([aria-invalid])", form);
      if (folded) folded.open = true;
      return tell("The results are of the values before: mend the marked field.");
    }
    const open = all<HTMLDetailsElement>("details", out).map((part) => [part.className, part.open] as const);
    out.innerHTML = view.html; // our own, escaped where it is made
    for (const [kind, state] of open) for (const part of all<HTMLDetailsElement>(`details.${kind.split(" ")[0]}`, out)) part.open = state;
    scrollers(out);
    if (bar) bar.textContent = view.first;
    keep(view.query);
    tell("");
    announce(view.headline);
  };

  /** The state goes into the address of its own page; an embedded calculator has it in the link to that page. */
  const keep = (now: string): void => {
    query = now;
    reset.hidden = JSON.stringify(texts()) === written && query === "";
    const home = one<HTMLAnchorElement>(".il-calc-title a", box);
    if (home) home.href = (home.dataset.home ?? "") + (query && `?${query}`);
    if (!embedded) history.replaceState(history.state, "", location.pathname + (query && `?${query}`) + location.hash);
  };

  const update = async (): Promise<void> => {
    const mine = (asked += 1);
    out.setAttribute("aria-busy", "true");
    try {
      const lab: Python = await python((text) => tell(text));
      const view = (await lab.call("infer_course.calculators", "view", { name, texts: texts(), records: records(box), key, folded: embedded })) as View;
      if (mine === asked) show(view);
    } catch (error) {
      if (mine !== asked) return;
      out.classList.add("is-old");
      if (error instanceof PythonError) tell(`This should not happen: ${error.error.trim().split("\n").at(-1) ?? ""}. The results are of the values before.`);
      else tell(error instanceof Error ? error.message : String(error), true);
    } finally {
      if (mine === asked) out.removeAttribute("aria-busy");
    }
  };

  const warm = (): void => void python((text) => tell(text)).then(
    () => asked || tell(""),
    () => undefined, // told when a value is changed
  );
  form.addEventListener("focusin", warm, { once: true });
  form.addEventListener("input", (event) => {
    clearTimeout(timer);
    timer = window.setTimeout(() => void update(), event.target instanceof HTMLSelectElement ? 0 : PAUSE);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    void update();
  });
  reset.addEventListener("click", () => {
    for (const field of fields) {
      const input = control(field);
      if (input) input.value = field.dataset.default ?? "";
    }
    void update();
    control(fields[0] as HTMLElement)?.focus();
  });
  one("[data-do=copy]", box)?.addEventListener("click", async () => {
    const home = one<HTMLAnchorElement>(".il-calc-title a", box);
    const address = home ? home.href : location.origin + location.pathname + (query && `?${query}`);
    try {
      await navigator.clipboard.writeText(address);
      tell("Copied: the link leads back to this state.");
    } catch {
      tell(address);
    }
  });

  one("fieldset", form)?.removeAttribute("disabled");
  if (embedded) return;
  const { changed, unknown } = restore(fields, control);
  if (unknown.length === 0 && !changed) return;
  void update().then(() => {
    if (unknown.length > 0 && !status.textContent) tell(`The address asks for what is not among the choices: ${unknown.join(", ")}. Ours stands there instead.`);
  });
}

/** Puts the state of the address into the fields: whether any differs from what stood there, and choices that do not exist. */
function restore(fields: HTMLElement[], control: (field: HTMLElement) => Control | null): { changed: boolean; unknown: string[] } {
  const given = new URLSearchParams(location.search);
  const unknown: string[] = [];
  let changed = false;
  for (const field of fields) {
    const text = given.get(field.dataset.field ?? "");
    const input = control(field);
    if (text === null || !input || input.value === text) continue;
    if (input instanceof HTMLSelectElement && ![...input.options].some((option) => option.value === text)) {
      unknown.push(`${field.dataset.field} “${text.slice(0, 30)}”`);
      continue;
    }
    input.value = text.slice(0, 60);
    changed = true;
  }
  return { changed, unknown };
}

/** Measurement records for those calculators that show them: the page's own, and the reader's out of their progress file. */
function records(box: HTMLElement): unknown[] {
  const carried = one(".il-calc-records", box);
  if (!carried) return [];
  const ours = JSON.parse(carried.textContent ?? "[]") as unknown[];
  try {
    const kept = JSON.parse(localStorage.getItem(PROGRESS_KEY) ?? "{}") as { measurements?: object[] };
    return [...ours, ...(kept.measurements ?? []).map((record) => ({ ...record, own: true }))];
  } catch {
    return ours; // no progress file, or none that can be read
  }
}

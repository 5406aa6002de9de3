/** The print page: a set, a filtered view, or the whole bank as a sheet. The choice stays in the address. */

import { passes, read, type View } from "../browser/view";
import { one } from "../dom";
import { engine } from "../find/load";
import { formulas } from "../formulas";
import { language } from "../lang";
import { answers, bank, type Bank } from "./bank";
import { paper, type Layout } from "./paper";

const NAMES = ["set", "answers", "lang", "more", "planned"] as const;

class Sheet {
  private readonly said = one(".il-sheet-said");
  private readonly paper = one(".il-sheet-paper");
  private readonly button = one<HTMLButtonElement>(".il-sheet-form button");
  private asked = 0;

  constructor(private readonly form: HTMLFormElement) {}

  start(): void {
    const query = new URLSearchParams(location.search);
    if (!query.has("lang")) query.set("lang", language());
    for (const name of NAMES) {
      const field = this.form.elements.namedItem(name);
      const value = query.get(name);
      if (value === null) continue;
      if (field instanceof HTMLInputElement) field.checked = value === "1";
      else if (field instanceof HTMLSelectElement && [...field.options].some((option) => option.value === value)) field.value = value;
    }
    this.form.addEventListener("change", () => void this.show());
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.button?.addEventListener("click", () => print());
    void this.show();
  }

  private chosen(name: (typeof NAMES)[number]): string {
    const field = this.form.elements.namedItem(name);
    return field instanceof HTMLInputElement ? (field.checked ? "1" : "") : field instanceof HTMLSelectElement ? field.value : "";
  }

  /** The filters that the card browser handed over, with what is chosen here. */
  private view(): View {
    return { ...read(location.search), set: this.chosen("set"), planned: this.chosen("planned") === "1" };
  }

  private keep(): void {
    const address = new URL(location.href);
    for (const name of NAMES) {
      const value = this.chosen(name);
      if (value && !(name === "answers" && value === "after")) address.searchParams.set(name, value);
      else address.searchParams.delete(name);
    }
    history.replaceState(null, "", address);
  }

  private async show(): Promise<void> {
    const mine = ++this.asked;
    this.keep();
    if (this.button) this.button.disabled = true;
    try {
      const all = await bank();
      const view = this.view();
      const chosen = all.sets.find((found) => found.id === view.set);
      const ids = await shown(all, view);
      const layout = { answers: this.chosen("answers"), lang: this.chosen("lang"), more: this.chosen("more") === "1" } as Layout;
      const written = ids.filter((id) => all.cards[id]?.planned === false);
      const found = layout.answers === "none" ? new Map() : await answers(written);
      if (mine !== this.asked || !this.paper) return;
      this.paper.replaceChildren(...(ids.length > 0 ? paper(all, ids, chosen, found, layout) : []));
      await formulas(this.paper);
      if (mine !== this.asked) return;
      const waiting = (chosen?.cards ?? Object.keys(all.cards)).filter((id) => all.cards[id]?.planned).length;
      const left = waiting > 0 && !view.planned ? ` ${waiting} planned left out.` : "";
      this.tell(ids.length > 0 ? `${ids.length} question${ids.length === 1 ? "" : "s"} on the sheet.${left}` : `There is nothing to print.${left}`);
      if (this.button) this.button.disabled = ids.length === 0;
      document.title = `${chosen?.title.en ?? "Questions"} · Inference Lab`;
    } catch {
      if (mine === this.asked) this.tell("The questions could not be fetched. Are you online? Reload to try again.");
    }
  }

  private tell(text: string): void {
    if (this.said) this.said.textContent = text;
  }
}

/** Ids in the order of the sheet: that of the search, of the set, or of the course. */
async function shown(all: Bank, view: View): Promise<string[]> {
  const sets = new Map(all.sets.map((found) => [found.id, found.cards]));
  const passing = Object.values(all.cards)
    .map((card) => ({ ...card, part: String(card.part), tags: card.tags ?? [] }))
    .filter((card) => passes(card, view, sets))
    .map((card) => card.id);
  const inPassing = new Set(passing);
  if (view.q.trim()) return (await engine()).find(view.q).hits.flatMap((hit) => (hit.page.id && inPassing.has(hit.page.id) ? [hit.page.id] : []));
  return (sets.get(view.set) ?? passing).filter((id) => inPassing.has(id));
}

const form = one<HTMLFormElement>(".il-sheet-form");
if (form) new Sheet(form).start();

/** The form of the browser: from and to a view, and how many questions each choice would give. */

import { all, one } from "../dom";
import { passes, type Facet, type Row, type View } from "./view";

export class Controls {
  readonly field: HTMLInputElement;
  /** ids of the cards of each set, in its order */
  readonly sets: ReadonlyMap<string, readonly string[]>;

  constructor(readonly form: HTMLFormElement) {
    const field = one<HTMLInputElement>("input[type=search]", form);
    if (!field) throw new Error("the browser has no search field");
    this.field = field;
    const options = all<HTMLOptionElement>("select[name=set] option", form).filter((option) => option.value);
    this.sets = new Map(options.map((option) => [option.value, (option.dataset.cards ?? "").split(" ")]));
    for (const option of all<HTMLOptionElement>("option", form)) option.dataset.name = option.text;
  }

  private boxes(name: string): HTMLInputElement[] {
    return all<HTMLInputElement>(`input[name=${name}]`, this.form);
  }

  private select(name: string): HTMLSelectElement | null {
    return one<HTMLSelectElement>(`select[name=${name}]`, this.form);
  }

  view(): View {
    const checked = (name: string): string[] => this.boxes(name).filter((box) => box.checked).map((box) => box.value);
    const chosen = (name: string): string => this.select(name)?.value ?? "";
    return {
      q: this.field.value,
      level: checked("level"),
      kind: checked("kind"),
      part: chosen("part"),
      set: chosen("set"),
      tag: chosen("tag"),
      planned: checked("planned").length > 0,
    };
  }

  /** What the form cannot show (a set that does not exist) is dropped. */
  show(view: View): void {
    this.field.value = view.q;
    for (const name of ["level", "kind"] as const) for (const box of this.boxes(name)) box.checked = view[name].includes(box.value);
    for (const box of this.boxes("planned")) box.checked = view.planned;
    for (const name of ["part", "set", "tag"] as const) {
      const select = this.select(name);
      if (!select) continue;
      const wanted = view[name] && name === "set" && view.set.startsWith("part-") ? "" : view[name];
      if (name === "part" && view.set.startsWith("part-")) select.value = view.set.slice("part-".length);
      else select.value = wanted;
      if (select.selectedIndex < 0) select.value = "";
    }
  }

  /** Beside each choice stands how many of `rows` it would leave. */
  count(rows: readonly Row[], view: View): void {
    const number = (facet: Facet, fits: (row: Row) => boolean): number => rows.filter((row) => fits(row) && passes(row, view, this.sets, facet)).length;
    for (const name of ["level", "kind"] as const) {
      for (const box of this.boxes(name)) this.tell(box, number(name, (row) => row[name] === box.value));
    }
    for (const box of this.boxes("planned")) this.tell(box, number("planned", (row) => row.planned));
    for (const name of ["part", "set", "tag"] as const) {
      for (const option of this.select(name)?.options ?? []) {
        if (!option.value) continue;
        const cards = this.sets.get(option.value);
        const fits = (row: Row): boolean => (name === "part" ? row.part === option.value : name === "tag" ? row.tags.includes(option.value) : (cards?.includes(row.id) ?? false));
        option.text = `${option.dataset.name ?? ""} (${number(name, fits)})`;
      }
    }
  }

  private tell(box: HTMLInputElement, count: number): void {
    const place = one(".il-facet-n", box.parentElement ?? this.form);
    if (place) place.textContent = String(count);
    box.parentElement?.classList.toggle("is-empty", count === 0 && !box.checked);
  }
}

/** Which questions: by set, part, kind and level. Nothing chosen means all. */

import { h } from "../dom";
import type { App } from "./app";
import { isWhole } from "./choice";

export function filterForm(app: App, changed: () => void): HTMLElement {
  const { cards, parts, sets } = app.catalogue;
  const title = h("span", {});
  const about = h("p", { class: "dr-set-about" });
  const clear = h("button", { type: "button", class: "il-linkish", onclick: clearAll }, "Back to all questions");
  const written = (ids: readonly string[]): number => ids.filter((id) => app.catalogue.byId.has(id)).length;
  const count = <T>(of: (card: (typeof cards)[number]) => T): Map<T, number> => cards.reduce((found, card) => found.set(of(card), (found.get(of(card)) ?? 0) + 1), new Map<T, number>());
  const inParts = count((card) => card.part);
  const kinds = count((card) => card.kind);
  const levels = count((card) => card.level);

  const select = h("select", { id: "dr-set" }, h("option", { value: "" }, "all questions"), ...sets.map((set) => h("option", { value: set.id }, `${set.title.en} (${written(set.cards)} of ${set.cards.length})`)));
  select.addEventListener("change", () => choose({ set: select.value || null }));

  function choose(change: Parameters<App["choose"]>[0]): void {
    app.choose(change);
    tell();
    changed();
  }

  function clearAll(): void {
    for (const box of element.querySelectorAll<HTMLInputElement>("input")) box.checked = false;
    choose({ set: null, card: null, parts: [], kinds: [], levels: [], tags: [] });
  }

  function tell(): void {
    const set = sets.find(({ id }) => id === app.choice.set);
    select.value = set?.id ?? "";
    about.textContent = set?.about?.en ?? "";
    about.hidden = !set?.about;
    clear.hidden = isWhole(app.choice);
    title.textContent = "Which questions";
  }

  function group<T extends string | number>(name: string, values: readonly (readonly [T, string, number])[], chosen: () => readonly T[], set: (values: T[]) => void): HTMLElement | null {
    if (values.length < 2) return null;
    const boxes = values.map(([value, text, number]) => {
      const box = h("input", { type: "checkbox", name, value, checked: chosen().includes(value) });
      box.addEventListener("change", () => set(box.checked ? [...chosen(), value] : chosen().filter((other) => other !== value)));
      return h("label", { class: "dr-chip" }, box, h("span", {}, text, " ", h("small", {}, String(number))));
    });
    return h("fieldset", { class: "dr-group" }, h("legend", {}, name), h("div", { class: "dr-chips" }, ...boxes));
  }

  const levelOrder = ["junior", "mid", "senior"].filter((level) => levels.has(level as never));
  const element = h(
    "details",
    { class: "dr-filter", open: !isWhole(app.choice) },
    h("summary", {}, title),
    h(
      "div",
      { class: "dr-filter-in" },
      sets.length > 0 && h("p", { class: "dr-set" }, h("label", { for: "dr-set" }, "Set"), select),
      about,
      group("Part", parts.filter(({ part }) => inParts.has(part)).map(({ part, title: { en } }) => [part, `${part} ${en.split(":")[0] ?? en}`, inParts.get(part) ?? 0] as const), () => app.choice.parts, (values) => choose({ parts: values })),
      group("Kind", [...kinds].map(([kind, number]) => [kind, kind.replace("-", " "), number] as const), () => app.choice.kinds, (values) => choose({ kinds: values })),
      group("Level", levelOrder.map((level) => [level, level, levels.get(level as never) ?? 0] as const), () => app.choice.levels, (values) => choose({ levels: values })),
      h("p", {}, clear),
    ),
  );
  tell();
  return element;
}

/** Which cards the reader chose, as the address of the page says it: `drill.html?set=…&part=0,2&kind=…&level=…&tag=…&mode=explain`, or `?card=…`. */

import { load, save } from "../store";
import type { Catalogue } from "./cards";
import type { Mode } from "./progress";
import type { Filter } from "./queue";

export interface Choice {
  parts: number[];
  kinds: string[];
  levels: string[];
  tags: string[];
  set: string | null;
  card: string | null;
  mode: Mode;
}

export function fromAddress(search: string): Choice {
  const asked = new URLSearchParams(search);
  const several = (name: string): string[] => asked.getAll(name).flatMap((value) => value.split(",")).filter(Boolean);
  const mode = asked.get("mode") ?? load<string>("drill-mode", "recall");
  return {
    parts: several("part").map(Number).filter(Number.isInteger),
    kinds: several("kind"),
    levels: several("level"),
    tags: several("tag"),
    set: asked.get("set"),
    card: asked.get("card"),
    mode: mode === "explain" ? "explain" : "recall",
  };
}

/** Puts the choice into the address, so that a reload or a bookmark comes back to it. */
export function toAddress(choice: Choice): void {
  const asked = new URLSearchParams();
  const say = (name: string, value: string): void => {
    if (value) asked.set(name, value);
  };
  say("set", choice.set ?? "");
  say("card", choice.card ?? "");
  say("part", choice.parts.join(","));
  say("kind", choice.kinds.join(","));
  say("level", choice.levels.join(","));
  say("tag", choice.tags.join(","));
  save("drill-mode", choice.mode);
  const query = asked.toString().replaceAll("%2C", ",");
  history.replaceState(history.state, "", `${location.pathname}${query ? `?${query}` : ""}${location.hash}`);
}

/** null for a set or card that this course does not have. */
export function filterOf(choice: Choice, catalogue: Catalogue): Filter | null {
  const set = catalogue.sets.find(({ id }) => id === choice.set);
  if ((choice.set !== null && !set) || (choice.card !== null && !catalogue.byId.has(choice.card))) return null;
  const cards = choice.card !== null ? [choice.card] : (set?.cards ?? null);
  return { parts: choice.parts, kinds: choice.kinds, levels: choice.levels, tags: choice.tags, cards };
}

/** The choice in words, for the head of a session. */
export function inWords(choice: Choice, catalogue: Catalogue): string {
  const set = catalogue.sets.find(({ id }) => id === choice.set);
  const words = [
    choice.card ? "one question" : "",
    set?.title.en ?? "",
    choice.parts.length ? `part ${choice.parts.join(", ")}` : "",
    choice.kinds.join(", "),
    choice.levels.join(", "),
    choice.tags.join(", "),
  ];
  return words.filter(Boolean).join(" · ") || "all questions";
}

export function isWhole(choice: Choice): boolean {
  return choice.set === null && choice.card === null && ![choice.parts, choice.kinds, choice.levels, choice.tags].some((list) => list.length > 0);
}

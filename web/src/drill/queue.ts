/**
 * What a sitting asks, and in which order: due cards first, then new ones; planned cards never. The same log gives the same queue here and
 * in the terminal (`src/infer_course/drill/queue.py` is the reference, with the rules). No DOM here.
 */

import { DAY_MS, type Memory } from "./memory";
import type { Mode } from "./progress";

export const RECALL_SECONDS = 90;
export const READING_SECONDS = 60;
export const NEW_A_DAY = 10;
export const RETURNS_AFTER = 4;

/** What scheduling knows of a card; a row of `cards.json`. */
export interface DrillCard {
  id: string;
  part: number;
  order: number;
  kind: string;
  level: string;
  minutes: number;
  tags: readonly string[];
  sets: readonly string[];
  follow_up_cards: readonly string[];
}

/** Which cards; empty means all. `cards` is the order of a chosen set (null: no set is chosen). */
export interface Filter {
  parts: readonly number[];
  kinds: readonly string[];
  levels: readonly string[];
  tags: readonly string[];
  cards: readonly string[] | null;
}

/** Ids in the order in which they are asked, and how many there would have been of each without the limits. */
export interface Queue {
  due: string[];
  new: string[];
  all_due: number;
  all_new: number;
  seconds: number;
}

export interface Limits {
  mode?: Mode;
  /** new cards a day */
  new?: number;
  minutes?: number | null;
}

export const ALL: Filter = { parts: [], kinds: [], levels: [], tags: [], cards: null };

/** What one review takes: a minute and a half to recall; to explain, the card's own minutes and one to read and grade. */
export function secondsOf(card: DrillCard, mode: Mode): number {
  return mode === "recall" ? RECALL_SECONDS : roundHalfEven(card.minutes * 60) + READING_SECONDS;
}

export function matches(filter: Filter, card: DrillCard): boolean {
  const within = <T>(wanted: readonly T[], value: T): boolean => wanted.length === 0 || wanted.includes(value);
  return (
    within(filter.parts, card.part) &&
    within(filter.kinds, card.kind) &&
    within(filter.levels, card.level) &&
    (filter.tags.length === 0 || filter.tags.some((tag) => card.tags.includes(tag))) &&
    (filter.cards === null || filter.cards.includes(card.id))
  );
}

/** In the order of the course: part, order, id. */
export function byPlace(a: DrillCard, b: DrillCard): number {
  return a.part - b.part || a.order - b.order || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}

/** The queue of a sitting. `dayStart` is the beginning of the reader's day in ms since 1970; the day is 24 hours long. */
export function build(cards: readonly DrillCard[], memories: ReadonlyMap<string, Memory>, dayStart: number, filter: Filter = ALL, limits: Limits = {}): Queue {
  const { mode = "recall", new: most = NEW_A_DAY, minutes = null } = limits;
  const dayEnd = dayStart + DAY_MS;
  const inside = cards.filter((card) => matches(filter, card));
  const dueAt = (card: DrillCard): number => memories.get(card.id)?.due ?? Number.POSITIVE_INFINITY;
  const due = inside.filter((card) => dueAt(card) < dayEnd).sort((a, b) => dueAt(a) - dueAt(b) || byPlace(a, b));
  const unseen = inside.filter((card) => !memories.has(card.id)).sort(byPlace);
  const order = filter.cards;
  if (order !== null) unseen.sort((a, b) => order.indexOf(a.id) - order.indexOf(b.id));
  const begun = [...memories.values()].filter(({ first }) => dayStart <= first && first < dayEnd).length;
  const wanted = [...due, ...unseen.slice(0, Math.max(0, most - begun))];
  const taken: string[] = [];
  let seconds = 0;
  for (const card of wanted) {
    const more = seconds + secondsOf(card, mode);
    if (minutes !== null && taken.length > 0 && more > minutes * 60) break;
    taken.push(card.id);
    seconds = more;
  }
  const seen = Math.min(taken.length, due.length);
  return { due: taken.slice(0, seen), new: taken.slice(seen), all_due: due.length, all_new: unseen.length, seconds };
}

/**
 * What is left to ask after `card` was graded: forgotten, it returns after four others or at the end; answered well (3 or 4), the first of
 * its follow-up cards that is still to come is asked next.
 */
export function afterGrade(rest: readonly string[], card: Pick<DrillCard, "id" | "follow_up_cards">, rating: number): string[] {
  if (rating === 1) {
    const at = Math.min(RETURNS_AFTER, rest.length);
    return [...rest.slice(0, at), card.id, ...rest.slice(at)];
  }
  const deeper = rating >= 3 ? card.follow_up_cards.find((other) => rest.includes(other)) : undefined;
  return deeper === undefined ? [...rest] : [deeper, ...rest.filter((other) => other !== deeper)];
}

/** As Python rounds. */
function roundHalfEven(value: number): number {
  const low = Math.floor(value);
  return value - low === 0.5 ? low + (low % 2) : Math.round(value);
}

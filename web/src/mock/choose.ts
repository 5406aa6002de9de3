/**
 * Which questions an interview asks: by role, level and length, and by a seed, so that the same link gives the same interview.
 * `src/infer_course/mock/choose.py` is the reference, with the rules; the roles are one file that both read. No DOM here.
 */

import data from "../../../src/infer_course/data/mock_roles.json";
import type { Card, Level, Title } from "../drill/cards";

export const LEVELS: readonly Level[] = ["junior", "mid", "senior"];
export const LENGTHS: readonly number[] = [15, 30, 45, 60];
export const MOST_FOLLOW_UPS = 2;
const [CLARIFY_MINUTES, ESTIMATE_MINUTES, FOLLOW_UP_MINUTES] = [1, 2, 2];
const LEVEL_WEIGHTS: Record<Level, Record<Level, number>> = {
  junior: { junior: 4, mid: 1, senior: 0 },
  mid: { junior: 1, mid: 4, senior: 1 },
  senior: { junior: 0, mid: 2, senior: 4 },
};

/** What an interviewer of this role asks more of; what a table does not name has weight 1. */
export interface Role {
  id: string;
  title: Title;
  about: Title;
  parts: Partial<Record<string, number>>;
  kinds: Partial<Record<string, number>>;
}

/** A row of `cards.json`, as far as choosing goes. */
export type Row = Pick<Card, "id" | "part" | "order" | "kind" | "level" | "minutes" | "follow_ups"> & { estimate: object | null; lessons: readonly { id: string }[] };

/** Ids in the order in which they are asked, and the minutes that they take. */
export interface Interview {
  cards: string[];
  minutes: number;
}

export const ROLES: readonly Role[] = data.roles;

/** To clarify, to estimate where there is a number, to explain, and its follow-ups (at most two). */
export function minutesOf(row: Row): number {
  return CLARIFY_MINUTES + (row.estimate ? ESTIMATE_MINUTES : 0) + row.minutes + FOLLOW_UP_MINUTES * Math.min(row.follow_ups, MOST_FOLLOW_UPS);
}

export function choose(rows: readonly Row[], role: Role, level: Level, minutes: number, seed: number): Interview {
  const drawn = rows.map((row) => ({ row, draw: draw(row, role, level, seed) })).filter((one) => one.draw < Number.POSITIVE_INFINITY);
  const left = drawn.sort((a, b) => a.draw - b.draw || byId(a.row, b.row)).map(({ row }) => row);
  const taken: Row[] = [];
  const lessons = new Set<string>();
  let spent = 0;
  const take = (row: Row): void => {
    left.splice(left.indexOf(row), 1);
    taken.push(row);
    spent += minutesOf(row);
    for (const { id } of row.lessons) lessons.add(id);
  };
  const numbered = left.find((row) => row.estimate && minutesOf(row) <= minutes);
  if (numbered) take(numbered);
  while (left.length > 0) {
    const fresh = left.filter((row) => !row.lessons.some(({ id }) => lessons.has(id)));
    const found = (fresh.length ? fresh : left).find((row) => taken.length === 0 || spent + minutesOf(row) <= minutes);
    if (!found) break;
    take(found);
  }
  const last = (row: Row): number => Number(row.kind === "system-design");
  taken.sort((a, b) => last(a) - last(b) || LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level) || a.part - b.part || a.order - b.order || byId(a, b));
  return { cards: taken.map(({ id }) => id), minutes: spent };
}

/** The 32-bit FNV-1a hash of the text's UTF-8 bytes (Fowler, Noll, Vo). */
export function fnv1a(text: string): number {
  let found = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) found = Math.imul(found ^ byte, 0x01000193) >>> 0;
  return found;
}

function draw(row: Row, role: Role, level: Level, seed: number): number {
  const weight = (role.parts[String(row.part)] ?? 1) * (role.kinds[row.kind] ?? 1) * LEVEL_WEIGHTS[level][row.level];
  return weight ? fnv1a(`${seed}:${row.id}`) / weight : Number.POSITIVE_INFINITY;
}

function byId(a: Row, b: Row): number {
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0;
}

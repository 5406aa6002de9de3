/**
 * What the log says about what is remembered: due, retention, coverage by part, weak spots. Everything is a count, so that the reader can
 * check it. `src/infer_course/drill/statistics.py` is the reference, with the definitions. No DOM here.
 */

import { DAY_MS, type Memory, replay } from "./memory";
import type { Review } from "./progress";
import type { DrillCard } from "./queue";

export const SOLID_DAYS = 21;
export const FORECAST_DAYS = 7;
const RECENT_DAYS = 30;
const MOST_WEAK = 10;

export interface CountedCard extends DrillCard {
  estimate: { value: number; tolerance: number } | null;
  rubric: readonly { id: string; level: string }[];
}

export interface Retention {
  remembered: number;
  asked: number;
}

export interface Statistics {
  cards: number;
  seen: number;
  solid: number;
  due: number;
  forecast: number[];
  reviews: number;
  reviews_today: number;
  seconds: number;
  seconds_last_7_days: number;
  retention: Retention;
  retention_30_days: Retention;
  parts: { part: number; cards: number; seen: number; solid: number; due: number }[];
  estimates: { right: number; given: number };
  weak_tags: { tag: string; weak: number; seen: number }[];
  weak_items: { card: string; item: string; level: string; missed: number; asked: number }[];
}

export function statistics(cards: readonly CountedCard[], reviews: readonly Review[], dayStart: number): Statistics {
  const log = [...reviews].sort((a, b) => a.at - b.at || compare(a.card, b.card));
  const memories = replay(log);
  const known = cards.flatMap((card) => {
    const memory = memories.get(card.id);
    return memory ? [{ card, memory }] : [];
  });
  const dayEnd = dayStart + DAY_MS;
  const week = log.filter(({ at }) => dayEnd - 7 * DAY_MS <= at && at < dayEnd);
  return {
    cards: cards.length,
    seen: known.length,
    solid: known.filter(({ memory }) => memory.stability >= SOLID_DAYS).length,
    due: known.filter(({ memory }) => memory.due < dayEnd).length,
    forecast: forecast(known.map(({ memory }) => memory), dayStart),
    reviews: log.length,
    reviews_today: log.filter(({ at }) => dayStart <= at && at < dayEnd).length,
    seconds: sum(log.map(secondsSpent)),
    seconds_last_7_days: sum(week.map(secondsSpent)),
    retention: retention(log, 0),
    retention_30_days: retention(log, dayEnd - RECENT_DAYS * DAY_MS),
    parts: parts(cards, memories, dayEnd),
    estimates: estimates(log, cards),
    weak_tags: weakTags(known),
    weak_items: weakItems(log, cards),
  };
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

function secondsSpent({ seconds }: Review): number {
  return typeof seconds === "number" && seconds > 0 ? Math.floor(seconds + 0.5) : 0;
}

/** How many cards come due today (what is overdue included) and on each of the six days after. */
function forecast(memories: readonly Memory[], dayStart: number): number[] {
  const days = Array<number>(FORECAST_DAYS).fill(0);
  for (const { due } of memories) {
    const day = Math.max(0, Math.floor((due - dayStart) / DAY_MS));
    if (day < FORECAST_DAYS) days[day] = (days[day] ?? 0) + 1;
  }
  return days;
}

function retention(log: readonly Review[], since: number): Retention {
  const last = new Map<string, number>();
  const found = { remembered: 0, asked: 0 };
  for (const { card, at, rating } of log) {
    const before = last.get(card);
    last.set(card, at);
    if (before === undefined || at - before < DAY_MS || at < since) continue;
    found.asked += 1;
    if (rating > 1) found.remembered += 1;
  }
  return found;
}

function parts(cards: readonly DrillCard[], memories: ReadonlyMap<string, Memory>, dayEnd: number): Statistics["parts"] {
  const numbers = [...new Set(cards.map((card) => card.part))].sort((a, b) => a - b);
  return numbers.map((part) => {
    const inside = cards.filter((card) => card.part === part);
    const known = inside.flatMap((card) => memories.get(card.id) ?? []);
    return {
      part,
      cards: inside.length,
      seen: known.length,
      solid: known.filter(({ stability }) => stability >= SOLID_DAYS).length,
      due: known.filter(({ due }) => due < dayEnd).length,
    };
  });
}

function estimates(log: readonly Review[], cards: readonly CountedCard[]): Statistics["estimates"] {
  const asked = new Map(cards.flatMap((card) => (card.estimate ? [[card.id, card.estimate] as const] : [])));
  const found = { right: 0, given: 0 };
  for (const { card, estimate } of log) {
    const right = asked.get(card);
    if (!right || typeof estimate !== "number") continue;
    found.given += 1;
    if (Math.abs(estimate / right.value - 1) <= right.tolerance + 1e-9) found.right += 1;
  }
  return found;
}

function weakTags(known: readonly { card: DrillCard; memory: Memory }[]): Statistics["weak_tags"] {
  const found = new Map<string, { tag: string; weak: number; seen: number }>();
  for (const { card, memory } of known) {
    for (const tag of card.tags) {
      const row = found.get(tag) ?? { tag, weak: 0, seen: 0 };
      row.seen += 1;
      if (memory.rating <= 2) row.weak += 1;
      found.set(tag, row);
    }
  }
  const share = (row: { weak: number; seen: number }): number => Math.floor((row.weak * 1000) / row.seen);
  return [...found.values()]
    .filter((row) => row.weak > 0)
    .sort((a, b) => share(b) - share(a) || b.weak - a.weak || compare(a.tag, b.tag))
    .slice(0, MOST_WEAK);
}

function weakItems(log: readonly Review[], cards: readonly CountedCard[]): Statistics["weak_items"] {
  const rubrics = new Map(cards.map((card) => [card.id, card.rubric]));
  const found = new Map<string, Statistics["weak_items"][number]>();
  for (const { card, rubric: ticked } of log) {
    const items = rubrics.get(card);
    if (!ticked || ticked.length === 0 || !items) continue;
    for (const { id, level } of items) {
      const row = found.get(`${card} ${id}`) ?? { card, item: id, level, missed: 0, asked: 0 };
      row.asked += 1;
      if (ticked.includes(id) === (level === "red_flag")) row.missed += 1;
      found.set(`${card} ${id}`, row);
    }
  }
  return [...found.values()]
    .filter((row) => row.missed > 0)
    .sort((a, b) => b.missed - a.missed || a.asked - b.asked || compare(a.card, b.card) || compare(a.item, b.item))
    .slice(0, MOST_WEAK);
}

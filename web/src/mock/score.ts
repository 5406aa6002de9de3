/**
 * What is asked after an answer, what the answer was worth, and what the report advises.
 * `src/infer_course/mock/score.py` is the reference. No DOM here.
 */

import type { Level } from "../drill/cards";
import type { Rating } from "../drill/progress";
import { LEVELS, MOST_FOLLOW_UPS } from "./choose";

export type Reply = "yes" | "partly" | "no";
/** Share of the items of a level, and of each level below, that makes the level reached. */
const REACHED = 2 / 3;

export interface Item {
  id: string;
  level: Level | "red_flag";
  /** whether an interviewer asks something when it is missing */
  follow_up: boolean;
}

/** What the interviewer asks: after a missing item, or a place in the card's own chain. */
export interface FollowUp {
  item: string | null;
  chain: number | null;
}

export interface Asked extends FollowUp {
  reply: Reply;
}

/** had and of: items at or below the level asked (one that its follow-up recovered counts half). flags: red flags ticked. */
export interface Score {
  had: number;
  of: number;
  flags: number;
  reached: Level | null;
  rating: Rating;
  share: number;
}

/** At most two: after missing items of the level or below, lowest first; if none is missing, the card's own chain, which goes deeper. */
export function followUps(items: readonly Item[], ticked: readonly string[], level: Level, chain: number): FollowUp[] {
  const missing = LEVELS.flatMap((name) => items.filter((item) => item.level === name && counts(item, level) && !ticked.includes(item.id)));
  if (missing.length > 0) return missing.filter((item) => item.follow_up).slice(0, MOST_FOLLOW_UPS).map(({ id }) => ({ item: id, chain: null }));
  return Array.from({ length: Math.min(chain, MOST_FOLLOW_UPS) }, (_, place) => ({ item: null, chain: place }));
}

/** 1 had, 0.5 recovered in its follow-up, 0 missed. */
export function worthOf(item: Item, ticked: readonly string[], asked: readonly Asked[]): number {
  if (ticked.includes(item.id)) return 1;
  return asked.some((one) => one.item === item.id && one.reply === "yes") ? 0.5 : 0;
}

export function score(items: readonly Item[], ticked: readonly string[], asked: readonly Asked[], level: Level): Score {
  const worth = (item: Item): number => worthOf(item, ticked, asked);
  const counted = items.filter((item) => counts(item, level));
  const had = sum(counted.map(worth));
  const flags = items.filter((item) => item.level === "red_flag" && ticked.includes(item.id)).length;
  let reached = -1;
  for (const [place, name] of LEVELS.entries()) {
    const ofLevel = items.filter((item) => item.level === name).map(worth);
    if (ofLevel.length && sum(ofLevel) < REACHED * ofLevel.length - 1e-9) break;
    if (ofLevel.length) reached = place;
  }
  const share = counted.length ? Math.max(0, had - flags) / counted.length : 1;
  return { had, of: counted.length, flags, reached: LEVELS[reached - flags] ?? null, rating: share < 0.4 ? 1 : share < 0.65 ? 2 : share < 0.9 ? 3 : 4, share };
}

/** The level of the median question; of two middle ones the lower. */
export function overall(reached: readonly (Level | null)[]): Level | null {
  const places = reached.map((level) => (level === null ? -1 : LEVELS.indexOf(level))).sort((a, b) => a - b);
  return LEVELS[places[Math.floor((places.length - 1) / 2)] ?? -1] ?? null;
}

export interface AdvisedCard {
  id: string;
  lessons: readonly { id: string }[];
  follow_up_cards: readonly string[];
}

/** What to read and what to drill, worst question first: lessons of questions that missed anything; those questions, then the cards after them. */
export function advice(cards: readonly AdvisedCard[], share: (card: string) => number | undefined): { read: string[]; drill: string[] } {
  const of = (card: AdvisedCard): number => share(card.id) ?? 1;
  const weak = cards.filter((card) => of(card) < 1).sort((a, b) => of(a) - of(b));
  const read = weak.flatMap((card) => card.lessons.map(({ id }) => id));
  const drill = [...weak.map(({ id }) => id), ...weak.flatMap((card) => card.follow_up_cards)];
  return { read: [...new Set(read)], drill: [...new Set(drill)] };
}

/** Whether an item is asked for at `level`: it is of that level or below. */
export function counts(item: { level: string }, level: Level): boolean {
  const place = LEVELS.indexOf(item.level as Level);
  return place >= 0 && place <= LEVELS.indexOf(level);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/**
 * How well each card is remembered: FSRS-6, replayed from the log of reviews. Twenty-four hours are a day, there are no learning steps and
 * no random fuzz, and no interval is longer than a year: with that, every due date equals the terminal's
 * (`src/infer_course/drill/memory.py` is the reference). No DOM here.
 */

import { fsrs } from "ts-fsrs";
import type { Rating, Review } from "./progress";

export const DAY_MS = 86_400_000;
const scheduler = fsrs({ enable_fuzz: false, learning_steps: [], relearning_steps: [], maximum_interval: 365 });

/** A card that was reviewed at least once. Stability is in days (recall has fallen to 90 % after that many); times in ms since 1970. */
export interface Memory {
  stability: number;
  difficulty: number;
  first: number;
  last: number;
  due: number;
  reviews: number;
  lapses: number;
  rating: Rating;
}

/** The memory after a review at `at`; `before` is null for a card that is seen for the first time. */
export function after(before: Memory | null, at: number, rating: Rating): Memory {
  const elapsed = before ? Math.max(0, Math.floor((at - before.last) / DAY_MS)) : 0;
  const { stability, difficulty } = scheduler.next_state(before, elapsed, rating);
  return {
    stability,
    difficulty,
    first: before ? before.first : at,
    last: at,
    due: at + scheduler.next_interval(stability, elapsed) * DAY_MS,
    reviews: before ? before.reviews + 1 : 1,
    lapses: before ? before.lapses + (rating === 1 ? 1 : 0) : 0,
    rating,
  };
}

/** The interval until a card is due, in whole days. */
export function daysOf(memory: Memory): number {
  return Math.floor((memory.due - memory.last) / DAY_MS);
}

/** The memory of every card in the log, whatever the order in which the reviews are given. */
export function replay(reviews: readonly Review[]): Map<string, Memory> {
  const found = new Map<string, Memory>();
  const order = [...reviews].sort((a, b) => a.at - b.at || (a.card < b.card ? -1 : a.card > b.card ? 1 : 0));
  for (const review of order) found.set(review.card, after(found.get(review.card) ?? null, review.at, review.rating));
  return found;
}

/**
 * One sitting: what is still to come, the card in hand, and what was done. Plain data, kept after every action, so that a reload goes on
 * where it was. No DOM here.
 */

import type { Mode, Rating } from "./progress";
import { afterGrade, type DrillCard } from "./queue";

/** The card in hand. */
export interface Step {
  card: string;
  /** seconds from the question to the answer; running until it is revealed */
  seconds: number;
  revealed: boolean;
  /** the first number that was put down, in the card's own unit */
  estimate: number | null;
  /** what was typed, with its unit, and what was said of it */
  typed: string;
  verdict: { right: boolean; says: string } | null;
  ticked: string[];
  /** follow-ups that were asked, and how many of them were answered */
  asked: number;
  answered: number;
  /** the card whose answer led here */
  from: string | null;
}

export interface Done {
  card: string;
  at: number;
  rating: Rating;
  seconds: number;
  /** days until it comes again */
  days: number;
}

export interface Session {
  started: number;
  mode: Mode;
  /** what was chosen, in words */
  about: string;
  step: Step | null;
  todo: string[];
  done: Done[];
}

function take(card: string, from: string | null = null): Step {
  return { card, seconds: 0, revealed: false, estimate: null, typed: "", verdict: null, ticked: [], asked: 0, answered: 0, from };
}

export function begin(cards: readonly string[], mode: Mode, about: string, now: number): Session {
  const [first, ...rest] = cards;
  return { started: now, mode, about, step: first === undefined ? null : take(first), todo: rest, done: [] };
}

/** Goes on after a grade (`afterGrade` in queue.ts has the rules). */
export function graded(session: Session, done: Done, card: Pick<DrillCard, "id" | "follow_up_cards">): Session {
  const [next, ...rest] = afterGrade(session.todo, card, done.rating);
  const follows = done.rating >= 3 && next !== undefined && card.follow_up_cards.includes(next);
  return { ...session, step: next === undefined ? null : take(next, follows ? done.card : null), todo: rest, done: [...session.done, done] };
}

/** The card in hand goes to the end of the line, ungraded. */
export function skipped(session: Session): Session {
  if (!session.step || session.todo.length === 0) return session;
  const [next, ...rest] = [...session.todo, session.step.card];
  return { ...session, step: next === undefined ? null : take(next), todo: rest };
}

/** Takes the last grade back: that card is in hand again, its answer open, and the one that was in hand comes after it. */
export function undone(session: Session): { session: Session; taken: Done } | null {
  const taken = session.done.at(-1);
  if (!taken) return null;
  let todo = session.step ? [session.step.card, ...session.todo] : [...session.todo];
  if (taken.rating === 1) {
    const returned = todo.lastIndexOf(taken.card);
    todo = todo.filter((_, index) => index !== returned);
  }
  const step: Step = { ...take(taken.card), seconds: taken.seconds, revealed: true };
  return { session: { ...session, step, todo, done: session.done.slice(0, -1) }, taken };
}

/** Without the cards that no longer exist, or that were answered elsewhere since. */
export function without(session: Session, gone: (card: string) => boolean): Session {
  const todo = session.todo.filter((card) => !gone(card));
  if (!session.step || !gone(session.step.card)) return { ...session, todo };
  const [next, ...rest] = todo;
  return { ...session, step: next === undefined ? null : take(next), todo: rest };
}

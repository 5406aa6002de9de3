/**
 * One interview: the question in hand, what is still to come, and what was answered. Plain data, kept after every action, so that a reload
 * goes on where it was. No DOM here.
 */

import type { CardText } from "../drill/cards";
import { type Asked, type FollowUp, followUps, type Item } from "./score";
import type { Setup } from "./setup";

export type Phase = "clarify" | "estimate" | "explain" | "compare" | "follow-up";

export interface Answer {
  card: string;
  phase: Phase;
  /** what the reader would have asked first, or assumed */
  clarified: string;
  /** the first number that was put down, in the card's own unit, and as it was typed */
  estimate: number | null;
  first: string;
  /** what stands in the field, and what was said of it */
  typed: string;
  verdict: { right: boolean; says: string } | null;
  revealed: false;
  /** of the explanation */
  seconds: number;
  ticked: string[];
  asked: Asked[];
  /** whether the answer to the follow-up in hand is shown */
  shown: boolean;
}

export interface Sitting extends Setup {
  /** ms since 1970 */
  started: number;
  /** all questions, in their order */
  cards: string[];
  step: Answer | null;
  todo: string[];
  answers: Answer[];
  /** seconds since the first question */
  elapsed: number;
  ended: boolean;
  /** when the questions were added to the drill; 0 where the reader took them out, null before the end */
  logged: number | null;
}

export function begin(setup: Setup, cards: readonly string[], now: number): Sitting {
  return next({ ...setup, started: now, cards: [...cards], step: null, todo: [...cards], answers: [], elapsed: 0, ended: false, logged: null });
}

/** The question in hand is done; the next one comes, or the end. */
export function answered(sitting: Sitting): Sitting {
  return next({ ...sitting, answers: sitting.step ? [...sitting.answers, sitting.step] : sitting.answers });
}

/** The question in hand is left out, and does not count. */
export function leftOut(sitting: Sitting): Sitting {
  return next(sitting);
}

/** Answers that count: those that were compared with ours, the one in hand among them. */
export function counted(sitting: Sitting): Answer[] {
  const { step, answers } = sitting;
  return step && (step.phase === "compare" || step.phase === "follow-up") ? [...answers, step] : answers;
}

export function itemsOf(text: CardText): Item[] {
  return text.rubric.map(({ id, level, follow_up_html }) => ({ id, level, follow_up: follow_up_html !== null }));
}

/** What the interviewer asks next about the question in hand; null when that was all. */
export function nextFollowUp(sitting: Sitting, step: Answer, text: CardText): FollowUp | null {
  return followUps(itemsOf(text), step.ticked, sitting.level, text.follow_ups.length)[step.asked.length] ?? null;
}

/** A follow-up in words; the answer is null where the rubric asks something that the card answers in its text only. */
export function wordsOf(followUp: FollowUp, text: CardText): { question: string; answer: string | null; wants: string } {
  const chained = text.follow_ups[followUp.chain ?? -1];
  if (chained) return { question: chained.question_html, answer: chained.answer_html, wants: "" };
  const item = text.rubric.find(({ id }) => id === followUp.item);
  const question = item?.follow_up_html ?? "";
  return { question, answer: text.follow_ups.find(({ question_html }) => question_html === question)?.answer_html ?? null, wants: item?.html ?? "" };
}

/** null where the interview asks for cards that no longer exist, or is no interview. */
export function sound(sitting: Sitting | null, exists: (card: string) => boolean): Sitting | null {
  return sitting && Array.isArray(sitting.cards) && Array.isArray(sitting.answers) && sitting.cards.every(exists) ? sitting : null;
}

function next(sitting: Sitting): Sitting {
  const [card, ...todo] = sitting.todo;
  const step: Answer | null =
    card === undefined
      ? null
      : { card, phase: "clarify", clarified: "", estimate: null, first: "", typed: "", verdict: null, revealed: false, seconds: 0, ticked: [], asked: [], shown: false };
  return { ...sitting, step, todo, ended: step === null };
}

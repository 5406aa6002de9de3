/** What an interview found: the report's content, before it is put into a page or into Markdown. No DOM here. */

import type { Card, CardText, Catalogue, Level, Link } from "../drill/cards";
import { farOff } from "../drill/estimate";
import { advice, type Asked, counts, overall, type Score, score, worthOf } from "./score";
import { type Answer, counted, itemsOf, type Sitting, wordsOf } from "./sitting";

export interface Finding {
  card: Card;
  answer: Answer;
  points: Score;
  /** items at or below the level asked, and those above it that were had; worth is 1, 0.5 or 0 */
  items: { html: string; level: Level; worth: number }[];
  /** red flags that were ticked */
  flags: string[];
  asked: { html: string; asked: Asked }[];
  /** what became of the number; null where none was asked for */
  estimate: { right: boolean; says: string } | null;
}

export interface Findings {
  questions: Finding[];
  notReached: Card[];
  overall: Level | null;
  parts: { title: string; questions: number; had: number; of: number; flags: number }[];
  read: Link[];
  /** written cards only: a planned one cannot be drilled */
  drill: Card[];
}

export function findings(sitting: Sitting, catalogue: Catalogue, textOf: (card: string) => CardText): Findings {
  const card = (id: string): Card[] => [catalogue.byId.get(id)].filter((found) => found !== undefined);
  const questions = counted(sitting).map((answer) => finding(sitting, answer, catalogue.byId.get(answer.card) as Card, textOf(answer.card)));
  const points = new Map(questions.map((question) => [question.card.id, question.points]));
  const advised = advice(questions.map((question) => question.card), (id) => points.get(id)?.share);
  const lessons = new Map(questions.flatMap((question) => question.card.lessons.map((lesson) => [lesson.id, lesson] as const)));
  return {
    questions,
    notReached: sitting.cards.filter((id) => !points.has(id)).flatMap(card),
    overall: overall(questions.map((question) => question.points.reached)),
    parts: parts(questions, catalogue),
    read: advised.read.flatMap((id) => lessons.get(id) ?? []),
    drill: advised.drill.flatMap(card),
  };
}

function finding(sitting: Sitting, answer: Answer, card: Card, text: CardText): Finding {
  const rules = itemsOf(text);
  const items = rules.flatMap((item, place) => {
    const worth = worthOf(item, answer.ticked, answer.asked);
    const { level } = item;
    return level !== "red_flag" && (worth > 0 || counts(item, sitting.level)) ? [{ html: text.rubric[place]?.html ?? "", level, worth }] : [];
  });
  return {
    card,
    answer,
    points: score(rules, answer.ticked, answer.asked, sitting.level),
    items,
    flags: text.rubric.filter(({ id, level }) => level === "red_flag" && answer.ticked.includes(id)).map(({ html }) => html),
    asked: answer.asked.map((asked) => ({ html: wordsOf(asked, text).question, asked })),
    estimate: numberOf(card, answer),
  };
}

function numberOf({ estimate }: Card, { estimate: given, first }: Answer): Finding["estimate"] {
  if (!estimate) return null;
  if (given === null) return { right: false, says: `none given; it is ${estimate.answer}` };
  const ratio = given / estimate.value;
  const right = Math.abs(ratio - 1) <= estimate.tolerance + 1e-9;
  return { right, says: right ? `${first}, right: it is ${estimate.answer}` : `${first}, ${farOff(ratio)}: it is ${estimate.answer}` };
}

function parts(questions: readonly Finding[], catalogue: Catalogue): Findings["parts"] {
  const numbers = [...new Set(questions.map(({ card }) => card.part))].sort((a, b) => a - b);
  return numbers.map((part) => {
    const inside = questions.filter(({ card }) => card.part === part).map(({ points }) => points);
    const sum = (name: "had" | "of" | "flags"): number => inside.reduce((total, points) => total + points[name], 0);
    return { title: catalogue.parts.find((one) => one.part === part)?.title.en ?? `Part ${part}`, questions: inside.length, had: sum("had"), of: sum("of"), flags: sum("flags") };
  });
}

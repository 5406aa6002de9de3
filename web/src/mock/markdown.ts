/** The report as Markdown, to be kept, mailed or put beside the next one; the terminal's has the same sections. */

import { fragment, type Title } from "../drill/cards";
import { clock } from "../drill/frame";
import type { Finding, Findings } from "./findings";
import { roleOf } from "./setup";
import type { Sitting } from "./sitting";
import { REASON, reached, REPLIES, said } from "./words";

/** Links are whole addresses, so that they lead back from anywhere. */
export function markdown(sitting: Sitting, found: Findings, day: string, link: (url: string) => string): string {
  const { questions, notReached } = found;
  const list = (title: string, rows: readonly string[]): string[] => (rows.length ? [`## ${title}`, "", ...rows.map((row) => `- ${row}`), ""] : []);
  const linked = ({ en }: Title, url: string | null): string => (url === null ? `${en} (planned)` : `[${en}](${link(url)})`);
  const lines = [
    `# Mock interview, ${day}`,
    "",
    `${roleOf(sitting.role).title.en}, asked at ${sitting.level} level, ${sitting.minutes} minutes, seed ${sitting.seed}. ${questions.length} of ${sitting.cards.length} questions answered, in ${clock(sitting.elapsed)}.`,
    "",
    ...(questions.length ? [`**Overall: ${reached(found.overall)}** (${REASON}).`, ""] : []),
    ...questions.flatMap((question, place) => ofQuestion(question, place + 1)),
    ...list("By part", found.parts.map((part) => `${part.title}: ${said(part)}`)),
    ...list("Not answered", notReached.map((card) => card.title.en)),
    ...list("Read", found.read.map(({ title, url }) => linked(title, url))),
    ...list("Drill next", found.drill.map((card) => linked(card.title, `book/drill.html?card=${card.id}`))),
  ];
  return lines.join("\n");
}

function ofQuestion({ card, answer, points, items, flags, asked, estimate }: Finding, place: number): string[] {
  const missing = items.filter(({ worth }) => worth < 1);
  const rows = [
    answer.clarified && `You asked first: ${answer.clarified}`,
    estimate && `Your number: ${estimate.says}`,
    ...missing.map(({ level, worth, html }) => `Missing (${level}${worth ? ", recovered" : ""}): ${plain(html)}`),
    ...flags.map((html) => `Red flag: ${plain(html)}`),
    ...asked.map((one) => `Asked: ${plain(one.html)} (${REPLIES[one.asked.reply]})`),
  ].filter(Boolean);
  return [`## ${place}. ${card.title.en}`, "", `${said(points)}; ${reached(points.reached)}. Explained in ${clock(answer.seconds)} of ${clock(card.minutes * 60)}.`, "", ...rows.map((row) => `- ${row}`), ...(rows.length ? [""] : [])];
}

function plain(html: string): string {
  return (fragment(html).textContent ?? "").replace(/\s+/g, " ").trim();
}

/** Replays the shared fixtures with the browser's own rules and prints what differs; bundled for Node by `test_drill_rules.py`. */

import { readFileSync } from "node:fs";
import { judge } from "../../web/src/drill/estimate";
import { after, type Memory, replay } from "../../web/src/drill/memory";
import { make } from "../../web/src/drill/plan";
import { dumps, loads, merge, ProgressError } from "../../web/src/drill/progress";
import { afterGrade, build } from "../../web/src/drill/queue";
import { suggestion } from "../../web/src/drill/rubric";
import { statistics } from "../../web/src/drill/statistics";

const folder = process.argv[2];
const read = (name: string): any => JSON.parse(readFileSync(`${folder}/${name}.json`, "utf8"));
const found: string[] = [];
let compared = 0;

/** JSON that is the same for the same value; numbers to nine figures, since the two sides may differ in the last bits. */
function plain(value: unknown): string {
  return JSON.stringify(value, (_, inner) => {
    if (typeof inner === "number") return Number(inner.toPrecision(9));
    if (typeof inner !== "object" || inner === null || Array.isArray(inner)) return inner;
    return Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}

function same(what: string, here: unknown, there: unknown): void {
  compared += 1;
  if (plain(here) !== plain(there)) found.push(`${what}\n  here  ${plain(here).slice(0, 600)}\n  there ${plain(there).slice(0, 600)}`);
}

const log = read("drill_log").reviews.map(([card, at, rating, due, stability]: any) => ({ card, at, rating, due, stability }));
log.sort((a: any, b: any) => a.at - b.at);
const memories = new Map<string, Memory>();
for (const { card, at, rating, due, stability } of log) {
  const next = after(memories.get(card) ?? null, at, rating);
  memories.set(card, next);
  same(`due of ${card} at ${at}`, next.due, due);
  if (Math.abs(next.stability / stability - 1) > 1e-5) found.push(`stability of ${card} at ${at}: ${next.stability}, not ${stability}`);
}

const cases = read("drill_cases");
const written = cases.cards.filter((card: any) => !card.planned);
const known = replay(cases.reviews);
for (const { name, filter, mode, new: most, minutes, expected } of cases.queue) same(`queue: ${name}`, build(written, known, cases.day_start, filter, { mode, new: most, minutes }), expected);
for (const { rest, card, rating, expected } of cases.after_grade) {
  same(`after grade ${rating} of ${card}`, afterGrade(rest, written.find(({ id }: any) => id === card), rating), expected);
}
for (const { card, ticked, expected } of cases.suggestions) {
  same(`the grade that the ticks on ${card} speak for`, suggestion(written.find(({ id }: any) => id === card), ticked), expected);
}
for (const { name, filter, days, minutes_per_day: minutes, empty_log: fresh, expected } of cases.plan) {
  same(`plan: ${name}`, make(written, fresh ? new Map() : known, cases.day_start, days, minutes, filter), expected);
}
same("statistics", statistics(written, cases.reviews, cases.day_start), cases.statistics);

for (const { text, unit, tolerance, choices, expected } of read("drill_estimates").cases) same(`estimate: ${JSON.stringify(text)} in ${unit}`, judge(text, unit, tolerance, choices), expected);

const files = read("drill_progress");
for (const { name, one, other, merged } of files.merges) {
  const [a, b] = [loads(JSON.stringify(one)), loads(JSON.stringify(other))];
  same(`merge: ${name}`, JSON.parse(dumps(merge(a, b))), merged);
  same(`merge the other way: ${name}`, JSON.parse(dumps(merge(b, a))), merged);
}
for (const { name, text } of files.refused) {
  compared += 1;
  try {
    loads(text);
    found.push(`not refused: ${name}`);
  } catch (error) {
    if (!(error instanceof ProgressError)) throw error;
  }
}

console.log(JSON.stringify({ compared, found }));

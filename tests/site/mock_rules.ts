/** Replays `mock_cases.json` with the browser's own rules and prints what differs; bundled for Node by `test_mock_rules.py`. */

import { readFileSync } from "node:fs";
import { choose, fnv1a, ROLES } from "../../web/src/mock/choose";
import { advice, followUps, overall, score } from "../../web/src/mock/score";

const cases = JSON.parse(readFileSync(process.argv[2] ?? "", "utf8"));
const found: string[] = [];
let compared = 0;

function same(what: string, here: unknown, there: unknown): void {
  compared += 1;
  const plain = (value: unknown): string => JSON.stringify(value, (_, inner) => (typeof inner === "number" ? Number(inner.toPrecision(12)) : inner));
  if (plain(here) !== plain(there)) found.push(`${what}\n  here  ${plain(here)}\n  there ${plain(there)}`);
}

for (const [text, hash] of cases.hashes) same(`hash of ${JSON.stringify(text)}`, fnv1a(text), hash);
for (const { role: id, level, minutes, seed, cards, spent } of cases.choose) {
  const role = ROLES.find((one) => one.id === id);
  if (!role) throw new Error(`the page has no role ${id}`);
  same(`interview of ${id}, ${level}, ${minutes}, ${seed}`, choose(cases.rows, role, level, minutes, seed), { cards, minutes: spent });
}
for (const [number, { items, ticked, level, chain, follow_ups, asked, score: points }] of cases.answers.entries()) {
  same(`follow-ups of answer ${number}`, followUps(items, ticked, level, chain).map(({ item, chain: place }) => [item, place]), follow_ups);
  const { had, of, flags, reached, rating, share } = points;
  same(`score of answer ${number}`, score(items, ticked, asked, level), { had, of, flags, reached, rating, share });
}
for (const { reached, expected } of cases.overall) same(`overall of ${reached}`, overall(reached), expected);
for (const { cards, shares, expected } of cases.advice) {
  const rows = cards.map((card: string) => cases.rows.find(({ id }: { id: string }) => id === card));
  same(`advice on ${cards}`, advice(rows, (card) => shares[card]), expected);
}

console.log(JSON.stringify({ compared, found }));

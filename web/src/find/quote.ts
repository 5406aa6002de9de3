/** What a result shows of a text: the words of the query marked, and of a long text the stretch that has most of them. */

import { runs, termsOf } from "./words";

interface Mark {
  from: number;
  to: number;
}

/** Where words stand in `text` that have one of `terms`. */
function marks(text: string, terms: ReadonlySet<string>): Mark[] {
  const found: Mark[] = [];
  for (const run of runs(text)) {
    if (!run.han) {
      if (termsOf(run).some((term) => terms.has(term))) found.push({ from: run.at, to: run.at + lengthAt(text, run.at, run.text) });
      continue;
    }
    const single = run.text.length === 1;
    for (let at = 0; at < run.text.length; at++) {
      const pair = run.text.slice(at, at + 2);
      if (terms.has(pair) || (terms.has(run.text.charAt(at)) && (single || !terms.has(pair)))) found.push({ from: run.at + at, to: run.at + at + (terms.has(pair) ? 2 : 1) });
    }
  }
  return joined(found);
}

/** A number was found without its commas; in the text it has them. */
function lengthAt(text: string, at: number, word: string): number {
  let length = 0;
  for (let seen = 0; seen < word.length; length++) if (text.charAt(at + length) !== "," || word.charAt(seen) === ",") seen++;
  return length;
}

function joined(marked: Mark[]): Mark[] {
  const found: Mark[] = [];
  for (const mark of marked) {
    const last = found.at(-1);
    if (last && mark.from <= last.to) last.to = Math.max(last.to, mark.to);
    else found.push({ ...mark });
  }
  return found;
}

function shown(text: string, marked: Mark[]): DocumentFragment {
  const out = document.createDocumentFragment();
  let at = 0;
  for (const { from, to } of marked) {
    const mark = document.createElement("mark");
    mark.textContent = text.slice(from, to);
    out.append(text.slice(at, from), mark);
    at = to;
  }
  out.append(text.slice(at));
  return out;
}

/** `text` with the words marked. */
export const marked = (text: string, terms: ReadonlySet<string>): DocumentFragment => shown(text, marks(text, terms));

const ROOM = 190;

/** A quotation of about 190 characters around the most different words, cut between words. */
export function quoted(text: string, terms: ReadonlySet<string>): DocumentFragment {
  const all = marks(text, terms);
  let best = 0;
  let most = -1;
  for (const [index, mark] of all.entries()) {
    const inside = all.slice(index).filter((other) => other.to <= mark.from + ROOM);
    const different = new Set(inside.map(({ from, to }) => text.slice(from, to).toLowerCase())).size;
    const worth = different * 10 + Math.min(inside.length, 9);
    if (worth > most) [best, most] = [mark.from, worth];
  }
  let from = Math.max(0, best - 50);
  if (from > 0) from = between(text, from, best);
  let to = Math.min(text.length, from + ROOM);
  if (to < text.length) to = text.lastIndexOf(" ", to) > from + ROOM / 2 ? text.lastIndexOf(" ", to) : to;
  const inside = all.filter((mark) => mark.from >= from && mark.to <= to).map((mark) => ({ from: mark.from - from, to: mark.to - from }));
  const out = shown(text.slice(from, to), inside);
  if (from > 0) out.prepend("… ");
  if (to < text.length) out.append(" …");
  return out;
}

/** The beginning of a word after `from`, but not after `before`. */
function between(text: string, from: number, before: number): number {
  const stop = /[.。！？?!] ?/g;
  stop.lastIndex = from;
  const sentence = stop.exec(text);
  if (sentence && stop.lastIndex <= before) return stop.lastIndex;
  const space = text.indexOf(" ", from);
  return space >= 0 && space < before ? space + 1 : from;
}

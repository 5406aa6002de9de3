/**
 * Words of a text, for search in English and Chinese.
 *
 * Chinese has no spaces: a run of it is cut into its characters and each pair of neighbours, which needs no dictionary. A compound name
 * (PagedAttention, block_table, 80GB) is itself and its parts.
 */

import { stemmer } from "stemmer";

const PLAIN = /^[a-z]+$/; // most words, and there is nothing to cut
const HAN = /^\p{Script=Han}/u;
const STOP = new Set("a an and are as at be by can do does for from how i in is it its me my of on or the this to use used we what when which why with you your".split(" "));

export interface Run {
  text: string;
  at: number;
  han: boolean;
}

/** The stretches of letters in a text, with where they stand. `131,072` is one number. */
export function runs(text: string): Run[] {
  const whole = text.replace(/(\d),(?=\d{3}(?!\d))/g, "$1\u0001");
  const found: Run[] = [];
  for (const match of whole.matchAll(/\d+(?:\u0001\d{3})+|\p{Script=Han}+|(?:(?!\p{Script=Han})[\p{L}\p{N}_])+/gu)) {
    found.push({ text: match[0].replaceAll("\u0001", ""), at: match.index, han: HAN.test(match[0]) });
  }
  return found;
}

function parts(word: string): string[] {
  if (PLAIN.test(word)) return [word];
  const cut = word.split(/_+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=^\d+)(?=[A-Za-z])/).filter(Boolean);
  const lower = word.toLowerCase();
  return cut.length > 1 ? [lower, ...cut.map((part) => part.toLowerCase())] : [lower];
}

export function pairs(run: string): string[] {
  const letters = [...run];
  return letters.length < 2 ? letters : letters.slice(1).map((letter, index) => (letters[index] ?? "") + letter);
}

/** What the index holds of a run. */
export function termsOf(run: Run): string[] {
  return run.han ? [...new Set([...run.text, ...pairs(run.text)])] : parts(run.text);
}

export const terms = (text: string): string[] => runs(text.normalize("NFKC")).flatMap(termsOf);

/** The words of a query, in order and without repeats. Small words count only when there is nothing else. */
export function wordsOf(query: string): string[] {
  const all = [...new Set(runs(query.normalize("NFKC")).flatMap((run) => (run.han ? pairs(run.text) : [run.text.toLowerCase()])))];
  const telling = all.filter((word) => !STOP.has(word));
  return telling.length > 0 ? telling : all;
}

/** What words of one kind begin with: quantize, quantized, quantization. */
export const stem = (word: string): string => (/^[a-z]{4,}$/.test(word) ? stemmer(word) : word);

/** Typing errors between two words: letters missing, added, wrong, or two exchanged (optimal string alignment). */
export function errors(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, index) => index)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      let least = Math.min((rows[i - 1]?.[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (rows[i - 1]?.[j - 1] ?? 0) + same);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) least = Math.min(least, (rows[i - 2]?.[j - 2] ?? 0) + 1);
      row.push(least);
    }
    rows.push(row);
  }
  return rows[a.length]?.[b.length] ?? 0;
}

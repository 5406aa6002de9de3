/**
 * Full-text search over `_static/find.json` (its shape is told in `find_data.py`).
 *
 * A page is found when all words of the query are somewhere on it. A word that nothing begins with is taken for a typing error and read
 * as the nearest known word, which the answer says. When no page has all words, pages with most of them come instead.
 */

import MiniSearch from "minisearch";

import { errors, stem, terms, wordsOf } from "./words";

export type Kind = "question" | "planned" | "lesson" | "lab" | "record" | "set" | "part" | "page";

export interface Page {
  url: string;
  kind: Kind;
  title: string;
  zh?: string;
  id?: string;
  more?: string;
}

export interface Entry {
  page: Page;
  anchor: string;
  heading: string;
  text: string;
}

export interface Hit {
  page: Page;
  score: number;
  /** sections of the page that have a word of the query, the best first */
  entries: Entry[];
  /** the words as they stand in the text */
  terms: Set<string>;
}

export interface Found {
  hits: Hit[];
  /** every hit has all the words */
  all: boolean;
  /** [typed, read as] */
  corrected: [string, string][];
}

export interface Data {
  pages: Page[];
  entries: [number, string, string, string][];
}

interface Doc {
  id: number;
  title: string;
  heading: string;
  text: string;
}

interface Query {
  queries: string[];
  prefix?: boolean;
  boost?: Record<string, number>;
}

/** By number of the entry. */
type Looked = Map<number, { score: number; terms: string[] }>;

/** What explains stands before what lists. */
const WEIGHT: Record<Kind, number> = { question: 1, lesson: 1, lab: 0.7, record: 0.3, set: 0.5, planned: 0.5, part: 0.15, page: 0.25 };
/** The section of a card that is in Chinese: quoted to those who ask in Chinese. */
const CHINESE = "中文回答";
const KEPT = 200;

/** Where a word may be two: anywhere inside a long one, between a number and its unit. */
function seams(word: string): number[] {
  if (/^[a-z]{6,}$/.test(word)) return Array.from({ length: word.length - 4 }, (_, index) => index + 2);
  const number = /^\d+(?=[a-z]+$)/.exec(word);
  return number ? [number[0].length] : [];
}

const whole = (text: string): string[] => [text];

export class Engine {
  private readonly index = new MiniSearch<Doc>({ fields: ["title", "heading", "text"], tokenize: terms, processTerm: (term) => term });
  private readonly entries: Entry[];
  private readonly looked = new Map<string, Looked>();

  /** Reads everything in small steps, so that the page goes on answering meanwhile. */
  static async of(data: Data): Promise<Engine> {
    const engine = new Engine(data);
    await engine.index.addAllAsync(engine.docs.splice(0), { chunkSize: 40 });
    return engine;
  }

  private readonly docs: Doc[] = [];

  private constructor(data: Data) {
    const seen = new Set<number>();
    this.entries = data.entries.map(([at, anchor, heading, text], id) => {
      const page = data.pages[at];
      if (!page) throw new Error(`entry ${id} is of no page`);
      const title = seen.has(at) ? "" : [page.title, page.zh, page.more].filter(Boolean).join(" ");
      seen.add(at);
      this.docs.push({ id, title, heading, text });
      return { page, anchor, heading, text };
    });
  }

  find(query: string): Found {
    const corrected: [string, string][] = [];
    const typed = wordsOf(query);
    const words = typed.map((word, index) => {
      const read = this.read(word, index === typed.length - 1);
      if (read !== word) corrected.push([word, read]);
      return read;
    });
    const hits = this.pages(words, query);
    const complete = hits.filter((hit) => hit.missing === 0);
    const all = complete.length > 0;
    return { hits: (all ? complete : hits).sort((a, b) => a.missing - b.missing || b.score - a.score), all, corrected };
  }

  /** Entries that have one of `queries`, with their scores and the words as they stand there. */
  private search(queries: Query[], fuzzy?: number): Looked {
    const found = this.index.search({ combineWith: "OR", queries }, { tokenize: whole, processTerm: (term) => term, ...(fuzzy ? { fuzzy } : {}) });
    return new Map(found.map((result) => [Number(result.id), { score: result.score, terms: result.terms }]));
  }

  /** Entries that have the word, a form of it, two words that make it up, or (while it is being typed) something that begins with it. */
  private look(word: string, last: boolean): Looked {
    const key = `${word} ${last}`;
    const known = this.looked.get(key);
    if (known) return known;
    const root = stem(word);
    const prefix = root.length >= 4 || (last && root.length >= 2);
    const exact = { queries: [word], boost: { title: 6, heading: 4 } };
    const found = this.search(prefix ? [exact, { queries: [root], prefix: true, boost: { title: 4, heading: 2.5 } }] : [exact]);
    for (const [id, two] of this.inTwo(word)) if ((found.get(id)?.score ?? 0) < two.score) found.set(id, two);
    if (this.looked.size > KEPT) this.looked.clear();
    this.looked.set(key, found);
    return found;
  }

  /** `kvcache` for entries that say "KV cache" or "KV-cache", `80gb` for "80 GB". */
  private inTwo(word: string): Looked {
    const found: Looked = new Map();
    for (const at of seams(word)) {
      const [first, second] = [word.slice(0, at), word.slice(at)];
      const left = this.search([{ queries: [first], boost: { title: 6, heading: 4 } }]);
      const right = left.size > 0 ? this.search([{ queries: [second], boost: { title: 6, heading: 4 } }]) : left;
      const together = new RegExp(`\\b${first}[ -]${second}\\b`, "i");
      for (const [id, { score, terms: one }] of left) {
        const other = right.get(id);
        const entry = this.entries[id];
        if (!other || !entry || !together.test(`${entry.page.title} ${entry.heading} ${entry.text}`)) continue;
        found.set(id, { score: Math.min(score, other.score), terms: [...one, ...other.terms] });
      }
    }
    return found;
  }

  /** The word itself if something has it, else the nearest word that there is. */
  private read(word: string, last: boolean): string {
    if (!/^(?!\p{Script=Han})[\p{L}\p{N}]{4,}$/u.test(word) || this.look(word, last).size > 0) return word;
    const most = word.length < 5 ? 1 : word.length < 9 ? 2 : 3;
    const counts = new Map<string, number>();
    const near = this.search([{ queries: [word] }], Math.min(most + 1, 4)); // two letters exchanged count as two here, as one below
    for (const { terms: matched } of near.values()) for (const term of matched) counts.set(term, (counts.get(term) ?? 0) + 1);
    const rank = (term: string): number => errors(word, term) + (term[0] === word[0] ? 0 : 0.5);
    const [best] = [...counts.keys()]
      .filter((term) => errors(word, term) <= most)
      .sort((a, b) => rank(a) - rank(b) || (counts.get(b) ?? 0) - (counts.get(a) ?? 0) || (a < b ? -1 : 1));
    return best ?? word;
  }

  private pages(words: string[], query: string): (Hit & { missing: number })[] {
    const looked = words.map((word, index) => this.look(word, index === words.length - 1));
    const han = /\p{Script=Han}/u.test(query);
    const byPage = new Map<Page, { best: number[]; entries: Map<number, number>; terms: Set<string> }>();
    looked.forEach((found, at) => {
      for (const [id, { score, terms: matched }] of found) {
        const entry = this.entries[id];
        if (!entry) continue;
        let page = byPage.get(entry.page);
        if (!page) byPage.set(entry.page, (page = { best: words.map(() => 0), entries: new Map(), terms: new Set() }));
        page.best[at] = Math.max(page.best[at] ?? 0, score);
        page.entries.set(id, (page.entries.get(id) ?? 0) + score * (han || entry.heading !== CHINESE ? 1 : 0.3));
        for (const term of matched) page.terms.add(term);
      }
    });
    const phrase = query.trim().toLowerCase();
    const said = (text: string): boolean => phrase.length > 1 && text.toLowerCase().includes(phrase);
    return [...byPage].map(([page, { best, entries, terms: matched }]) => {
      const order = [...entries].sort((a, b) => b[1] - a[1]).flatMap(([id]) => this.entries[id] ?? []);
      const sum = best.reduce((total, score) => total + score, 0);
      const together = Math.max(...entries.values());
      const literal = said(`${page.title} ${page.zh ?? ""}`) ? 2 : order.some((entry) => said(entry.text)) ? 1.3 : 1;
      return { page, missing: best.filter((score) => score === 0).length, score: (sum + together) * literal * WEIGHT[page.kind], entries: order, terms: matched };
    });
  }
}

/** What the drill asks: the index of all cards, and the text of one card when it is shown. Both are files of the site. */

export interface Title {
  en: string;
  zh: string;
}
export interface Link {
  id: string;
  title: Title;
  url: string | null;
}
export interface Estimate {
  value: number;
  unit: string;
  tolerance: number;
  answer: string;
  /** unit as shown, and the right value in it; one choice means that the unit is given */
  choices: [string, number][];
}
export type Level = "junior" | "mid" | "senior";
export interface Card {
  id: string;
  part: number;
  order: number;
  kind: string;
  level: Level;
  planned: boolean;
  title: Title;
  minutes: number;
  url: string;
  tags: string[];
  sets: string[];
  estimate: Estimate | null;
  rubric: { id: string; level: Level | "red_flag" }[];
  follow_up_cards: string[];
  follow_ups: number;
  lessons: Link[];
  labs: Link[];
  measurements: { id: string; title: string; url: string; device: string; date: string }[];
}
export interface Row {
  name: string;
  label: string;
  at: string;
  measured: string;
  predicted: string | null;
  ratio: number | null;
}
export interface Measured {
  record: string;
  name: string;
  lab: string | null;
  device: string;
  date: string;
  rows: Row[];
}
export interface CardText {
  id: string;
  direct_html: { en: string; zh: string };
  rubric: { id: string; level: Level | "red_flag"; html: string; follow_up_html: string | null }[];
  follow_ups: { question_html: string; answer_html: string }[];
  mistakes_html: string;
  sections: { id: string; title: string; html: string }[];
  measured: Measured[];
}
export interface QuestionSet {
  id: string;
  title: Title;
  about: Title | null;
  cards: string[];
}
export interface Catalogue {
  parts: { part: number; title: Title }[];
  sets: QuestionSet[];
  /** written cards only, in the order of the course */
  cards: Card[];
  byId: ReadonlyMap<string, Card>;
  planned: number;
}

/** An address that is written from the root of the site, as seen from this page. */
export function address(url: string): string {
  return /^([a-z]+:|#|\/)/i.test(url) ? url : `${document.documentElement.dataset.content_root ?? ""}${url}`;
}

async function read(path: string): Promise<unknown> {
  const answer = await fetch(address(path), { cache: "no-cache" });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

export async function loadCatalogue(): Promise<Catalogue> {
  const index = (await read("_static/cards.json")) as { parts: Catalogue["parts"]; sets: QuestionSet[]; cards: Record<string, Card> };
  const all = Object.values(index.cards);
  const cards = all.filter((card) => !card.planned);
  return { parts: index.parts, sets: index.sets, cards, byId: new Map(cards.map((card) => [card.id, card])), planned: all.length - cards.length };
}

const texts = new Map<string, Promise<CardText>>();

/** The text of a card, fetched once; a failure is forgotten so that the next call asks again. */
export function loadText(id: string): Promise<CardText> {
  let found = texts.get(id);
  if (!found) {
    found = read(`_static/cards/${id}.json`) as Promise<CardText>;
    texts.set(id, found);
    found.catch(() => texts.delete(id));
  }
  return found;
}

/** HTML of the course's own build, made alive: links lead from here, numbers explain themselves, ids stay unique on this page. */
export function fragment(html: string): DocumentFragment {
  const template = document.createElement("template");
  template.innerHTML = html;
  for (const element of template.content.querySelectorAll<HTMLElement>("[id]")) element.removeAttribute("id");
  for (const name of ["href", "src"]) {
    for (const element of template.content.querySelectorAll(`[${name}]`)) element.setAttribute(name, address(element.getAttribute(name) ?? ""));
  }
  return template.content;
}

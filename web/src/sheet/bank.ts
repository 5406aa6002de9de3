/** Questions and answers as data (`card_data.py` tells their shape); here only what a sheet of paper needs. */

const root = document.documentElement.dataset.content_root ?? "";

export interface Title {
  en: string;
  zh: string;
}

export interface Card {
  id: string;
  part: number;
  kind: string;
  level: string;
  planned: boolean;
  title: Title;
  minutes?: number;
  tags?: string[];
}

export interface Section {
  title: Title;
  cards: string[];
}

export interface SetOfCards {
  id: string;
  title: Title;
  about: Title | null;
  cards: string[];
  sections: Section[];
}

export interface Bank {
  cards: Record<string, Card>;
  sets: SetOfCards[];
}

export interface Answer {
  direct_html: Title;
  follow_ups: { question_html: string; answer_html: string }[];
  rubric: { level: string; html: string }[];
}

async function fetched<T>(where: string): Promise<T> {
  const answer = await fetch(`${root}_static/${where}`);
  if (!answer.ok) throw new Error(`${where}: ${answer.status}`);
  return (await answer.json()) as T;
}

export const bank = (): Promise<Bank> => fetched<Bank>("cards.json");

const AT_ONCE = 8;
const kept = new Map<string, Promise<Answer>>();

/** Answers by card id, a few at a time; each is fetched once. */
export async function answers(ids: readonly string[]): Promise<Map<string, Answer>> {
  const found = new Map<string, Answer>();
  const waiting = [...ids];
  const work = async (): Promise<void> => {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
      const coming = kept.get(id) ?? fetched<Answer>(`cards/${id}.json`);
      kept.set(id, coming);
      coming.catch(() => kept.delete(id));
      found.set(id, await coming);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return found;
}

/** The sheet: a numbered list of questions, and their answers under the same numbers. */

import type { Answer, Bank, Card, Section, SetOfCards, Title } from "./bank";

export interface Layout {
  answers: "after" | "below" | "none";
  lang: "en" | "zh" | "both";
  more: boolean;
}

const root = document.documentElement.dataset.content_root ?? "";
const LEVELS: Record<string, string> = { junior: "junior", mid: "mid", senior: "senior", red_flag: "red flag" };

function element(tag: string, klass: string, ...children: (Node | string)[]): HTMLElement {
  const made = document.createElement(tag);
  if (klass) made.className = klass;
  made.append(...children);
  return made;
}

/** HTML of the course's own build, with addresses as seen from this page and numbers without their notes. */
function html(text: string, klass: string): HTMLElement {
  const made = element("div", klass);
  made.innerHTML = text;
  for (const [selector, name] of [["a[href]", "href"], ["img[src]", "src"]] as const) {
    for (const node of made.querySelectorAll(selector)) {
      const where = node.getAttribute(name) ?? "";
      if (!/^([a-z]+:|#|\/)/i.test(where)) node.setAttribute(name, root + where);
    }
  }
  for (const mark of made.querySelectorAll(".il-val")) mark.replaceWith(...mark.childNodes);
  return made;
}

function inLanguages(title: Title, lang: Layout["lang"], tag: string, klass: string): HTMLElement[] {
  const shown = lang === "en" || !title.zh ? [["en", title.en]] : lang === "zh" ? [["zh", title.zh]] : [["en", title.en], ["zh", title.zh]];
  return shown.map(([code, text], index) => {
    const made = element(tag, index > 0 ? `${klass} is-second` : klass, text ?? "");
    if (code === "zh") made.lang = "zh-Hans";
    return made;
  });
}

function facts(card: Card): HTMLElement {
  const minutes = card.minutes ? [`${card.minutes} min`] : [];
  return element("p", "il-label", [card.planned ? "planned" : "", card.kind, card.level, ...minutes].filter(Boolean).join(" · "));
}

function answerOf(answer: Answer, layout: Layout): HTMLElement[] {
  const found: HTMLElement[] = [];
  if (layout.lang !== "zh") found.push(html(answer.direct_html.en, "il-flow"));
  if (layout.lang !== "en") {
    const zh = html(answer.direct_html.zh, "il-flow");
    zh.lang = "zh-Hans";
    found.push(zh);
  }
  if (!layout.more) return found;
  if (answer.follow_ups.length > 0) {
    const list = element("dl", "il-sheet-next");
    for (const next of answer.follow_ups) list.append(element("dt", "", ...html(next.question_html, "").childNodes), element("dd", "il-flow", ...html(next.answer_html, "").childNodes));
    found.push(element("h4", "", "Asked next"), list);
  }
  const items = answer.rubric.map((item) => element("li", item.level === "red_flag" ? "is-flag" : "", element("span", "il-label", LEVELS[item.level] ?? item.level), " ", ...html(item.html, "").childNodes));
  if (items.length > 0) found.push(element("h4", "", "Rubric"), element("ul", "il-sheet-rubric", ...items));
  return found;
}

export interface Stretch {
  title: Title | null;
  /** what each question is called on paper, so that its answer is found: 1, 2, 3; in a set with sections 1, 2a, 2b, 3 */
  cards: { id: string; label: string }[];
}

/** The sections of the set less what is left out, or all in one. Numbers are those of the whole set, so that two sheets of it agree. */
export function stretches(ids: readonly string[], chosen: SetOfCards | undefined): Stretch[] {
  if (!chosen || chosen.sections.length === 0) return [{ title: null, cards: ids.map((id, index) => ({ id, label: `${index + 1}` })) }];
  const wanted = new Set(ids);
  const label = (section: Section, at: number, index: number): string => `${at + 1}${section.cards.length > 1 ? String.fromCharCode(97 + index) : ""}`;
  return chosen.sections
    .map((section, at) => ({ title: section.title, cards: section.cards.map((id, index) => ({ id, label: label(section, at, index) })).filter((card) => wanted.has(card.id)) }))
    .filter((stretch) => stretch.cards.length > 0);
}

export function paper(bank: Bank, ids: readonly string[], chosen: SetOfCards | undefined, found: ReadonlyMap<string, Answer>, layout: Layout): HTMLElement[] {
  const title = chosen?.title ?? { en: "Inference Lab: the questions", zh: "Inference Lab：题目" };
  const head = element("header", "il-sheet-head", ...inLanguages(title, layout.lang, "h2", ""));
  if (chosen?.about) head.append(...inLanguages(chosen.about, layout.lang, "p", ""));
  const questions = element("section", "il-sheet-questions", head);
  const answers = element("section", "il-sheet-answers", element("h2", "", layout.lang === "zh" ? "答案" : "Answers"));
  for (const stretch of stretches(ids, chosen)) {
    if (stretch.title) questions.append(...inLanguages(stretch.title, layout.lang, "h3", "il-sheet-stretch"));
    const list = element("ol", "");
    for (const { id, label } of stretch.cards) {
      const card = bank.cards[id];
      if (!card) continue;
      const answer = found.get(id);
      const number = element("span", "il-sheet-n", label);
      const item = element("li", card.planned ? "is-planned" : "", number, ...inLanguages(card.title, layout.lang, "p", "il-sheet-q"), facts(card));
      if (answer && layout.answers === "below") item.append(element("div", "il-sheet-a", ...answerOf(answer, layout)));
      list.append(item);
      if (answer && layout.answers === "after") {
        answers.append(element("article", "il-sheet-a", element("h3", "", `${label}. `, ...inLanguages(card.title, layout.lang, "span", "")), ...answerOf(answer, layout)));
      }
    }
    questions.append(list);
  }
  return layout.answers === "after" && found.size > 0 ? [questions, answers] : [questions];
}

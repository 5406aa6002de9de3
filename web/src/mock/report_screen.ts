/** The report: what the answers had and missed, the level that comes of it and why, what to read and what to drill. */

import { announce, h } from "../dom";
import { address, type Card, fragment, type Level, type Title } from "../drill/cards";
import { clock, dateOf, languageButtons, many, notices } from "../drill/frame";
import type { Key, Screen } from "../drill/screen";
import { otherLanguage } from "../lang";
import type { App } from "./app";
import { type Finding, findings } from "./findings";
import { markdown } from "./markdown";
import { newSeed, roleOf } from "./setup";
import { counted, type Sitting } from "./sitting";
import { REPLIES, reached, said } from "./words";

export function reportScreen(app: App, sitting: Sitting): Screen {
  const found = findings(sitting, app.catalogue, (id) => app.text(id));
  const { questions } = found;
  const day = dateOf(new Date(sitting.started));
  const text = (): string => markdown(sitting, found, day, (url) => new URL(address(url), location.href).href);
  const title = questions.length ? capital(reached(found.overall)) : "Nothing was answered";
  const heading = h("h2", { class: "dr-end-title mk-title", tabindex: "-1" }, title);
  const field = h("textarea", { class: "mk-markdown", readonly: true, rows: 12, "aria-label": "The report as Markdown", hidden: true });
  const print = (): boolean => (window.print(), true);

  function copy(): boolean {
    field.value = text();
    const byHand = (): void => {
      field.hidden = false;
      field.focus();
      field.select();
    };
    if (!navigator.clipboard) byHand();
    else navigator.clipboard.writeText(field.value).then(() => announceCopied(), byHand);
    return true;
  }
  const copied = h("span", { class: "dr-quiet", role: "status" });
  function announceCopied(): void {
    copied.textContent = "Copied.";
  }

  const element = h(
    "div",
    { class: "mk-report-in" },
    h("div", { class: "mk-report-top" }, h("p", { class: "il-label" }, `Mock interview, ${day}`), languageButtons()),
    notices(app),
    heading,
    h("p", { class: "dr-under" }, `${roleOf(sitting.role).title.en}, asked at ${sitting.level} level. ${questions.length} of ${many(sitting.cards.length, "question")} answered, in ${clock(sitting.elapsed)} of ${sitting.minutes}:00. Seed ${sitting.seed}.`),
    questions.length > 0 && why(questions),
    h(
      "div",
      { class: "dr-begin mk-actions" },
      sitting.step && h("button", { type: "button", class: "il-btn", onclick: back }, "Go back to the interview"),
      questions.length > 0 && h("button", { type: "button", class: `il-btn${sitting.step ? " il-btn--quiet" : ""}`, onclick: copy }, "Copy as Markdown"),
      questions.length > 0 && h("button", { type: "button", class: "il-btn il-btn--quiet", onclick: print }, "Print"),
      h("button", { type: "button", class: "il-btn il-btn--quiet", onclick: () => app.again(newSeed()) }, "Another interview"),
      h("button", { type: "button", class: "il-linkish", onclick: () => app.again(sitting.seed) }, "The same again"),
      copied,
    ),
    field,
    questions.length > 0 && inDrill(),
    ...questions.map((question, place) => ofQuestion(question, place + 1)),
    found.parts.length > 1 && byPart(),
    found.notReached.length > 0 && section("Not answered", h("ul", {}, ...found.notReached.map((card) => h("li", {}, ...both(card.title))))),
    found.read.length > 0 && section("Read", h("ul", {}, ...found.read.map(({ title: name, url }) => h("li", {}, ...(url === null ? [...both(name), " (planned)"] : [h("a", { href: address(url) }, ...both(name))]))))),
    found.drill.length > 0 && section("Drill next", h("ul", {}, ...found.drill.map((card) => h("li", {}, h("a", { href: drillOf(card) }, ...both(card.title)))))),
    questions.length > 0 && questions.every(({ points }) => points.share === 1) && h("p", { class: "dr-under" }, "Nothing was missed at this level. Ask for the next one."),
  );

  function back(): void {
    app.unlog();
    app.show({ ...sitting, ended: false, logged: null });
  }

  /** Whether the questions are in the drill; the reader decides. */
  function inDrill(): HTMLElement {
    const line = h("p", { class: "mk-logged", role: "status" });
    const tell = (): void => {
      const count = many(counted(sitting).length, "question");
      const button = h("button", { type: "button", class: "il-linkish", onclick: turn }, sitting.logged ? "Take them out" : "Add them");
      line.replaceChildren(sitting.logged ? `${count} went into your drill, graded by what you had, and come back when they are due. ` : `${count} are not in your drill. `, button);
    };
    function turn(): void {
      if (sitting.logged) app.unlog();
      else app.log();
      tell();
      line.querySelector("button")?.focus();
    }
    tell();
    return line;
  }

  function byPart(): HTMLElement {
    const rows = found.parts.map((part) => h("tr", {}, h("th", { scope: "row" }, part.title), h("td", { class: "il-num" }, String(part.questions)), h("td", { class: "il-num" }, said(part))));
    const head = h("tr", {}, h("th", { scope: "col" }, "Part"), h("th", { scope: "col", class: "il-num" }, "questions"), h("th", { scope: "col", class: "il-num" }, "had"));
    return section("By part", h("div", { class: "il-scroll", role: "group", "aria-label": "By part" }, h("table", { class: "dr-list" }, h("thead", {}, head), h("tbody", {}, ...rows))));
  }

  const keys: Key[] = [
    { key: "c", shown: "c", does: "copy the report as Markdown", run: copy },
    { key: "p", shown: "p", does: "print the report", run: print },
    { key: "l", shown: "l", does: "English or 中文", run: otherLanguage },
  ];
  announce(title);
  return { element, focus: heading, keys: questions.length ? keys : [] };
}

/** The level, and the levels that it is the middle of. */
function why(questions: readonly Finding[]): HTMLElement {
  const levels = questions.map(({ points }) => points.reached ?? "below junior");
  const middle = questions.length === 1 ? `One question, ${levels[0]}` : `The median of ${levels.join(", ")}`;
  return h("p", { class: "dr-under" }, `${middle}. A question reaches a level with two thirds of its items, and of those of each level below; a red flag costs a level.`);
}

function ofQuestion({ card, answer, points, items, flags, asked, estimate }: Finding, place: number): HTMLElement {
  const over = answer.seconds > card.minutes * 60;
  const had = items.filter(({ worth }) => worth > 0);
  const missed = items.filter(({ worth }) => worth === 0);
  return h(
    "section",
    { class: "mk-question" },
    h("h3", {}, h("span", { class: "mk-place" }, `${place}.`), " ", h("a", { href: address(card.url) }, ...both(card.title))),
    h("p", { class: "mk-points" }, h("b", {}, said(points)), `, ${reached(points.reached)}. Explained in `, h("span", { class: over ? "is-over" : null }, clock(answer.seconds)), ` of ${clock(card.minutes * 60)}.`),
    missed.length > 0 && list("Missed", "missed", missed.map((item) => row(item.html, item.level))),
    flags.length > 0 && list("Red flags", "flag", flags.map((html) => row(html))),
    had.length > 0 && list("Had", "had", had.map((item) => (item.worth < 1 ? row(item.html, `${item.level}, in the follow-up: counts half`, "is-half") : row(item.html, item.level)))),
    (answer.clarified !== "" || estimate || asked.length > 0) &&
      h(
        "dl",
        { class: "il-pairs mk-facts" },
        answer.clarified ? pair("You asked first", answer.clarified) : "",
        estimate && pair("Your number", h("span", { class: estimate.right ? "mk-right" : "mk-off" }, estimate.says)),
        asked.length > 0 && pair("They asked back", ...asked.map((one) => h("p", {}, fragment(one.html), h("span", { class: "dr-quiet" }, ` ${REPLIES[one.asked.reply]}`)))),
      ),
  );
}

function list(name: string, kind: string, rows: HTMLElement[]): HTMLElement {
  return h("div", { class: `mk-items mk-items--${kind}` }, h("h4", { class: "il-label" }, name), h("ul", {}, ...rows));
}

function row(html: string, note: Level | string = "", klass: string | null = null): HTMLElement {
  return h("li", { class: klass }, fragment(html), " ", note && h("span", { class: "mk-note" }, note));
}

function pair(name: string, ...said: (Node | string)[]): HTMLElement {
  return h("div", {}, h("dt", {}, name), h("dd", {}, ...said));
}

function section(name: string, ...inside: HTMLElement[]): HTMLElement {
  return h("section", { class: "mk-section" }, h("h3", {}, name), ...inside);
}

function both(title: Title): HTMLElement[] {
  return [h("span", { class: "dr-en" }, title.en), h("span", { class: "dr-zh", lang: "zh-Hans" }, title.zh || title.en)];
}

function drillOf(card: Card): string {
  return address(`book/drill.html?card=${encodeURIComponent(card.id)}`);
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The end of a session: what was done, what comes next, and no applause. */

import { h } from "../dom";
import type { App } from "./app";
import { address } from "./cards";
import { bar, clock, dayName, interval, many, notices, timeOf } from "./frame";
import type { Screen } from "./screen";
import type { Done, Session } from "./session";
import { statistics } from "./statistics";

const SAID = ["", "forgot", "hard", "good", "easy"];

export function endScreen(app: App, session: Session): Screen {
  const { done } = session;
  const cards = new Set(done.map(({ card }) => card)).size;
  const first = firstTries(done);
  const knew = first.filter(({ rating }) => rating > 1).length;
  const seconds = done.reduce((total, { seconds: spent }) => total + spent, 0);
  const counted = statistics(app.catalogue.cards, app.vault.progress.reviews, app.dayStart());
  const tomorrow = counted.forecast[1] ?? 0;
  const queue = app.queue();
  const left = queue.due.length + queue.new.length;
  const heading = h("h2", { class: "dr-end-title", tabindex: "-1" }, cards ? `${many(cards, "question")} answered` : "Nothing was graded");
  const again = h("button", { type: "button", class: `il-btn dr-start${left ? "" : " il-btn--quiet"}`, onclick: more }, left ? `Go on: ${left} more` : "Back to today", " ", h("kbd", { class: "dr-kbd" }, "Enter"));

  function more(): boolean {
    if (left) app.start();
    else app.end();
    return true;
  }

  const rows = latest(done).map(({ card: id, rating, days, seconds: spent }) => {
    const card = app.card(id);
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, h("a", { href: address(card.url) }, h("span", { class: "dr-en" }, card.title.en), h("span", { class: "dr-zh", lang: "zh-Hans" }, card.title.zh))),
      h("td", {}, h("span", { class: `dr-said dr-said--${SAID[rating]}` }, SAID[rating] ?? "")),
      h("td", { class: "il-num" }, clock(spent)),
      h("td", { class: "il-num" }, interval(days)),
    );
  });
  const element = h(
    "div",
    { class: "dr-end" },
    bar(app, ""),
    notices(app),
    heading,
    h("p", { class: "dr-under" }, cards ? `${knew} of ${first.length} at the first try, ${timeOf(seconds)} of answering. ` : "", `Tomorrow: ${tomorrow ? `${many(tomorrow, "card")} due` : "nothing due"}. `, nextDay(counted.forecast, app.dayStart())),
    h("div", { class: "dr-begin" }, again, left ? h("button", { type: "button", class: "il-btn il-btn--quiet", onclick: () => app.end() }, "Enough for now") : ""),
    cards > 0 && h("div", { class: "il-scroll", role: "group", "aria-label": "What was answered" }, h("table", { class: "dr-list" }, h("thead", {}, h("tr", {}, ...["Question", "grade"].map((name) => h("th", { scope: "col" }, name)), h("th", { scope: "col", class: "il-num" }, "time"), h("th", { scope: "col", class: "il-num" }, "next in"))), h("tbody", {}, ...rows))),
  );
  return { element, focus: heading, keys: [{ key: "Enter", shown: "Enter", does: left ? "go on" : "back to today", run: more }] };
}

/** The first answer to each card: what was remembered before the session helped. */
function firstTries(done: readonly Done[]): Done[] {
  return done.filter(({ card }, index) => done.findIndex((other) => other.card === card) === index);
}

function latest(done: readonly Done[]): Done[] {
  return [...new Map(done.map((one) => [one.card, one])).values()];
}

function nextDay(forecast: readonly number[], dayStart: number): string {
  if ((forecast[1] ?? 0) > 0) return "";
  const next = forecast.findIndex((count, day) => day > 1 && count > 0);
  return next > 0 ? `The next ${many(forecast[next] ?? 0, "card")}: ${dayName(dayStart, next)}.` : "";
}

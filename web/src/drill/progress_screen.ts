/** Progress: what is remembered and what is not. Counts that can be checked; no streaks, no scores. */

import { h } from "../dom";
import type { App } from "./app";
import { address, fragment, loadText } from "./cards";
import { bar, forecastBars, many, notices, timeOf } from "./frame";
import { sayPlan } from "./plan_line";
import { ALL, matches } from "./queue";
import type { Screen } from "./screen";
import { type Retention, SOLID_DAYS, statistics, type Statistics } from "./statistics";

export function progressScreen(app: App): Screen {
  const counted = statistics(app.catalogue.cards, app.vault.progress.reviews, app.dayStart());
  const heading = h("h2", { tabindex: "-1", class: "dr-end-title" }, "What you remember");
  const planned = app.plan();
  const element = h(
    "div",
    { class: "dr-progress" },
    bar(app, "progress"),
    notices(app),
    heading,
    ...(counted.reviews === 0
      ? [h("p", { class: "dr-under" }, "Nothing yet. After the first questions this page shows what comes due, what you remembered, and where the gaps are.")]
      : [
          summary(counted),
          section("Due in the next seven days", forecastBars(counted.forecast, app.dayStart())),
          planned && section("Until the interview", h("p", {}, sayPlan(planned)), planTable(app, planned.days.slice(0, 14), planned.days.length)),
          section("By part", coverage(app, counted)),
          section("Remembered when it was due", retention(counted)),
          weak(app, counted),
        ]),
  );
  return { element, focus: heading };
}

function section(title: string, ...children: (Node | string | null | false)[]): HTMLElement {
  return h("section", { class: "dr-section" }, h("h3", {}, title), ...children);
}

function summary(counted: Statistics): HTMLElement {
  const strangers = counted.reviews > 0 && counted.seen === 0;
  return h(
    "p",
    { class: "dr-under" },
    `${counted.seen} of ${many(counted.cards, "written question")} seen, ${counted.solid} solid (they hold for ${SOLID_DAYS} days or more). `,
    `${many(counted.reviews, "review")} in ${timeOf(counted.seconds)} of answering, ${timeOf(counted.seconds_last_7_days)} of them in the last seven days.`,
    counted.estimates.given > 0 && ` Of ${many(counted.estimates.given, "number")} put down first, ${counted.estimates.right} ${counted.estimates.right === 1 ? "was" : "were"} right.`,
    strangers && " All of them are of cards that this site does not have.",
  );
}

function coverage(app: App, { parts }: Statistics): HTMLElement {
  const rows = parts.map(({ part, cards, seen, solid, due }) => {
    const title = app.catalogue.parts.find((one) => one.part === part)?.title.en ?? "";
    const share = (count: number): string => `${(count / cards) * 100}%`;
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, `${part} · ${title}`, h("span", { class: "dr-meter", "aria-hidden": "true" }, h("i", { class: "is-seen", style: `width: ${share(seen)}` }), h("i", { class: "is-solid", style: `width: ${share(solid)}` }))),
      ...[cards, seen, solid, due].map((count) => h("td", { class: "il-num" }, String(count))),
    );
  });
  const heads = ["Part", "cards", "seen", "solid", "due"].map((name, index) => h("th", { scope: "col", class: index ? "il-num" : null }, name));
  return h("div", { class: "il-scroll", role: "group", "aria-label": "Cards by part" }, h("table", {}, h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...rows)));
}

function retention({ retention: all, retention_30_days: recent }: Statistics): HTMLElement {
  if (all.asked === 0) return h("p", {}, "No card has come back on a later day yet, so there is nothing to say.");
  return h("p", {}, `${rate(all)} over all time, ${recent.asked ? rate(recent) : "nothing"} in the last 30 days. `, h("span", { class: "dr-quiet" }, `Counted are answers at least a day after the one before; anything but “forgot” is remembered. The schedule aims at 90 %.${all.asked < 30 ? " Below thirty answers this says little." : ""}`));
}

function rate({ remembered, asked }: Retention): string {
  return `${remembered} of ${asked} (${Math.round((remembered / asked) * 100)} %)`;
}

function weak(app: App, counted: Statistics): HTMLElement | null {
  if (counted.weak_items.length === 0 && counted.weak_tags.length === 0) return null;
  const cards = [...new Set(counted.weak_items.map(({ card }) => card))];
  const items = cards.map((id) => {
    const { url, title } = app.card(id);
    const rows = counted.weak_items.filter((row) => row.card === id).map((row) => weakItem(id, row));
    return h("li", {}, h("a", { href: address(url) }, title.en), h("ul", {}, ...rows));
  });
  const tags = counted.weak_tags.map(({ tag, weak: bad, seen }) => h("li", {}, h("a", { class: "il-chip", href: `?tag=${tag}` }, `${tag} ${bad}/${seen}`)));
  return section(
    "Weak spots",
    items.length > 0 && h("p", { class: "dr-quiet" }, "What your answers leave out most, by the rubrics that you ticked."),
    items.length > 0 && h("ol", { class: "dr-weak" }, ...items),
    tags.length > 0 && h("p", { class: "dr-quiet" }, "How many of the cards seen were last graded forgot or hard. Each subject leads to a drill of it."),
    tags.length > 0 && h("ul", { class: "il-chips" }, ...tags),
  );
}

function weakItem(card: string, { item, level, missed, asked }: Statistics["weak_items"][number]): HTMLElement {
  const what = h("span", {}, item.replaceAll("-", " "));
  loadText(card)
    .then((text) => {
      const found = text.rubric.find((one) => one.id === item);
      if (found) what.replaceChildren(fragment(found.html));
    })
    .catch(() => undefined); // the id says it too
  return h("li", {}, what, " ", h("span", { class: "il-label" }, `${level === "red_flag" ? "said in" : "missing in"} ${missed} of ${asked}`));
}

function planTable(app: App, days: readonly { day: number; new: string[]; reviews: string[]; seconds: number }[], all: number): HTMLElement {
  const rows = days.map(({ day, new: begun, reviews, seconds }) => {
    const date = new Date(app.dayStart());
    date.setDate(date.getDate() + day);
    const name = date.toLocaleDateString("en", { weekday: "short", day: "numeric", month: "short" });
    return h("tr", {}, h("th", { scope: "row" }, name), ...[begun.length, reviews.length, Math.round(seconds / 60)].map((count) => h("td", { class: "il-num" }, count ? String(count) : "–")));
  });
  const heads = ["Day", "new", "reviews", "minutes"].map((name, index) => h("th", { scope: "col", class: index ? "il-num" : null }, name));
  const inside = app.catalogue.cards.filter((card) => matches(app.filter() ?? ALL, card)).length;
  return h("details", { class: "dr-fold" }, h("summary", {}, all > days.length ? `The first ${days.length} of ${all} days` : "Day by day"), h("table", {}, h("caption", {}, `For ${many(inside, "question")}, if every review is good.`), h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...rows)));
}

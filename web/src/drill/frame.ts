/** What the quiet screens of the drill share: the way between them, what went wrong, and words for numbers. */

import { h } from "../dom";
import type { App } from "./app";
import { saveFile } from "./files";
import { TROUBLE } from "./vault";

const SCREENS = [
  ["", "Today"],
  ["progress", "Progress"],
  ["settings", "Settings"],
] as const;

export function languageButtons(): HTMLElement {
  const button = (lang: string, name: string): HTMLElement =>
    h("button", { type: "button", "data-lang": lang, "aria-pressed": "false", lang: lang === "zh" ? "zh-Hans" : "en" }, name);
  return h("div", { class: "il-lang", role: "group", "aria-label": "Language of the questions and answers" }, button("en", "EN"), button("zh", "中文"));
}

/** The bar on top of Today, Progress and Settings. */
export function bar(app: App, here: string): HTMLElement {
  const links = SCREENS.map(([name, title]) =>
    h("a", { href: name ? `#${name}` : location.pathname + location.search, "aria-current": name === here ? "page" : null, onclick: (event) => follow(event, name) }, title),
  );
  function follow(event: Event, name: "" | "progress" | "settings"): void {
    event.preventDefault();
    if (app.session && !app.session.step) app.end();
    app.go(name);
  }
  return h("div", { class: "dr-bar" }, h("nav", { class: "dr-tabs", "aria-label": "Drill" }, ...links), languageButtons());
}

/** What is wrong with keeping progress, and what the last import had to say. */
export function notices(app: Pick<App, "vault" | "notice">): HTMLElement {
  const { trouble, setAside } = app.vault;
  const box = h("div", { class: "dr-notices" });
  if (trouble) {
    const kept = setAside;
    const save = kept !== null && h("button", { type: "button", class: "il-linkish", onclick: () => saveFile("inference-lab-set-aside.json", kept) }, "Save it");
    box.append(h("p", { class: "dr-notice dr-notice--bad", role: "alert" }, TROUBLE[trouble], " ", save));
  }
  if (app.notice) box.append(h("p", { class: "dr-notice", role: "status" }, app.notice));
  app.notice = "";
  return box;
}

export const many = (count: number, one: string, more = `${one}s`): string => `${count.toLocaleString("en")} ${count === 1 ? one : more}`;

export const minutesOf = (seconds: number): number => Math.max(1, Math.round(seconds / 60));

/** `1 h 20 min` */
export function timeOf(seconds: number): string {
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return minutes === 0 ? "under a minute" : `${minutes} min`;
  return `${Math.floor(minutes / 60)} h${minutes % 60 ? ` ${minutes % 60} min` : ""}`;
}

/** `1:05` */
export function clock(seconds: number): string {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

/** When a card comes again, short enough for a button. */
export function interval(days: number): string {
  if (days < 1) return "today";
  if (days < 61) return many(days, "day");
  return days < 365 ? many(Math.round(days / 30.4), "month") : "1 year";
}

function weekday(start: number, offset: number): string {
  const day = new Date(start);
  day.setDate(day.getDate() + offset);
  return day.toLocaleDateString("en", { weekday: "short" });
}

export function dayName(start: number, offset: number): string {
  return offset === 0 ? "today" : offset === 1 ? "tomorrow" : weekday(start, offset);
}

export function dateOf(date: Date): string {
  const two = (value: number): string => String(value).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** Whole days from the reader's today to a day; 0 is today. */
export function daysUntil(day: string, dayStart: number): number {
  const [year = 0, month = 1, date = 1] = day.split("-").map(Number);
  return Math.round((new Date(year, month - 1, date).getTime() - dayStart) / 86_400_000);
}

/** Columns for the days ahead; the numbers are text, so the picture needs no other. */
export function forecastBars(counts: readonly number[], dayStart: number): HTMLElement {
  const most = Math.max(1, ...counts);
  const days = counts.map((count, day) =>
    h(
      "li",
      {},
      h("span", { class: "dr-bar-count" }, count ? String(count) : "·"),
      h("span", { class: "dr-bar-fill", style: `height: ${(count / most) * 100}%`, "aria-hidden": "true" }),
      h("span", { class: "dr-bar-day" }, day === 1 ? weekday(dayStart, 1) : dayName(dayStart, day)),
    ),
  );
  return h("ol", { class: "dr-forecast", "aria-label": "Cards that come due, by day" }, ...days);
}

/** Today: what is due, what is new, how long it takes, and one key to begin. */

import { h } from "../dom";
import type { App } from "./app";
import { filterOf, inWords, isWhole } from "./choice";
import { bar, dayName, forecastBars, many, minutesOf, notices } from "./frame";
import { filterForm } from "./filter_form";
import { planLine } from "./plan_line";
import type { Mode } from "./progress";
import { matches } from "./queue";
import type { Screen } from "./screen";
import { statistics } from "./statistics";

const MODES: readonly [Mode, string, string][] = [
  ["recall", "Recall", "the core of the answer, in seconds"],
  ["explain", "Explain", "aloud, as to an interviewer, with the clock running"],
];

export function startScreen(app: App): Screen {
  const today = h("section", { class: "dr-today", "aria-label": "Today" });
  const isNew = app.vault.progress.reviews.length === 0;
  let begin = draw();

  function draw(): () => boolean {
    const left = app.leftOver;
    const queue = app.queue();
    const count = queue.due.length + queue.new.length;
    const rest = app.catalogue.cards.filter((card) => matches(app.filter(), card));
    const asked = !isWhole(app.choice); // whoever comes with a choice wants that, and not what was left
    const run = (): boolean => {
      if (left && !asked) app.resume(left);
      else if (count) app.start();
      else if (rest.length) app.start(rest.map((card) => card.id));
      return true;
    };
    const start = (text: string): HTMLElement => h("button", { type: "button", class: "il-btn dr-start", onclick: run }, text, " ", h("kbd", { class: "dr-kbd" }, "Enter"));
    const minutes = count ? minutesOf(queue.seconds) : 0;
    const figures = h("p", { class: "dr-figures" }, figure(queue.due.length, "due"), figure(queue.new.length, "new"), figure(minutes, minutes === 1 ? "minute" : "minutes"));
    const waiting = queue.all_due - queue.due.length;
    today.replaceChildren(
      figures,
      h("p", { class: "dr-under" }, !isWhole(app.choice) && h("b", {}, `${inWords(app.choice, app.catalogue)}. `), count ? (waiting > 0 ? `${waiting === 1 ? "1 more is due and waits" : `${waiting} more are due and wait`} for another sitting: today has ${app.vault.progress.settings.minutes_per_day} minutes.` : "") : nothing()),
      left ? h("p", { class: "dr-under" }, `A session was left in the middle: ${many(left.todo.length + 1, "question")} to go.`) : "",
      h(
        "div",
        { class: "dr-begin" },
        left && !asked ? start("Go on with it") : count ? start("Start") : rest.length ? start(`Go through ${rest.length === 1 ? "it" : `all ${rest.length}`} anyway`) : "",
        left && asked ? quiet("Go on with that one", () => app.resume(left)) : left && count ? quiet("Begin anew", () => app.start()) : "",
        modes(),
      ),
    );
    return run;
  }

  function quiet(text: string, run: () => void): HTMLElement {
    return h("button", { type: "button", class: "il-btn il-btn--quiet", onclick: run }, text);
  }

  /** What to say when there is nothing to ask. */
  function nothing(): string {
    const filter = app.filter();
    const inside = app.catalogue.cards.filter((card) => matches(filter, card));
    if (inside.length === 0) return "No written question is like that.";
    const memories = app.memories();
    const next = inside.map((card) => memories.get(card.id)?.due ?? Number.POSITIVE_INFINITY).sort((a, b) => a - b)[0] ?? Number.POSITIVE_INFINITY;
    if (next === Number.POSITIVE_INFINITY) return "Today's new questions are done. More tomorrow, or take some ahead.";
    const days = Math.floor((next - app.dayStart()) / 86_400_000);
    return `Done for today. The next one comes ${days <= 6 ? dayName(app.dayStart(), days) : `in ${days} days`}.`;
  }

  function modes(): HTMLElement {
    const options = MODES.map(([mode, name, what]) => {
      const input = h("input", { type: "radio", name: "dr-mode", value: mode, checked: app.choice.mode === mode });
      input.addEventListener("change", () => {
        app.choose({ mode });
        begin = draw();
        today.querySelector<HTMLInputElement>(`input[value=${mode}]`)?.focus();
      });
      return h("label", { class: "dr-mode" }, input, h("span", {}, h("b", {}, name), " ", h("span", { class: "dr-mode-what" }, what)));
    });
    return h("fieldset", { class: "dr-modes" }, h("legend", { class: "il-vh" }, "How to answer"), ...options);
  }

  const counted = statistics(app.catalogue.cards, app.vault.progress.reviews, app.dayStart());
  const ahead = counted.seen > 0 && h("section", { class: "dr-ahead", "aria-label": "The days ahead" }, h("h2", {}, "The days ahead"), forecastBars(counted.forecast, app.dayStart()));
  const unknown = filterOf(app.choice, app.catalogue) === null;
  const element = h(
    "div",
    { class: "dr-start-screen" },
    bar(app, ""),
    notices(app),
    unknown && h("p", { class: "dr-notice", role: "status" }, `This course has no ${app.choice.set ? `set called “${app.choice.set}”` : `question called “${app.choice.card}”`}; all questions are shown.`),
    today,
    isNew && howItWorks(),
    planLine(app),
    filterForm(app, () => {
      begin = draw();
    }),
    ahead,
  );
  return { element, focus: today.querySelector<HTMLElement>(".dr-start"), keys: [{ key: "Enter", shown: "Enter", does: "start", run: () => begin() }] };
}

function figure(count: number, what: string): HTMLElement {
  return h("span", { class: "dr-figure" }, h("b", {}, String(count)), ` ${what} `);
}

function howItWorks(): HTMLElement {
  return h(
    "ol",
    { class: "dr-how" },
    h("li", {}, h("b", {}, "Answer first."), " Say it aloud, or put your number down, before you reveal ours."),
    h("li", {}, h("b", {}, "Grade yourself"), " against the rubric: forgot, hard, good, easy. What you forgot comes back before the end."),
    h("li", {}, h("b", {}, "Come back."), " What you know returns later each time, what you do not, soon. Nothing leaves this browser."),
  );
}


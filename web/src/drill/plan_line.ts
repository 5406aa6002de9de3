/** The interview's day and what fits until then, in one honest sentence; without a day, the question for it. */

import { h } from "../dom";
import type { App } from "./app";
import { dateOf, daysUntil, many } from "./frame";
import { make, type Plan } from "./plan";

/** The plan of the reader's settings over the chosen cards; null without a day to come. */
export function planOf(app: App): { plan: Plan; days: number; day: string } | null {
  const { interview_date: day, minutes_per_day: minutes } = app.vault.progress.settings;
  if (!day) return null;
  const days = daysUntil(day, app.dayStart());
  if (days < 1) return null;
  return { plan: make(app.catalogue.cards, app.memories(), app.dayStart(), days, minutes, app.filter()), days, day };
}

export function sayPlan(plan: Plan, days: number): string {
  const begun = plan.days.reduce((total, day) => total + day.new.length, 0);
  const left = plan.left_out.length;
  const time = `${plan.minutes_per_day} minutes a day`;
  if (left === 0 && plan.late === 0) return begun ? `${many(days, "day")}, ${time}: all ${many(begun, "new question")} fit, each with its reviews.` : `${many(days, "day")}, ${time}: everything is begun, and the reviews fit.`;
  const enough = plan.minutes_that_fit === null ? "Not even eight hours a day would do: choose a set." : `${plan.minutes_that_fit} minutes a day would fit it all.`;
  const missing = [left ? `${many(left, "question")} of ${begun + left} new ones stay out` : "", plan.late ? `${many(plan.late, "review")} would be late on the last day` : ""].filter(Boolean).join(", and ");
  return `${many(days, "day")}, ${time}: it does not all fit. ${missing}. ${enough}`;
}

export function planLine(app: App, inSettings = false): HTMLElement {
  const { interview_date: day } = app.vault.progress.settings;
  const planned = planOf(app);
  if (planned) {
    const misses = planned.plan.left_out.length > 0 || planned.plan.late > 0;
    return h("p", { class: `dr-plan-line${misses ? " is-short" : ""}` }, h("b", {}, `Interview on ${planned.day}. `), sayPlan(planned.plan, planned.days), " ", link("Change"));
  }
  if (day && daysUntil(day, app.dayStart()) === 0) return h("p", { class: "dr-plan-line" }, h("b", {}, "Interview today. "), "Nothing new: look over what is due, breathe, and go. ", link("Change"));
  if (day) return h("p", { class: "dr-plan-line" }, `The interview was on ${day}. `, link("Is there another one?"));
  const field = h("input", { type: "date", id: "dr-when", min: dateOf(new Date(app.now())) });
  field.addEventListener("change", () => {
    if (!field.value) return;
    app.vault.set({ interview_date: field.value }, app.now());
    app.draw();
  });
  return h("p", { class: "dr-plan-line dr-plan-ask" }, h("label", { for: "dr-when" }, "When is your interview?"), " ", field, " ", h("span", { class: "dr-quiet" }, "The days are planned for you. No date is fine too."));

  function link(text: string): HTMLElement | null {
    return inSettings ? null : h("a", { href: "#settings" }, text);
  }
}

/** The interview's day and what fits until then, in one honest sentence; without a day, the question for it. */

import { h, one } from "../dom";
import type { App } from "./app";
import { dateOf, daysUntil, many } from "./frame";
import type { Plan } from "./plan";

/** What fits and what does not, in a sentence. */
export function sayPlan(plan: Plan): string {
  const days = plan.days.length;
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
  const planned = app.plan();
  if (planned) {
    const misses = planned.left_out.length > 0 || planned.late > 0;
    return h("p", { class: `dr-plan-line${misses ? " is-short" : ""}` }, h("b", {}, `Interview on ${day}. `), sayPlan(planned), " ", link("Change"));
  }
  if (day && daysUntil(day, app.dayStart()) === 0) return h("p", { class: "dr-plan-line" }, h("b", {}, "Interview today. "), "Nothing new: look over what is due, breathe, and go. ", link("Change"));
  if (day) return h("p", { class: "dr-plan-line" }, `The interview was on ${day}. `, link("Is there another one?"));
  const field = h("input", { type: "date", id: "dr-when", min: dateOf(new Date(app.now())) });
  field.addEventListener("change", () => {
    if (field.value < field.min) return; // a year that is still being typed, or no day
    app.vault.set({ interview_date: field.value }, app.now());
    one(".dr-plan-line a")?.focus();
  });
  return h("p", { class: "dr-plan-line dr-plan-ask" }, h("label", { for: "dr-when" }, "When is your interview?"), " ", field, " ", h("span", { class: "dr-quiet" }, "The days are planned for you. No date is fine too."));

  function link(text: string): HTMLElement | null {
    return inSettings ? null : h("a", { href: "#settings" }, text);
  }
}

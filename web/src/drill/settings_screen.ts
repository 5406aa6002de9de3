/** Settings: the interview, the minutes, and the file that holds everything. */

import { h } from "../dom";
import type { App } from "./app";
import { exportProgress, take } from "./files";
import { bar, dateOf, many, notices } from "./frame";
import { planLine } from "./plan_line";
import { labOfRecord } from "./measured";
import type { Screen } from "./screen";

export function settingsScreen(app: App): Screen {
  const { settings, reviews, measurements } = app.vault.progress;
  const heading = h("h2", { tabindex: "-1", class: "dr-end-title" }, "Settings");
  const day = h("input", { type: "date", id: "dr-day", value: settings.interview_date ?? "", min: dateOf(new Date(app.now())) });
  const minutes = h("input", { type: "number", id: "dr-minutes", min: "5", max: "480", step: "5", inputmode: "numeric", value: settings.minutes_per_day });
  const file = h("input", { type: "file", id: "dr-file", accept: ".json,application/json", multiple: true, class: "il-vh", tabindex: "-1", "aria-label": "Progress files and measurement records" });
  const plan = h("div");
  day.addEventListener("change", () => {
    if (day.value === "" || day.value >= day.min) set({ interview_date: day.value || null }); // else a year that is still being typed
  });
  minutes.addEventListener("change", () => {
    const wanted = Math.min(480, Math.max(5, Math.round(Number(minutes.value)) || 30));
    minutes.value = String(wanted);
    set({ minutes_per_day: wanted });
  });
  file.addEventListener("change", () => void take(app, [...(file.files ?? [])]));

  function set(change: { interview_date?: string | null; minutes_per_day?: number }): void {
    app.vault.set(change, app.now());
    tell();
  }

  function tell(): void {
    plan.replaceChildren(app.vault.progress.settings.interview_date ? planLine(app, true) : "");
  }

  const kept = measurements.map((record) => {
    const device = (record.device ?? {}) as { name?: string };
    return h("li", {}, h("b", {}, labOfRecord(record.id)), ` ${device.name ?? record.id}, ${record.date.slice(0, 10)} `, h("button", { type: "button", class: "il-linkish", onclick: () => (app.vault.dropMeasurement(record.id, record.date), app.draw()) }, "Remove"));
  });
  const confirm = resetDialog(app);
  const element = h(
    "div",
    { class: "dr-settings" },
    bar(app, "settings"),
    notices(app),
    heading,
    h("div", { class: "dr-fields" }, h("p", {}, h("label", { for: "dr-day" }, "Day of the interview"), day), h("p", {}, h("label", { for: "dr-minutes" }, "Minutes a day"), minutes)),
    plan,
    h("h3", {}, "Your progress is a file"),
    h("p", {}, `${many(reviews.length, "review")} and ${many(measurements.length, "measurement record")}, in this browser only. The terminal's `, h("code", {}, "infer-course drill"), " reads and writes the same file, and importing merges: nothing is lost on either side."),
    h("div", { class: "dr-begin" }, h("button", { type: "button", class: "il-btn", onclick: () => exportProgress(app) }, "Export"), h("button", { type: "button", class: "il-btn il-btn--quiet", onclick: () => file.click() }, "Import …"), file),
    h("p", { class: "dr-drop" }, "Or drop a file anywhere on this page: a progress file, or the record that a lab wrote on your machine (", h("code", {}, "measurements/<your device>/<lab>.json"), "). Your numbers then stand beside ours."),
    kept.length > 0 && h("ul", { class: "dr-kept" }, ...kept),
    h("h3", {}, "Begin again"),
    h("p", {}, h("button", { type: "button", class: "il-btn il-btn--quiet dr-danger", onclick: () => confirm.showModal(), disabled: reviews.length + measurements.length === 0 }, "Delete all progress …")),
    confirm,
  );
  tell();
  return { element, focus: heading, changed: tell };
}

function resetDialog(app: App): HTMLDialogElement {
  const reset = (withFile: boolean): void => {
    if (withFile) exportProgress(app);
    app.vault.clear();
    dialog.close();
    app.drop();
    app.say(withFile ? "All progress is deleted here; the file that was saved brings it back." : "All progress is deleted.");
    app.go("settings");
  };
  const dialog = h(
    "dialog",
    { class: "il-help dr-dialog", "aria-labelledby": "dr-reset-title" },
    h("h2", { id: "dr-reset-title" }, "Delete all progress?"),
    h("p", {}, `${many(app.vault.progress.reviews.length, "review")} go, and with them every due date. A file brings them back.`),
    h(
      "div",
      { class: "dr-begin" },
      h("button", { type: "button", class: "il-btn", onclick: () => reset(true) }, "Save a file, then delete"),
      h("button", { type: "button", class: "il-btn il-btn--quiet dr-danger", onclick: () => reset(false) }, "Delete"),
      h("button", { type: "button", class: "il-btn il-btn--quiet", onclick: () => dialog.close() }, "Keep it"),
    ),
  );
  return dialog;
}

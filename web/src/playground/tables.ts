/** The same as tables: figures side by side, every request, every step. For screen readers, for copying, for those who like tables. */

import { h } from "../dom";
import { chip } from "./moment";
import { count, letter, plural, time, type Side, type View } from "./view";

export function figures(view: View): HTMLElement {
  const heads = view.sides.map((side, index) => h("th", { scope: "col", class: "il-num" }, view.sides.length > 1 ? `${"AB"[index]}, ${side.label}` : side.label));
  const two = view.sides.length > 1;
  return h(
    "table",
    { class: "pg-figures" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Over the whole run"), ...heads, two && h("th", { scope: "col", class: "il-num" }, "B against A"))),
    h(
      "tbody",
      {},
      ...view.figures.map((row) =>
        h(
          "tr",
          { "data-figure": row.key },
          h("th", { scope: "row" }, row.label, !!row.says && h("span", { class: "il-note" }, row.says)),
          ...row.values.map((value, index) =>
            h("td", { class: `il-num${row.better === index ? " pg-better" : ""}` }, value, row.better === index && h("span", { class: "il-vh" }, " (better)")),
          ),
          two && h("td", { class: "il-num" }, row.change),
        ),
      ),
    ),
  );
}

/** The few figures that tell a scenario's story, before everything else. */
export function watched(view: View, keys: string[]): HTMLElement[] {
  const rows = keys.map((key) => view.figures.find((row) => row.key === key)).filter((row) => row !== undefined);
  const ab = (index: number): HTMLElement | false => view.sides.length > 1 && h("span", { class: "pg-ab" }, "AB"[index] ?? "");
  return rows.map((row) =>
    h(
      "div",
      { "data-figure": row.key },
      h("dt", {}, row.label),
      h("dd", {}, ...row.values.flatMap((value, index) => [ab(index), ` ${value} `]), !!row.change && h("span", { class: "pg-change-of" }, row.change)),
    ),
  );
}

function folded(title: string, label: string, make: () => HTMLElement): HTMLElement {
  const box = h("div", { class: "il-scroll", role: "group", "aria-label": label, tabindex: 0 });
  const details = h("details", { class: "pg-fold" }, h("summary", {}, title), box);
  details.addEventListener("toggle", () => {
    if (details.open && !box.firstChild) box.append(make());
  });
  return details;
}

function requests(view: View): HTMLElement {
  const columns = ["Request", "Engine", "Came at", "Prompt", "Output", "From cache", "Waited", "First token", "Mean gap", "Longest gap", "Done after", "Preempted"];
  const body = h("tbody");
  (view.sides[0]?.requests ?? []).forEach((_, number) => {
    view.sides.forEach((side, index) => {
      const asked = side.requests[number];
      if (!asked) return;
      const numbers = asked.refused
        ? [asked.refused]
        : [time(asked.queue), time(asked.ttft), time(asked.tpot), time(asked.longest_gap), time(asked.latency), count(asked.preemptions ?? 0)];
      body.append(
        h(
          "tr",
          {},
          h("th", { scope: "row" }, `${letter(number)}, ${asked.name}`),
          h("td", {}, "AB"[index]),
          ...[time(asked.at), count(asked.prompt), count(asked.output), count(asked.cached ?? 0), ...numbers].map((text, at) =>
            h("td", asked.refused && at === 4 ? { colspan: 6 } : { class: "il-num" }, text),
          ),
        ),
      );
    });
  });
  return h("table", { class: "pg-small" }, h("thead", {}, h("tr", {}, ...columns.map((name, i) => h("th", { scope: "col", class: i > 1 ? "il-num" : null }, name)))), body);
}

function steps(side: Side): HTMLElement {
  const body = h("tbody");
  side.steps.slice(0, -1).forEach((step, index) => {
    const prompt = step.runs.filter((run) => run[1] === "prefill" || run[1] === "again").reduce((sum, run) => sum + run[3], 0);
    const events = [
      ...step.entered.map(([request]) => `${letter(request)} enters`),
      ...step.left.map(([request]) => `${letter(request)} preempted`),
      ...step.done.map((request) => `${letter(request)} done`),
    ];
    body.append(
      h(
        "tr",
        {},
        h("th", { scope: "row" }, String(index + 1)),
        ...[time(step.at), time(step.ms), count(prompt), count(step.runs.reduce((sum, run) => sum + run[3], 0) - prompt), count(step.waiting.length), count(step.used)].map(
          (text) => h("td", { class: "il-num" }, text),
        ),
        h("td", {}, ...step.runs.map((run) => chip(run[0], run[1]))),
        h("td", {}, events.join(", ")),
      ),
    );
  });
  const columns = ["Step", "At", "Takes", "Prompt tokens", "Other tokens", "Waiting", "Blocks held", "In the batch", "What changed"];
  return h("table", { class: "pg-small" }, h("thead", {}, h("tr", {}, ...columns.map((name, i) => h("th", { scope: "col", class: i && i < 7 ? "il-num" : null }, name)))), body);
}

export function tables(view: View): HTMLElement[] {
  const count = view.sides[0]?.requests.length ?? 0;
  return [
    folded(`All ${plural(count, "request")} as a table`, "Every request", () => requests(view)),
    ...view.sides.map((side, index) => {
      const name = view.sides.length > 1 ? `${"AB"[index]}, ${side.label}` : side.label;
      return folded(`All ${plural(side.steps.length - 1, "step")} of ${name} as a table`, `Every step of ${name}`, () => steps(side));
    }),
  ];
}

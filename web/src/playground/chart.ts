/** One engine's run as lanes, time to the right: how full each step was, then a lane for each request. The paths come from Python. */

import { h } from "../dom";
import { describeRun } from "./moment";
import { count, letter, plural, stepAt, time, type Side, type View } from "./view";

const SVG = "http://www.w3.org/2000/svg";
const LANE_KINDS = ["waiting", "preempted", "swapped", "prefill", "again", "decode", "drafts"];
const FINE_PX = 4; // narrower steps are drawn without the gaps between them

export interface Chart {
  element: HTMLElement;
  show(at: number, picked: number | null): void;
  zoom(times: number): void;
}

export interface Hands {
  pick(request: number): void;
  seek(at: number): void;
  scrolled(left: number): void;
}

function drawing(paths: Record<string, string>, kinds: string[], end: number, cls: string): SVGElement {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", cls);
  svg.setAttribute("viewBox", `0 0 ${end} 1`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  for (const kind of kinds) {
    if (!paths[kind]) continue;
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", `pg-k pg-k--${kind}`);
    path.setAttribute("d", paths[kind]);
    svg.append(path);
  }
  return svg;
}

export function chart(view: View, side: Side, index: number, hands: Hands): Chart {
  const ab = "AB"[index];
  const names = side.requests.map((request, number) =>
    h(
      "button",
      { type: "button", class: "pg-name", "aria-pressed": "false", "data-request": number, onclick: () => hands.pick(number) },
      h("span", { class: "pg-letter" }, letter(number)),
      h("span", { class: "pg-name-text" }, request.name),
      !!request.refused && h("span", { class: "pg-refused" }, "refused"),
    ),
  );
  const lanes = side.lanes.map((paths) => drawing(paths, LANE_KINDS, view.end, "pg-lane"));
  const cursor = h("div", { class: "pg-cursor" });
  const axis = h(
    "div",
    { class: "pg-axis", "aria-hidden": "true" },
    ...view.ticks.map((tick, i) => h("span", { style: `left:${((100 * tick) / view.end).toFixed(3)}%` }, `${tick}${i === 0 ? " ms" : ""}`)),
  );
  const plot = h(
    "div",
    { class: "pg-plot" },
    drawing(side.load, ["decode", "again", "prefill"], view.end, "pg-load"),
    drawing({ kv: side.load["kv"] ?? "" }, ["kv"], view.end, "pg-load"),
    ...lanes,
    axis,
    cursor,
  );
  const scroll = h("div", { class: "pg-scroll", role: "group", "aria-label": `Lanes of ${ab}`, onscroll: () => hands.scrolled(scroll.scrollLeft) }, plot);
  const now = h("p", { class: "pg-now" });
  const element = h(
    "section",
    { class: "pg-side", "aria-labelledby": `pg-side-${index}` },
    h("h3", { id: `pg-side-${index}` }, view.sides.length > 1 && h("span", { class: "pg-ab" }, ab), ` ${side.label}`),
    now,
    h(
      "div",
      { class: "pg-chart" },
      h(
        "div",
        { class: "pg-names" },
        h("div", { class: "pg-name pg-name--load", title: `tokens of the step, of a budget of ${side.engine["max_num_batched_tokens"]}` }, "token budget"),
        h("div", { class: "pg-name pg-name--load", title: `blocks held, of ${Number(side.engine["num_blocks"]) - 1}` }, "KV pool"),
        ...names,
      ),
      scroll,
    ),
  );

  const typical = view.end / Math.max(1, ...view.sides.map((each) => each.steps.length));
  const fit = (): void => void plot.classList.toggle("is-fine", (plot.clientWidth * typical) / view.end < FINE_PX);
  new ResizeObserver(fit).observe(plot);

  const timeOf = (event: MouseEvent): number => {
    const box = plot.getBoundingClientRect();
    return Math.max(0, Math.min(view.end, ((event.clientX - box.left) / box.width) * view.end));
  };
  let said = "";
  plot.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "mouse") return;
    const at = timeOf(event);
    const step = stepAt(side, at);
    const lane = lanes.findIndex((svg) => svg === event.target || svg.contains(event.target as Node));
    now.textContent = lane >= 0 ? describeRun(side, step, lane, at) : `${time(at)}: ${stepLine(side, step)}`;
    now.classList.add("is-hover");
  });
  plot.addEventListener("pointerleave", () => {
    now.textContent = said;
    now.classList.remove("is-hover");
  });
  plot.addEventListener("click", (event) => hands.seek(timeOf(event)));

  return {
    element,
    show(at, picked) {
      const step = stepAt(side, at);
      const from = side.steps[step]?.at ?? 0;
      const wide = side.steps[step]?.ms ?? 0;
      cursor.style.left = `${(100 * Math.min(at, view.end)) / view.end}%`;
      cursor.style.width = at <= from + wide ? `${(100 * Math.max(0, from + wide - at)) / view.end}%` : "0";
      said = `At ${time(at)}: ${stepLine(side, step)}`;
      now.textContent = said;
      names.forEach((name, number) => name.setAttribute("aria-pressed", String(number === picked)));
      lanes.forEach((lane, number) => lane.classList.toggle("is-picked", number === picked));
      const x = (at / view.end) * plot.clientWidth;
      if (x < scroll.scrollLeft || x > scroll.scrollLeft + scroll.clientWidth - 24) scroll.scrollLeft = Math.max(0, x - scroll.clientWidth / 3);
    },
    zoom(times) {
      plot.style.width = `${100 * times}%`;
      if (times > 1) scroll.tabIndex = 0; // what scrolls can be scrolled by keyboard
      else scroll.removeAttribute("tabindex");
      fit();
    },
  };
}

/** "step 23 of 67 takes 84.8 ms: 6,008 of 8,192 tokens" */
export function stepLine(side: Side, index: number): string {
  const step = side.steps[index];
  const last = side.steps.length - 1;
  if (!step || index === last) return "everything is done";
  const tokens = step.runs.reduce((sum, run) => sum + run[3], 0);
  const budget = Number(side.engine["max_num_batched_tokens"]);
  return `step ${index + 1} of ${last} takes ${time(step.ms)} and computes ${plural(tokens, "token")} of a budget of ${count(budget)}`;
}

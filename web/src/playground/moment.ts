/** What happens in one step, in words: who runs, who came and went, who waits; and one request in full. */

import { h } from "../dom";
import { count, letter, plural, time, type Run, type Side } from "./view";

const named = (side: Side, request: number): string => `${letter(request)}, ${side.requests[request]?.name ?? ""}`;

function does([, kind, start, tokens, again, got]: Run): string {
  const end = start + tokens - 1;
  const positions = tokens === 1 ? `position ${count(start)}` : `positions ${count(start)} to ${count(end)}`;
  if (kind === "decode") return `decodes one token at ${positions}`;
  if (kind === "drafts") return `verifies ${plural(tokens - 1, "draft")} and gets ${plural(got, "token")}`;
  if (kind === "again") return `computes ${positions} (${count(again)} of them again)`;
  return `computes prompt ${positions}${got ? " and gets its first token" : ""}`;
}

/** What a request does at a time, for the pointer. */
export function describeRun(side: Side, index: number, request: number, at: number): string {
  const step = side.steps[index];
  const asked = side.requests[request];
  if (!step || !asked) return "";
  const who = `${time(at)}: ${named(side, request)}`;
  if (asked.refused) return `${who} was refused: ${asked.refused}`;
  if (at < asked.at) return `${who} has not come yet`;
  const run = at <= step.at + step.ms ? step.runs.find((row) => row[0] === request) : undefined;
  if (run) return `${who}, step ${index + 1}: ${does(run)}`;
  return asked.done !== undefined && at >= asked.done - 1e-3 ? `${who} is done` : `${who} waits`;
}

/** Letters in order, runs of the same work together: "A B C  1 token each". */
function batch(runs: Run[]): HTMLElement {
  if (!runs.length) return h("p", { class: "pg-none" }, "nobody");
  const list = h("ul", { class: "pg-batch" });
  const decoding = runs.filter((run) => run[1] === "decode");
  if (decoding.length)
    list.append(
      h("li", {}, ...decoding.map((run) => chip(run[0], "decode")), h("span", {}, decoding.length === 1 ? " decodes one token" : " decode one token each")),
    );
  for (const run of runs) if (run[1] !== "decode") list.append(h("li", {}, chip(run[0], run[1]), h("span", {}, ` ${does(run)}`)));
  return list;
}

export const chip = (request: number, kind: string): HTMLElement => h("span", { class: `pg-chip pg-chip--${kind}` }, letter(request));

function row(term: string, ...children: (Node | string)[]): HTMLElement {
  return h("div", {}, h("dt", {}, term), h("dd", {}, ...children));
}

/** The step in a list of terms. */
export function describeStep(side: Side, index: number): HTMLElement {
  const step = side.steps[index];
  const list = h("dl", { class: "pg-terms" });
  if (!step) return list;
  list.append(row("In the batch", batch(step.runs)));
  const entered = step.entered.map(([request, cached]) => `${named(side, request)}${cached ? ` (${count(cached)} tokens are there already)` : ""}`);
  if (entered.length) list.append(row("Enters", entered.join("; ")));
  const left = step.left.map(([request, how, tokens]) => `${named(side, request)} (${how === "swap" ? "moves" : "loses"} ${count(tokens)} tokens of KV)`);
  if (left.length) list.append(row("Preempted", h("span", { class: "pg-bad" }, left.join("; "))));
  if (step.done.length) list.append(row("Done after it", step.done.map((request) => named(side, request)).join("; ")));
  const queue = step.waiting.map((request) => chip(request, "waiting"));
  list.append(row("Queue", queue.length ? h("span", { class: "pg-queue" }, ...queue) : h("span", { class: "pg-none" }, "empty")));
  return list;
}

/** One request: what it asked for, how far it is, and how it went. */
export function describeRequest(side: Side, request: number, index: number, held: number): string {
  const asked = side.requests[request];
  if (!asked) return "";
  const want = `${named(side, request)}: ${count(asked.prompt)} prompt and ${count(asked.output)} output tokens, came at ${time(asked.at)}`;
  if (asked.refused) return `${want}. Refused: ${asked.refused}`;
  const known = side.steps.slice(0, index).reduce((sum, step) => sum + (step.runs.find((run) => run[0] === request)?.[5] ?? 0), 0);
  const whole = `first token after ${time(asked.ttft)}, longest gap ${time(asked.longest_gap)}, done after ${time(asked.latency)}`;
  return `${want}. Now it has ${plural(known, "output token")} and ${plural(held, "block")}. Over the run: ${whole}, preempted ${plural(asked.preemptions ?? 0, "time")}.`;
}

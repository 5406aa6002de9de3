/** What Python says of a played scenario: `infer_lab.sim.playground.play`, whose docstrings explain each field. Times are milliseconds. */

export type Kind = "prefill" | "decode" | "drafts" | "again";

/** request, kind, start, tokens, tokens computed again, new output tokens, then the blocks that are written */
export type Run = [number, Kind, number, number, number, number, ...number[]];

export interface Step {
  at: number;
  ms: number;
  runs: Run[];
  waiting: number[];
  /** request, tokens whose KV was there */
  entered: [number, number][];
  /** request, how, tokens whose KV it had */
  left: [number, "swap" | "recompute", number][];
  done: number[];
  used: number;
  blocks: number[][];
}

export interface Asked {
  name: string;
  at: number;
  prompt: number;
  output: number;
  prefix: number;
  priority: number;
  refused: string;
  queue?: number;
  ttft?: number;
  tpot?: number | null;
  longest_gap?: number | null;
  latency?: number;
  done?: number;
  cached?: number;
  preemptions?: number;
}

export type Values = Record<string, string | number | boolean>;

export interface Side {
  label: string;
  engine: Values;
  requests: Asked[];
  /** the last one is no step: the pool as it is left */
  steps: Step[];
  lanes: Record<string, string>[];
  load: Record<string, string>;
}

export interface Scenario {
  traffic: Values[];
  sides: { label: string; engine: Values }[];
  machine: Values;
  objective: Values;
  spacing: string;
  seed: number;
}

export interface Figure {
  key: string;
  label: string;
  says: string;
  values: string[];
  change: string;
  better: number | null;
}

export interface View {
  scenario: Scenario;
  cost: { says: string };
  sides: Side[];
  figures: Figure[];
  end: number;
  ticks: number[];
  hash: string;
}

export interface Prepared {
  id: string;
  title: string;
  title_zh: string;
  see: string;
  at_ms: number;
  watch: string[];
}

export interface Field {
  name: string;
  label: string;
  kind: "whole" | "number" | "choice" | "switch" | "text";
  default: string | number | boolean;
  says: string;
  unit?: string;
  low?: number;
  high?: number;
  options?: string[];
}

export type Form = Record<"traffic" | "engine" | "machine" | "objective", Field[]>;

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** The sign of a request in block squares and queues. */
export const letter = (request: number): string => LETTERS[request] ?? "?";

export const count = (value: number): string => value.toLocaleString("en");

export const plural = (value: number, noun: string): string => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

export function time(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return "–";
  if (ms >= 10_000) return `${(ms / 1000).toFixed(2)} s`;
  return ms >= 100 ? `${count(Math.round(ms))} ms` : `${ms.toFixed(1)} ms`;
}

/** The step that is under way at a time: the last one that began by then. Before the first, the first. */
export function stepAt(side: Side, at: number): number {
  let low = 0;
  let high = side.steps.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((side.steps[middle]?.at ?? 0) <= at + 1e-6) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** All times at which a step of either side begins, in order: what the player stops at. */
export function moments(view: View): number[] {
  return [...new Set(view.sides.flatMap((side) => side.steps.map((step) => step.at)))].sort((a, b) => a - b);
}

/** Who holds what after the first `step` + 1 steps: for each block [] empty, [-1] cached and free, or its holders. */
export function blocksAt(side: Side, step: number): number[][] {
  const blocks: number[][] = Array.from({ length: Number(side.engine["num_blocks"]) }, () => []);
  for (const { blocks: changed } of side.steps.slice(0, step + 1)) {
    for (const [block, ...state] of changed) if (block !== undefined) blocks[block] = state;
  }
  return blocks;
}

/** The KV pool as rows of squares: who holds which block, what is cached, what is empty, and what this step writes. */

import { h } from "../dom";
import { blocksAt, letter, plural, type Side } from "./view";

export interface Pool {
  element: HTMLElement;
  /** how many blocks the picked request holds */
  show(step: number, picked: number | null): number;
}

export function pool(side: Side, pick: (request: number) => void): Pool {
  const total = Number(side.engine["num_blocks"]) - 1;
  const squares = Array.from({ length: total }, () => h("i", { class: "pg-block" }));
  const grid = h("div", { class: "pg-pool", "aria-hidden": "true" }, ...squares);
  const says = h("p", { class: "pg-pool-says" });
  let states: number[][] = [];
  grid.addEventListener("click", (event) => {
    const state = states[squares.indexOf(event.target as HTMLElement) + 1];
    if (state?.length && state[0] !== -1) pick(state[0] as number);
  });
  return {
    element: h("div", {}, says, grid),
    show(step, picked) {
      states = blocksAt(side, step);
      const written = new Map<number, string>();
      for (const [, kind, , , , , ...blocks] of side.steps[step]?.runs ?? []) for (const block of blocks) written.set(block, kind);
      let cached = 0;
      let held = 0;
      let own = 0;
      squares.forEach((square, index) => {
        const state = states[index + 1] ?? [];
        const free = !state.length;
        const kept = state[0] === -1;
        const mine = picked !== null && !free && state.includes(picked);
        cached += Number(kept);
        held += Number(!free && !kept);
        own += Number(mine);
        const write = written.get(index + 1);
        const kind = free ? "empty" : kept ? "cached" : write ? `held pg-block--${write}` : `held pg-block--${(state[0] ?? 0) % 4}`;
        const cls = `pg-block pg-block--${kind}${state.length > 1 ? " pg-block--shared" : ""}${mine ? " is-picked" : ""}`;
        if (square.className !== cls) square.className = cls;
        const text = free || kept ? "" : state.length > 1 ? String(state.length) : letter(state[0] ?? 0);
        if (square.textContent !== text) square.textContent = text;
      });
      says.textContent = `${held} of ${plural(total, "block")} held${cached ? `, ${cached} free with cached KV` : ""}, ${total - held - cached} empty.`;
      return own;
    },
  };
}

const KEY: [string, string, string][] = [
  ["A", "held pg-block--0", "held, by whom"],
  ["3", "held pg-block--0 pg-block--shared", "held by so many"],
  ["A", "held pg-block--prefill", "prompt tokens written in this step"],
  ["A", "held pg-block--decode", "output token written in this step"],
  ["", "cached", "free, with cached KV"],
  ["", "empty", "empty"],
];

export function blockKey(): HTMLElement {
  return h("ul", { class: "pg-key", "aria-label": "Squares" }, ...KEY.map(([text, kind, says]) => h("li", {}, h("i", { class: `pg-block pg-block--${kind}` }, text), says)));
}

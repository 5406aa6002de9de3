/** What the reader asks for, as the address says it: `mock.html?role=serving&level=mid&minutes=30&seed=7` is the same interview for everybody. */

import type { Level } from "../drill/cards";
import { load, save } from "../store";
import { LENGTHS, LEVELS, ROLES, type Role } from "./choose";

export interface Setup {
  role: string;
  level: Level;
  minutes: number;
  seed: number;
}

const MOST_SEED = 2 ** 31;

export function fromAddress(search: string): Setup {
  const asked = new URLSearchParams(search);
  const last = load<Partial<Setup>>("mock-setup", {});
  const pick = <T>(known: readonly T[], name: keyof Setup, value: unknown, otherwise: T): T =>
    known.find((one) => String(one) === asked.get(name)) ?? known.find((one) => one === value) ?? otherwise;
  return {
    role: pick(ROLES.map(({ id }) => id), "role", last.role, "serving"),
    level: pick(LEVELS, "level", last.level, "mid"),
    minutes: pick(LENGTHS, "minutes", last.minutes, 30),
    seed: seedOf(asked.get("seed") ?? "") ?? newSeed(),
  };
}

/** Puts it into the address, so that a reload or a link asks the same questions. */
export function toAddress(setup: Setup): void {
  const { role, level, minutes, seed } = setup;
  save("mock-setup", { role, level, minutes });
  const query = new URLSearchParams({ role, level, minutes: String(minutes), seed: String(seed) });
  history.replaceState(history.state, "", `${location.pathname}?${query}${location.hash}`);
}

/** null for anything that is not a whole number of that range. */
export function seedOf(text: string): number | null {
  const seed = Number(text);
  return /^\d{1,10}$/.test(text) && seed <= MOST_SEED ? seed : null;
}

export function newSeed(): number {
  return Math.floor(Math.random() * 10_000);
}

export function roleOf(id: string): Role {
  const found = ROLES.find((role) => role.id === id) ?? ROLES[0];
  if (!found) throw new Error("there are no roles");
  return found;
}

export function sameSetup(one: Setup, other: Setup): boolean {
  return one.role === other.role && one.level === other.level && one.minutes === other.minutes && one.seed === other.seed;
}

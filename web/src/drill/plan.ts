/**
 * The days left until the interview, filled with what fits, and an honest word about what does not. A simulation with the drill's own
 * memory; `src/infer_course/drill/plan.py` is the reference, with the rules. No DOM here.
 */

import { after, DAY_MS, type Memory } from "./memory";
import { ALL, byPlace, type DrillCard, type Filter, matches, secondsOf } from "./queue";

const LEVELS = ["junior", "mid", "senior"];
const STEP_MINUTES = 5;
const MOST_MINUTES = 480;

/** `day` is 0 for today. `late` could not be reviewed when they were due. */
export interface Day {
  day: number;
  new: string[];
  reviews: string[];
  late: number;
  seconds: number;
}

export interface Plan {
  days: Day[];
  /** new cards that no day has room for */
  left_out: string[];
  late: number;
  minutes_per_day: number;
  /** the least time a day, in steps of five minutes, at which everything fits; null: not even eight hours */
  minutes_that_fit: number | null;
}

type Filled = Pick<Plan, "days" | "left_out" | "late">;

/** The plan for `days` days from today; the interview's own day is not one of them. */
export function make(cards: readonly DrillCard[], memories: ReadonlyMap<string, Memory>, dayStart: number, days: number, minutes: number, filter: Filter = ALL): Plan {
  const inside = inOrder(cards.filter((card) => matches(filter, card)), filter);
  const filled = fill(inside, memories, dayStart, days, minutes);
  const fits = ({ left_out, late }: Filled): boolean => left_out.length === 0 && late === 0;
  let enough: number | null = minutes;
  if (!fits(filled)) {
    enough = null;
    for (let more = Math.floor(minutes / STEP_MINUTES) * STEP_MINUTES + STEP_MINUTES; more <= MOST_MINUTES; more += STEP_MINUTES) {
      if (!fits(fill(inside, memories, dayStart, days, more))) continue;
      enough = more;
      break;
    }
  }
  return { ...filled, minutes_per_day: minutes, minutes_that_fit: enough };
}

/** Breadth first (junior, mid, senior), or the order of the chosen set. */
export function inOrder(cards: readonly DrillCard[], filter: Filter): DrillCard[] {
  const order = filter.cards;
  if (order !== null) return [...cards].sort((a, b) => order.indexOf(a.id) - order.indexOf(b.id));
  return [...cards].sort((a, b) => LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level) || byPlace(a, b));
}

function fill(cards: readonly DrillCard[], memories: ReadonlyMap<string, Memory>, dayStart: number, days: number, minutes: number): Filled {
  const now = new Map<string, Memory>();
  const due = new Map<string, number>();
  const unseen: DrillCard[] = [];
  const byId = new Map(cards.map((card) => [card.id, card]));
  for (const card of cards) {
    const known = memories.get(card.id);
    if (!known) unseen.push(card);
    else {
      now.set(card.id, known);
      due.set(card.id, Math.max(0, Math.floor((known.due - dayStart) / DAY_MS)));
    }
  }
  const budget = minutes * 60;
  const filled: Day[] = [];
  let waiting = 0;
  for (let day = 0; day < days; day += 1) {
    const noon = dayStart + day * DAY_MS + DAY_MS / 2;
    const wanted = [...due].filter(([, when]) => when <= day).map(([id, when]) => ({ when, card: byId.get(id) as DrillCard }));
    wanted.sort((a, b) => a.when - b.when || byPlace(a.card, b.card));
    let spent = 0;
    const reviewed: string[] = [];
    for (const { card } of wanted) {
      const cost = secondsOf(card, "recall");
      if (spent + cost > budget) break;
      spent += cost;
      reviewed.push(card.id);
    }
    const begun: string[] = [];
    const mayBegin = reviewed.length === wanted.length && (day < days - 1 || days === 1);
    for (let next = unseen[0]; mayBegin && next && spent + secondsOf(next, "explain") <= budget; next = unseen[0]) {
      spent += secondsOf(next, "explain");
      begun.push(next.id);
      unseen.shift();
    }
    for (const id of [...reviewed, ...begun]) {
      const known = now.get(id) ?? null;
      const later = after(known, known ? Math.max(noon, known.due) : noon, 3);
      now.set(id, later);
      due.set(id, Math.max(day + 1, Math.floor((later.due - dayStart) / DAY_MS)));
    }
    waiting = wanted.length - reviewed.length;
    filled.push({ day, new: begun, reviews: reviewed, late: waiting, seconds: spent });
  }
  return { days: filled, left_out: unseen.map((card) => card.id), late: waiting };
}

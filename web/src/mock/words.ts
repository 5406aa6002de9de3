/** Words of the interview, the same as the terminal's. No DOM here. */

import type { Level } from "../drill/cards";
import type { Reply, Score } from "./score";

export const REPLIES: Record<Reply, string> = { yes: "answered", partly: "partly answered", no: "not answered" };
export const REASON = "the median question; a level counts when two thirds of its items, and of those below, were had";

/** `6.5 of 8 items, 1 red flag`: counts that the reader can check, not a grade out of nowhere. */
export function said({ had, of, flags }: Pick<Score, "had" | "of" | "flags">): string {
  return `${had} of ${of} items${flags ? `, ${flags} red flag${flags > 1 ? "s" : ""}` : ""}`;
}

export function reached(level: Level | null): string {
  return level ? `${level} level` : "below junior level";
}

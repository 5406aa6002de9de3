/** `cards.html?random` opens a question by chance: a permalink to a surprise. Filters in the address narrow it: `?random&level=senior`. */

import { load, save } from "../store";

const KEY = "random:last";

/** One of `addresses`, and not the one of last time if there is another. */
export function pick(addresses: readonly string[], chance: () => number = Math.random): string | null {
  const last = load<string>(KEY, "");
  const fresh = addresses.length > 1 ? addresses.filter((address) => address !== last) : addresses;
  const chosen = fresh[Math.floor(chance() * fresh.length)] ?? null;
  if (chosen) save(KEY, chosen);
  return chosen;
}

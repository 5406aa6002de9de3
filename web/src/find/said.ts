/** How a search says what it found. */

import type { Found } from "./engine";

/** "No page says pagde: paged was looked for." Empty when nothing was corrected. */
export function correction(found: Found): string {
  return found.corrected.map(([typed, read]) => `Nothing says “${typed}”; this is “${read}”.`).join(" ");
}

export const FAILED = "The words of the course could not be fetched. Are you online? Try again in a moment.";

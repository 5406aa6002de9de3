/** A sitting that outlives a reload: of this tab, or, for half a day, one that another tab or a closed browser left in the middle. */

import { forget, load, save } from "../store";

export const LASTS_MS = 12 * 3_600_000;

export class Kept<T> {
  constructor(private readonly name: string) {}

  ofTab(): T | null {
    try {
      return JSON.parse(sessionStorage.getItem(this.name) ?? "null") as T | null;
    } catch {
      return null;
    }
  }

  leftOver(): T | null {
    return load<T | null>(this.name, null);
  }

  keep(value: T): void {
    save(this.name, value);
    try {
      sessionStorage.setItem(this.name, JSON.stringify(value));
    } catch {
      /* a reload begins anew */
    }
  }

  drop(): void {
    forget(this.name);
    try {
      sessionStorage.removeItem(this.name);
    } catch {
      /* nothing was kept */
    }
  }
}

/** True after a reload, or the way back from another page; false where a link led here. */
export function comesBack(): boolean {
  const [entry] = performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
  return entry?.type === "reload" || entry?.type === "back_forward";
}

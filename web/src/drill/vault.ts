/**
 * The reader's progress in this browser. What is stored is the truth: every change reads it, changes it and writes it back at once, so that
 * two tabs never lose each other's reviews. Where storing is forbidden or full, the progress lives as long as the page and the page says so.
 */

import {
  dumps,
  empty,
  loads,
  merge,
  NewerProgressError,
  type MeasurementRecord,
  type Progress,
  type Review,
  type Settings,
  withMeasurement,
  withReview,
  withSettings,
} from "./progress";

export const KEY = "il:progress";

export type Trouble = "" | "forbidden" | "full" | "newer" | "broken";

export const TROUBLE: Record<Exclude<Trouble, "">, string> = {
  forbidden: "This browser keeps nothing for this page (a private window, or storage is switched off). You can drill; export your progress before you leave.",
  full: "This browser's storage for this site is full, so new reviews are kept only as long as this page is open. Export your progress before you leave.",
  newer: "The progress kept here was written by a newer version of this page. It is left as it is; reload to get that version. New reviews are kept only as long as this page is open.",
  broken: "What was kept here could not be read. It is set aside, not deleted, and you can save it as a file.",
};

export class Vault {
  progress: Progress = empty();
  trouble: Trouble = "";
  /** what could not be read, for the reader to save */
  setAside: string | null = null;
  private readonly listeners: (() => void)[] = [];
  /** changes that could not be stored; they are put on top of whatever is */
  private unsaved: Progress | null = null;

  constructor() {
    this.progress = this.stored() ?? empty();
    addEventListener("storage", (event) => {
      if (event.key !== KEY && event.key !== null) return;
      const stored = this.stored() ?? empty();
      this.progress = this.unsaved ? merge(stored, this.unsaved) : stored;
      this.tell();
    });
  }

  /** Called after every change, of this tab or another. */
  onChange(listener: () => void): void {
    this.listeners.push(listener);
  }

  add(review: Review): void {
    this.change((now) => withReview(now, review));
  }

  remove(card: string, at: number): void {
    const others = (now: Progress): Progress => ({ ...now, reviews: now.reviews.filter((review) => review.card !== card || review.at !== at) });
    if (this.unsaved) this.unsaved = others(this.unsaved);
    this.change(others);
  }

  set(settings: Partial<Settings>, at: number): void {
    this.change((now) => withSettings(now, at, settings));
  }

  /** Adds what another file knows; nothing that is here is lost. */
  merge(other: Progress): void {
    this.change((now) => merge(now, other));
  }

  keep(record: MeasurementRecord): void {
    this.change((now) => withMeasurement(now, record));
  }

  dropMeasurement(id: string, date: string): void {
    this.change((now) => ({ ...now, measurements: now.measurements.filter((record) => record.id !== id || record.date !== date) }));
  }

  clear(): void {
    this.unsaved = null;
    this.change(() => empty());
  }

  private change(apply: (now: Progress) => Progress): void {
    const stored = this.stored();
    const base = stored === null ? this.progress : this.unsaved ? merge(stored, this.unsaved) : stored;
    this.progress = apply(base);
    this.write();
    this.tell();
  }

  private write(): void {
    if (this.trouble === "newer") {
      this.unsaved = this.progress;
      return;
    }
    try {
      localStorage.setItem(KEY, dumps(this.progress));
      this.unsaved = null;
      if (this.trouble !== "broken") this.trouble = "";
    } catch (error) {
      this.unsaved = this.progress;
      this.trouble = error instanceof DOMException && error.name === "QuotaExceededError" ? "full" : "forbidden";
    }
  }

  /** null where nothing is stored or nothing may be read. */
  private stored(): Progress | null {
    let text: string | null;
    try {
      text = localStorage.getItem(KEY);
    } catch {
      this.trouble = "forbidden";
      return null;
    }
    if (text === null) return null;
    try {
      return loads(text);
    } catch (error) {
      if (error instanceof NewerProgressError) this.trouble = "newer";
      else this.putAside(text);
      return null;
    }
  }

  private putAside(text: string): void {
    this.trouble = "broken";
    this.setAside = text;
    try {
      localStorage.setItem(`${KEY}-set-aside`, text);
      localStorage.removeItem(KEY);
    } catch {
      /* it stays where it is until something is written */
    }
  }

  private tell(): void {
    for (const listener of this.listeners) listener();
  }
}

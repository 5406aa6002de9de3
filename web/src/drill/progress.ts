/**
 * The progress file: the same JSON in this browser, in the terminal and in an export. The log of reviews is the truth and everything
 * else is replayed from it, so merging is a union: which copy goes into which, or how often, makes no difference.
 * `src/infer_course/drill/progress.py` is the reference; shared fixtures hold the two together. No DOM here.
 */

export const FORMAT = "inference-lab-progress";
export const VERSION = 1;
const DEFAULT_SETTINGS: Settings = { interview_date: null, minutes_per_day: 30 };
const MAX_MINUTES_PER_DAY = 24 * 60;
const OWN = ["format", "version", "settings", "settings_at", "reviews", "measurements"];

export type Rating = 1 | 2 | 3 | 4;
export type Mode = "recall" | "explain";

export interface Review {
  card: string;
  /** ms since 1970, UTC */
  at: number;
  rating: Rating;
  mode?: Mode;
  seconds?: number;
  /** ids of the rubric's items that were ticked; ids that no longer exist are kept */
  rubric?: string[];
  estimate?: number | null;
  [other: string]: unknown;
}

export interface Settings {
  interview_date: string | null;
  minutes_per_day: number;
  [other: string]: unknown;
}

/** A whole measurement record, as `infer_lab.bench.record` writes it. */
export interface MeasurementRecord {
  id: string;
  date: string;
  [other: string]: unknown;
}

export interface Progress {
  settings: Settings;
  settings_at: number;
  /** in the order of (at, card) */
  reviews: Review[];
  /** in the order of (id, date) */
  measurements: MeasurementRecord[];
  /** fields of the file that this version does not know */
  other: Record<string, unknown>;
}

/** A file that cannot be read; the message says where, and what to do. Nothing is repaired silently. */
export class ProgressError extends Error {}

/** The file was written by a later version, which may keep things that this one would lose. */
export class NewerProgressError extends ProgressError {}

export function empty(): Progress {
  return { settings: { ...DEFAULT_SETTINGS }, settings_at: 0, reviews: [], measurements: [], other: {} };
}

/** What is in either. */
export function merge(one: Progress, other: Progress): Progress {
  const newer = greater([one.settings_at, canonical(one.settings)], [other.settings_at, canonical(other.settings)]) >= 0 ? one : other;
  const rest: Record<string, unknown> = { ...one.other };
  for (const [name, value] of Object.entries(other.other)) {
    if (!(name in rest) || canonical(value) > canonical(rest[name])) rest[name] = value;
  }
  return {
    settings: newer.settings,
    settings_at: newer.settings_at,
    reviews: unionOfReviews([...one.reviews, ...other.reviews]),
    measurements: unionOfRecords([...one.measurements, ...other.measurements]),
    other: rest,
  };
}

export function withReview(progress: Progress, review: Review): Progress {
  return { ...progress, reviews: unionOfReviews([...progress.reviews, review]) };
}

export function withMeasurement(progress: Progress, record: MeasurementRecord): Progress {
  return { ...progress, measurements: unionOfRecords([...progress.measurements, record]) };
}

/** Newer settings; those that are not named stay. */
export function withSettings(progress: Progress, at: number, changed: Partial<Settings>): Progress {
  return { ...progress, settings: { ...progress.settings, ...changed }, settings_at: Math.max(at, progress.settings_at + 1) };
}

/** The text of the file: the same progress gives the same text. */
export function dumps({ settings, settings_at, reviews, measurements, other }: Progress): string {
  return `${JSON.stringify({ format: FORMAT, version: VERSION, settings, settings_at, reviews, measurements, ...other }, null, 1)}\n`;
}

/** Reads a progress file; `where` names it in errors. */
export function loads(text: string, where = "the file"): Progress {
  let raw: unknown;
  try {
    raw = JSON.parse(text);
  } catch {
    throw new ProgressError(`${where} is not a progress file: it is no JSON`);
  }
  if (!isObject(raw) || raw.format !== FORMAT) throw new ProgressError(`${where} is not a progress file: it has no "format": "${FORMAT}"`);
  const version = raw.version;
  if (!isWhole(version) || version < 1) throw new ProgressError(`${where}: version must be a whole number from 1, not ${JSON.stringify(version)}`);
  if (version > VERSION) throw new NewerProgressError(`${where} has version ${version}, and this page knows versions up to ${VERSION}: reload the page to get a newer one`);
  const settings = { ...DEFAULT_SETTINGS, ...checkedSettings(raw.settings ?? {}, where) };
  const settingsAt = raw.settings_at ?? 0;
  if (!isWhole(settingsAt) || settingsAt < 0) throw new ProgressError(`${where}: settings_at must be milliseconds since 1970, not ${JSON.stringify(settingsAt)}`);
  const reviews = list(raw, "reviews", where).map((review, index) => checkedReview(review, `${where}: review ${index + 1}`));
  const records = list(raw, "measurements", where).map((record, index) => checkedRecord(record, `${where}: measurement ${index + 1}`));
  const other = Object.fromEntries(Object.entries(raw).filter(([name]) => !OWN.includes(name)));
  return { settings, settings_at: settingsAt, reviews: unionOfReviews(reviews), measurements: unionOfRecords(records), other };
}

/** Text that is the same for the same value in Python and in JavaScript: sorted keys, no spaces. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const keys = Object.keys(value).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(",")}}`;
}

/** True for what a lab's `record()` writes. */
export function isMeasurement(data: unknown): data is MeasurementRecord {
  return isObject(data) && data.schema === 1 && typeof data.id === "string" && typeof data.date === "string" && isObject(data.device);
}

type Json = Record<string, unknown>;

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isWhole(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value);
}

/** Positive when `a` comes after `b`, field by field. */
function greater(a: readonly (number | string)[], b: readonly (number | string)[]): number {
  for (const [index, value] of a.entries()) {
    const other = b[index] ?? "";
    if (value !== other) return value > other ? 1 : -1;
  }
  return 0;
}

/** One item for each key, in the order of the keys; of two that differ, the one with more fields, then the higher rating, then the later text. */
function union<T extends Json>(items: readonly T[], key: (item: T) => (number | string)[]): T[] {
  const weight = (item: T): (number | string)[] => [Object.keys(item).length, typeof item.rating === "number" ? item.rating : 0, canonical(item)];
  const found = new Map<string, T>();
  for (const item of items) {
    const place = JSON.stringify(key(item));
    const kept = found.get(place);
    if (!kept || greater(weight(item), weight(kept)) > 0) found.set(place, item);
  }
  return [...found.values()].sort((a, b) => greater(key(a), key(b)));
}

const unionOfReviews = (reviews: readonly Review[]): Review[] => union(reviews, (review) => [review.at, review.card]);
const unionOfRecords = (records: readonly MeasurementRecord[]): MeasurementRecord[] => union(records, (record) => [record.id, record.date]);

function list(raw: Json, name: string, where: string): unknown[] {
  const found = raw[name] ?? [];
  if (!Array.isArray(found)) throw new ProgressError(`${where}: ${name} must be a list`);
  return found;
}

function checkedReview(review: unknown, where: string): Review {
  if (!isObject(review) || typeof review.card !== "string" || !review.card) throw new ProgressError(`${where} names no card`);
  if (!isWhole(review.at) || review.at < 0 || review.at >= 1e14) throw new ProgressError(`${where} (${review.card}): at must be milliseconds since 1970, not ${JSON.stringify(review.at)}`);
  if (![1, 2, 3, 4].includes(review.rating as number)) throw new ProgressError(`${where} (${review.card}): rating must be 1, 2, 3 or 4, not ${JSON.stringify(review.rating)}`);
  return review as Review;
}

function checkedRecord(record: unknown, where: string): MeasurementRecord {
  if (!isObject(record) || typeof record.id !== "string" || typeof record.date !== "string") throw new ProgressError(`${where} is no measurement record: it needs id and date`);
  return record as MeasurementRecord;
}

/** A day such as 2026-12-20 that exists. */
export function isDay(text: unknown): text is string {
  if (typeof text !== "string" || !/^\d{4}-\d{2}-\d{2}$/.test(text)) return false;
  const day = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(day.getTime()) && day.toISOString().startsWith(text);
}

function checkedSettings(settings: unknown, where: string): Json {
  if (!isObject(settings)) throw new ProgressError(`${where}: settings must be an object`);
  const { interview_date: day = null, minutes_per_day: minutes = DEFAULT_SETTINGS.minutes_per_day } = settings;
  if (day !== null && !isDay(day)) throw new ProgressError(`${where}: interview_date must be a day such as 2026-12-20, not ${JSON.stringify(day)}`);
  if (typeof minutes !== "number" || !(minutes >= 1 && minutes <= MAX_MINUTES_PER_DAY)) {
    throw new ProgressError(`${where}: minutes_per_day must be from 1 to ${MAX_MINUTES_PER_DAY}, not ${JSON.stringify(minutes)}`);
  }
  return settings;
}

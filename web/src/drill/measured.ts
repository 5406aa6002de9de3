/**
 * *Predicted · yours · ours*: what the reader's own record says, row by row, beside ours. `src/infer_course/measured_pairs.py` is the
 * reference for the rows. No DOM here.
 */

import type { Measured, Row } from "./cards";
import type { MeasurementRecord } from "./progress";

interface RecordedValue {
  value: number;
  unit: string;
  predicted?: unknown;
}
interface Axis {
  label: string;
  unit: string;
  values: number[];
}
interface Series {
  title: string;
  kind: string;
  x: Axis;
  y: Axis;
}

const SHOWN_UNITS: Record<string, string> = { tok: "tokens", req: "requests", "1": "" };
const SYMBOLS: Record<string, string> = { us: "µs", x: "×" };

/** The part of a record's id that is the same on every machine: `h200/kv-cache-by-hand` → `kv-cache-by-hand`. */
export function labOfRecord(id: string): string {
  return id.slice(id.lastIndexOf("/") + 1);
}

/** Every value, and the last point of every measured series that has a prediction. */
export function rows(record: MeasurementRecord): Row[] {
  const values = Object.entries((record.values ?? {}) as Record<string, RecordedValue>);
  const series = (record.series ?? {}) as Record<string, Series>;
  const found = values.map(([name, { value, unit, predicted }]) => row(name, name.replaceAll("_", " "), "", value, typeof predicted === "number" ? predicted : null, unit));
  for (const [name, line] of Object.entries(series)) {
    const predicted = series[`predicted_${name}`];
    if (line.kind === "measured" && predicted?.kind === "predicted") found.push(lastPoint(name, line, predicted));
  }
  return found;
}

/** The reader's newest record of the same lab that is not ours itself; null where no row is in both. */
export function yours(ours: Measured, records: readonly MeasurementRecord[]): { device: string; date: string; rows: Map<string, Row> } | null {
  const same = records.filter((record) => labOfRecord(record.id) === ours.name && !(record.id === ours.record && record.date.startsWith(ours.date)));
  const newest = [...same].sort((a, b) => (a.date < b.date ? 1 : -1))[0];
  if (!newest) return null;
  const device = (newest.device ?? {}) as { name?: string };
  const own = new Map(rows(newest).map((found) => [found.name, found]));
  if (!ours.rows.some(({ name }) => own.has(name))) return null;
  return { device: device.name ?? newest.id, date: newest.date.slice(0, 10), rows: own };
}

function lastPoint(name: string, line: Series, predicted: Series): Row {
  const at = line.x.values.reduce((best, value, index) => (value > (line.x.values[best] ?? Number.NEGATIVE_INFINITY) ? index : best), 0);
  const place = line.x.values[at] ?? 0;
  const known = predicted.y.values[predicted.x.values.indexOf(place)];
  const where = `${line.x.label} ${shown(place, line.x.unit)}`.trim();
  return row(name, `${line.title}: ${line.y.label}`, where, line.y.values[at] ?? 0, predicted.y.unit === line.y.unit && known !== undefined ? known : null, line.y.unit);
}

function row(name: string, label: string, at: string, measured: number, predicted: number | null, unit: string): Row {
  return {
    name,
    label,
    at,
    measured: shown(measured, unit),
    predicted: predicted === null ? null : shown(predicted, unit),
    ratio: predicted ? Number((measured / predicted).toFixed(4)) : null,
  };
}

/** Number and unit as the pages show them: whole numbers with separators, others to four figures. */
export function shown(value: number, unit: string): string {
  const number = Number.isInteger(value) || Math.abs(value) >= 10_000 ? Math.round(value).toLocaleString("en") : fourFigures(value);
  const plain = SHOWN_UNITS[unit];
  if (plain !== undefined) return `${number} ${plain}`.trim();
  const symbol = unit.split("/").map((part) => SYMBOLS[part] ?? part).join("/");
  return unit === "%" || unit === "x" ? `${number}${symbol}` : `${number} ${symbol}`;
}

function fourFigures(value: number): string {
  const rounded = Number(value.toPrecision(4));
  return Math.abs(rounded) < 1e-4 ? rounded.toExponential().replace(/e([+-])(\d)$/, "e$10$2") : rounded.toLocaleString("en", { maximumFractionDigits: 20, maximumSignificantDigits: 4 });
}

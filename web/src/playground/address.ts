/** The state of the page in its address: the scenario, and only what was changed of it, under short dotted names (`a.num_blocks=128`). */

import type { Field, Form, Scenario, Values } from "./view";

export interface Place {
  id: string;
  /** where the cursor is, ms; null for the scenario's own moment */
  at: number | null;
  /** `t0.count`, `a.policy`, `b.label`, `m.gpu`, `o.ttft_ms`, `spacing`, `seed`, `rows`, `sides` */
  changes: Map<string, string>;
}

const OWN = ["scenario", "at"];

export function read(search: string, fallback: string): Place {
  const given = new URLSearchParams(search);
  const at = given.get("at");
  const changes = new Map([...given].filter(([name]) => !OWN.includes(name)));
  return { id: given.get("scenario") ?? fallback, at: at === null || !Number.isFinite(Number(at)) ? null : Number(at), changes };
}

export function write(place: Place): string {
  const given = new URLSearchParams({ scenario: place.id });
  for (const [name, value] of place.changes) given.set(name, value);
  if (place.at !== null) given.set("at", String(place.at));
  return `?${given.toString()}`;
}

function parts(scenario: Scenario): [string, Values][] {
  return [
    ...scenario.traffic.map((group, index): [string, Values] => [`t${index}`, group]),
    ...scenario.sides.map((side, index): [string, Values] => ["ab"[index] ?? "", { label: side.label, ...side.engine }]),
    ["m", scenario.machine],
    ["o", scenario.objective],
  ];
}

/** What has to be said of `now` for somebody who knows `base`. */
export function changes(base: Scenario, now: Scenario, form: Form): Map<string, string> {
  const found = new Map<string, string>();
  if (now.traffic.length !== base.traffic.length) found.set("rows", String(now.traffic.length));
  if (now.sides.length !== base.sides.length) found.set("sides", String(now.sides.length));
  if (now.spacing !== base.spacing) found.set("spacing", now.spacing);
  if (now.seed !== base.seed) found.set("seed", String(now.seed));
  const before = new Map(parts(base));
  for (const [part, values] of parts(now)) {
    const old = before.get(part) ?? defaults(form.traffic);
    for (const [name, value] of Object.entries(values)) if (old[name] !== value) found.set(`${part}.${name}`, String(value));
  }
  return found;
}

export const defaults = (fields: Form[keyof Form]): Values => Object.fromEntries(fields.map((field) => [field.name, field.default]));

/** Dotted names that no field has: told to the reader, who may have mistyped one. */
export function strange(changed: Map<string, string>, form: Form): string[] {
  const fields = (part: string): Field[] => (/^t\d+$/.test(part) ? form.traffic : part === "m" ? form.machine : part === "o" ? form.objective : /^[ab]$/.test(part) ? form.engine : []);
  return [...changed.keys()].filter((name) => {
    const [part = "", key = ""] = name.split(".");
    return name.includes(".") && !fields(part).some((field) => field.name === key) && !(/^[ab]$/.test(part) && key === "label");
  });
}

/** `base` with the changes put in. What a field does not take is left in it, for Python to refuse by name. */
export function apply(base: Scenario, changed: Map<string, string>, form: Form): Scenario {
  const now = structuredClone(base);
  const rows = Number(changed.get("rows") ?? now.traffic.length);
  while (now.traffic.length < Math.min(rows, 60)) now.traffic.push(defaults(form.traffic));
  now.traffic.length = Math.max(1, Math.min(rows || 1, now.traffic.length));
  if (changed.get("sides") === "1") now.sides.length = 1;
  const kinds = new Map(Object.values(form).flatMap((fields) => fields.map((field) => [field.name, field.kind])));
  const typed = (name: string, text: string): string | number | boolean => {
    const kind = kinds.get(name);
    if (kind === "switch" && (text === "true" || text === "false")) return text === "true";
    return (kind === "whole" || kind === "number") && text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
  };
  for (const [name, text] of changed) {
    const [part = "", key = ""] = name.split(".");
    const group = /^t\d+$/.test(part) ? now.traffic[Number(part.slice(1))] : undefined;
    const side = now.sides["ab".indexOf(part)];
    if (group) group[key] = typed(key, text);
    else if (part.length === 1 && side && key === "label") side.label = text;
    else if (part.length === 1 && side) side.engine[key] = typed(key, text);
    else if (part === "m") now.machine[key] = typed(key, text);
    else if (part === "o") now.objective[key] = typed(key, text);
    else if (name === "spacing") now.spacing = text;
    else if (name === "seed") now.seed = Number(text);
  }
  return now;
}

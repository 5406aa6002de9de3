/** What the reader chose to see, as the address has it: `?q=paged&level=mid,senior&set=last-hour&planned=1`. */

export interface View {
  q: string;
  level: string[];
  kind: string[];
  part: string;
  set: string;
  tag: string;
  planned: boolean;
}

const list = (value: string | null): string[] => (value ?? "").split(",").filter(Boolean);

export function read(query: string): View {
  const has = new URLSearchParams(query);
  return {
    q: has.get("q") ?? "",
    level: list(has.get("level")),
    kind: list(has.get("kind")),
    part: has.get("part") ?? "",
    set: has.get("set") ?? "",
    tag: has.get("tag") ?? "",
    planned: has.get("planned") === "1",
  };
}

/** The query part of an address, "" when nothing is chosen. */
export function write(view: View): string {
  const pairs: [string, string][] = [
    ["q", view.q.trim()],
    ["level", view.level.join(",")],
    ["kind", view.kind.join(",")],
    ["part", view.part],
    ["set", view.set],
    ["tag", view.tag],
    ["planned", view.planned ? "1" : ""],
  ];
  const chosen = pairs.filter(([, value]) => value !== "");
  return chosen.length > 0 ? `?${new URLSearchParams(chosen).toString().replaceAll("%2C", ",")}` : "";
}

export const isAll = (view: View): boolean => write(view) === "";

/** A question as the list knows it. */
export interface Row {
  id: string;
  part: string;
  kind: string;
  level: string;
  tags: string[];
  planned: boolean;
}

export type Facet = "level" | "kind" | "part" | "set" | "tag" | "planned";

/** Whether the filters let a question through; `but` leaves one of them out, to count what choosing there would give. */
export function passes(row: Row, view: View, sets: ReadonlyMap<string, readonly string[]>, but?: Facet): boolean {
  return (
    (but === "planned" || view.planned || !row.planned) &&
    (but === "level" || view.level.length === 0 || view.level.includes(row.level)) &&
    (but === "kind" || view.kind.length === 0 || view.kind.includes(row.kind)) &&
    (but === "part" || view.part === "" || view.part === row.part) &&
    (but === "tag" || view.tag === "" || row.tags.includes(view.tag)) &&
    (but === "set" || view.set === "" || (sets.get(view.set)?.includes(row.id) ?? false))
  );
}

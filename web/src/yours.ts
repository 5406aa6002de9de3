/** The reader's own measurements, imported into the drill, beside ours wherever a lesson, card or lab shows a record. */

import { all, h } from "./dom";
import { address, type Measured } from "./drill/cards";
import { yours } from "./drill/measured";
import { table } from "./drill/measured_table";
import { loads } from "./drill/progress";
import { KEY } from "./drill/vault";

/** Called on pages that lead to a record, and only when the reader has measured something. */
export async function showYours(): Promise<void> {
  const { measurements } = loads(localStorage.getItem(KEY) ?? "");
  const answer = await fetch(address("_static/records.json"));
  if (!answer.ok) return;
  const ours = new Map(Object.values((await answer.json()) as Record<string, Measured>).map((record) => [record.record.replace("/", "-"), record]));
  const shown = new Set<string>();
  for (const link of all<HTMLAnchorElement>("main a[href*='measured.html#']")) {
    const name = decodeURIComponent(link.hash.slice(1));
    const record = ours.get(name);
    const mine = record && yours(record, measurements);
    if (!record || !mine || shown.has(name)) continue;
    shown.add(name);
    const box = h("details", { class: "il-yours" }, h("summary", {}, `Yours beside it: ${mine.device}, ${mine.date}`), table(record, mine));
    (link.closest("figure") ?? link.closest("p") ?? link).after(box);
  }
}

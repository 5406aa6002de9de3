/** *Predicted · yours · ours*, for the labs behind a card. */

import { h } from "../dom";
import type { CardText, Measured, Row } from "./cards";
import { yours } from "./measured";
import type { Vault } from "./vault";

const MOST_ROWS = 6;

/** With `own`, only where the reader has measured too; without, ours alone. null where there is nothing to show. */
export function measuredTables(vault: Vault, text: CardText, own: boolean): HTMLElement | null {
  const records = vault.progress.measurements;
  const pairs = text.measured.filter(({ rows }) => rows.length > 0).map((ours) => ({ ours, mine: yours(ours, records) }));
  const tables = pairs.filter(({ mine }) => !own || mine !== null).map(({ ours, mine }) => table(ours, mine));
  return tables.length ? h("section", { class: "il-yours", "aria-label": "Measured" }, ...tables) : null;
}

/** One record of ours, with the reader's own beside it where there is one. */
export function table(ours: Measured, mine: ReturnType<typeof yours>): HTMLElement {
  const known = ours.rows.map((row) => ({ row, own: mine?.rows.get(row.name) ?? null }));
  const pairs = known.filter(({ own }) => own !== null || mine === null).slice(0, MOST_ROWS);
  const head = h("tr", {}, h("th", { scope: "col" }, "What"), h("th", { scope: "col", class: "il-num" }, "predicted"), mine && h("th", { scope: "col", class: "il-num" }, "yours"), h("th", { scope: "col", class: "il-num" }, "ours"));
  const body = pairs.map(({ row, own }) => {
    const sameSize = !own || own.at === row.at;
    const predicted = own?.predicted ?? row.predicted;
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, row.label, sameSize && row.at ? h("span", { class: "il-note" }, row.at) : ""),
      h("td", { class: "il-num il-text-predicted" }, predicted ?? ""),
      mine && h("td", { class: "il-num il-text-measured" }, own ? value(own, sameSize) : ""),
      h("td", { class: "il-num il-text-measured" }, value(row, sameSize)),
    );
  });
  const caption = mine ? `Yours: ${mine.device}, ${mine.date}. Ours: ${ours.device}, ${ours.date}.` : `Ours: ${ours.device}, ${ours.date}. Run the lab, drop its record here, and your numbers stand beside them.`;
  return h("div", { class: "il-scroll", role: "group", "aria-label": "Predicted and measured" }, h("table", {}, h("caption", {}, caption), h("thead", {}, head), h("tbody", {}, ...body)));
}

/** Sizes differ between machines: then each number says its own, with its own prediction's ratio. */
function value(row: Row, sameSize: boolean): Node {
  const note = [sameSize ? "" : row.at, row.ratio === null ? "" : `${row.ratio >= 100 ? Math.round(row.ratio) : Number(row.ratio.toPrecision(2))}× predicted`].filter(Boolean).join(", ");
  return h("span", {}, row.measured, note && h("span", { class: "il-note" }, note));
}

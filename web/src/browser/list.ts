/** The rows of the page: shown, hidden, and in the order of a search, with the words that were found. They are the ones that stand there without script. */

import { all, one } from "../dom";
import type { Entry, Hit } from "../find/engine";
import { marked, quoted } from "../find/quote";
import type { Row } from "./view";

interface Place extends Row {
  item: HTMLElement;
  home: HTMLElement;
  link: HTMLAnchorElement | null;
}

export class List {
  readonly rows: readonly Place[];
  private readonly hits = one(".il-hits");
  private readonly decks = all(".il-deck");

  constructor() {
    this.rows = all<HTMLElement>(".il-decks .il-card-row").map((item) => ({
      item,
      home: item.parentElement ?? item,
      link: one<HTMLAnchorElement>(":scope > a", item),
      id: item.dataset.id ?? "",
      part: item.dataset.part ?? "",
      kind: item.dataset.kind ?? "",
      level: item.dataset.level ?? "",
      tags: (item.dataset.tags ?? "").split(" ").filter(Boolean),
      planned: item.classList.contains("is-planned"),
    }));
  }

  /** Part by part, in the order of the course. */
  byPart(shown: ReadonlySet<string>): void {
    for (const row of this.rows) {
      this.plain(row);
      row.home.append(row.item);
      row.item.hidden = !shown.has(row.id);
    }
    for (const deck of this.decks) deck.hidden = all(".il-card-row:not([hidden])", deck).length === 0;
    if (this.hits) this.hits.hidden = true;
  }

  /** One list in the given order; with `hits`, the words found in each are quoted. */
  inOrder(ids: readonly string[], hits: ReadonlyMap<string, Hit> = new Map()): void {
    if (!this.hits) return;
    const places = new Map(this.rows.map((row) => [row.id, row]));
    this.byPart(new Set());
    for (const id of ids) {
      const row = places.get(id);
      if (!row) continue;
      row.item.hidden = false;
      this.hits.append(row.item);
      const hit = hits.get(id);
      if (hit) this.quote(row, hit);
    }
    this.hits.hidden = ids.length === 0;
  }

  /** Links of what is shown, from the top down. */
  links(): HTMLAnchorElement[] {
    return all<HTMLAnchorElement>(".il-browser .il-card-row:not([hidden]) > a").filter((link) => link.offsetParent !== null);
  }

  private plain(row: Place): void {
    one(".il-row-found", row.item)?.remove();
    for (const mark of all("mark", row.item)) mark.replaceWith(...mark.childNodes);
    row.item.normalize();
  }

  private quote(row: Place, hit: Hit): void {
    for (const title of all(".il-card-en, .il-card-zh", row.item)) title.replaceChildren(marked(title.textContent ?? "", hit.terms));
    const found = document.createElement("div");
    found.className = "il-row-found";
    const [best, ...others] = hit.entries.filter((entry) => entry.text);
    if (best) found.append(this.paragraph(best, hit));
    const asked = others.find((entry) => entry.heading.endsWith("?") && entry.anchor);
    if (asked && !best?.heading.endsWith("?")) found.append(this.paragraph(asked, hit));
    if (found.childNodes.length > 0) one(".il-chips", row.item)?.before(found);
  }

  private paragraph(entry: Entry, hit: Hit): HTMLElement {
    const text = document.createElement("p");
    if (entry.heading) text.append(anchorOf(entry, hit), " ");
    text.append(quoted(entry.text, hit.terms));
    return text;
  }
}

export function anchorOf(entry: Entry, hit: Hit): HTMLAnchorElement {
  const link = document.createElement("a");
  link.href = `${document.documentElement.dataset.content_root ?? ""}${hit.page.url}#${entry.anchor}`;
  link.append(marked(entry.heading, hit.terms));
  return link;
}

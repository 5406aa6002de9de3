/** The card browser: the list of all questions becomes filtered, searched, walked by keys, and kept in the address. */

import { all, isTyping, one } from "../dom";
import type { Found, Hit } from "../find/engine";
import { engine } from "../find/load";
import { marked, quoted } from "../find/quote";
import { correction, FAILED } from "../find/said";
import { Controls } from "./controls";
import { anchorOf, List } from "./list";
import { pick } from "./random";
import { isAll, passes, read, write, type View } from "./view";

const ELSEWHERE = 6;
/** There is room for the filters beside the list (as in browser.css). */
const BESIDE = matchMedia("(min-width: 62rem)");
const LEADS = new Set(["lesson", "lab", "record"]);

class Browser {
  private readonly list = new List();
  private readonly said = one(".il-found");
  private readonly nothing = one(".il-nothing");
  private asked = 0;

  constructor(private readonly controls: Controls) {}

  start(): void {
    const { form, field } = this.controls;
    const query = new URLSearchParams(location.search);
    this.controls.show(read(location.search));
    const facets = one<HTMLDetailsElement>(".il-facets", form);
    if (facets && !BESIDE.matches) facets.open = false; // the questions come first on a small screen
    BESIDE.addEventListener("change", () => facets && BESIDE.matches && (facets.open = true));
    if (query.has("random") && this.random(true)) return;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (field.value.trim()) void this.update().then(() => this.list.links()[0]?.click());
    });
    form.addEventListener("input", (event) => {
      if (!(event instanceof InputEvent && event.isComposing)) void this.update();
    });
    field.addEventListener("compositionend", () => void this.update());
    field.addEventListener("focus", () => void engine().catch(() => undefined)); // fetched while the reader thinks
    form.addEventListener("reset", (event) => {
      event.preventDefault();
      this.show(read(""));
      field.focus();
    });
    one(".il-random", form)?.addEventListener("click", (event) => {
      if (event instanceof MouseEvent && (event.ctrlKey || event.metaKey || event.shiftKey)) return;
      event.preventDefault();
      this.random();
    });
    document.addEventListener("keydown", (event) => this.key(event));
    addEventListener("popstate", () => this.show(read(location.search)));
    void this.update();
  }

  private show(view: View): void {
    this.controls.show(view);
    void this.update();
  }

  private passing(view: View): string[] {
    const rows = this.list.rows.filter((row) => passes(row, view, this.controls.sets)).map((row) => row.id);
    const order = this.controls.sets.get(view.set);
    return order ? order.filter((id) => rows.includes(id)) : rows;
  }

  /** Shows what the form says and keeps it in the address. */
  private async update(): Promise<void> {
    const mine = ++this.asked;
    const view = this.controls.view();
    const passing = this.passing(view);
    const query = view.q.trim();
    history.replaceState(null, "", `${location.pathname}${write(view)}${location.hash}`);
    this.links(view);
    const summary = one(".il-facets > summary", this.controls.form);
    const chosen = [...view.level, ...view.kind, view.part, view.set, view.tag, view.planned].filter(Boolean).length;
    if (summary) summary.textContent = chosen > 0 ? `Filters (${chosen})` : "Filters";
    if (!query) {
      this.controls.count(this.list.rows, view);
      if (view.set) this.list.inOrder(passing);
      else this.list.byPart(new Set(passing));
      this.tell(view, passing.length, "");
      this.elsewhere([]);
      return;
    }
    try {
      const found = (await engine()).find(query);
      if (mine === this.asked) this.found(view, new Set(passing), found);
    } catch {
      if (mine === this.asked && this.said) this.said.textContent = FAILED;
    }
  }

  private found(view: View, passing: ReadonlySet<string>, found: Found): void {
    const hits = new Map(found.hits.flatMap((hit): [string, Hit][] => (hit.page.id ? [[hit.page.id, hit]] : [])));
    const planned = new Set(this.list.rows.flatMap((row) => (row.planned ? [row.id] : [])));
    const shown = [...hits.keys()].filter((id) => passing.has(id)).sort((a, b) => Number(planned.has(a)) - Number(planned.has(b))); // what can be read first
    this.controls.count(
      this.list.rows.filter((row) => hits.has(row.id)),
      view,
    );
    this.list.inOrder(shown, hits);
    const some = found.all ? "" : "No question or lesson has all of these words; these have some. ";
    this.tell(view, shown.length, (shown.length > 0 ? some : "") + correction(found), hits);
    this.elsewhere(found.hits.filter((hit) => LEADS.has(hit.page.kind)).slice(0, ELSEWHERE));
  }

  /** How many there are; and when there are none, why, and a way out. */
  private tell(view: View, count: number, more: string, hits?: ReadonlyMap<string, Hit>): void {
    const rows = this.list.rows;
    const reset = one<HTMLButtonElement>("button[type=reset]", this.controls.form);
    if (reset) reset.hidden = isAll(view);
    const of = isAll(view) || count === 0 ? "" : ` of ${rows.filter((row) => view.planned || !row.planned).length}`;
    if (this.said) this.said.textContent = `${count === 0 ? "No question fits." : `${count}${of} question${count === 1 && !of ? "" : "s"}.`} ${more}`.trim();
    if (!this.nothing) return;
    this.nothing.hidden = count > 0;
    this.nothing.replaceChildren();
    if (count > 0) return;
    const waiting = rows.filter((row) => row.planned && (!hits || hits.has(row.id)) && passes(row, { ...view, planned: true }, this.controls.sets)).length;
    const unfiltered = hits ? rows.filter((row) => hits.has(row.id) && !row.planned).length : 0;
    if (waiting > 0 && !view.planned) this.offer(`${waiting} planned question${waiting === 1 ? " fits" : "s fit"}. `, "Show what is planned", { ...view, planned: true });
    else if (unfiltered > 0) this.offer(`The filters hide ${unfiltered} that ${unfiltered === 1 ? "has" : "have"} the words. `, "Search all questions", { ...read(""), q: view.q });
    else if (hits) this.offer(`Nothing says “${view.q.trim()}”, or anything close to it. Try another word, or `, "see all questions", read(""));
    else this.offer("No question is all of that at once. ", "Clear all", read(""));
  }

  private offer(why: string, what: string, view: View): void {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "il-linkish";
    button.textContent = what;
    button.addEventListener("click", () => {
      this.show(view);
      this.controls.field.focus();
    });
    this.nothing?.append(why, button);
  }

  private elsewhere(hits: readonly Hit[]): void {
    const section = one(".il-elsewhere");
    const list = section && one("ol", section);
    if (!section || !list) return;
    section.hidden = hits.length === 0;
    list.replaceChildren(...hits.map(elsewhereRow));
  }

  private links(view: View): void {
    const query = write({ ...view, planned: false });
    for (const [id, page] of [["il-drill-these", "drill.html"], ["il-print-these", "print.html"]] as const) {
      one(`#${id}`)?.setAttribute("href", page + (page === "print.html" ? write(view) : query));
    }
    one("#il-drill-these")?.toggleAttribute("hidden", view.q.trim() !== ""); // the drill knows filters, not words
    one(".il-random", this.controls.form)?.setAttribute("href", query ? `${query}&random` : "?random");
  }

  /** Goes to a written question that the filters let through; false if there is none. */
  private random(instead = false): boolean {
    const passing = new Set(this.passing({ ...this.controls.view(), planned: false }));
    const chosen = pick(this.list.rows.flatMap((row) => (row.link && passing.has(row.id) ? [row.link.href] : [])));
    if (chosen && instead) location.replace(chosen); // Back leads past the draw
    else if (chosen) location.assign(chosen);
    return chosen !== null;
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || one<HTMLDialogElement>("#il-help")?.open) return;
    const { field } = this.controls;
    const links = this.list.links();
    const at = links.findIndex((link) => link === document.activeElement);
    const inField = event.target === field;
    const go = (to: number): void => {
      event.preventDefault();
      links[Math.max(0, Math.min(links.length - 1, to))]?.focus();
    };
    if (event.key === "Escape") {
      if (inField && field.value) {
        event.preventDefault();
        field.value = "";
        void this.update();
      } else if (inField) field.blur();
      else if (at >= 0) field.focus();
    } else if (inField && event.key === "ArrowDown") go(0);
    else if (isTyping(event.target)) return;
    else if (event.key === "j" || (event.key === "ArrowDown" && at >= 0)) go(at + 1);
    else if (event.key === "k" || (event.key === "ArrowUp" && at >= 0)) {
      if (at > 0) go(at - 1);
      else if (at === 0) {
        event.preventDefault();
        field.focus();
      }
    }
  }
}

function elsewhereRow(hit: Hit): HTMLElement {
  const item = document.createElement("li");
  item.className = "il-card-row il-card-row--small";
  const link = document.createElement("a");
  link.href = (document.documentElement.dataset.content_root ?? "") + hit.page.url;
  const title = document.createElement("span");
  title.className = "il-card-en";
  title.append(marked(hit.page.title, hit.terms));
  link.append(title);
  const kind = document.createElement("span");
  kind.className = "il-label";
  kind.textContent = hit.page.kind;
  item.append(link, " ", kind);
  const best = hit.entries.find((entry) => entry.text);
  if (best) {
    const text = document.createElement("p");
    text.className = "il-row-found";
    if (best.heading) text.append(anchorOf(best, hit), " ");
    text.append(quoted(best.text, hit.terms));
    item.append(text);
  }
  return item;
}

const form = one<HTMLFormElement>("form.il-browse");
if (form && all(".il-decks").length > 0) new Browser(new Controls(form)).start();

/** The search page: every page of the site that has the words, the best first, each with the section that says it. */

import { all, one } from "../dom";
import type { Found, Hit } from "../find/engine";
import { engine } from "../find/load";
import { marked, quoted } from "../find/quote";
import { correction, FAILED } from "../find/said";

const MOST = 40;
const MORE = 2;

function element<K extends keyof HTMLElementTagNameMap>(tag: K, klass: string, ...children: (Node | string)[]): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  if (klass) made.className = klass;
  made.append(...children);
  return made;
}

function link(where: string, ...children: (Node | string)[]): HTMLAnchorElement {
  const made = element("a", "", ...children);
  made.href = where; // this page stands at the root of the site
  return made;
}

function row(hit: Hit): HTMLLIElement {
  const { page, entries, terms } = hit;
  const [first, ...others] = entries;
  const title = marked(page.title, terms);
  const head = page.url ? link(page.url, title) : element("span", "il-planned", title);
  const item = element("li", "", element("span", "il-label", page.kind), " ", head);
  if (page.zh) {
    const zh = element("p", "il-card-zh", marked(page.zh, terms));
    zh.lang = "zh-Hans";
    item.append(zh);
  }
  if (first?.text) {
    const quote = element("p", "context");
    if (first.heading && page.url) quote.append(link(`${page.url}#${first.anchor}`, marked(first.heading, terms)), " ");
    quote.append(quoted(first.text, terms));
    item.append(quote);
  }
  const sections = others.filter((entry) => entry.anchor && entry.heading).slice(0, MORE);
  if (sections.length > 0) {
    const list = element("p", "il-found-more", "Also in ");
    sections.forEach((entry, index) => list.append(index > 0 ? ", " : "", link(`${page.url}#${entry.anchor}`, marked(entry.heading, terms))));
    item.append(list);
  }
  return item;
}

function show(into: HTMLElement, found: Found, query: string): void {
  const said = element("p", "il-found");
  said.setAttribute("role", "status");
  const count = found.hits.length;
  if (count === 0) {
    said.textContent = `No page has “${query}”, nor anything close to it. Try fewer or shorter ones, or look through `;
    said.append(link("book/index.html", "Learn"), " and ", link("book/cards.html", "Questions"), ".");
  } else {
    said.textContent = `${found.all ? "Pages with all of these words" : "No page has all of these words. Pages with some of them"}: ${count}. ${correction(found)}`;
  }
  const list = element("ul", "search", ...found.hits.slice(0, MOST).map(row));
  into.replaceChildren(said, list);
}

function start(): void {
  const field = one<HTMLInputElement>("main input[type=search]");
  const form = field?.form;
  const into = one("#search-results");
  if (!field || !form || !into) return;
  let asked = 0;
  const run = async (): Promise<void> => {
    const query = field.value.trim();
    const mine = ++asked;
    const address = new URL(location.href);
    if (query) address.searchParams.set("q", query);
    else address.searchParams.delete("q");
    history.replaceState(null, "", address);
    if (!query) return into.replaceChildren();
    try {
      const found = (await engine()).find(query);
      if (mine === asked) show(into, found, query);
    } catch {
      if (mine === asked) into.replaceChildren(element("p", "il-found", FAILED));
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void run();
  });
  field.addEventListener("input", (event) => {
    if (!(event instanceof InputEvent && event.isComposing)) void run();
  });
  field.addEventListener("compositionend", () => void run());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const links = all<HTMLAnchorElement>("#search-results li > a");
    const at = links.findIndex((found) => found === document.activeElement);
    const down = event.key === "ArrowDown" || (event.key === "j" && event.target !== field);
    const up = (event.key === "ArrowUp" || (event.key === "k" && event.target !== field)) && at >= 0;
    if (links.length === 0 || one<HTMLDialogElement>("#il-help")?.open || (!down && !up)) return;
    event.preventDefault();
    if (up && at === 0) field.focus();
    else links[Math.min(links.length - 1, at + (down ? 1 : -1))]?.focus();
  });
  field.value = new URLSearchParams(location.search).get("q") ?? "";
  if (field.value) void run();
}

start();

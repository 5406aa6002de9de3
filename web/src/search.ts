/**
 * The search page. The builder's script finds and lists; here it is told what to quote (the text, not the frame around it), what comes
 * first (lessons, cards and labs before lists of them), and how to say what it found.
 */

/** Of the builder's scripts, which are not modules: they stand in the global scope of the search page only. */
declare const Search: { htmlToText: (html: string, anchor: string) => string };
declare const Scorer: { score?: (result: [string, string, string, string | null, number, string]) => number };
declare const Documentation: { TRANSLATIONS: Record<string, string> };

const FRAME = [
  "script, style, nav, form, button, kbd, summary.il-reveal, .il-face-reveal > summary, .il-data, .headerlink, .il-vh, .il-js",
  ".il-crumbs, .il-chips, .il-card-meta, .il-strip, .il-onward, .il-facts, .il-lab-head, .il-card-foot, .il-face, .il-waiting, .il-code-head",
].join(", ");
const LISTS = /^(index|book\/[^/]+|.*\/index)$/;
const BEHIND = 30;

function text(html: string, anchor: string): string {
  const page = new DOMParser().parseFromString(html, "text/html");
  const main = page.querySelector("main") ?? page.body;
  const part = (anchor && main.querySelector(anchor)) || main;
  const title = part.querySelector("h1");
  for (const element of part.querySelectorAll(FRAME)) element.remove();
  if (title && part === main) title.remove(); // it stands above the quotation
  return (part.textContent ?? "").replace(/\s+/g, " ").trim();
}

export function searchPage(): void {
  if (document.body.dataset.kind !== "search" || typeof Search === "undefined") return;
  Search.htmlToText = text;
  Scorer.score = ([page, , , , score]) => (LISTS.test(page) ? score - BEHIND : score);
  Object.assign(Documentation.TRANSLATIONS, {
    "Search Results": "Found",
    "Search finished, found ${resultCount} page(s) matching the search query.": "Pages with all of these words: ${resultCount}",
    "Your search did not match any documents. Please make sure that all words are spelled correctly and that you've selected enough categories.":
      "No page has all of these words. Try fewer or shorter ones, or look through Learn and Drill.",
  });
}

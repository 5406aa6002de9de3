/** The keyboard: every key that the site knows, in one table that the help also lists. No key is taken from someone who types. */

import { nextFollowUp, revealAnswer } from "./card";
import { all, isControl, isTyping, one } from "./dom";
import { toEstimate } from "./estimate";
import { otherLanguage } from "./lang";
import { closeTips } from "./tips";

interface Key {
  key: string;
  shown: string;
  does: string;
  /** where it applies; everywhere if absent */
  when?: () => boolean;
  /** true if the key was used */
  run: () => boolean;
}

const onCard = (): boolean => document.body.dataset.kind === "card";

/** Not where it would leave something unfinished. */
const drawsAtRandom = (): boolean => onCard() || document.body.dataset.kind === "home" || one("form.il-browse, .il-set") !== null;

/** The drill and the interview have their own next and previous. */
const notInDrill = (): boolean => one("#il-drill, #il-mock") === null;

function follow(selector: string): boolean {
  const link = one<HTMLAnchorElement>(selector);
  if (!link) return false;
  link.click();
  return true;
}

function toSearch(): boolean {
  const field = all<HTMLInputElement>("input[type=search]").find((input) => input.offsetParent !== null);
  if (field) {
    field.focus();
    field.select();
    return true;
  }
  return follow("a.il-search-link");
}

function help(): HTMLDialogElement | null {
  return one<HTMLDialogElement>("#il-help");
}

function toggleHelp(): boolean {
  const dialog = help();
  if (!dialog) return false;
  if (dialog.open) dialog.close();
  else dialog.showModal();
  return true;
}

export const KEYS: readonly Key[] = [
  { key: "/", shown: "/", does: "search", run: toSearch },
  { key: " ", shown: "Space", does: "reveal the answer", when: onCard, run: revealAnswer },
  { key: "e", shown: "e", does: "your number first", when: () => one("form.il-estimate") !== null, run: toEstimate },
  { key: "f", shown: "f", does: "the next follow-up", when: onCard, run: nextFollowUp },
  { key: "l", shown: "l", does: "English or 中文", when: () => one(".il-lang") !== null, run: otherLanguage },
  { key: "j", shown: "j", does: "next", when: notInDrill, run: () => follow("a[rel=next][data-nav]") },
  { key: "k", shown: "k", does: "previous", when: notInDrill, run: () => follow("a[rel=prev][data-nav]") },
  { key: "r", shown: "r", does: "a random question", when: drawsAtRandom, run: () => follow("a.il-random") },
  { key: "?", shown: "?", does: "this list", run: toggleHelp },
];

function fillHelp(): void {
  const list = one("#il-help dl");
  if (!list) return;
  const rows = [...KEYS.filter((key) => key.when?.() ?? true), { shown: "Esc", does: "close this, or the note on a number" }];
  for (const { shown, does } of rows) {
    const row = document.createElement("div");
    const term = document.createElement("dt");
    const key = document.createElement("kbd");
    const text = document.createElement("dd");
    key.textContent = shown;
    text.textContent = does;
    term.append(key);
    row.append(term, text);
    list.append(row);
  }
}

export function keyboard(): void {
  fillHelp();
  one("#il-help-open")?.addEventListener("click", toggleHelp);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.key === "Escape") {
      if (closeTips()) event.preventDefault();
      const menu = one<HTMLDetailsElement>(".il-menu[open]");
      if (menu) {
        menu.open = false;
        one("summary", menu)?.focus();
      }
      return;
    }
    if (isTyping(event.target)) return;
    if (event.key === " " && isControl(event.target)) return;
    if (help()?.open && event.key !== "?") return;
    const known = KEYS.find((key) => key.key === event.key && (key.when?.() ?? true));
    if (known?.run()) event.preventDefault();
  });
}

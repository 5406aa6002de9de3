/** A screen of the drill or of the interview: what is shown, which keys it has, and how it becomes alive on the page. */

import { all, h, isControl, isTyping, one } from "../dom";
import { formulas } from "../formulas";
import { markLanguage } from "../lang";

export interface Key {
  key: string;
  shown: string;
  does: string;
  /** true if the key was used */
  run: () => boolean;
}

export interface Screen {
  element: HTMLElement;
  keys?: Key[];
  /** what gets the focus when the screen comes */
  focus?: HTMLElement | null;
  /** called when the progress changes, here or in another tab; without it the screen is drawn anew */
  changed?: () => void;
  leave?: () => void;
}

/** Numbers explain themselves, formulas are set, the language switch shows what is chosen. */
export function alive(element: HTMLElement): void {
  element.dispatchEvent(new Event("il:added", { bubbles: true }));
  markLanguage();
  void formulas(element);
}

/** Runs the key of the screen that was pressed, unless it belongs to what has the focus. */
export function press(event: KeyboardEvent, keys: readonly Key[]): void {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isTyping(event.target)) return;
  if ((event.key === " " || event.key === "Enter") && isControl(event.target)) return;
  if (one<HTMLDialogElement>("dialog[open]")) return;
  const known = keys.find((key) => key.key === event.key);
  if (known?.run()) event.preventDefault();
}

/** The keys of this screen stand first in the help of the site. */
export function listKeys(keys: readonly Key[]): void {
  for (const row of all("#il-help .dr-key")) row.remove();
  const rows = keys.map(({ shown, does }) => h("div", { class: "dr-key" }, h("dt", {}, h("kbd", {}, shown)), h("dd", {}, does)));
  one("#il-help dl")?.prepend(...rows);
}

/** Question and spoken answer in English or Chinese; the choice is remembered and applied by the head of the page before the first paint. */

import { all, announce, one } from "./dom";
import { save } from "./store";

export type Lang = "en" | "zh";

export const language = (): Lang => (document.documentElement.dataset.lang === "zh" ? "zh" : "en");

/** Shows which language is chosen on every switch of the page; a script that adds a switch calls it. */
export function markLanguage(): void {
  for (const button of all<HTMLButtonElement>(".il-lang button")) button.setAttribute("aria-pressed", String(button.dataset.lang === language()));
}

export function setLanguage(lang: Lang): void {
  document.documentElement.dataset.lang = lang;
  save("lang", lang);
  markLanguage();
  announce(lang === "zh" ? "中文" : "English");
}

/** The other language; false on a page that has no switch. */
export function otherLanguage(): boolean {
  if (!one(".il-lang button")) return false;
  setLanguage(language() === "zh" ? "en" : "zh");
  return true;
}

export function languageSwitch(): void {
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest<HTMLButtonElement>(".il-lang button") : null;
    if (button) setLanguage(button.dataset.lang === "zh" ? "zh" : "en");
  });
  markLanguage();
}

/** Question and spoken answer in English or Chinese; the choice is remembered and applied by the head of the page before the first paint. */

import { all } from "./dom";
import { save } from "./store";

export type Lang = "en" | "zh";

export function languageSwitch(): void {
  const buttons = all<HTMLButtonElement>(".il-lang button");
  const mark = (): void => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.lang === document.documentElement.dataset.lang));
  };
  for (const button of buttons) {
    button.addEventListener("click", () => {
      const lang: Lang = button.dataset.lang === "zh" ? "zh" : "en";
      document.documentElement.dataset.lang = lang;
      save("lang", lang);
      mark();
    });
  }
  mark();
}

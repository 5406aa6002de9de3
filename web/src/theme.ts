/** Light, dark, or as the system says. The head of the page applies the kept choice before the first paint; this is the switch. */

import { announce, one } from "./dom";
import { load, save } from "./store";

const MODES = ["auto", "light", "dark"] as const;
type Mode = (typeof MODES)[number];
const SAID: Record<Mode, string> = { auto: "as the system", light: "light", dark: "dark" };

function apply(mode: Mode): void {
  const dark = mode === "dark" || (mode === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.documentElement.dataset.mode = mode;
}

function current(): Mode {
  const kept = load<string>("mode", "auto");
  return MODES.find((mode) => mode === kept) ?? "auto";
}

export function themeSwitch(): void {
  const button = one<HTMLButtonElement>("#il-theme");
  const label = (mode: Mode): void => button?.setAttribute("aria-label", `Colour theme: ${SAID[mode]}`);
  label(current());
  button?.addEventListener("click", () => {
    const mode = MODES[(MODES.indexOf(current()) + 1) % MODES.length] ?? "auto";
    save("mode", mode);
    apply(mode);
    label(mode);
    announce(`Colour theme: ${SAID[mode]}`);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => apply(current()));
}

/** What every page does. Nothing here is needed to read: without script the pages are whole, only quieter. */

import { cards } from "./card";
import { contents } from "./contents";
import { one } from "./dom";
import { estimate } from "./estimate";
import { keyboard } from "./keys";
import { languageSwitch } from "./lang";
import { scrollers } from "./scrollers";
import { themeSwitch } from "./theme";
import { tips, tipsIn } from "./tips";

/** A script that puts content on the page says so by an `il:added` event on it, and the content becomes as alive as the rest. */
addEventListener("il:added", (event) => {
  if (!(event.target instanceof HTMLElement)) return;
  tipsIn(event.target);
  scrollers(event.target);
});

/** Own measurements are shown where there are any; the script for it is fetched only then. */
function ownMeasurements(): void {
  if (!one("main a[href*='measured.html#']") || one("#il-drill")) return;
  try {
    const kept = localStorage.getItem("il:progress");
    if (kept && !kept.includes('"measurements": []')) void import("./yours").then(({ showYours }) => showYours()).catch(() => undefined);
  } catch {
    /* nothing may be read */
  }
}

themeSwitch();
languageSwitch();
tips();
cards();
estimate();
contents();
scrollers();
keyboard();
ownMeasurements();

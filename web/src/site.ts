/** What every page does. Nothing here is needed to read: without script the pages are whole, only quieter. */

import { cards } from "./card";
import { contents } from "./contents";
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

themeSwitch();
languageSwitch();
tips();
cards();
estimate();
contents();
scrollers();
keyboard();

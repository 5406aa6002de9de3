/** What every page does. Nothing here is needed to read: without script the pages are whole, only quieter. */

import { cards } from "./card";
import { contents } from "./contents";
import { keyboard } from "./keys";
import { languageSwitch } from "./lang";
import { scrollers } from "./scrollers";
import { themeSwitch } from "./theme";
import { tips } from "./tips";

themeSwitch();
languageSwitch();
tips();
cards();
contents();
scrollers();
keyboard();

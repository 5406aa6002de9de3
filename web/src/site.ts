/** What every page does. Nothing here is needed to read: without script the pages are whole, only quieter. */

import { cards } from "./card";
import { contents } from "./contents";
import { estimate } from "./estimate";
import { keyboard } from "./keys";
import { languageSwitch } from "./lang";
import { searchPage } from "./search";
import { scrollers } from "./scrollers";
import { themeSwitch } from "./theme";
import { tips } from "./tips";

themeSwitch();
languageSwitch();
tips();
cards();
estimate();
contents();
scrollers();
searchPage();
keyboard();

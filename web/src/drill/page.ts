/** The drill page. Without script, or without its data, the list of all questions stays. */

import { h, one } from "../dom";
import { App } from "./app";
import { loadCatalogue } from "./cards";
import { acceptDrops } from "./files";
import { keepOffline } from "./offline";
import { Vault } from "./vault";

async function open(root: HTMLElement): Promise<void> {
  try {
    const catalogue = await loadCatalogue();
    const list = one<HTMLDetailsElement>(".dr-all");
    if (list) list.open = false;
    acceptDrops(new App(root, catalogue, new Vault()));
  } catch (error) {
    console.info(error);
    root.replaceChildren(h("p", { class: "dr-notice dr-notice--bad", role: "alert" }, "The questions could not be loaded. Reload the page when you are online; every question below has a page of its own."));
    return;
  }
  keepOffline("drill");
}

const root = one("#il-drill");
if (root) void open(root);

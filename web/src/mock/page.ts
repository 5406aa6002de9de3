/** The page of the mock interview. Without script, or without its data, the page says what it is and where else to go. */

import { h, one } from "../dom";
import { loadCatalogue } from "../drill/cards";
import { keepOffline } from "../drill/offline";
import { Vault } from "../drill/vault";
import { App } from "./app";

async function open(root: HTMLElement): Promise<void> {
  try {
    new App(root, await loadCatalogue(), new Vault());
  } catch (error) {
    console.info(error);
    root.replaceChildren(h("p", { class: "dr-notice dr-notice--bad", role: "alert" }, "The questions could not be loaded. Reload the page when you are online."));
    return;
  }
  keepOffline("mock");
}

const root = one("#il-mock");
if (root) void open(root);

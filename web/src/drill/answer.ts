/** What is shown when the answer is revealed: the direct answer, the number, the measured proof, the rubric, the chain, and the rest of the card. */

import { h } from "../dom";
import { address, type Card, type CardText, fragment, type Link } from "./cards";
import { type Chain, chain } from "./chain";
import { measuredTables } from "./measured_table";
import type { Mode } from "./progress";
import { rubric } from "./rubric";
import { alive } from "./screen";
import type { Step } from "./session";
import type { Vault } from "./vault";

export interface Answer {
  element: HTMLElement;
  focus: HTMLElement;
  chain: Chain | null;
}

export function answer(vault: Vault, card: Card, text: CardText, mode: Mode, step: Step, changed: () => void): Answer {
  const { element: said, focus } = direct(text);
  const asked = text.follow_ups.length > 0 ? chain(text, step, changed, alive) : null;
  const list = rubric(text, step, changed);
  const parts = mode === "explain" ? [list, asked?.element] : [asked?.element, h("details", { class: "dr-fold" }, h("summary", {}, "Grade against the rubric"), list)];
  const element = h("div", { class: "dr-answer" }, said, measuredTables(vault, text, true), ...parts, more(vault, card, text));
  return { element, focus, chain: asked };
}

/** The spoken answer, in both languages. */
export function direct(text: CardText): { element: HTMLElement; focus: HTMLElement } {
  const focus = h("h3", { class: "il-label", tabindex: "-1" }, "Direct answer");
  return { element: h("section", { class: "dr-direct" }, focus, html("dr-en il-flow", text.direct_html.en), html("dr-zh il-flow", text.direct_html.zh, "zh-Hans")), focus };
}

/** The rest of the card, folded, and where it leads. */
export function more(vault: Vault, card: Card, text: CardText): HTMLElement {
  const own = measuredTables(vault, text, true);
  const ours = own ? null : measuredTables(vault, text, false);
  return h(
    "div",
    { class: "dr-more" },
    ...text.sections.map(({ title, html: body }) => fold(title, body)),
    text.mistakes_html ? fold("Common mistakes", text.mistakes_html) : "",
    ours && h("details", { class: "dr-fold" }, h("summary", {}, "Measured: predicted and ours"), ours),
    foot(card),
  );
}

function fold(title: string, body: string): HTMLElement {
  const details = h("details", { class: "dr-fold" }, h("summary", {}, title));
  details.addEventListener("toggle", () => {
    if (!details.open || details.childElementCount > 1) return;
    const inside = html("il-flow", body);
    details.append(inside);
    alive(inside);
  });
  return details;
}

function html(name: string, text: string, lang?: string): HTMLElement {
  const box = h("div", { class: name, lang });
  box.append(fragment(text));
  return box;
}

function foot(card: Card): HTMLElement {
  const links = (name: string, found: readonly Link[]): HTMLElement | null => {
    const there = found.filter(({ url }) => url !== null);
    return there.length ? h("div", {}, h("dt", {}, name), h("dd", {}, ...there.map(({ title, url }) => h("p", {}, h("a", { href: address(url ?? "") }, title.en))))) : null;
  };
  return h("dl", { class: "il-pairs dr-foot" }, links("Lesson", card.lessons), links("Lab", card.labs), h("div", {}, h("dt", {}, "Its page"), h("dd", {}, h("p", {}, h("a", { href: address(card.url) }, "all of this card, with sources")))));
}

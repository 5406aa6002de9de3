/** What is shown when the answer is revealed: the direct answer, the number, the measured proof, the rubric, the chain, and the rest of the card. */

import { h } from "../dom";
import type { App } from "./app";
import { address, type Card, type CardText, fragment, type Link } from "./cards";
import { type Chain, chain } from "./chain";
import { measuredTables } from "./measured_table";
import type { Mode } from "./progress";
import { rubric } from "./rubric";
import type { Step } from "./session";

export interface Answer {
  element: HTMLElement;
  focus: HTMLElement;
  chain: Chain | null;
}

export function answer(app: App, card: Card, text: CardText, mode: Mode, step: Step, changed: () => void): Answer {
  const focus = h("h3", { class: "il-label", tabindex: "-1" }, "Direct answer");
  const direct = h("section", { class: "dr-direct" }, focus, html("dr-en il-flow", text.direct_html.en), html("dr-zh il-flow", text.direct_html.zh, "zh-Hans"));
  const asked = text.follow_ups.length > 0 ? chain(text, step, changed, app.alive) : null;
  const list = rubric(text, step, changed);
  const own = measuredTables(app, text, true);
  const ours = own ? null : measuredTables(app, text, false);
  const more = h(
    "div",
    { class: "dr-more" },
    ...text.sections.map(({ title, html: body }) => fold(title, body)),
    text.mistakes_html ? fold("Common mistakes", text.mistakes_html) : "",
    ours && h("details", { class: "dr-fold" }, h("summary", {}, "Measured: predicted and ours"), ours),
    foot(card),
  );
  const parts = mode === "explain" ? [list, asked?.element] : [asked?.element, h("details", { class: "dr-fold" }, h("summary", {}, "Grade against the rubric"), list)];
  const element = h("div", { class: "dr-answer" }, direct, own, ...parts, more);
  return { element, focus, chain: asked };

  function fold(title: string, body: string): HTMLElement {
    const details = h("details", { class: "dr-fold" }, h("summary", {}, title));
    details.addEventListener("toggle", () => {
      if (!details.open || details.childElementCount > 1) return;
      const inside = html("il-flow", body);
      details.append(inside);
      app.alive(inside);
    });
    return details;
  }
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

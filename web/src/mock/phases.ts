/** The five phases of a question: what each shows, its keys, and what gets the focus (the question, unless it says otherwise). */

import { all, h } from "../dom";
import { direct, more } from "../drill/answer";
import { fragment } from "../drill/cards";
import { estimateForm } from "../drill/estimate_form";
import { many } from "../drill/frame";
import { rubric } from "../drill/rubric";
import { alive, type Key } from "../drill/screen";
import type { Room } from "./question_screen";
import { type Reply, score } from "./score";
import { itemsOf, nextFollowUp, wordsOf } from "./sitting";
import { said } from "./words";

export interface Part {
  elements: HTMLElement[];
  keys: Key[];
  focus?: HTMLElement;
}

const REPLIES: readonly [key: string, Reply, string][] = [
  ["y", "yes", "Yes"],
  ["p", "partly", "Partly"],
  ["n", "no", "No"],
];

/** Where there is no keyboard on the desk, a field that takes the focus would cover half the question. */
const hasKeys = (): boolean => matchMedia("(hover: hover)").matches;

export function clarify({ app, step, keep, go }: Room): Part {
  const next = app.card(step.card).estimate ? "estimate" : "explain";
  const field = h("input", { id: "mk-clarify", type: "text", autocomplete: "off", maxlength: 500, value: step.clarified, "aria-describedby": "mk-question" });
  field.addEventListener("input", () => {
    step.clarified = field.value;
    keep();
  });
  const form = h(
    "form",
    { class: "mk-ask", novalidate: true, onsubmit: (event) => (event.preventDefault(), go(next)) },
    h("label", { for: "mk-clarify" }, "What would you ask first, or assume?"),
    h("p", { class: "dr-quiet" }, "The model, the hardware, the load, the goal. It is kept for the report; nothing is fine, too."),
    field,
    h("button", { class: "il-reveal dr-reveal" }, next === "estimate" ? "Go on to the estimate" : "Go on: explain it", " ", h("kbd", { class: "dr-kbd" }, "Enter")),
  );
  const enter: Key = { key: "Enter", shown: "Enter", does: "go on", run: () => (go(next), true) };
  return hasKeys() ? { elements: [form], keys: [enter], focus: field } : { elements: [form], keys: [enter] };
}

export function number({ app, step, keep, go }: Room): Part {
  const { estimate } = app.card(step.card);
  const on = h("button", { type: "button", class: "il-reveal dr-reveal", onclick: () => go("explain") }, "Go on: explain it ", h("kbd", { class: "dr-kbd" }, "Space"));
  const keys: Key[] = [{ key: " ", shown: "Space", does: "go on: explain it", run: () => (go("explain"), true) }];
  if (!estimate) return { elements: [on], keys };
  const form = estimateForm(estimate, step, () => {
    if (step.estimate !== null && !step.first) step.first = step.typed; // the first number is the one that counts
    keep();
  });
  const part: Part = { elements: [form.element, on], keys: [...keys, { key: "e", shown: "e", does: "your number", run: () => (form.focus(), true) }] };
  const field = form.element.querySelector<HTMLElement>("input");
  return field && hasKeys() ? { ...part, focus: field } : part;
}

export function explain({ go }: Room): Part {
  const done = h("button", { type: "button", class: "il-reveal dr-reveal", onclick: () => go("compare") }, "I have explained it ", h("kbd", { class: "dr-kbd" }, "Space"));
  const says = h("p", { class: "dr-under" }, "Aloud, as if somebody sat there. The clock runs.");
  return { elements: [says, done], keys: [{ key: " ", shown: "Space", does: "done: compare with ours", run: () => (go("compare"), true) }] };
}

export function compare({ app, sitting, step, keep, goOn }: Room): Part {
  const [card, text] = [app.card(step.card), app.text(step.card)];
  const shown = direct(text);
  const tells = h("p", { class: "dr-suggests", role: "status" });
  const on = h("button", { type: "button", class: "il-btn mk-on", onclick: goOn });
  const tell = (): void => {
    tells.textContent = `You had ${said(score(itemsOf(text), step.ticked, step.asked, sitting.level))} at ${sitting.level} level`;
    const last = sitting.todo.length === 0 ? "the report" : "the next question";
    on.replaceChildren(nextFollowUp(sitting, step, text) ? "Go on: they ask back" : `Go on: ${last}`, " ", h("kbd", { class: "dr-kbd" }, "Space"));
  };
  const list = rubric(text, step, () => (tell(), keep()), false);
  const boxes = all<HTMLInputElement>("input[type=checkbox]", list);
  const digits = boxes.slice(0, 9).map((box, index): Key => {
    const key = String(index + 1);
    box.parentElement?.classList.add("mk-digit");
    box.parentElement?.append(h("kbd", { class: "dr-kbd", "aria-hidden": "true" }, key));
    return { key, shown: key, does: `tick item ${key}`, run: () => (box.click(), box.scrollIntoView({ block: "nearest" }), true) };
  });
  tell();
  const answer = h("div", { class: "dr-answer" }, shown.element, list, more(app.vault, card, text));
  const bar = h("div", { class: "dr-grades mk-bar", role: "group", "aria-label": "What your answer had" }, tells, on);
  return { elements: [answer, bar], keys: [{ key: " ", shown: "Space", does: "go on", run: () => (goOn(), true) }, ...digits], focus: shown.focus };
}

export function followUp({ app, sitting, step, keep, goOn }: Room): Part {
  const text = app.text(step.card);
  const asked = nextFollowUp(sitting, step, text);
  if (!asked) return { elements: [h("button", { type: "button", class: "il-reveal dr-reveal", onclick: goOn }, "Go on")], keys: [] }; // the card was rewritten since
  const words = wordsOf(asked, text);
  const question = h("h3", { class: "mk-back", tabindex: "-1" });
  question.append(fragment(words.question));
  const below = h("div", { class: "mk-below" });
  const ready = asked.item === null ? "Nothing was missing, so they go deeper" : "They ask back, after what was missing";

  const reply = (said: Reply): boolean => {
    if (!step.shown) return false;
    step.asked = [...step.asked, { ...asked, reply: said }];
    goOn();
    return true;
  };
  const show = (): boolean => {
    if (step.shown) return false;
    step.shown = true;
    keep();
    draw(true);
    return true;
  };

  function draw(focus: boolean): void {
    if (!step.shown) {
      below.replaceChildren(h("button", { type: "button", class: "il-reveal dr-reveal", onclick: show }, "Answer aloud, then show ours ", h("kbd", { class: "dr-kbd" }, "Space")));
      return;
    }
    const label = h("h4", { class: "il-label", tabindex: "-1" }, words.answer === null ? "What the rubric wants" : "Our answer");
    const body = h("div", { class: "il-flow" });
    body.append(fragment(words.answer ?? `<p>${words.wants}</p>`));
    const buttons = REPLIES.map(([key, said, name]) => h("button", { type: "button", class: "dr-grade", onclick: () => reply(said) }, h("span", { class: "dr-grade-name" }, h("kbd", { class: "dr-kbd" }, key), " ", name)));
    below.replaceChildren(
      h("section", { class: "dr-direct" }, label, body),
      h("div", { class: "dr-grades mk-bar", role: "group", "aria-label": "Had you answered it?" }, h("p", { class: "dr-suggests" }, "Had you answered it?"), h("div", { class: "dr-grade-row mk-replies" }, ...buttons)),
    );
    if (!focus) return;
    alive(below);
    label.focus({ preventScroll: true });
  }

  draw(false);
  const place = step.asked.length + 1;
  const element = h("section", { class: "mk-follow", "aria-label": `Follow-up ${place}` }, h("p", { class: "dr-quiet" }, ready, step.asked.length ? `. ${many(step.asked.length, "follow-up")} answered.` : "."), question, below);
  const keys: Key[] = [{ key: " ", shown: "Space", does: "show our answer", run: show }, ...REPLIES.map(([key, said, name]): Key => ({ key, shown: key, does: `had answered it: ${name.toLowerCase()}`, run: () => reply(said) }))];
  return { elements: [element], keys, focus: question };
}

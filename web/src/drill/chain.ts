/** Follow-ups as an interviewer asks them: one at a time, and the next, deeper one only when the last was answered. */

import { announce, h } from "../dom";
import { type CardText, fragment } from "./cards";
import type { Step } from "./session";

export interface Chain {
  element: HTMLElement;
  /** asks the next question, or shows the answer of the one that was asked; false when the chain is at its end */
  next: () => boolean;
}

export function chain(text: CardText, step: Step, changed: () => void, alive: (element: HTMLElement) => void): Chain {
  const questions = text.follow_ups;
  const list = h("ol", { class: "il-chain" });
  const more = h("button", { type: "button", class: "il-btn il-btn--quiet dr-deeper", onclick: () => next() });
  const element = h("section", { class: "dr-chain", "aria-label": "Follow-ups" }, h("h3", {}, "They would go on asking"), list, h("p", {}, more));

  function item(index: number): HTMLElement {
    const question = questions[index];
    const answered = index < step.answered;
    const asked = h("p", { class: "dr-chain-q", tabindex: "-1" });
    const li = h("li", { class: answered ? "is-answered" : null }, asked);
    if (!question) return li;
    asked.append(fragment(question.question_html));
    if (answered) {
      const answer = h("div", { class: "il-chain-answer il-flow" });
      answer.append(fragment(question.answer_html));
      li.append(answer);
    }
    return li;
  }

  function label(): void {
    const waiting = step.asked > step.answered;
    const left = questions.length - step.asked;
    const says = waiting ? "Answer aloud, then show ours" : step.asked === 0 ? "Ask me the first follow-up" : "I had that: go deeper";
    more.replaceChildren(says, " ", h("kbd", {}, "f"), !waiting && step.asked > 0 ? h("span", { class: "il-label" }, `${left} left`) : "");
    more.hidden = !waiting && left === 0;
  }

  function next(): boolean {
    if (step.asked > step.answered) {
      step.answered = step.asked;
      const opened = item(step.answered - 1);
      list.lastElementChild?.replaceWith(opened);
      alive(opened);
      announce("Our answer is shown");
    } else if (step.asked < questions.length) {
      step.asked += 1;
      const added = item(step.asked - 1);
      list.append(added);
      alive(added);
      added.querySelector<HTMLElement>(".dr-chain-q")?.focus({ preventScroll: true });
      added.scrollIntoView({ block: "center" });
    } else return false;
    label();
    changed();
    return true;
  }

  for (let index = 0; index < step.asked; index += 1) list.append(item(index));
  label();
  return { element, next };
}

/** One question: clarify, estimate, explain, compare, follow-ups. Everything by key, and every action is kept at once. */

import { announce, h } from "../dom";
import { clock, languageButtons } from "../drill/frame";
import type { Key, Screen } from "../drill/screen";
import { otherLanguage } from "../lang";
import type { App } from "./app";
import { clarify, compare, explain, followUp, number, type Part } from "./phases";
import { roleOf } from "./setup";
import { type Answer, answered, leftOut, nextFollowUp, type Phase, type Sitting } from "./sitting";

const NAMES: Record<Phase, string> = { clarify: "Clarify", estimate: "Estimate", explain: "Explain", compare: "Compare", "follow-up": "Follow-ups" };
const PARTS: Record<Phase, (room: Room) => Part> = { clarify, estimate: number, explain, compare, "follow-up": followUp };
/** A tick of a page in the background may come a minute late; a longer gap is a machine that slept. */
const LONGEST_TICK_SECONDS = 70;

/** What a phase works with. */
export interface Room {
  app: App;
  sitting: Sitting;
  step: Answer;
  keep: () => void;
  /** to another phase of this question */
  go: (phase: Phase) => void;
  /** to the next follow-up, or the next question, or the report */
  goOn: () => void;
}

export function questionScreen(app: App, sitting: Sitting, step: Answer): Screen {
  const card = app.card(step.card);
  const room: Room = {
    app,
    sitting,
    step,
    keep: () => app.keep(),
    go: (phase) => {
      step.phase = phase;
      step.shown = false;
      app.show(sitting);
      announce(NAMES[phase]);
    },
    goOn: () => {
      if (nextFollowUp(sitting, step, app.text(step.card))) room.go("follow-up");
      else app.show(answered(sitting));
    },
  };
  const title = h("h2", { class: "dr-q", id: "mk-question", tabindex: "-1" }, h("span", { class: "dr-en" }, card.title.en), h("span", { class: "dr-zh", lang: "zh-Hans" }, card.title.zh));
  const part = PARTS[step.phase](room);
  const whole = h("span", { class: "mk-whole", role: "timer", "aria-live": "off", "aria-label": "Time of the interview" });
  const time = h("span", { class: "dr-time", role: "timer", "aria-live": "off", "aria-label": "Time of the explanation" });
  const leave = (): boolean => (app.show(leftOut(sitting)), true);
  const end = (): boolean => (app.show({ ...sitting, ended: true }), true);
  const compared = step.phase === "compare" || step.phase === "follow-up";

  const element = h(
    "div",
    { class: "dr-session mk-session", "data-phase": step.phase },
    head(),
    h("article", { class: "dr-card" }, h("div", { class: "dr-meta" }, phases(), time, languageButtons()), title, ...part.elements),
  );

  function head(): HTMLElement {
    const place = sitting.cards.indexOf(step.card);
    const done = new Set(sitting.answers.map((answer) => answer.card));
    const squares = sitting.cards.map((id, index) => h("i", { class: index === place ? "is-now" : done.has(id) ? "is-done" : index < place ? "is-left" : null }));
    return h(
      "div",
      { class: "dr-head" },
      h("div", { class: "dr-squares", "aria-hidden": "true" }, ...squares),
      h("p", { class: "dr-where" }, `${place + 1} of ${sitting.cards.length}`, h("span", { class: "dr-about" }, ` · ${roleOf(sitting.role).title.en} · ${sitting.level}`), " · ", whole),
      h(
        "p",
        { class: "dr-tools" },
        !compared && h("button", { type: "button", class: "il-linkish", onclick: leave }, "Leave it out"),
        h("button", { type: "button", class: "il-linkish", onclick: end }, "End"),
      ),
    );
  }

  function phases(): HTMLElement {
    const shown = (Object.keys(NAMES) as Phase[]).filter((phase) => phase !== "estimate" || card.estimate);
    const here = shown.indexOf(step.phase);
    return h("ol", { class: "mk-phases", "aria-label": "Where this question is" }, ...shown.map((phase, index) => h("li", { "aria-current": index === here ? "step" : null, class: index < here ? "is-past" : null }, NAMES[phase])));
  }

  let last = app.now();
  const tell = (): void => {
    const most = card.minutes * 60;
    whole.textContent = `${clock(sitting.elapsed)} of ${sitting.minutes}:00`;
    whole.classList.toggle("is-over", sitting.elapsed > sitting.minutes * 60);
    time.hidden = step.phase !== "explain" && !compared;
    time.textContent = `${clock(step.seconds)} of ${clock(most)}`;
    time.classList.toggle("is-over", step.seconds > most);
  };
  tell();
  const ticking = window.setInterval(() => {
    const now = app.now();
    const passed = Math.min(LONGEST_TICK_SECONDS, Math.max(0, (now - last) / 1000));
    sitting.elapsed += passed;
    if (step.phase === "explain") step.seconds += passed;
    last = now;
    tell();
  }, 1000);

  const keys: Key[] = [
    ...part.keys,
    { key: "l", shown: "l", does: "English or 中文", run: otherLanguage },
    ...(compared ? [] : [{ key: "j", shown: "j", does: "leave this question out", run: leave }]),
    { key: "q", shown: "q", does: "end the interview: the report", run: end },
  ];
  return { element, keys, focus: part.focus ?? title, leave: () => clearInterval(ticking) };
}

/** One question at a time: answer, reveal, compare, grade. Everything by key, and every action is kept at once. */

import { announce, h, one } from "../dom";
import { otherLanguage } from "../lang";
import { answer, type Answer } from "./answer";
import type { App } from "./app";
import { loadText } from "./cards";
import { estimateForm } from "./estimate_form";
import { clock, interval, languageButtons } from "./frame";
import { after, daysOf } from "./memory";
import type { Rating } from "./progress";
import { alive, type Key, type Screen } from "./screen";
import { graded, type Session, skipped, type Step, undone } from "./session";
import { suggestion } from "./rubric";

const GRADES: readonly [Rating, string][] = [
  [1, "Forgot"],
  [2, "Hard"],
  [3, "Good"],
  [4, "Easy"],
];

export function sessionScreen(app: App, session: Session, step: Step): Screen {
  const card = app.card(step.card);
  const from = step.from === null ? null : app.card(step.from);
  const question = h("h2", { class: "dr-q", tabindex: "-1" }, h("span", { class: "dr-en" }, card.title.en), h("span", { class: "dr-zh", lang: "zh-Hans" }, card.title.zh));
  const time = h("span", { class: "dr-time", role: "timer", "aria-live": "off" });
  const reveal = h("button", { type: "button", class: "il-reveal dr-reveal", onclick: () => open() }, "Reveal the answer ", h("kbd", { class: "dr-kbd" }, "Space"));
  const below = h("div", { class: "dr-below" });
  const grades = gradeBar();
  const asked = card.estimate ? estimateForm(card.estimate, step, keep) : null;
  let shown: Answer | null = null;

  const element = h(
    "div",
    { class: "dr-session" },
    head(),
    h("article", { class: "dr-card" }, h("div", { class: "dr-meta" }, chips(), time, languageButtons()), from && h("p", { class: "dr-from" }, "Deeper, after: ", from.title.en), question, asked?.element, reveal, below),
    grades.element,
  );

  const ticking = startClock();
  if (step.revealed) void showAnswer(false);
  else loadText(card.id).catch(() => undefined); // it is there when it is asked for
  const following = session.todo[0];
  if (following !== undefined) loadText(following).catch(() => undefined);
  grades.tell();

  function keep(): void {
    grades.tell();
    app.keep();
  }

  function head(): HTMLElement {
    const { done, todo } = session;
    const total = done.length + todo.length + 1;
    const squares = [
      ...done.map(({ rating }) => h("i", { class: rating === 1 ? "is-forgotten" : "is-done" })),
      h("i", { class: "is-now" }),
      ...todo.map((id) => h("i", { class: done.some((past) => past.card === id) ? "is-back" : null })),
    ];
    return h(
      "div",
      { class: "dr-head" },
      h("div", { class: "dr-squares", "aria-hidden": "true" }, ...(total <= 60 ? squares : [])),
      h("p", { class: "dr-where" }, `${done.length + 1} of ${total}`, h("span", { class: "dr-about" }, ` · ${session.about} · ${session.mode}`)),
      h(
        "p",
        { class: "dr-tools" },
        done.length > 0 && h("button", { type: "button", class: "il-linkish", onclick: () => back() }, "Undo"),
        todo.length > 0 && h("button", { type: "button", class: "il-linkish", onclick: () => skip() }, "Later"),
        h("button", { type: "button", class: "il-linkish", onclick: () => app.end() }, "End"),
      ),
    );
  }

  function chips(): HTMLElement {
    return h("ul", { class: "il-chips" }, ...[card.kind, card.level, `${card.minutes} min`, `part ${card.part}`].map((text) => h("li", {}, h("span", { class: "il-chip" }, text))));
  }

  function startClock(): number {
    const most = session.mode === "explain" ? card.minutes * 60 : null;
    let last = app.now();
    const tell = (): void => {
      time.textContent = most === null ? clock(step.seconds) : `${clock(step.seconds)} of ${clock(most)}`;
      time.classList.toggle("is-over", most !== null && step.seconds > most);
    };
    tell();
    return window.setInterval(() => {
      const now = app.now();
      if (!step.revealed && !document.hidden) step.seconds += Math.min(2, Math.max(0, (now - last) / 1000));
      last = now;
      tell();
    }, 1000);
  }

  function open(): boolean {
    if (step.revealed) return false;
    step.revealed = true;
    keep();
    void showAnswer(true);
    return true;
  }

  async function showAnswer(moveFocus: boolean): Promise<void> {
    reveal.hidden = true;
    asked?.refresh();
    grades.tell();
    below.replaceChildren(h("p", { class: "dr-quiet" }, "Fetching the answer …"));
    try {
      const text = await loadText(card.id);
      if (!below.isConnected) return;
      shown = answer(app.vault, card, text, session.mode, step, keep);
      below.replaceChildren(shown.element);
      alive(below);
      announce("The answer is shown. Grade yourself from 1 to 4.");
      if (moveFocus) shown.focus.focus({ preventScroll: true });
      // the question stays in sight where there is room for both; else it goes to the top
      if (moveFocus && below.getBoundingClientRect().top > innerHeight * 0.6) question.scrollIntoView({ block: "start" });
    } catch {
      below.replaceChildren(
        h("p", { class: "dr-notice dr-notice--bad", role: "alert" }, "The answer could not be fetched. You can grade yourself all the same, or ", h("button", { type: "button", class: "il-linkish", onclick: () => void showAnswer(true) }, "try again"), "."),
      );
    }
  }

  function gradeBar(): { element: HTMLElement; tell: () => void } {
    const buttons = GRADES.map(([rating, name]) =>
      h("button", { type: "button", class: "dr-grade", "data-rating": rating, onclick: () => grade(rating) }, h("span", { class: "dr-grade-name" }, h("kbd", { class: "dr-kbd" }, String(rating)), " ", name), " ", h("span", { class: "dr-grade-when" })),
    );
    const says = h("p", { class: "dr-suggests", role: "status" });
    const bar = h("div", { class: "dr-grades", role: "group", "aria-label": "How well did you answer?" }, says, h("div", { class: "dr-grade-row" }, ...buttons));
    const tell = (): void => {
      bar.hidden = !step.revealed;
      const speaks = suggestion(card, step.ticked);
      for (const [index, [rating]] of GRADES.entries()) {
        const button = buttons[index];
        const days = daysOf(after(app.memories().get(card.id) ?? null, app.now(), rating));
        const when = rating === 1 ? "again today" : interval(days);
        if (!button) continue;
        one(".dr-grade-when", button)?.replaceChildren(when);
        button.classList.toggle("is-suggested", rating === speaks);
      }
      const name = GRADES.find(([rating]) => rating === speaks)?.[1];
      says.textContent = name ? `Your ticks say: ${name.toLowerCase()}` : session.mode === "explain" ? "Tick what your answer had, and a grade is suggested" : "How well did you know it?";
    };
    return { element: bar, tell };
  }

  function grade(rating: Rating): boolean {
    if (!step.revealed) return false;
    const at = app.now();
    const days = daysOf(after(app.memories().get(card.id) ?? null, at, rating));
    const seconds = Math.round(step.seconds * 10) / 10;
    app.session = graded(session, { card: card.id, at, rating, seconds, days }, card);
    app.keep();
    app.vault.add({ card: card.id, at, rating, mode: session.mode, seconds, rubric: [...step.ticked], estimate: step.estimate });
    app.go("");
    announce(rating === 1 ? "Forgot: it comes again before the end" : `${GRADES[rating - 1]?.[1]}: next in ${interval(days)}`);
    return true;
  }

  function skip(): boolean {
    if (session.todo.length === 0) return false;
    app.session = skipped(session);
    app.keep();
    app.go("");
    return true;
  }

  function back(): boolean {
    const before = undone(session);
    if (!before) return false;
    const review = app.vault.progress.reviews.find((past) => past.card === before.taken.card && past.at === before.taken.at);
    const again = before.session.step;
    if (again && review) Object.assign(again, { ticked: [...(review.rubric ?? [])], estimate: review.estimate ?? null });
    app.session = before.session;
    app.keep();
    app.vault.remove(before.taken.card, before.taken.at);
    app.go("");
    announce("The last grade is taken back");
    return true;
  }

  const keys: Key[] = [
    { key: " ", shown: "Space", does: "reveal the answer", run: open },
    ...GRADES.map(([rating, name]): Key => ({ key: String(rating), shown: String(rating), does: name.toLowerCase(), run: () => grade(rating) })),
    { key: "e", shown: "e", does: "your number first", run: () => !!asked && !step.revealed && (asked.focus(), true) },
    { key: "f", shown: "f", does: "ask the next follow-up, then show its answer", run: () => shown?.chain?.next() ?? open() },
    { key: "l", shown: "l", does: "English or 中文", run: otherLanguage },
    { key: "j", shown: "j", does: "later: on to the next question", run: skip },
    { key: "k", shown: "k", does: "back: take the last grade back", run: back },
  ];
  return { element, keys: asked ? keys : keys.filter(({ key }) => key !== "e"), focus: question, changed: () => grades.tell(), leave: () => clearInterval(ticking) };
}

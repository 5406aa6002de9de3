/** Before the interview: for which role, at which level, how long, and which draw of questions. */

import { h } from "../dom";
import { languageButtons, many, notices } from "../drill/frame";
import type { Screen } from "../drill/screen";
import type { App } from "./app";
import { LENGTHS, LEVELS, ROLES } from "./choose";
import { newSeed, roleOf, seedOf } from "./setup";

export function startScreen(app: App): Screen {
  const what = h("p", { class: "dr-under", role: "status" });
  const start = h("button", { class: "il-btn dr-start" }, "Start the interview ", h("kbd", { class: "dr-kbd" }, "Enter"));
  const seed = h("input", { id: "mk-seed", type: "text", inputmode: "numeric", autocomplete: "off", size: 6, value: app.setup.seed, "aria-describedby": "mk-seed-what" });
  seed.addEventListener("change", () => {
    const wanted = seedOf(seed.value.trim());
    if (wanted !== null) app.ask({ seed: wanted });
    tell();
  });
  const others = h("button", { type: "button", class: "il-linkish", onclick: () => (app.ask({ seed: newSeed() }), tell()) }, "Draw others");

  function tell(): void {
    const { cards, minutes } = app.interview();
    seed.value = String(app.setup.seed);
    start.disabled = cards.length === 0;
    const few = minutes < app.setup.minutes / 2 ? " More is not written yet for this role and level." : "";
    what.textContent = cards.length ? `${many(cards.length, "question")}, about ${minutes} of ${app.setup.minutes} minutes.${few}` : "No question of this level is written yet. Choose another.";
  }

  function go(): boolean {
    if (start.disabled) return false;
    void app.start();
    return true;
  }

  function choice<T extends string | number>(legend: string, name: "role" | "level" | "minutes", options: readonly (readonly [T, ...(Node | string)[]])[], klass: string): HTMLElement {
    const labels = options.map(([value, ...said]) => {
      const input = h("input", { type: "radio", name: `mk-${name}`, value, checked: app.setup[name] === value });
      input.addEventListener("change", () => {
        app.ask({ [name]: value });
        tell();
      });
      return h("label", { class: klass }, input, h("span", {}, ...said));
    });
    return h("fieldset", { class: "dr-group" }, h("legend", {}, legend), h("div", { class: klass === "dr-chip" ? "dr-chips" : "mk-roles" }, ...labels));
  }

  const roles = ROLES.map(({ id, title, about }) => [id, h("b", {}, ...both(title)), h("span", { class: "dr-mode-what" }, ...both(about))] as const);
  const left = app.leftOver;
  const element = h(
    "form",
    { class: "mk-start", novalidate: true, onsubmit: (event) => (event.preventDefault(), go()) },
    notices(app),
    left &&
      h(
        "p",
        { class: "dr-notice" },
        left.ended ? "The report of your last interview is still here: " : "An interview was left in the middle: ",
        `${roleOf(left.role).title.en}, ${left.level}${left.ended ? "" : `, ${many(left.todo.length + 1, "question")} to go`}. `,
        h("button", { type: "button", class: "il-linkish", onclick: () => void app.resume(left) }, left.ended ? "Show it" : "Go on with it"),
      ),
    h("div", { class: "mk-top" }, choice("Who is asked", "role", roles, "mk-role"), languageButtons()),
    h("div", { class: "mk-pair" }, choice("At which level", "level", LEVELS.map((level) => [level, level] as const), "dr-chip"), choice("Minutes", "minutes", LENGTHS.map((minutes) => [minutes, String(minutes)] as const), "dr-chip")),
    h("div", { class: "dr-begin" }, start, what),
    h("p", { class: "mk-seed" }, h("label", { for: "mk-seed" }, "Seed"), seed, others, h("span", { id: "mk-seed-what" }, "The same seed, role, level and length ask the same questions again; the address of this page holds them.")),
    h(
      "ol",
      { class: "dr-how" },
      h("li", {}, h("b", {}, "Clarify."), " Note what you would ask or assume. Where there is a number, estimate it first."),
      h("li", {}, h("b", {}, "Explain"), " aloud, against the clock. Then compare with ours and tick what you had."),
      h("li", {}, h("b", {}, "Follow-ups"), " go where something was missing; where nothing was, deeper."),
      h("li", {}, h("b", {}, "A report"), " counts what you had and says what to read. What you were asked comes back in your drill, if you like."),
    ),
  );
  tell();
  return { element, focus: start, keys: [{ key: "Enter", shown: "Enter", does: "start the interview", run: go }] };
}

function both(title: { en: string; zh: string }): HTMLElement[] {
  return [h("span", { class: "dr-en" }, title.en), h("span", { class: "dr-zh", lang: "zh-Hans" }, title.zh)];
}

/** The form: every field that Python declares, with its limits. It says nothing about what the fields mean beyond Python's own words. */

import { h } from "../dom";
import { defaults } from "./address";
import type { Field, Form, Scenario, Values } from "./view";

export interface Edit {
  element: HTMLFormElement;
  set(scenario: Scenario): void;
  get(): Scenario;
  busy(on: boolean): void;
  /** what the page says, beside the button that was pressed */
  say(text: string, isError: boolean): void;
}

type Control = HTMLInputElement | HTMLSelectElement;

/** One control; `who` tells apart what stands side by side. */
function control(field: Field, name: string, value: string | number | boolean | undefined, who: string): Control {
  const label = who ? `${field.label}, ${who}` : null;
  const shared = { name, id: `pg-in-${name.replace(".", "-")}`, "aria-label": label };
  if (field.kind === "choice") return h("select", shared, ...(field.options ?? []).map((option) => h("option", { selected: option === value }, option)));
  if (field.kind === "switch") return h("input", { ...shared, type: "checkbox", checked: value === true });
  if (field.kind === "text") return h("input", { ...shared, type: "text", value: String(value ?? ""), maxlength: field.high, required: true });
  const step = field.kind === "whole" ? 1 : "any";
  return h("input", { ...shared, type: "number", min: field.low, max: field.high, step, value: String(value ?? ""), required: true, inputmode: "decimal" });
}

function valueOf(input: Control, field: Field): string | number | boolean {
  if (input instanceof HTMLInputElement && field.kind === "switch") return input.checked;
  return field.kind === "whole" || field.kind === "number" ? Number(input.value) : input.value.trim();
}

const unit = (field: Field): HTMLElement | false => !!field.unit && h("span", { class: "pg-unit" }, ` ${field.unit}`);

export function edit(form: Form, run: () => void, reset: () => void): Edit {
  let scenario: Scenario | undefined;
  const traffic = h("tbody");
  const engines = h("tbody");
  const engineHead = h("tr");
  const compare = h("input", { type: "checkbox", id: "pg-compare", onchange: () => sidesTo(compare.checked ? 2 : 1) });
  const machine = h("div", { class: "pg-fields" });
  const objective = h("div", { class: "pg-fields" });
  const spacing = h("select", { id: "pg-in-spacing" }, h("option", { value: "even" }, "as they stand"), h("option", { value: "random" }, "random around them"));
  const seed = h("input", { type: "number", id: "pg-in-seed", min: 0, max: 999_999, step: 1, required: true });
  const submit = h("button", { type: "submit", class: "il-btn" }, "Run it here");
  const said = h("p", { class: "pg-said", "aria-hidden": "true" });
  const more = h("button", { type: "button", class: "il-btn il-btn--quiet", onclick: () => redraw((now) => now.traffic.push({ ...defaults(form.traffic), name: "more" })) }, "Add a row");

  const name = (part: string, field: Field): string => `${part}.${field.name}`;
  const find = (part: string, field: Field): Control | null => element.querySelector<Control>(`[name="${name(part, field)}"]`);
  const group = (part: string, fields: Field[], old: Values): Values =>
    Object.fromEntries(
      fields.map((field) => {
        const input = find(part, field);
        return [field.name, input ? valueOf(input, field) : (old[field.name] ?? field.default)];
      }),
    );

  function get(): Scenario {
    if (!scenario) throw new Error("the form is not filled");
    return {
      traffic: scenario.traffic.map((old, index) => group(`t${index}`, form.traffic, old)),
      sides: scenario.sides.map((side, index) => {
        const part = "ab"[index] ?? "";
        const label = element.querySelector<HTMLInputElement>(`[name="${part}.label"]`);
        return { label: label?.value.trim() || side.label, engine: group(part, form.engine, side.engine) };
      }),
      machine: group("m", form.machine, scenario.machine),
      objective: group("o", form.objective, scenario.objective),
      spacing: spacing.value,
      seed: Number(seed.value),
    };
  }

  function redraw(change: (now: Scenario) => void): void {
    const now = get();
    change(now);
    set(now);
  }

  const sidesTo = (count: number): void =>
    redraw((now) => {
      if (count === 1) now.sides.length = 1;
      else now.sides.push({ label: "another", engine: { ...(now.sides[0]?.engine ?? {}) } });
    });

  function set(now: Scenario): void {
    scenario = now;
    traffic.replaceChildren(
      ...now.traffic.map((values, index) =>
        h(
          "tr",
          {},
          ...form.traffic.map((field) => h("td", {}, control(field, name(`t${index}`, field), values[field.name], `row ${index + 1}`))),
          h(
            "td",
            {},
            now.traffic.length > 1 &&
              h("button", { type: "button", class: "pg-btn", "aria-label": `Remove row ${index + 1}`, onclick: () => redraw((all) => void all.traffic.splice(index, 1)) }, "×"),
          ),
        ),
      ),
    );
    engineHead.replaceChildren(
      h("th", { scope: "col" }, "Engine"),
      ...now.sides.map((side, index) => {
        const part = "ab"[index] ?? "";
        const input = h("input", { type: "text", name: `${part}.label`, value: side.label, maxlength: 60, required: true, "aria-label": `Name of ${"AB"[index]}` });
        return h("th", { scope: "col" }, h("span", { class: "pg-ab" }, "AB"[index] ?? ""), " ", input);
      }),
    );
    engines.replaceChildren(
      ...form.engine.map((field) => {
        const values = now.sides.map((side) => side.engine[field.name]);
        const differs = values.length > 1 && values[0] !== values[1];
        return h(
          "tr",
          { class: differs ? "is-different" : null },
          h("th", { scope: "row" }, field.label, unit(field), !!field.says && h("span", { class: "il-note" }, field.says)),
          ...values.map((value, index) => h("td", {}, control(field, name("ab"[index] ?? "", field), value, "AB"[index] ?? ""))),
        );
      }),
    );
    for (const [box, fields, values, part] of [
      [machine, form.machine, now.machine, "m"],
      [objective, form.objective, now.objective, "o"],
    ] as const) {
      box.replaceChildren(
        ...fields.map((field) => {
          const input = control(field, name(part, field), values[field.name], "");
          return h("label", { class: "pg-field" }, h("span", {}, field.label, unit(field)), input, !!field.says && h("span", { class: "il-note" }, field.says));
        }),
      );
    }
    compare.checked = now.sides.length > 1;
    spacing.value = now.spacing;
    seed.value = String(now.seed);
  }

  const element = h(
    "form",
    { class: "pg-form" },
    h("h3", { id: "pg-form-traffic" }, "Who asks, and when"),
    h(
      "div",
      { class: "il-scroll", role: "group", "aria-labelledby": "pg-form-traffic", tabindex: 0 },
      h(
        "table",
        { class: "pg-inputs" },
        h("thead", {}, h("tr", {}, ...form.traffic.map((field) => h("th", { scope: "col", title: field.says || null }, field.label, unit(field))), h("td"))),
        traffic,
      ),
    ),
    h(
      "p",
      { class: "pg-row" },
      more,
      h("label", { class: "pg-inline" }, "Gaps and lengths ", spacing),
      h("label", { class: "pg-inline" }, "Seed ", seed),
    ),
    h("h3", { id: "pg-form-engine" }, "Which engine"),
    h("p", { class: "pg-row" }, h("label", { class: "pg-inline" }, compare, " compare two")),
    h(
      "div",
      { class: "il-scroll", role: "group", "aria-labelledby": "pg-form-engine", tabindex: 0 },
      h("table", { class: "pg-inputs pg-engines" }, h("thead", {}, engineHead), engines),
    ),
    h("div", { class: "pg-two" }, h("div", {}, h("h3", {}, "On which machine"), machine), h("div", {}, h("h3", {}, "What counts as in time"), objective)),
    h(
      "p",
      { class: "pg-row pg-go" },
      submit,
      h("button", { type: "button", class: "il-btn il-btn--quiet", onclick: reset }, "Back to the scenario"),
      h("span", { class: "il-note" }, "Starts Python in this page: 13 MB from this site, once. Then a run takes a moment. The address keeps your settings."),
    ),
    said,
  );
  element.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  element.addEventListener("change", (event) => {
    const target = event.target as HTMLElement;
    if (target.closest(".pg-engines")) for (const line of element.querySelectorAll(".pg-engines tbody tr")) mark(line);
  });
  return {
    element,
    set,
    get,
    busy: (on) => submit.toggleAttribute("disabled", on),
    say: (text, isError) => {
      said.textContent = text;
      said.classList.toggle("is-error", isError);
    },
  };
}

/** A row of the engines' table whose two sides differ looks it. */
function mark(line: Element): void {
  const inputs = [...line.querySelectorAll<Control>("input, select")].map((input) => (input instanceof HTMLInputElement && input.type === "checkbox" ? String(input.checked) : input.value));
  line.classList.toggle("is-different", inputs.length > 1 && inputs[0] !== inputs[1]);
}

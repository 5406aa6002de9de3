/**
 * The scheduler playground. Prepared runs are files of the site; a run with other settings is made by the library's own Python in this page.
 * The page that was built shows one run already; from here on it moves.
 */

import { h, one } from "../dom";
import { NoPythonError, PythonError, python } from "../python";
import { apply, changes, read, strange, write, type Place } from "./address";
import { chart, type Chart } from "./chart";
import { edit } from "./edit";
import { describeRequest, describeStep } from "./moment";
import { player } from "./player";
import { blockKey, pool, type Pool } from "./pool";
import { figures, tables, watched } from "./tables";
import { moments, stepAt, type Form, type Prepared, type View } from "./view";

interface Panel {
  terms: HTMLElement;
  picked: HTMLElement;
  pool: Pool;
}

function start(root: HTMLElement, known: { scenarios: Prepared[]; form: Form }): void {
  const find = (id: string): HTMLElement => one(`#${id}`, root) as HTMLElement;
  const status = find("pg-status");
  const fallback = root.dataset.scenario ?? "";
  const cache = new Map<string, View>();
  let place: Place = { id: fallback, at: null, changes: new Map() };
  let base: View | undefined;
  let view: View | undefined;
  let charts: Chart[] = [];
  let panels: Panel[] = [];
  let picked: number | null = null;
  let turn = 0; // of what was asked for last: an older answer that comes later is dropped
  let saving = 0;

  const say = (text: string, state: "ready" | "loading" | "error" = "ready"): void => {
    status.textContent = text;
    form.say(text, state === "error");
    root.dataset.state = state;
  };

  /** The address says what is shown; not in every step of a film, which browsers forbid. */
  const keep = (): void => {
    clearTimeout(saving);
    saving = window.setTimeout(() => history.replaceState(null, "", write(place)), 200);
  };

  const pick = (request: number): void => {
    picked = picked === request ? null : request;
    draw(control.at());
  };
  const moved = (at: number): void => {
    if (!view) return;
    draw(at);
    place.at = at;
    keep();
  };
  const control = player(moved, (times) => charts.forEach((each) => each.zoom(times)));
  const form = edit(known.form, () => void run(true), () => void open({ id: place.id, at: null, changes: new Map() }, true));

  function draw(at: number): void {
    if (!view) return;
    charts.forEach((each) => each.show(at, picked));
    view.sides.forEach((side, index) => {
      const panel = panels[index];
      if (!panel) return;
      const step = stepAt(side, at);
      panel.terms.replaceChildren(describeStep(side, step));
      const held = panel.pool.show(step, picked);
      panel.picked.textContent = picked === null ? "" : describeRequest(side, picked, step, held);
      panel.picked.hidden = picked === null;
    });
  }

  function show(now: View, at: number): void {
    view = now;
    picked = null;
    root.dataset.hash = now.hash;
    charts = now.sides.map((side, index) =>
      chart(now, side, index, {
        pick,
        seek: (to) => control.seek(to),
        scrolled: (left) => charts.forEach((each) => ((one(".pg-scroll", each.element) as HTMLElement).scrollLeft = left)),
      }),
    );
    find("pg-sides").replaceChildren(...charts.map((each) => each.element));
    panels = now.sides.map((side) => ({ terms: h("div"), picked: h("p", { class: "pg-picked", hidden: true }), pool: pool(side, pick) }));
    find("pg-moment").replaceChildren(
      h(
        "div",
        { class: "pg-two" },
        ...panels.map((panel, index) =>
          h(
            "section",
            { class: "pg-panel", "aria-labelledby": `pg-panel-${index}` },
            h("h3", { id: `pg-panel-${index}` }, now.sides.length > 1 && h("span", { class: "pg-ab" }, "AB"[index] ?? ""), " In this step"),
            panel.picked,
            panel.terms,
            panel.pool.element,
          ),
        ),
      ),
      blockKey(),
    );
    find("pg-watch").replaceChildren(...watched(now, known.scenarios.find((each) => each.id === place.id)?.watch ?? []));
    find("pg-figures").replaceChildren(figures(now));
    find("pg-cost").textContent = now.cost.says;
    find("pg-tables").replaceChildren(...tables(now));
    control.load(now, moments(now), at);
  }

  function name(scenario: Prepared, edited: boolean): void {
    find("pg-title").replaceChildren(scenario.title, edited ? h("span", { class: "pg-edited" }, "with your settings") : "");
    find("pg-title-zh").textContent = scenario.title_zh;
    find("pg-see").textContent = scenario.see;
    find("pg-see").hidden = edited;
    for (const link of root.querySelectorAll<HTMLElement>(".pg-pick a")) {
      const list = link.closest("ol");
      if (link.dataset.scenario === scenario.id) {
        link.setAttribute("aria-current", "true");
        if (list) list.scrollLeft = Math.max(0, link.offsetLeft - list.offsetLeft - 16);
      } else link.removeAttribute("aria-current");
    }
  }

  async function prepared(id: string): Promise<View> {
    const held = cache.get(id);
    if (held) return held;
    const got = await fetch(`${document.documentElement.dataset.content_root ?? "../"}_static/playground/${id}.json`).catch(() => undefined);
    if (!got?.ok) throw new Error(`The file of this run could not be read: ${got ? got.status : "no connection to the site"}`);
    const loaded = (await got.json()) as View;
    cache.set(id, loaded);
    return loaded;
  }

  /** Shows a scenario; with changes, its own run until Python has made the other. */
  async function open(to: Place, remember = false): Promise<void> {
    const mine = (turn += 1);
    form.busy(false);
    const scenario = known.scenarios.find((each) => each.id === to.id);
    const unknown = strange(to.changes, known.form);
    for (const name of unknown) to.changes.delete(name);
    const shown = scenario ?? (known.scenarios.find((each) => each.id === fallback) as Prepared);
    place = { ...to, id: shown.id, changes: scenario ? to.changes : new Map() };
    if (remember) history.pushState(null, "", write(place));
    say("Loading the run …", "loading");
    try {
      const loaded = await prepared(shown.id);
      if (mine !== turn) return;
      base = loaded;
    } catch (error) {
      if (mine === turn) say(`${error instanceof Error ? error.message : String(error)}. Choose the run again to try once more.`, "error");
      return;
    }
    const at = place.at;
    name(shown, false);
    form.set(apply(base.scenario, place.changes, known.form));
    show(base, at ?? shown.at_ms);
    say(scenario ? "" : `There is no scenario “${to.id}”; this is the first one.`);
    if (place.changes.size) {
      place.at = at;
      await run();
    }
    if (unknown.length) say(`${status.textContent} The address names what does not exist here: ${unknown.join(", ")}.`.trim());
  }

  /** `toTop`: the reader pressed the button below, and wants to see what came out. */
  async function run(toTop = false): Promise<void> {
    if (!base) return;
    const mine = (turn += 1);
    const scenario = known.scenarios.find((each) => each.id === place.id) as Prepared;
    const wanted = form.get();
    place.changes = changes(base.scenario, wanted, known.form);
    wanted.sides.forEach((side, index) => {
      const old = base?.sides[index];
      if (old && side.label === old.label && Object.entries(old.engine).some(([key, value]) => side.engine[key] !== value)) side.label += " (changed)";
    });
    const at = place.at ?? scenario.at_ms;
    history.replaceState(null, "", write(place));
    form.busy(true);
    say("Running …", "loading");
    try {
      const lab = await python((text) => mine === turn && say(text, "loading"));
      const began = performance.now();
      const played = (await lab.call("infer_lab.sim.playground", "play", [wanted])) as View;
      if (mine !== turn) return;
      name(scenario, place.changes.size > 0);
      show(played, at);
      const steps = played.sides.map((side) => side.steps.length - 1).join(" and ");
      const same = played.hash === base.hash ? " Equal to the run that was made with the site." : "";
      say(`Ran in this page: ${steps} steps in ${((performance.now() - began) / 1000).toFixed(1)} s.${same}`);
      if (toTop) find("pg-title").scrollIntoView({ block: "start" });
    } catch (error) {
      if (mine !== turn) return;
      if (error instanceof PythonError && error.mistake) say(`Not run: ${error.error}`, "error");
      else if (error instanceof NoPythonError) say(`${error.message} The prepared scenarios work without it.`, "error");
      else say(`Something broke that should not have: ${error instanceof Error ? error.message : String(error)}`, "error");
    } finally {
      if (mine === turn) form.busy(false);
      if (mine === turn && toTop && root.dataset.state === "error") one(".pg-said", root)?.scrollIntoView({ block: "center" });
    }
  }

  find("pg-player").append(control.element);
  const change = find("pg-change");
  change.append(form.element);
  change.hidden = false;
  one(".pg-pick", root)?.addEventListener("click", (event) => {
    const link = (event.target as HTMLElement).closest<HTMLAnchorElement>("a[data-scenario]");
    if (!link || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    void open({ id: link.dataset.scenario ?? "", at: null, changes: new Map() }, true);
  });
  addEventListener("popstate", () => void open(read(location.search, fallback)));
  void open(read(location.search, fallback));
}

const root = one("#pg");
const data = one("#pg-data");
if (root && data) start(root, JSON.parse(data.textContent ?? "{}") as { scenarios: Prepared[]; form: Form });

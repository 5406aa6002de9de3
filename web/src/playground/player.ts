/** Step, play, scrub: one cursor in time for both engines, which stops wherever either of them begins a step. */

import { h } from "../dom";
import { stepAt, time, type View } from "./view";

const SPEEDS: [string, number][] = [
  ["slow", 2],
  ["steady", 6],
  ["fast", 20],
];

export interface Player {
  element: HTMLElement;
  /** new times to stop at; goes to the one at or before `at` */
  load(view: View, stops: number[], at: number): void;
  seek(at: number): void;
  at(): number;
}

function button(label: string, path: string, act: () => void): HTMLButtonElement {
  const made = h("button", { type: "button", class: "pg-btn", "aria-label": label, title: label, onclick: act });
  made.innerHTML = `<svg viewBox="0 0 16 16" aria-hidden="true"><path d="${path}"/></svg>`;
  return made;
}

const PLAY = "M4 2.5v11l9-5.5z";
const PAUSE = "M4 3h3v10H4zM9 3h3v10H9z";

export function player(moved: (at: number) => void, zoomed: (times: number) => void): Player {
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  let stops: number[] = [0];
  let view: View | undefined;
  let index = 0;
  let timer = 0;

  const slider = h("input", { type: "range", min: 0, max: 0, step: 1, value: 0, class: "pg-slider", "aria-label": "Step", oninput: () => go(Number(slider.value)) });
  const clock = h("output", { class: "pg-clock", for: "pg-slider" });
  slider.id = "pg-slider";
  const speed = h("select", { "aria-label": "Speed" }, ...SPEEDS.map(([name, rate]) => h("option", { value: rate, selected: rate === 6 }, name)));
  const zoom = h(
    "select",
    { "aria-label": "Zoom", onchange: () => zoomed(Number(zoom.value)) },
    ...[1, 2, 4, 8].map((times) => h("option", { value: times }, times === 1 ? "whole run" : `${times} × wider`)),
  );

  const go = (to: number): void => {
    index = Math.max(0, Math.min(stops.length - 1, to));
    const at = stops[index] ?? 0;
    slider.value = String(index);
    clock.textContent = time(at);
    const where = view?.sides.map((side, i) => {
      const step = stepAt(side, at);
      return `${"AB"[i]} ${step >= side.steps.length - 1 ? "done" : `step ${step + 1} of ${side.steps.length - 1}`}`;
    });
    slider.setAttribute("aria-valuetext", `${time(at)}, ${where?.join(", ") ?? ""}`);
    moved(at);
    if (index === stops.length - 1) stop();
  };
  const stop = (): void => {
    clearTimeout(timer);
    timer = 0;
    playing(false);
  };
  const tick = (): void => {
    timer = window.setTimeout(() => {
      go(index + 1);
      if (timer) tick();
    }, 1000 / (calm.matches ? 2 : Number(speed.value)));
  };
  const play = button("Play", PLAY, () => {
    if (timer) return stop();
    if (index === stops.length - 1) go(0);
    playing(true);
    tick();
  });
  const playing = (on: boolean): void => {
    play.setAttribute("aria-label", on ? "Pause" : "Play");
    play.title = on ? "Pause" : "Play";
    play.querySelector("path")?.setAttribute("d", on ? PAUSE : PLAY);
  };
  const by = (steps: number) => (): void => {
    stop();
    go(index + steps);
  };
  slider.addEventListener("pointerdown", stop);
  slider.addEventListener("keydown", stop);

  const element = h(
    "div",
    { class: "pg-player", role: "group", "aria-label": "Player" },
    button("To the start", "M3 3h2v10H3zM13 3v10L6 8z", by(-1e9)),
    button("Step back", "M11 3v10L4 8z", by(-1)),
    play,
    button("Step forward", "M5 3v10l7-5z", by(1)),
    slider,
    clock,
    h("label", {}, h("span", {}, "speed"), speed),
    h("label", {}, h("span", {}, "show"), zoom),
  );
  const nearest = (at: number): number => {
    const after = stops.findIndex((stopAt) => stopAt > at + 1e-6);
    return after < 0 ? stops.length - 1 : Math.max(0, after - 1);
  };
  return {
    element,
    load(now, times, at) {
      stop();
      view = now;
      stops = times;
      slider.max = String(times.length - 1);
      zoomed(Number(zoom.value));
      go(nearest(at));
    },
    seek(at) {
      stop();
      go(nearest(at));
    },
    at: () => stops[index] ?? 0,
  };
}

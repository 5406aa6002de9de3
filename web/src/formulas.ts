/** Formulas in what a script put on the page. The renderer is fetched from our own copy when the first one comes. */

import { all } from "./dom";

interface MathJax {
  typesetPromise?: (elements: HTMLElement[]) => Promise<void>;
  startup?: { promise?: Promise<void> };
}
declare global {
  interface Window {
    MathJax?: MathJax | Record<string, unknown>;
  }
}

const CLASSES = { processHtmlClass: "tex2jax_process|mathjax_process|math|output_area" };
let loading: Promise<void> | undefined;

function load(): Promise<void> {
  window.MathJax ??= { options: { enableMenu: false, ...CLASSES }, chtml: { matchFontHeight: false }, startup: { typeset: false } };
  return new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = `${document.documentElement.dataset.content_root ?? ""}vendor/mathjax/tex-mml-chtml.js`;
    script.onload = () => done();
    script.onerror = () => failed(new Error("the formula renderer did not load"));
    document.head.append(script);
  });
}

/** Without the renderer the formulas stay as they were written, which can still be read. */
export async function formulas(root: HTMLElement): Promise<void> {
  if (all(".math", root).length === 0) return;
  try {
    await (loading ??= load());
    const renderer = window.MathJax as MathJax;
    await renderer.startup?.promise;
    await renderer.typesetPromise?.(all(".math", root));
  } catch {
    loading = undefined;
  }
}

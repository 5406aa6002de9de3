/** Small helpers, so that the modules read as what they do. */

export const all = <T extends Element = HTMLElement>(selector: string, root: ParentNode = document): T[] => [
  ...root.querySelectorAll<T>(selector),
];

export const one = <T extends Element = HTMLElement>(selector: string, root: ParentNode = document): T | null => root.querySelector<T>(selector);

/** True where a key belongs to what has the focus, so that no shortcut may take it. */
export function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || target.matches("input:not([type=checkbox]):not([type=radio]), textarea, select"));
}

/** True where Space and Enter already mean something. */
export function isControl(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest("a[href], button, summary, input, select, textarea, [role=button], video, audio") !== null;
}

/** Says something to a screen reader without moving the focus. */
export function announce(text: string): void {
  const region = one("#il-live");
  if (region) region.textContent = text;
}

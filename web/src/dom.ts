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

type Child = Node | string | false | null | undefined;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: Event) => void)>;

/** An element with attributes (`onclick` and the like are listeners; false, null and undefined leave an attribute out) and children. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child): child is Node | string => child !== false && child !== null && child !== undefined));
  return element;
}

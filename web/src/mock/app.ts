/** The interview as a whole: what was asked for, the sitting in hand, and which screen is shown. */

import { announce } from "../dom";
import { type Card, type CardText, type Catalogue, loadText } from "../drill/cards";
import { comesBack, Kept, LASTS_MS } from "../drill/kept";
import { alive, listKeys, press, type Screen } from "../drill/screen";
import type { Vault } from "../drill/vault";
import { choose, type Interview } from "./choose";
import { questionScreen } from "./question_screen";
import { reportScreen } from "./report_screen";
import { reviews } from "./reviews";
import { fromAddress, roleOf, sameSetup, type Setup, toAddress } from "./setup";
import { begin, counted, type Sitting, sound } from "./sitting";
import { startScreen } from "./start_screen";

const kept = new Kept<Sitting>("mock-sitting");

export class App {
  setup: Setup;
  sitting: Sitting | null = null;
  /** an interview of before: another tab's, another address's, or one that a link led away from */
  leftOver: Sitting | null = null;
  notice = "";
  private screen: Screen | null = null;
  private readonly texts = new Map<string, CardText>();

  constructor(
    readonly root: HTMLElement,
    readonly catalogue: Catalogue,
    readonly vault: Vault,
  ) {
    this.setup = fromAddress(location.search);
    const mine = this.fresh(kept.ofTab());
    const another = new URLSearchParams(location.search).has("seed") && mine !== null && !sameSetup(mine, this.setup);
    vault.onChange(() => this.screen?.changed?.());
    document.addEventListener("keydown", (event) => press(event, this.screen?.keys ?? []));
    addEventListener("pagehide", () => this.keep());
    if (mine && comesBack() && !another) void this.resume(mine);
    else {
      this.leftOver = mine ?? this.fresh(kept.leftOver());
      this.draw();
    }
  }

  now(): number {
    return Date.now();
  }

  card(id: string): Card {
    const found = this.catalogue.byId.get(id);
    if (!found) throw new Error(`no card is called ${id}`);
    return found;
  }

  text(id: string): CardText {
    const found = this.texts.get(id);
    if (!found) throw new Error(`the text of ${id} was not fetched`);
    return found;
  }

  interview(): Interview {
    const { role, level, minutes, seed } = this.setup;
    return choose(this.catalogue.cards, roleOf(role), level, minutes, seed);
  }

  ask(change: Partial<Setup>): void {
    this.setup = { ...this.setup, ...change };
    toAddress(this.setup);
  }

  async start(): Promise<void> {
    const { cards } = this.interview();
    if (cards.length > 0) await this.resume(begin(this.setup, cards, this.now()));
  }

  /** Shows an interview once everything that it needs is here: from then on it asks the server for nothing. */
  async resume(sitting: Sitting): Promise<void> {
    try {
      for (const text of await Promise.all(sitting.cards.map(loadText))) this.texts.set(text.id, text);
    } catch {
      this.leftOver = sitting.answers.length || sitting.step?.phase !== "clarify" ? sitting : this.leftOver;
      this.say("The questions could not be fetched. Try again when you are online; nothing is lost.");
      this.draw(true);
      return;
    }
    this.leftOver = null;
    this.setup = { role: sitting.role, level: sitting.level, minutes: sitting.minutes, seed: sitting.seed };
    toAddress(this.setup);
    this.show(sitting);
  }

  /** The interview as it is now, kept and shown; its questions go into the drill when it ends. */
  show(sitting: Sitting): void {
    this.sitting = sitting;
    if (sitting.ended && sitting.logged === null && counted(sitting).length > 0) this.log();
    this.keep();
    this.draw(true);
  }

  /** Adds the questions to the drill's log. */
  log(): void {
    if (!this.sitting) return;
    this.sitting.logged = this.now();
    for (const review of reviews(this.sitting, this.sitting.logged, (id) => this.text(id))) this.vault.add(review);
    this.keep();
  }

  /** Takes them out again. */
  unlog(): void {
    const { sitting } = this;
    if (!sitting?.logged) return;
    for (const { card, at } of reviews(sitting, sitting.logged, (id) => this.text(id))) this.vault.remove(card, at);
    sitting.logged = 0;
    this.keep();
  }

  /** Back to the beginning, with other questions or the same. */
  again(seed: number): void {
    this.sitting = null;
    kept.drop();
    this.ask({ seed });
    this.draw(true);
  }

  keep(): void {
    if (this.sitting) kept.keep(this.sitting);
  }

  draw(focus = false): void {
    this.screen?.leave?.();
    const { sitting } = this;
    const screen = !sitting ? startScreen(this) : sitting.ended || !sitting.step ? reportScreen(this, sitting) : questionScreen(this, sitting, sitting.step);
    this.screen = screen;
    document.body.classList.toggle("dr-busy", sitting !== null && !sitting.ended);
    document.body.classList.toggle("mk-report", sitting?.ended ?? false);
    this.root.replaceChildren(screen.element);
    alive(this.root);
    listKeys(screen.keys ?? []);
    if (!focus) return;
    scrollTo({ top: 0, behavior: "instant" });
    screen.focus?.focus({ preventScroll: true });
  }

  say(text: string): void {
    this.notice = text;
    announce(text);
  }

  private fresh(sitting: Sitting | null): Sitting | null {
    const found = sound(sitting, (card) => this.catalogue.byId.has(card));
    return found && this.now() - found.started < LASTS_MS ? found : null;
  }
}

/** The drill as a whole: what was chosen, the session in hand, and which screen is shown. Screens are functions that return their element and keys. */

import { announce } from "../dom";
import type { Card, Catalogue } from "./cards";
import { type Choice, filterOf, fromAddress, inWords, toAddress } from "./choice";
import { endScreen } from "./end_screen";
import { daysUntil } from "./frame";
import { comesBack, Kept, LASTS_MS } from "./kept";
import { type Memory, replay } from "./memory";
import { progressScreen } from "./progress_screen";
import { make, type Plan } from "./plan";
import { ALL, build, type Filter, NEW_A_DAY, type Queue } from "./queue";
import { alive, listKeys, press, type Screen } from "./screen";
import { begin, type Session, without } from "./session";
import { sessionScreen } from "./session_screen";
import { settingsScreen } from "./settings_screen";
import { startScreen } from "./start_screen";
import type { Vault } from "./vault";

const kept = new Kept<Session>("drill-session");

export class App {
  choice: Choice;
  session: Session | null;
  /** a session that another tab left, or that was left when the browser closed */
  leftOver: Session | null = null;
  /** what an import or an export has to say, until the next screen */
  notice = "";
  private screen: Screen | null = null;
  private planned: { reviews: unknown; key: string; plan: Plan } | null = null;
  private replayed: { reviews: unknown; memories: Map<string, Memory> } | null = null;

  constructor(
    readonly root: HTMLElement,
    readonly catalogue: Catalogue,
    readonly vault: Vault,
  ) {
    this.choice = fromAddress(location.search);
    const mine = this.fresh(kept.ofTab());
    this.session = comesBack() ? mine : null;
    if (!this.session) this.leftOver = mine ?? this.fresh(kept.leftOver());
    if (this.leftOver?.step === null) this.leftOver = null;
    vault.onChange(() => (this.screen?.changed ? this.screen.changed() : this.draw()));
    addEventListener("hashchange", () => this.draw(true));
    addEventListener("pagehide", () => this.keep());
    document.addEventListener("keydown", (event) => press(event, this.screen?.keys ?? []));
    if (this.choice.card && !this.session) this.start();
    else this.draw();
  }

  now(): number {
    return Date.now();
  }

  /** The beginning of the reader's day. */
  dayStart(): number {
    return new Date(this.now()).setHours(0, 0, 0, 0);
  }

  memories(): Map<string, Memory> {
    const { reviews } = this.vault.progress;
    if (this.replayed?.reviews !== reviews) this.replayed = { reviews, memories: replay(reviews) };
    return this.replayed.memories;
  }

  card(id: string): Card {
    const found = this.catalogue.byId.get(id);
    if (!found) throw new Error(`no card is called ${id}`);
    return found;
  }

  filter(): Filter {
    return filterOf(this.choice, this.catalogue) ?? ALL;
  }

  /** What is due and new under the choice, as far as the day's minutes go; with an interview to come, as many new ones as its plan gives. */
  queue(): Queue {
    const { minutes_per_day: minutes, interview_date: day } = this.vault.progress.settings;
    const left = day === null ? -1 : daysUntil(day, this.dayStart());
    const most = left < 0 ? NEW_A_DAY : (this.plan()?.days[0]?.new.length ?? 0);
    return build(this.catalogue.cards, this.memories(), this.dayStart(), this.filter(), { mode: this.choice.mode, minutes, new: most });
  }

  /** The plan of the reader's settings over the chosen cards; null without a day to come. */
  plan(): Plan | null {
    const { reviews, settings } = this.vault.progress;
    const { minutes_per_day: minutes, interview_date: day } = settings;
    const days = day === null ? 0 : daysUntil(day, this.dayStart());
    if (days < 1) return null;
    const key = JSON.stringify([this.dayStart(), days, minutes, this.filter()]);
    if (this.planned?.reviews !== reviews || this.planned.key !== key) {
      this.planned = { reviews, key, plan: make(this.catalogue.cards, this.memories(), this.dayStart(), days, minutes, this.filter()) };
    }
    return this.planned.plan;
  }

  choose(change: Partial<Choice>): void {
    this.choice = { ...this.choice, ...change };
    toAddress(this.choice);
  }

  /** Begins a session: what the queue holds, or the cards given. */
  start(cards?: readonly string[]): void {
    const queue = this.queue();
    const asked = cards ?? (this.choice.card ? [this.choice.card] : [...queue.due, ...queue.new]);
    if (asked.length === 0) return;
    this.leftOver = null;
    this.session = begin(asked, this.choice.mode, inWords(this.choice, this.catalogue), this.now());
    this.keep();
    this.go("");
  }

  resume(session: Session): void {
    this.leftOver = null;
    this.session = session;
    this.keep();
    this.go("");
  }

  /** Ends the session; what was graded stays. */
  end(): void {
    this.drop();
    if (this.choice.card) this.choice = { ...this.choice, card: null };
    toAddress(this.choice);
    this.go("");
  }

  /** Forgets the session, also one that was left in the middle. */
  drop(): void {
    this.session = null;
    this.leftOver = null;
    kept.drop();
  }

  /** Keeps the session as it is; called after every action. */
  keep(): void {
    if (this.session) kept.keep(this.session);
  }

  go(screen: "" | "progress" | "settings"): void {
    const hash = screen ? `#${screen}` : "";
    if (location.hash !== hash) history.pushState(null, "", `${location.pathname}${location.search}${hash}`);
    this.draw(true);
  }

  draw(focus = false): void {
    this.screen?.leave?.();
    const name = location.hash.slice(1);
    if (this.session) this.session = this.fresh(this.session);
    const session = this.session;
    const screen =
      name === "progress" ? progressScreen(this) : name === "settings" ? settingsScreen(this) : session === null ? startScreen(this) : session.step ? sessionScreen(this, session, session.step) : endScreen(this, session);
    this.screen = screen;
    document.body.classList.toggle("dr-busy", session?.step !== null && session !== null && name === "");
    this.root.replaceChildren(screen.element);
    alive(this.root);
    listKeys(screen.keys ?? []);
    if (focus) {
      scrollTo({ top: 0, behavior: "instant" });
      screen.focus?.focus({ preventScroll: true });
    }
  }

  say(text: string): void {
    this.notice = text;
    announce(text);
  }

  private fresh(session: Session | null): Session | null {
    if (!session || !Array.isArray(session.todo) || !Array.isArray(session.done) || this.now() - session.started > LASTS_MS) return null;
    return without(session, (card) => !this.catalogue.byId.has(card));
  }
}

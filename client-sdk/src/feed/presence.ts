// Who is in the workspace. This browser says that somebody is here when something happens, not on a
// beat, and asks who else is when that may have changed and matters.
import { jsonOf } from "../api/api.ts";
import type { Api } from "../api/api.ts";
import * as operations from "../api/operations.ts";
import type { Change, PresenceList } from "../api/types.ts";
import { isReturn } from "../browser.ts";
import type { PageEnvironment } from "../browser.ts";
import { Emitter } from "../emitter.ts";
import { Timer } from "../timer.ts";

export type PresenceState = Readonly<Record<string, unknown>>;
export type PresenceEvents = { change: PresenceList };

/** How long a row counts, in seconds: the longest that the API takes, so that an idle reader renews it seldom. */
const TTL_S = 300;
/** A row is renewed when so much of its life is over: by whatever happens then, or by the tick of a page that is looked at. */
const RENEW_MS = 240_000;
/** What is known is good for so long: after a look at the page, after a sign of somebody new, and after what is no news. */
const FOCUS_FRESH_MS = 5_000;
const NEWCOMER_FRESH_MS = 2_000;
const NO_NEWS_FRESH_MS = 60_000;

export interface PresenceOptions {
  readonly api: Api;
  readonly environment: PageEnvironment;
  /** The name of this browser's row. */
  readonly session: string;
  /** Who this is: changes of one's own say nothing about others. */
  readonly account: () => string | null;
}

export class Presence extends Emitter<PresenceEvents> {
  readonly #options: PresenceOptions;
  #list: PresenceList | null = null;
  #state: PresenceState | null = null;
  /** The state that the API knows, as JSON, and when it heard of it. */
  #said: { readonly json: string; readonly at: number } | null = null;
  #answeredAt = -Infinity;
  #asking: Promise<void> | null = null;
  /** Who writes here and was not in the list: agents that do not show themselves. */
  #strangers = new Set<string>();
  #isActive = false;
  #unwatch = () => {};
  readonly #renewal: Timer;
  /** Asks when what is known is not fresh any more: at that time. */
  readonly #later: Timer;
  #laterAt = Infinity;

  constructor(options: PresenceOptions) {
    super();
    this.#options = options;
    this.#renewal = new Timer(options.environment);
    this.#later = new Timer(options.environment);
  }

  /** The name of this browser's row. */
  get session(): string {
    return this.#options.session;
  }

  /** Who is here, as it was last heard. */
  get list(): PresenceList | null {
    return this.#list;
  }

  /** Humans other than this one; `null` when not known. */
  get otherHumans(): number | null {
    return this.#list?.otherHumans ?? null;
  }

  /** This tab is the one that speaks for the browser. */
  start(): void {
    if (this.#isActive) return;
    this.#isActive = true;
    this.#unwatch = this.#options.environment.watch((change) => {
      if (isReturn(change)) this.#refresh(FOCUS_FRESH_MS);
      else this.#rest();
    });
    if (this.#state !== null) this.#refresh(0);
  }

  /** Another tab speaks from now on. The row stays. */
  stop(): void {
    this.#isActive = false;
    this.#unwatch();
    this.#rest();
  }

  /** Says that this browser is here, and what it does: at most 1 KiB of JSON. `null`: nothing any more. */
  show(state: PresenceState | null): void {
    const hasChanged = JSON.stringify(state) !== JSON.stringify(this.#state);
    this.#state = state;
    if (!this.#isActive) return;
    if (state === null) this.#leave();
    else if (hasChanged) this.#refresh(0);
  }

  /** Asks who is here now. */
  async refresh(): Promise<PresenceList | null> {
    await this.#asking;
    await this.#ask();
    return this.#list;
  }

  /** A change of the workspace: somebody did something, and may be somebody new. */
  handleChange({ actor }: Change): void {
    const known = this.#list?.presence.find(({ sub }) => sub === actor);
    // Agents write all the time, and make no company.
    if (known !== undefined && known.kind !== "human") return;
    // A relay speaks for people.
    const isNews = actor.startsWith("relay:") ? (this.otherHumans ?? 0) === 0 : known === undefined && actor !== this.#options.account() && !this.#strangers.has(actor);
    if (isNews && !actor.startsWith("relay:")) this.#strangers.add(actor);
    this.#refresh(isNews ? NEWCOMER_FRESH_MS : NO_NEWS_FRESH_MS);
  }

  /** The last tab closes. */
  close(): void {
    if (this.#isActive) this.#leave();
    this.stop();
  }

  #leave(): void {
    if (this.#said === null) return;
    this.#said = null;
    const { api, session } = this.#options;
    void api.attempt(operations.deletePresence, { query: { session }, keepalive: true });
  }

  /** Asks unless the answer is newer than that. A hidden page does not care until it is shown. */
  #refresh(freshMs: number): void {
    const { environment } = this.#options;
    if (!this.#isActive || environment.isHidden()) return;
    const now = environment.now();
    // A clock that was set back makes nothing fresh.
    const age = now - this.#answeredAt;
    if (age >= 0 && age < freshMs && !this.#isDue(now)) return this.#refreshAt(this.#answeredAt + freshMs);
    void this.#ask();
  }

  #refreshAt(at: number): void {
    if (this.#laterAt <= at) return;
    this.#laterAt = at;
    this.#later.set(at - this.#options.environment.now(), () => this.#refresh(0));
  }

  #rest(): void {
    this.#renewal.clear();
    this.#forgetLater();
  }

  #forgetLater(): void {
    this.#later.clear();
    this.#laterAt = Infinity;
  }

  #isDue(now: number): boolean {
    return this.#state !== null && (this.#said === null || Math.abs(now - this.#said.at) >= RENEW_MS);
  }

  /** One request at a time; what is to be said changed meanwhile, so it is said after it. */
  #ask(): Promise<void> {
    this.#forgetLater();
    this.#asking ??= this.#exchange().finally(() => {
      this.#asking = null;
      if (this.#isActive && this.#state !== null && this.#said !== null && JSON.stringify(this.#state) !== this.#said.json) void this.#ask();
    });
    return this.#asking;
  }

  async #exchange(): Promise<void> {
    const { api, environment, session } = this.#options;
    const [now, json] = [environment.now(), JSON.stringify(this.#state)];
    const says = this.#state !== null && this.#isActive && (this.#isDue(now) || this.#said?.json !== json);
    const body = JSON.stringify({ session, ttl: TTL_S, state: this.#state ?? {} });
    const list = () => api.attempt(operations.listPresence, { query: { session } });
    let answer = says ? await api.attempt(operations.putPresence, { body }) : await list();
    const isSaid = says && !("error" in answer);
    // Who may not be seen, or has too many tabs, may still see others.
    if (says && "error" in answer && !answer.passes) answer = await list();
    // What is not known now is asked at the next event.
    if ("error" in answer) return;
    if (isSaid && this.#state !== null) this.#said = { json, at: now };
    this.#answeredAt = environment.now();
    this.#list = jsonOf<PresenceList>(answer);
    this.#tick();
    this.emit("change", this.#list);
  }

  /** Who reads for minutes without a sign of life is still here, as long as the page is looked at. */
  #tick(): void {
    const { environment } = this.#options;
    this.#renewal.clear();
    if (!this.#isActive || this.#state === null || environment.isHidden()) return;
    this.#renewal.set(RENEW_MS, () => this.#refresh(0));
  }
}

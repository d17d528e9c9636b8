// A tab among the others of its account, from when it joins them until it leaves: who leads, what it asks the leader,
// and who is alive.
import type { PageEnvironment } from "../browser.ts";
import { TabChannel } from "./channel.ts";
import { LeaderCalls } from "./follower.ts";
import type { Handler } from "./follower.ts";
import { Election } from "./leader.ts";
import { TabLife } from "./tab-life.ts";

export class TabCompany {
  readonly channel: TabChannel;
  readonly election: Election;
  readonly calls: LeaderCalls;
  readonly life: TabLife;

  /** `name` is that of the account in its workspace; `serve` does what tabs ask the leader for. */
  constructor(environment: PageEnvironment, tab: string, name: string, serve: Handler) {
    this.channel = new TabChannel({ openChannel: environment.openChannel, uuid: () => tab }, name);
    this.election = new Election(environment, this.channel, name);
    this.calls = new LeaderCalls(environment, this.channel, this.election, serve);
    this.life = new TabLife(environment, name);
    this.life.live(tab);
  }

  /** Calls that are not answered reject with the reason. Another tab leads, if there is one. */
  leave(reason: unknown): void {
    this.election.close();
    this.calls.close(reason);
    this.life.close();
    this.channel.close();
  }
}

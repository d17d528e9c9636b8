// A tab among the others of its account, from when it joins them until it leaves: who leads, what it asks the leader,
// and who is alive.
import type { PageEnvironment } from "../browser.ts";
import { TabChannel } from "./channel.ts";
import { LeaderCalls } from "./follower.ts";
import type { Handler } from "./follower.ts";
import { Election } from "./leader.ts";
import { TabLife } from "./tab-life.ts";
import type { Role } from "./types.ts";

export interface CompanyEvents {
  role(role: Role): void;
  /** Another tab leads from now on. */
  leader(leader: string): void;
  /** Another tab tells something. */
  heard(topic: string, payload: unknown, from: string): void;
  /** A tab asks for something that the leader does. */
  readonly serve: Handler;
}

export class TabCompany {
  readonly channel: TabChannel;
  readonly election: Election;
  readonly calls: LeaderCalls;
  readonly life: TabLife;

  /** `name` is that of the account in its workspace. */
  constructor(environment: PageEnvironment, tab: string, name: string, events: CompanyEvents) {
    this.channel = new TabChannel({ openChannel: environment.openChannel, uuid: () => tab }, name);
    this.election = new Election(environment, this.channel, name);
    this.calls = new LeaderCalls({ environment, channel: this.channel, election: this.election }, events.serve);
    this.life = new TabLife(environment, name);
    this.channel.on("message", (message) => message.kind === "tell" && events.heard(message.topic, message.payload, message.from));
    this.election.on("role", (role) => events.role(role));
    this.election.on("leader", (leader) => events.leader(leader));
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

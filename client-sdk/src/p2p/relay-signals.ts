// Signaling over a relay: text frames on the workspace channel. A connection that has sent no binary gets
// none, so no update of a document is on it (W1).
import type { Environment } from "../browser.ts";
import { parseObject } from "../json.ts";
import type { Relay } from "../relay-list.ts";
import { RelaySocket } from "../relay-socket.ts";
import type { Channel, Receiver, RelaySocketOptions } from "../relay-socket.ts";

/** All peers of a workspace are on one topic, which belongs to its room. */
export const TOPIC = "yrelay peers";

export interface RelaySignalsOptions extends Pick<RelaySocketOptions, "getToken" | "pin" | "times"> {
  readonly environment: Environment;
  readonly workspace: string;
  readonly relays: readonly Relay[];
}

export interface RelaySignalsEvents {
  /** It can be said who is here. */
  joined(): void;
  heard(data: unknown): void;
}

export class RelaySignals {
  readonly #socket: RelaySocket;
  readonly #events: RelaySignalsEvents;
  #active: Channel | null = null;

  constructor({ workspace, ...options }: RelaySignalsOptions, events: RelaySignalsEvents) {
    this.#events = events;
    this.#socket = new RelaySocket({ ...options, address: () => `/${encodeURIComponent(workspace)}`, attach: (channel, isProbe) => this.#attach(channel, isProbe) });
  }

  open(): void {
    this.#socket.connect();
  }

  close(): void {
    this.#socket.disconnect();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  /** False without a relay. */
  send(data: string): boolean {
    this.#active?.say({ type: "publish", topic: TOPIC, data });
    return this.#active !== null;
  }

  #attach(channel: Channel, isProbe: boolean): Receiver {
    channel.say({ type: "subscribe", topics: [TOPIC] });
    // Whoever publishes hears it too: so the relay is known to work.
    channel.say({ type: "publish", topic: TOPIC });
    if (!isProbe) this.#active = channel;
    let isJoined = false;
    const join = () => {
      if (channel === this.#active) this.#events.joined();
    };
    return {
      handleFrame: () => {},
      handleText: (text) => {
        const message = publishedIn(text);
        if (message === null) return;
        if (!isJoined) {
          isJoined = true;
          channel.synced();
          join();
        }
        if (message["data"] !== undefined) this.#events.heard(message["data"]);
      },
      handleAdopt: () => {
        this.#active = channel;
        if (isJoined) join();
      },
      handleEnd: () => {
        if (channel === this.#active) this.#active = null;
      },
    };
  }
}

function publishedIn(text: string): Readonly<Record<string, unknown>> | null {
  const message = parseObject(text);
  return message?.["type"] === "publish" && message["topic"] === TOPIC ? message : null;
}

// A person with one document over relays: the provider, and what it told.
import * as Y from "yjs";
import type { RelayTimes } from "../src/relay-socket.ts";
import type { TelemetryEvent } from "../src/relay-walker.ts";
import { SyncProvider } from "../src/sync-provider.ts";
import type { SyncProviderOptions, SyncStatus } from "../src/sync-provider.ts";
import { fastEnvironment } from "./environment.ts";
import type { TestEnvironment } from "./environment.ts";
import type { MiniRelay } from "./mini-relay.ts";
import { cleanups } from "./walker-client.ts";

export interface Person {
  provider: SyncProvider;
  doc: Y.Doc;
  environment: TestEnvironment;
  statuses: SyncStatus[];
  closes: number[];
  telemetry: TelemetryEvent[];
  write(text: string): void;
  text(): string;
}

export function person(relays: readonly MiniRelay[], options: Partial<SyncProviderOptions> & { times?: Partial<RelayTimes> } = {}): Person {
  const environment = fastEnvironment();
  const doc = options.doc ?? new Y.Doc();
  const telemetry: TelemetryEvent[] = [];
  const provider = new SyncProvider({
    doc,
    workspace: "w",
    document: "d",
    relays: relays.map(({ entry }) => entry),
    environment,
    onTelemetry: (event) => telemetry.push(event),
    ...options,
  });
  cleanups.push(() => provider.destroy());
  const statuses: SyncStatus[] = [];
  const closes: number[] = [];
  provider.on("status", (status) => statuses.push(status));
  provider.on("close", ({ code }) => closes.push(code));
  const content = doc.getText("t");
  return { provider, doc, environment, statuses, closes, telemetry, write: (text) => content.insert(content.length, text), text: () => content.toString() };
}

export const isSynced = (one: Person, label?: string) => () => one.provider.status.connection === "synced" && (label === undefined || one.provider.status.label === label);
export const isSaved = (one: Person) => () => one.provider.status.save === "saved";

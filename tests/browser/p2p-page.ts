// What the pages of p2p.test.mjs and back-forward-cache.test.mjs run: the SDK in a browser, with a switch for its WebRTC.
import { browserEnvironment } from "../../client-sdk/src/browser.ts";
import { WorkspaceClient } from "../../client-sdk/src/index.ts";
import { webRtc } from "../../client-sdk/src/p2p.ts";
import { SyncSession } from "../../client-sdk/src/sync-session.ts";
import type { SharedDocument, WorkspaceClientOptions } from "../../client-sdk/src/index.ts";

interface Start extends Pick<WorkspaceClientOptions, "api" | "relays" | "workspace"> {
  readonly p2p: boolean;
  readonly apiToken: string;
  readonly path: string;
  /** False: only through a TURN server, of which there is none, as in a network that lets no UDP through. */
  readonly hasRoute?: boolean;
}

let client: WorkspaceClient;
let document: SharedDocument;
let isBlocked = false;
let peerUpdates = 0;
const connections: RTCPeerConnection[] = [];

const page = {
  start({ apiToken, p2p, path, hasRoute = true, ...options }: Start): void {
    const real = browserEnvironment();
    const environment = {
      ...real,
      connectPeer(configuration: RTCConfiguration) {
        if (isBlocked) throw new Error("no WebRTC");
        const connection = new RTCPeerConnection({ ...configuration, iceTransportPolicy: hasRoute ? "all" : "relay" });
        connections.push(connection);
        return connection as unknown as ReturnType<typeof real.connectPeer>;
      },
    };
    client = new WorkspaceClient({ ...options, ...(p2p && { p2p: webRtc() }), token: () => apiToken, environment });
    document = client.openDoc(path);
    document.doc.on("update", (_update, origin) => {
      if (origin instanceof SyncSession && document.status.connection === "peer") peerUpdates += 1;
    });
  },
  status: () => document.status,
  text: () => document.doc.getText("t").toString(),
  insert: (at: number, text: string) => document.doc.getText("t").insert(at, text),
  show: (name: string) => document.awareness.setLocalStateField("name", name),
  names: () => [...document.awareness.getStates().values()].map((state) => state["name"]).sort(),
  /** How many others are here; `null` before this person has said so themselves. */
  others: () => client.presence.otherHumans,
  /** Updates of the document that came by a direct connection. */
  peerUpdates: () => peerUpdates,
  /** What the direct connections sent, with all that their protocols add: a TURN server would forward it. */
  async peerBytes(): Promise<number> {
    let bytes = 0;
    for (const connection of connections) {
      if (connection.connectionState !== "connected") continue;
      for (const report of (await connection.getStats()).values()) if (report.type === "transport") bytes += report.bytesSent;
    }
    return bytes;
  },
  look: () => client.presence.refresh(),
  flush: () => document.flush(),
  /** Ends the direct connections; no others can be made until `unblock`. */
  block(): void {
    isBlocked = true;
    for (const connection of connections) connection.close();
    // The side that closes is told nothing by the platform, unlike one whose network fails.
    for (const connection of connections) connection.onconnectionstatechange?.(new Event("connectionstatechange"));
  },
  unblock(): void {
    isBlocked = false;
  },
  close: () => client.close(),
};

Object.assign(globalThis, { page });

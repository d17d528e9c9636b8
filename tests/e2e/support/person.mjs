// A person with the client SDK on the document `d`, whose tokens a test signs itself: they come also
// while the API is away.
import * as Y from "yjs";
import { SyncProvider } from "../../../client-sdk/src/index.ts";
import { scopeClaims, signScopeToken } from "./tokens.mjs";

/** How long a token lives unless a test says otherwise, in ms. */
const TOKEN_MS = 600_000;

/**
 * Connects to a list of relays. `seed` is the Worker's key for scope tokens, `tokenMs` how long a
 * token lives; everything else is for the provider.
 */
export function person({ seed, workspace, sub, doc = new Y.Doc(), tokenMs = TOKEN_MS, ...options }) {
  const it = { sub, doc, closes: [], telemetry: [], tokens: 0 };
  const getToken = async () => {
    const exp = Math.floor((Date.now() + tokenMs) / 1000);
    it.tokens += 1;
    return { token: signScopeToken(seed, scopeClaims(workspace, { sub, exp })), expiresAt: exp * 1000 };
  };
  it.provider = new SyncProvider({ doc, workspace, document: "d", getToken, onTelemetry: (event) => it.telemetry.push(event), ...options });
  it.provider.on("close", ({ code }) => it.closes.push(code));
  it.text = () => doc.getText("t").toString();
  it.type = (text) => doc.getText("t").insert(doc.getText("t").length, text);
  it.synced = () => it.provider.status.connection === "synced";
  it.on = (label) => ["connected", "synced"].includes(it.provider.status.connection) && it.provider.status.label === label;
  it.advances = () => it.telemetry.filter(({ name }) => name === "relay_advance").map(({ fromLabel, toLabel, trigger }) => `${fromLabel} ${toLabel} ${trigger}`);
  it.stop = () => it.provider.destroy();
  return it;
}

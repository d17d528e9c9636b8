// The stock y-websocket provider on a yrelay document: a fresh scope token whenever one is needed,
// and receipts (W8) over text frames of the same connection.
import { WebsocketProvider } from "y-websocket";

/** How long after the last edit a receipt is asked for, in ms. */
const QUIET = 700;
/** How long until a receipt that failed is asked for again, in ms. */
const AGAIN = 2000;

/**
 * Connects `doc`. `fetchToken` returns a new relay token; `onStatus(state, text)` is told
 * `connecting`, `synced`, `saved` or `failed`.
 */
export function connect({ relayUrl, room, doc, fetchToken, onStatus }) {
  let asked = 0;
  let timer;
  const onText = (text) => {
    const message = JSON.parse(text);
    if (message.id !== asked) return;
    if (message.type === "receipt") onStatus("saved", message.clock ? `saved at clock ${message.clock}` : "saved");
    if (message.type === "flush_failed") {
      onStatus("failed", `not saved yet: ${message.reason}`);
      askLater(AGAIN);
    }
  };
  // The provider reads every frame as binary, so text frames are taken out before it sees them.
  class RelaySocket extends WebSocket {
    get onmessage() {
      return super.onmessage;
    }
    set onmessage(handler) {
      super.onmessage = handler && ((event) => (typeof event.data === "string" ? onText(event.data) : handler(event)));
    }
  }
  const provider = new WebsocketProvider(relayUrl, room, doc, {
    WebSocketPolyfill: RelaySocket,
    connect: false,
    // Two tabs of one browser would talk to each other; here they shall use the relay.
    disableBc: true,
  });
  const refresh = async () => {
    provider.params.token = await fetchToken();
  };
  const ask = () => {
    if (!provider.synced) return;
    asked += 1;
    provider.ws.send(JSON.stringify({ type: "flush", id: asked }));
  };
  const askLater = (delay) => {
    clearTimeout(timer);
    timer = setTimeout(ask, delay);
  };
  provider.on("status", ({ status }) => {
    if (status !== "connected") onStatus("connecting", status === "connecting" ? "connecting" : "connection lost, trying again");
  });
  provider.on("sync", (synced) => {
    if (!synced) return;
    onStatus("synced", "synced");
    askLater(QUIET);
  });
  doc.on("update", (_update, origin) => {
    if (origin === provider || !provider.synced) return;
    onStatus("synced", "sent, not saved yet");
    askLater(QUIET);
  });
  // An upgrade with an old token is refused, which a browser reports as 1006 like any failure.
  provider.on("connection-close", () => void refresh().catch(() => {}));
  // The provider stops for good on 4400 to 4499. Of these only 4401 is cured by a new token.
  provider.on("closed", ({ code, reason }) => {
    if (code === 4401) start();
    else onStatus("failed", `closed with ${code}: ${reason}`);
  });
  const start = () =>
    refresh()
      .then(() => provider.connect())
      .catch(() => setTimeout(start, AGAIN));
  start();
  return provider;
}

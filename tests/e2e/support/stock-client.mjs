// The stock y-websocket provider, as an application uses it.
import { WebsocketProvider as WebsocketProvider14 } from "@y/websocket";
import { Doc as Doc14 } from "@y/y";
import WebSocket from "ws";
import { WebsocketProvider } from "y-websocket";
import { Doc } from "yjs";
import { PATIENCE, until } from "./waiting.mjs";

/** What a client is made of: Yjs 13, which is the default, and the next major version. */
export const YJS_13 = { Doc, WebsocketProvider };
export const YJS_14 = { Doc: Doc14, WebsocketProvider: WebsocketProvider14 };

/**
 * Connects the stock provider to a document, at the relay or at `url`, and waits until it is synced,
 * unless `patient` is false: a relay without storage tells nobody that (D4). `connects` counts the
 * sockets that it opened, `texts` holds every text frame it was sent.
 */
export async function stockClient(
  workspace,
  { document = "d", role, sub, library = YJS_13, doc = new library.Doc(), url = workspace.relay.url, patient = true } = {},
) {
  const token = await workspace.scope({ role, sub });
  const client = { doc, connects: 0, texts: [], closes: [] };
  class Counted extends WebSocket {
    constructor(...args) {
      super(...args);
      client.connects += 1;
      this.on("message", (data, isBinary) => isBinary || client.texts.push(String(data)));
      this.on("close", (code) => client.closes.push(code));
    }
  }
  client.provider = new library.WebsocketProvider(url, `${workspace.id}/${document}`, doc, {
    params: { token },
    WebSocketPolyfill: Counted,
    disableBc: true,
  });
  client.awareness = client.provider.awareness;
  client.destroy = () => {
    client.provider.destroy();
    doc.destroy();
  };
  workspace.relay.opened({ stop: client.destroy });
  if (!patient) return client;
  try {
    await until(() => client.provider.synced, "a stock client is synced", PATIENCE);
  } catch (error) {
    client.destroy();
    throw error;
  }
  return client;
}

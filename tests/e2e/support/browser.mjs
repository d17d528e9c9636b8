// The pages of a person's browser, without the browser: the SDK's client with a database in memory, and with tabs
// that have locks and channels. Everything over the network is real.
import { IDBFactory } from "fake-indexeddb";
import { browserEnvironment } from "../../../client-sdk/src/browser.ts";
import { WorkspaceClient } from "../../../client-sdk/src/index.ts";
import { FakeBrowser } from "../../../client-sdk/src/testing.ts";

/** A person's browser: what it stores survives its pages, and they know of each other. Its sockets are counted. */
export function browser(relay, workspace, sub) {
  const storage = new IDBFactory();
  const tabs = new FakeBrowser();
  const it = { sockets: 0 };
  const real = browserEnvironment();
  /** A page, with further options of its client; `die` ends it as a crash does: its sockets close, its locks go, and none of its calls gets through. */
  it.page = ({ url = relay.url, ...options } = {}) => {
    const dead = new AbortController();
    const tab = tabs.tab();
    class Socket extends real.WebSocket {
      constructor(...args) {
        super(...args);
        it.sockets += 1;
        dead.signal.addEventListener("abort", () => this.close());
      }
    }
    const environment = {
      ...real,
      WebSocket: Socket,
      fetch: (url, init) => real.fetch(url, { ...init, signal: AbortSignal.any([dead.signal, ...(init.signal ? [init.signal] : [])]) }),
      setTimeout: (run, ms) => real.setTimeout(() => tab.isFrozen || run(), ms),
      locks: () => tab.locks,
      openChannel: (name) => tab.openChannel(name),
      indexedDB: () => storage,
      warn: () => {},
    };
    const client = new WorkspaceClient({
      api: relay.api,
      workspace: workspace.id,
      relays: [{ label: relay.label, url }],
      token: () => workspace.apiToken({ sub, role: "editor" }),
      environment,
      ...options,
    });
    const die = () => {
      tab.crash();
      dead.abort();
    };
    return relay.opened({ client, die, stop: () => client.close() });
  };
  return it;
}

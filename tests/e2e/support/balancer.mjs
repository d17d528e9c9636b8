// A TCP balancer in front of several relays at one address, as any would do it: a new connection goes to the
// member that says to be ready and has the fewest. It looks into nothing.
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { reset } from "./reset.mjs";

/** Between two looks at whether a member is ready, in ms. */
const PROBE_EVERY = 150;
/** How long a member may take to say so, in ms: one that hangs is not ready. */
const PROBE_LIMIT = 5_000;

/** One relay behind the balancer: its open connections, and whether it may get more. */
class Member {
  isReady = false;
  isOver = false;
  lines = new Set();

  constructor(http) {
    this.http = http;
    this.watching = this.#watch();
  }

  async #watch() {
    while (!this.isOver) {
      const answer = await fetch(`${this.http}/readyz`, { signal: AbortSignal.timeout(PROBE_LIMIT) }).catch(() => undefined);
      await answer?.arrayBuffer().catch(() => {});
      this.isReady = !this.isOver && answer?.status === 200;
      await sleep(PROBE_EVERY);
    }
  }
}

/** One connection: both ends. */
function join(near, member) {
  const { hostname, port } = new URL(member.http);
  const far = connect(Number(port), hostname);
  const line = { near, far };
  member.lines.add(line);
  for (const [from, to] of [[near, far], [far, near]]) {
    from.setNoDelay(true);
    // An error at one end ends the other: it is followed by a close.
    from.on("error", () => {}).on("close", () => to.destroy());
    from.pipe(to);
  }
  far.on("close", () => member.lines.delete(line));
}

/** Starts a balancer without members; `url` is its address, `unserved` how many came while nobody was ready. */
export async function startBalancer() {
  const members = new Map();
  const sockets = new Set();
  const fewest = () => [...members.values()].filter(({ isReady }) => isReady).sort((a, b) => a.lines.size - b.lines.size)[0];
  const balancer = { unserved: 0 };
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).on("close", () => sockets.delete(socket));
    const member = fewest();
    if (member) return join(socket, member);
    balancer.unserved += 1;
    return reset(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const counted = (count) => Object.fromEntries([...members].map(([name, member]) => [name, count(member)]));
  return Object.assign(balancer, {
    url: `http://127.0.0.1:${server.address().port}`,
    add: (name, http) => void members.set(name, new Member(http)),
    /** A member that is gone, or gets nothing more; its connections stay. */
    remove: async (name) => {
      const member = members.get(name);
      members.delete(name);
      member.isOver = true;
      await member.watching;
    },
    /** The names of those who get connections. */
    ready: () => [...members].filter(([, { isReady }]) => isReady).map(([name]) => name),
    /** Open connections of each member. */
    open: () => counted(({ lines }) => lines.size),
    /** Breaks what a member has past its equal share, so that it comes back and is spread. Answers how many. */
    level: () => {
      const share = Math.ceil([...members.values()].reduce((sum, { lines }) => sum + lines.size, 0) / members.size);
      let cut = 0;
      for (const { lines } of members.values()) {
        for (const line of [...lines].slice(share)) {
          lines.delete(line);
          [line.near, line.far].forEach(reset);
          cut += 1;
        }
      }
      return cut;
    },
    stop: async () => {
      for (const socket of sockets) reset(socket);
      for (const member of members.values()) member.isOver = true;
      server.close();
      await Promise.all([once(server, "close"), ...[...members.values()].map(({ watching }) => watching)]);
    },
  });
}

// The first frame after hibernation: forwarded, and without asking the database.

import { closeSocket, openSocket, sleep, until } from "./client.mjs";
import { FrameReader, STEP1, awarenessFrame, updateFrames } from "./frames.mjs";

/**
 * Two clients, an idle time past the runtime's 10 s, one update. A warm control with a
 * short pause shows that the instance hook tells the two apart.
 */
export async function wake(bench) {
  const { tested, floor, database } = await bench.openBoth();
  await bench.rounds(async (round) => {
    const [warm, cold] = [[], []];
    for (const side of [tested, floor]) warm.push(await once(side, database, `wake-warm-${round}`, WARM_MS));
    for (const found of await Promise.all([tested, floor].map((side) => once(side, database, `wake-${round}`, IDLE_MS)))) cold.push(found);
    bench.record("wake: frame after hibernation", { unit: "ms", tested: cold[0].latency, floor: cold[1].latency, details: cold[0].statements });
    bench.record("wake: frame without", { unit: "ms", tested: warm[0].latency, floor: warm[1].latency });
    check(bench, tested.name, warm[0], cold[0]);
    check(bench, floor.name, warm[1], cold[1]);
  });
}

function check(bench, name, warm, cold) {
  bench.check(`wake: ${name} reads nothing from D1`, cold.statements.length === 0, cold.statements.join(" | ") || "no statement");
  if (cold.rebuilt === undefined) return bench.note(`wake: ${name} has no instance hook, so that it hibernated is not shown`);
  bench.check(`wake: ${name} was constructed again`, cold.rebuilt && !warm.rebuilt, `after idling ${cold.rebuilt}, warm ${warm.rebuilt}`);
}

async function once(side, database, document, idle) {
  const reader = new FrameReader();
  let arrived;
  const receive = (data) => {
    for (const message of reader.read(data)) if (message.kind === "update") arrived ??= performance.now();
  };
  const sockets = [await openSocket(await side.socketUrl(document, 1), () => {}), await openSocket(await side.socketUrl(document, 2), receive)];
  try {
    sockets.forEach((socket, i) => {
      socket.send(STEP1);
      socket.send(awarenessFrame(1000 + i, 1, { user: { name: `client ${i}` } }));
    });
    await sleep(1000);
    const instance = await side.instance();
    await sleep(idle);
    const before = await database.counts();
    const start = performance.now();
    sockets[0].send(updateFrames(1000, 1)[0]);
    if (!(await until(() => arrived !== undefined, 10_000))) throw new Error(`${side.name}: the frame did not arrive`);
    const statements = newStatements(before, await database.counts(), side);
    const after = await side.instance();
    return { latency: arrived - start, statements, rebuilt: instance === undefined ? undefined : after !== instance };
  } finally {
    for (const socket of sockets) closeSocket(socket);
  }
}

function newStatements(before, after, side) {
  const added = after.total - before.total;
  const statements = added === 0 ? [] : after.statements.slice(-added);
  return statements.filter((statement) => statement.startsWith(`${side.name}:`));
}

const IDLE_MS = 13_000;
const WARM_MS = 500;

// From the REST answer to the SSE event, with a live room, against the bare D1 batch.

import { closeSocket, openSocket, sleep, until } from "./client.mjs";
import { STEP1, awarenessFrame } from "./frames.mjs";
import { median } from "./report.mjs";

/** `WRITES` records a round. The floor's figure is its whole round trip: batch alone. */
export async function feed(bench) {
  const { tested, floor } = await bench.openBoth();
  const watch = tested.changes === undefined ? undefined : await watchChanges(tested);
  try {
    for (const side of [tested, floor]) await writes(side, "warm", 10);
    await bench.rounds(async (round, order) => {
      const found = {};
      for (const side of order(tested, floor)) found[side.name] = await writes(side, `feed-${round}`, WRITES, side === tested ? watch : undefined);
      const { answer, event, whole } = found[tested.name];
      const batch = found[floor.name].answer;
      bench.record("feed: REST answer to event", { unit: "ms", tested: event ?? answer, floor: batch, limit: 2 });
      bench.record("feed: REST request to event", { unit: "ms", tested: whole ?? answer, floor: batch });
      bench.record("feed: REST round trip", { unit: "ms", tested: answer, floor: batch });
    });
  } finally {
    watch?.stop();
  }
}

async function writes(side, prefix, count, watch) {
  const answers = [];
  const events = [];
  const wholes = [];
  for (let n = 0; n < count; n += 1) {
    const path = `${prefix}/${n}`;
    const start = performance.now();
    await side.write(path, { n });
    const answered = performance.now();
    answers.push(answered - start);
    if (watch !== undefined) {
      if (!(await until(() => watch.seen.has(path), 10_000))) throw new Error(`${side.name}: no event for ${path} in 10 s`);
      events.push(watch.seen.get(path) - answered);
      wholes.push(watch.seen.get(path) - start);
    }
    await sleep(20);
  }
  if (watch === undefined) return { answer: median(answers) };
  return { answer: median(answers), event: median(events), whole: median(wholes) };
}

/** A person in the room and a reader of the stream; `seen` maps a path to its event's time. */
async function watchChanges(side) {
  const person = await openSocket(await side.socketUrl("feed-document"), () => {});
  person.send(STEP1);
  person.send(awarenessFrame(7, 1, { user: { name: "reader" } }));
  const abort = new AbortController();
  const answer = await side.changes(abort.signal);
  const seen = new Map();
  const done = readEvents(answer.body, seen).catch((error) => {
    if (!abort.signal.aborted) throw error;
  });
  const stop = () => {
    abort.abort();
    closeSocket(person);
    return done;
  };
  await sleep(500);
  return { seen, stop };
}

async function readEvents(body, seen) {
  let text = "";
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    const at = performance.now();
    const blocks = (text + chunk).split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      if (!/^event: change$/m.test(block)) continue;
      const { path } = JSON.parse(/^data: (.*)$/m.exec(block)[1]);
      if (!seen.has(path)) seen.set(path, at);
    }
  }
}

const WRITES = 50;

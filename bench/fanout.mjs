// CPU per delivery: rooms of four, one hot room, and small against large documents.

import { buildFrames, runLoad } from "./load.mjs";
import { seedDocument } from "./seed.mjs";

/** 100 clients in 25 documents at one pair of frames per second, and denser. */
export async function fanout(bench) {
  for (const rate of [1, DENSE]) {
    const plan = { clients: 100, documents: 25, rate, seconds: bench.seconds };
    await compare(bench, `fanout ${rate}/s`, plan, rate === DENSE ? 1.25 : undefined);
  }
}

/**
 * The same 100 clients in one document: 99 deliveries per frame. The slower rate shows
 * the cost where the faster one fills a core of the floor.
 */
export async function hot(bench) {
  for (const rate of [0.5, 1]) {
    const plan = { clients: 100, documents: 1, rate, seconds: bench.seconds };
    await compare(bench, `hot ${rate}/s`, plan, rate === 1 ? 0.75 : undefined);
  }
}

/**
 * Four clients on a document of 10 MB against four on one of 1 KB, both on the side
 * under test: W3 says that live forwarding never looks into the document.
 */
export async function size(bench) {
  const plan = { clients: 4, documents: 1, rate: 25, seconds: bench.seconds * 2 };
  const frames = buildFrames(plan);
  const kinds = { small: seedDocument(1000), large: seedDocument(10_000_000) };
  const side = await bench.openTested();
  await runLoad(side, WARM_UP, buildFrames(WARM_UP), "size-warm");
  await bench.rounds(async (round, order) => {
    const found = {};
    for (const kind of order("large", "small")) {
      const prefix = `size-${kind}-${round}`;
      await side.seed(`${prefix}-0`, kinds[kind]);
      found[kind] = accept(`${side.name} ${kind}`, await runLoad(side, plan, frames, prefix));
      const { step2Bytes } = found[kind];
      if (side.answersStep1 && step2Bytes < kinds[kind].whole.length * 0.7) {
        throw new Error(`${side.name}: the ${kind} document came back with ${step2Bytes} bytes`);
      }
    }
    record(bench, "size 10 MB : 1 KB", found.large, found.small, 1.2);
  });
}

async function compare(bench, label, plan, limit) {
  await compareFanout(bench, label, plan, limit, await bench.openBoth());
}

/** Rounds of one plan on two sides. */
export async function compareFanout(bench, label, plan, limit, { tested, floor }, warmth = { seconds: 3 }) {
  const frames = buildFrames(plan);
  const warmUp = { ...plan, ...warmth };
  // The first seconds compile; they belong to no round.
  for (const side of [tested, floor]) await runLoad(side, warmUp, buildFrames(warmUp), `warm-${plan.rate}`);
  await bench.rounds(async (round, order) => {
    const found = {};
    for (const side of order(tested, floor)) {
      const prefix = `${label.replace(/\W/g, "-")}-${round}`;
      found[side.name] = accept(`${side.name} ${label}`, await runLoad(side, plan, frames, prefix));
    }
    record(bench, label, found[tested.name], found[floor.name], limit);
  });
}

/** A round with a lost, doubled or misdirected update proves nothing but a defect. */
function accept(what, result) {
  const bad = ["lost", "duplicates", "foreign", "staleStates"].filter((key) => result[key] > 0);
  const faults = [...bad.map((key) => `${key} ${result[key]} of ${result.expected}`), ...result.closed];
  if (faults.length > 0) throw new Error(`${what}: ${faults.slice(0, 5).join("; ")}`);
  return result;
}

function record(bench, label, tested, floor, limit) {
  const all = (side) => (side.cpu * 1000) / (side.updates + side.states + side.echoedStates);
  const others = (side) => (side.cpu * 1000) / (side.updates + side.states);
  bench.record(`${label}: CPU per delivery`, { unit: "µs", tested: all(tested), floor: all(floor), limit, details: { tested, floor } });
  bench.record(`${label}: same, echoes not counted`, { unit: "µs", tested: others(tested), floor: others(floor) });
  bench.record(`${label}: median latency`, { unit: "ms", tested: tested.latency.median, floor: floor.latency.median });
  bench.record(`${label}: share of a core`, { unit: "", tested: tested.busy, floor: floor.busy });
  bench.record(`${label}: frames received`, { unit: "", tested: tested.frames, floor: floor.frames });
}

const WARM_UP = { clients: 4, documents: 1, rate: 25, seconds: 3 };
/** Enough CPU to measure, and far from a full core: a full one batches and hides the cost. */
const DENSE = 5;

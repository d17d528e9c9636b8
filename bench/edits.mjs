// A text edit by quote over REST in a document of 1 MB: what the Worker pays for reading, integrating,
// finding the quote and appending.

import { cpuMillis } from "./cpu.mjs";
import { median } from "./report.mjs";
import { seedDocument } from "./seed.mjs";

/** `EDITS` edits a round, each of a quote that the one before it left. The verdict follows the median. */
export async function edits(bench) {
  const tested = await bench.openTested();
  if (tested.edit === undefined) return bench.note("edits: the floor has none");
  await tested.seed(DOCUMENT, seedDocument(1_000_000));
  await tested.edit(DOCUMENT, [{ op: "insert", at: 500_000, text: "<<0>>" }]);
  let count = 0;
  const all = [];
  for (let n = 0; n < WARM_UP; n += 1) await replaceOnce(tested, count++);
  await bench.rounds(async () => {
    const before = cpuMillis(tested.server.pid);
    for (let n = 0; n < EDITS; n += 1) await replaceOnce(tested, count++);
    all.push((cpuMillis(tested.server.pid) - before) / EDITS);
  });
  bench.check(`edits: a quote in 1 MB costs at most ${LIMIT_MS} ms of CPU`, median(all) <= LIMIT_MS, `${all.map((ms) => ms.toFixed(1)).join(", ")} ms`);
}

function replaceOnce(side, n) {
  return side.edit(DOCUMENT, [{ op: "replace", quote: `<<${n}>>`, with: `<<${n + 1}>>` }]);
}

const DOCUMENT = "edited";
const EDITS = 40;
/** Until the engine has compiled the code for good. */
const WARM_UP = 20;
const LIMIT_MS = 60;

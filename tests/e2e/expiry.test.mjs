// Tokens that end, one after another, while twenty people type (A.68, A.69): each is closed with 4401,
// fetches a fresh token, and goes on where it was.
import assert from "node:assert/strict";
import { test } from "node:test";
import { histogram } from "./support/counting-environment.mjs";
import { person } from "./support/person.mjs";
import { startBoth } from "./support/relays.mjs";
import { sleep, until } from "./support/waiting.mjs";

const PEOPLE = 20;
/** How long a token lives, in ms: long enough for a sync on a busy machine. */
const TOKEN_MS = 8_000;
/** Ends that each person lives through. */
const ENDS = 2;
/** Often, so that some send while they are being closed. */
const KEYSTROKE_MS = 100;
/** A connection is stable after a part of that time, as it is in life. */
const TIMES = { stableMs: 2_000 };
/** What a person may see of an end. Deno drops who sends before the close is answered: PROTOCOL, "Differences". */
const CODES = { cf: ["4401"], deno: ["1006", "4401"] };
/** How long the ends may take on a busy machine, in ms. */
const ENOUGH_MS = 90_000;

for (const label of ["cf", "deno"]) {
  test(`A.68 A.69 ${label}: tokens end under twenty people: all go on there, none is stuck, nothing is lost`, { timeout: 180_000 }, async (t) => {
    const both = await startBoth({ relay: { onLog: () => {} } });
    const people = [];
    t.after(async () => {
      for (const one of people) one.stop();
      await both.deno.stop();
    });
    const workspace = await both[label].workspace();
    // The other relay is next in the list: whoever takes an end for a failure goes there.
    const relays = [both[label], both[label === "cf" ? "deno" : "cf"]].map(({ label, url }) => ({ label, url }));
    for (let n = 0; n < PEOPLE; n += 1) {
      const seed = both.cf.stack.secrets.SCOPE_SIGNING_KEY;
      people.push(person({ seed, workspace: workspace.id, sub: `p${n}`, relays, tokenMs: TOKEN_MS, times: TIMES }));
      // One after another, and so their ends.
      await sleep(TOKEN_MS / PEOPLE / 2);
    }
    let typed = 0;
    const end = Date.now() + ENOUGH_MS;
    while (!people.every(({ closes }) => closes.length >= ENDS) && Date.now() < end) {
      people[typed % PEOPLE].type(`[${typed}]`);
      typed += 1;
      await sleep(KEYSTROKE_MS / PEOPLE);
    }
    await until(() => people.every((one) => one.synced() && one.on(label)), "everybody is synced where they were");
    const whole = people.map((one) => one.text().length);
    await until(() => new Set(people.map((one) => one.text())).size === 1, `one text; lengths were ${whole}`);
    const marks = people[0].text().match(/\[\d+\]/g).map((mark) => Number(mark.slice(1, -1)));
    assert.deepEqual(marks.sort((a, b) => a - b), Array.from({ length: typed }, (_, n) => n), "each mark once");
    await until(async () => (await workspace.text()) === people[0].text(), "and in the database");

    const codes = histogram(people.flatMap(({ closes }) => closes));
    const tokens = people.reduce((sum, one) => sum + one.tokens, 0);
    t.diagnostic(`${PEOPLE} people, ${typed} marks, ${tokens} tokens; closes ${JSON.stringify(codes)}`);
    for (const code of Object.keys(codes)) assert.ok(CODES[label].includes(code), `an end with ${code}`);
    assert.ok(codes[4401] > PEOPLE, "most are told why");
    for (const { sub, closes, tokens } of people) {
      assert.ok(closes.length >= ENDS, `${sub} lived through ${closes.length}`);
      assert.equal(tokens, closes.length + 1, `${sub}: a token for each connection`);
    }
    assert.deepEqual(people.flatMap(({ telemetry }) => telemetry), [], "no relay is left");
  });
}

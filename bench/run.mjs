// ENTRY POINT: node bench/run.mjs [--only NAME[,NAME]] [--runs 3] [--seconds 10]
//   [--json FILE] [--control]
// Exit code 0: every limit kept; 1: a limit broken, or a run with a defect; 2: bad usage.

import { writeFileSync } from "node:fs";
import os from "node:os";
import { parseArgs } from "node:util";

import { deno, denoIdle } from "./deno.mjs";
import { edits } from "./edits.mjs";
import { fanout, hot, size } from "./fanout.mjs";
import { feed } from "./feed.mjs";
import { join } from "./join.mjs";
import { Report } from "./report.mjs";
import { isBuilt, serverLogs, startDatabase, stopAll } from "./servers.mjs";
import { openFloor, openYrelay } from "./sides.mjs";
import { wake } from "./wake.mjs";

const SCENARIOS = { fanout, hot, size, join, feed, wake, edits, deno, "deno-idle": denoIdle };
/** Past this a scenario hangs, whatever its rounds are waiting for. */
const SCENARIO_LIMIT_MS = 15 * 60_000;

/** What a scenario gets: servers of its own, rounds in alternating order, the report. */
class Bench {
  #database;
  #tested;
  #floor;

  constructor(options, report) {
    this.options = options;
    this.seconds = options.seconds;
    this.report = report;
  }

  /** The database of this scenario's Workers. */
  async openDatabase() {
    return (this.#database ??= await startDatabase());
  }

  /** The side under test, started once. */
  async openTested() {
    const database = await this.openDatabase();
    this.#tested ??= await (this.options.control ? openFloor(database, "control") : openYrelay(database));
    return this.#tested;
  }

  /** Both sides and the database they share. */
  async openBoth() {
    const tested = await this.openTested();
    this.#floor ??= await openFloor(this.#database, "floor");
    return { tested, floor: this.#floor, database: this.#database };
  }

  /** A B, B A, A B …: a drift of the machine meets both sides. */
  async rounds(body) {
    for (let round = 1; round <= this.options.runs; round += 1) {
      await body(round, (a, b) => (round % 2 === 1 ? [a, b] : [b, a]));
      process.stderr.write(`  round ${round} of ${this.options.runs}\n`);
    }
  }

  /** The limits are for the Worker; the floor against itself has none. */
  record(name, round) {
    this.report.record(name, this.options.control ? { ...round, limit: undefined } : round);
  }

  check(name, holds, seen) {
    this.report.check(name, holds, seen);
  }

  note(text) {
    this.report.note(text);
  }
}

function parseOptions() {
  const { values } = parseArgs({
    options: {
      only: { type: "string", default: Object.keys(SCENARIOS).join(",") },
      runs: { type: "string", default: "3" },
      seconds: { type: "string", default: "10" },
      json: { type: "string" },
      control: { type: "boolean", default: false },
    },
  });
  const only = values.only.split(",");
  const [runs, seconds] = [Number(values.runs), Number(values.seconds)];
  const unknown = only.find((name) => !Object.hasOwn(SCENARIOS, name));
  if (unknown !== undefined) throw new Error(`--only ${unknown}: one of ${Object.keys(SCENARIOS).join(", ")}`);
  if (!(Number.isInteger(runs) && runs > 0 && seconds > 0)) throw new Error("--runs and --seconds are positive numbers");
  return { only, runs, seconds, json: values.json, control: values.control };
}

async function runScenario(name, options, report) {
  process.stderr.write(`${name}\n`);
  let timer;
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end after ${SCENARIO_LIMIT_MS / 60_000} min`)), SCENARIO_LIMIT_MS);
  });
  try {
    await Promise.race([SCENARIOS[name](new Bench(options, report)), limit]);
  } catch (error) {
    report.check(`${name}: every round ran`, false, error.message);
    for (const log of serverLogs()) console.error(log);
  } finally {
    clearTimeout(timer);
    await stopAll();
  }
}

async function main() {
  const options = parseOptions();
  const report = new Report();
  if (!options.control && !isBuilt()) {
    options.control = true;
    report.note("build/index.js is missing: the floor stands on both sides, ratios show noise only");
  }
  for (const name of options.only) await runScenario(name, options, report);
  report.print();
  if (options.json !== undefined) {
    const machine = { cpu: os.cpus()[0]?.model, cores: os.cpus().length, platform: process.platform, node: process.version };
    writeFileSync(options.json, `${JSON.stringify({ at: new Date().toISOString(), options, machine, ...report.toJSON() }, null, 2)}\n`);
  }
  process.exit(report.failed ? 1 : 0);
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.once(signal, () => stopAll().finally(() => process.exit(130)));
}

main().catch(async (error) => {
  console.error(error.message);
  await stopAll();
  process.exit(2);
});

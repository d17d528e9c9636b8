// Ratios of one run: every figure with its smallest, middle and largest round.

/** The middle value; of an even number the mean of the two. */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const half = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/** Collects rounds and checks, prints a table, knows whether every limit was kept. */
export class Report {
  #rows = new Map();
  #checks = new Map();
  #notes = new Set();

  record(name, round) {
    const { unit, limit } = round;
    const row = this.#rows.get(name) ?? { name, unit, limit, rounds: [] };
    const { tested, floor, details } = round;
    row.rounds.push({ tested, floor, ratio: tested / floor, details });
    this.#rows.set(name, row);
  }

  /** A yes-or-no finding; false in one round is false. */
  check(name, holds, seen) {
    const before = this.#checks.get(name);
    if (before === undefined || before.holds) this.#checks.set(name, { name, holds, seen });
  }

  note(text) {
    this.#notes.add(text);
  }

  get failed() {
    return this.rows().some(({ verdict }) => verdict === "over") || [...this.#checks.values()].some(({ holds }) => !holds);
  }

  rows() {
    return [...this.#rows.values()].map((row) => {
      const ratios = row.rounds.map(({ ratio }) => ratio);
      const middle = median(ratios);
      return {
        ...row,
        tested: median(row.rounds.map(({ tested }) => tested)),
        floor: median(row.rounds.map(({ floor }) => floor)),
        min: Math.min(...ratios), median: middle, max: Math.max(...ratios),
        verdict: row.limit === undefined ? "" : middle <= row.limit ? "ok" : "over",
      };
    });
  }

  print(log = console.log) {
    const cells = this.rows().map((row) => [
      row.name, number(row.tested), number(row.floor), row.unit,
      number(row.min), number(row.median), number(row.max),
      row.limit === undefined ? "" : `<= ${row.limit}`, row.verdict,
    ]);
    const table = [["", "tested", "floor", "", "min", "median", "max", "limit", ""], ...cells];
    const widths = table[0].map((_, i) => Math.max(...table.map((line) => line[i].length)));
    for (const line of table) {
      log(line.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]) : cell.padStart(widths[i]))).join("  ").trimEnd());
    }
    for (const { name, holds, seen } of this.#checks.values()) log(`${holds ? "ok  " : "FAIL"} ${name} (${seen})`);
    for (const text of this.#notes) log(`note: ${text}`);
  }

  toJSON() {
    return { rows: this.rows(), checks: [...this.#checks.values()], notes: [...this.#notes], failed: this.failed };
  }
}

function number(value) {
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(2);
}

// CPU time of one process. Wall time says nothing on a shared machine.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

/** User plus system CPU time of process `pid` so far, in milliseconds. */
export function cpuMillis(pid) {
  return process.platform === "linux" ? fromStat(pid) : fromPs(pid);
}

/** Fields 14 and 15 of /proc/<pid>/stat; the name in field 2 may hold spaces. */
function fromStat(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * (1000 / TICKS);
}

/** `ps` prints [[dd-]hh:]mm:ss with hundredths on BSD and macOS. */
function fromPs(pid) {
  const text = execFileSync("ps", ["-o", "time=", "-p", String(pid)], { encoding: "utf8" });
  const [days, clock] = text.includes("-") ? text.trim().split("-") : ["0", text.trim()];
  const seconds = clock.split(":").reduce((sum, part) => sum * 60 + Number(part), 0);
  return (Number(days) * 86_400 + seconds) * 1000;
}

const TICKS = process.platform === "linux"
  ? Number(execFileSync("getconf", ["CLK_TCK"], { encoding: "utf8" }))
  : 100;

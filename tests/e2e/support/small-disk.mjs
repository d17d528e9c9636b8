// A disk that becomes full under a process and has space again, without the rights of an administrator:
// a limit on the size of the files that the process writes makes every write fail as a full disk does.
// YRELAY_SMALL_DISK names a folder on a small file system of its own to use that instead.
import { execFileSync, spawnSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const REAL = process.env.YRELAY_SMALL_DISK;

/** Why there is none, or undefined. */
export function noSmallDisk() {
  if (REAL) return undefined;
  return spawnSync("prlimit", ["--version"]).status === 0 ? undefined : "needs prlimit (util-linux), or YRELAY_SMALL_DISK";
}

/**
 * A folder for the files of one process. Start the process with `launcher` in front of its command,
 * then `fill(pid)` and `free(pid)`.
 */
export function smallDisk() {
  const folder = mkdtempSync(join(REAL ?? tmpdir(), "yrelay-disk-"));
  const ballast = join(folder, "ballast");
  const limit = (pid, bytes) => execFileSync("prlimit", ["--pid", String(pid), `--fsize=${bytes}:`]);
  return {
    folder,
    // The signal that comes with the error would end the process.
    launcher: REAL ? [] : ["/bin/sh", "-c", 'trap "" XFSZ; exec "$@"', "sh"],
    fill: (pid) => (REAL ? fillUp(ballast) : limit(pid, 1)),
    free: (pid) => (REAL ? rmSync(ballast) : limit(pid, "unlimited")),
    /** The same for the processes to come. */
    empty: () => rmSync(ballast, { force: true }),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** Writes until nothing more fits. */
function fillUp(path) {
  const file = openSync(path, "w");
  try {
    for (let bytes = 65_536; bytes >= 1; ) {
      try {
        writeSync(file, Buffer.alloc(bytes));
      } catch (error) {
        if (error.code !== "ENOSPC") throw error;
        bytes /= 2;
      }
    }
  } finally {
    closeSync(file);
  }
}

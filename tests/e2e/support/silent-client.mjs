// A client in a process of its own, which a test stops with SIGSTOP: a machine that went to sleep.
//   node silent-client.mjs <url> <hex frame>…    sends the frames and prints "ready", later "closed <code>"
import { fileURLToPath } from "node:url";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import WebSocket from "ws";
import { within } from "./waiting.mjs";

/** Starts one: `signal(name)`, `closed` (a promise of the close code), `stop()`. */
export async function startSilentClient(url, ...frames) {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url), url, ...frames], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout });
  const first = new Promise((settle) => lines.once("line", settle));
  const closed = new Promise((settle) => {
    lines.on("line", (line) => line.startsWith("closed ") && settle(Number(line.slice(7))));
  });
  const stop = () => child.kill("SIGKILL");
  const line = await within(first, "the other process connects").catch((error) => {
    stop();
    throw error;
  });
  if (line !== "ready") throw new Error(`the other process: ${line}`);
  return { signal: (name) => child.kill(name), closed, stop };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [url, ...frames] = process.argv.slice(2);
  const socket = new WebSocket(url, { perMessageDeflate: false });
  socket.on("error", (error) => console.log(`error ${error.message}`));
  socket.on("open", () => {
    for (const frame of frames) socket.send(Buffer.from(frame, "hex"));
    console.log("ready");
  });
  socket.on("close", (code) => console.log(`closed ${code}`));
  process.stdin.on("end", () => process.exit()).resume();
}

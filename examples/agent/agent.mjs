// An agent that watches a job board: it claims open jobs below `jobs/`, notes each in a document that
// people may be typing in, and marks it as done. Any number of them may run; no job is done twice.
import { readFileSync } from "node:fs";
import process from "node:process";
import { PreconditionFailedError, ProblemError, WorkspaceAgent } from "../../client-sdk/src/agent/index.ts";

const BOARD = "jobs";
const READY_FILE = ".yrelay/ready.json";

class JobAgent {
  #agent;
  #name;
  #note;
  #canEdit = true;

  constructor(agent, { name, note }) {
    this.#agent = agent;
    this.#name = name;
    this.#note = note;
  }

  /** Does what is open, then what is put on the board, until the signal. */
  async run(signal) {
    // Before the board is read, so that nothing falls between the two.
    const since = await this.#agent.head();
    await this.#readBoard();
    for await (const item of this.#agent.changes({ since, prefix: BOARD, kinds: ["put", "patch"], signal })) {
      // Changes were lost: the board itself says what is open.
      if (item.kind === "reset") await this.#readBoard();
      else await this.#consider(item.path);
    }
  }

  async #readBoard() {
    for await (const { path, kind } of this.#agent.list({ prefix: BOARD })) if (kind === "record") await this.#consider(path);
  }

  async #consider(path) {
    const job = await this.#claim(path);
    if (job === null) return;
    this.#say(`claimed ${path}: ${job.title}`);
    await this.#annotate(`${this.#name}: ${job.title}`);
    await this.#agent.patch(path, { state: "done" }, { ifMatch: job.clock });
    this.#say(`done ${path}`);
  }

  /** Of all agents that see an open job at the same clock, the first write wins. */
  async #claim(path) {
    try {
      const { value, clock } = await this.#agent.read(path);
      if (value?.state !== "open") return null;
      const claim = await this.#agent.patch(path, { state: "claimed", by: this.#name }, { ifMatch: clock });
      return { title: value.title ?? path, clock: claim.clock };
    } catch (error) {
      if (error instanceof PreconditionFailedError) return null;
      // It was deleted meanwhile.
      if (error instanceof ProblemError && error.code === "node_not_found") return null;
      throw error;
    }
  }

  /** Adds a line to the note. What people type there meanwhile stays. */
  async #annotate(line) {
    if (!this.#canEdit) return;
    try {
      await this.#agent.edit(this.#note, [{ op: "append", text: `\n${line}` }], { root: "content" });
    } catch (error) {
      if (!(error instanceof ProblemError)) throw error;
      this.#canEdit = !["not_found", "method_not_allowed"].includes(error.code);
      this.#say(this.#canEdit ? `the note ${this.#note} was not changed: ${error.message}` : "this server takes no edits of documents yet");
    }
  }

  #say(text) {
    console.log(`${this.#name}: ${text}`);
  }
}

/** From API and TOKEN, else from the file that `cargo xtask dev --ready-file` writes. */
function connection({ API, TOKEN, WORKSPACE }) {
  if (API && TOKEN) return { api: API, token: TOKEN, workspace: WORKSPACE ?? "demo" };
  try {
    const { api, token, agentToken = token, workspace } = JSON.parse(readFileSync(process.env.READY_FILE ?? READY_FILE, "utf8"));
    return { api, token: agentToken, workspace };
  } catch (error) {
    throw new Error(`there is no stack to talk to (${error.message}); start \`cargo xtask dev --ready-file ${READY_FILE}\`, or set API and TOKEN`);
  }
}

async function main() {
  const { api, token, workspace } = connection(process.env);
  const name = process.env.NAME ?? `agent-${process.pid}`;
  const agent = new WorkspaceAgent({ api, workspace, getToken: () => token });
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => stop.abort());
  console.log(`${name}: watching ${BOARD}/ of ${workspace}; Ctrl-C stops it`);
  try {
    await new JobAgent(agent, { name, note: process.env.NOTE ?? "notes/demo" }).run(stop.signal);
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  } finally {
    agent.close();
  }
}

main().catch((error) => {
  console.error(`agent: ${error.message}`);
  process.exitCode = 1;
});

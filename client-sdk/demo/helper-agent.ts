// The button that sends an agent: it claims the first open job, writes a line into the note while people
// type there, and marks the job as done. The same steps as examples/agent, once.
import { PreconditionFailedError, WorkspaceAgent } from "../src/agent/index.ts";
import type { AgentOptions } from "../src/agent/index.ts";
import { announce, byId } from "./dom.ts";
import { jobOf } from "./jobs.ts";
import type { Job } from "./jobs.ts";
import { notify } from "./notice.ts";

const NAME = "demo-agent";

export class HelperAgent {
  readonly #agent: WorkspaceAgent;
  readonly #note: string;

  constructor(options: AgentOptions, note: string) {
    this.#agent = new WorkspaceAgent(options);
    this.#note = note;
    const button = byId<HTMLButtonElement>("send-agent");
    button.hidden = false;
    button.addEventListener("click", () => {
      this.#work().then(announce, (error: Error) => notify(`The agent could not work: ${error.message}`));
    });
  }

  /** Answers what it did. */
  async #work(): Promise<string> {
    const job = await this.#claim();
    if (job === null) return "There was no open job for the agent.";
    await this.#agent.edit(this.#note, [{ op: "append", text: `\n${NAME}: ${job.title}` }], { root: "content" });
    await this.#agent.patch(job.path, { state: "done" });
    return `The agent did ${job.title}`;
  }

  /** Of all who want a job at the same clock, the first write wins. */
  async #claim(): Promise<Job | null> {
    for await (const { path, kind } of this.#agent.list({ prefix: "jobs" })) {
      if (kind !== "record") continue;
      const { value, clock } = await this.#agent.read(path);
      const job = jobOf(path, value);
      if (job?.state !== "open") continue;
      try {
        await this.#agent.patch(path, { state: "claimed", by: NAME }, { ifMatch: clock });
        return job;
      } catch (error) {
        if (!(error instanceof PreconditionFailedError)) throw error;
      }
    }
    return null;
  }
}

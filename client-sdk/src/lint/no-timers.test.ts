// C.62: no polling, by whatever name a timer goes.
import { testRule } from "../../test/rule-tester.ts";
import { noTimers } from "./no-timers.ts";

/** A file that uses the workspace. */
const page = (code: string) => `import { WorkspaceClient } from "yrelay-client";\n${code}`;
const good = (code: string, options?: object) => ({ code: page(code), ...(options && { options: [options] }) });
const bad = (code: string, errors: readonly string[] = ["timer"], options?: object) => ({ code: page(code), errors, ...(options && { options: [options] }) });
const once = { allowOnce: true };

testRule("no-timers", noTimers, {
  script: {
    good: [
      "setInterval(draw, 10); // has nothing to do with a workspace",
      "import yrelay from 'yrelay-client/lint'; setTimeout(go, 1);",
      good("clearTimeout(timer); clearInterval(other);"),
      good("environment.setTimeout(run, 5); this.setInterval(run, 5);"),
      good("const setTimeout = later; setTimeout(run, 5);"),
      good("function wait(setInterval) { setInterval(run); }"),
      good("if (typeof setInterval === 'function') go();"),
      good("requestAnimationFrame(draw);"),
      good("import { clearInterval } from 'node:timers'; clearInterval(x);"),
      good("setTimeout(hide, 5000); function hide() { box.hidden = true; }", once),
      good("function show() { setTimeout(() => hide(), 5000); } function hide() {} show();", once),
      good("setTimeout(() => setTimeout(hide, 1), 1);", once),
      { code: "import { client } from './client.js'; setTimeout(go, 1);" },
    ],
    bad: [
      bad("setInterval(ask, 1000);", ["repeats"]),
      bad("setTimeout(ask, 1000);"),
      bad("setImmediate(ask);"),
      bad("window.setInterval(ask, 1000);", ["repeats"]),
      bad("globalThis.setTimeout(ask); self.setTimeout(ask); window.window.setTimeout(ask);", ["timer", "timer", "timer"]),
      bad("window?.setTimeout?.(ask);"),
      bad("window['setTimeout'](ask); window[`setTimeout`](ask); window['set' + 'Timeout'](ask);", ["timer", "timer", "timer"]),
      bad("const name = 'setInterval'; window[name](ask, 1);", ["repeats"]),
      bad("const f = setInterval; f(ask, 1000); f(ask, 10);", ["repeats"]),
      bad("let f; f = setTimeout; f(ask);"),
      bad("const w = window; w.setTimeout(ask);"),
      bad("const { setTimeout: later } = window; later(ask);"),
      bad("const { setTimeout: later = no } = globalThis; later(ask);"),
      bad("let later; ({ setTimeout: later } = window);"),
      bad("(0, setTimeout)(ask);"),
      bad("setTimeout.call(null, ask); setTimeout.bind(window)(ask);", ["timer", "timer"]),
      bad("Reflect.apply(setInterval, null, [ask, 1]);", ["repeats"]),
      bad("export const every = (run, ms) => setInterval(run, ms);", ["repeats"]),
      bad("export { setInterval } from 'node:timers';", ["repeats"]),
      bad("import { setInterval as tick } from 'timers'; tick(ask);", ["repeats"]),
      bad("import * as timers from 'node:timers'; timers.setInterval(ask);", ["repeats"]),
      bad("import { setTimeout as sleep } from 'node:timers/promises'; await sleep(5);"),
      bad("import { scheduler } from 'node:timers/promises'; await scheduler.wait(5);"),
      bad("const { setInterval: tick } = require('timers'); tick(ask);", ["repeats"]),
      { code: "const { WorkspaceClient } = await import('yrelay-client'); setTimeout(go);", errors: ["timer"] },
      { code: "const { WorkspaceClient } = require('yrelay-client'); setTimeout(go);", errors: ["timer"] },
      { code: "export * from 'yrelay-client/react'; setTimeout(go);", errors: ["timer"] },
      { code: "ask(`${base}/api/workspaces/${id}`); setTimeout(go);", errors: ["timer"] },
      { code: "client.applyOp(write); setTimeout(go);", errors: ["timer"] },
      { code: "setInterval(draw, 10);", errors: ["repeats"], options: [{ everywhere: true }] },
      { code: "import { client } from './client.js'; setTimeout(go, 1);", errors: ["timer"], options: [{ modules: ["./client.js"] }] },
      bad("setInterval(ask, 1);", ["repeats"], once),
      bad("function poll() { ask(); setTimeout(poll, 1000); }", ["repeats"], once),
      bad("const poll = async () => { await ask(); setTimeout(() => poll(), 1000); };", ["repeats"], once),
      bad("const poll = () => { ask(); setTimeout(poll.bind(null), 1000); };", ["repeats"], once),
      bad("function poll() { ask(); later(); } function later() { setTimeout(() => poll(), 1000); }", ["repeats"], once),
      bad("class Page { poll() { ask(); setTimeout(() => this.poll(), 1); } }", ["repeats"], once),
      bad("class Page { #poll = () => { setTimeout(this.#poll, 1); }; }", ["repeats"], once),
      bad("while (true) { await new Promise((settle) => setTimeout(settle, 1000)); }", ["repeats"], once),
      bad("const sleep = (ms) => new Promise((settle) => setTimeout(settle, ms)); for (;;) { await sleep(1); ask(); }", ["repeats"], once),
      bad("const sleep = (ms) => new Promise((settle) => setTimeout(settle, ms)); async function poll() { await sleep(1); return poll(); }", ["repeats"], once),
      bad("const f = setTimeout; f(ask);", ["timer"], once),
      bad("const draw = () => requestAnimationFrame(draw);", ["repeats"]),
    ],
  },
  types: {
    good: [good("let timer: ReturnType<typeof setTimeout>;"), good("let timer: ReturnType<typeof window.setTimeout> | null = null;")],
    bad: [
      bad("(window as any).setTimeout(ask); window!.setTimeout!(ask);", ["timer", "timer"]),
      bad("const f = setInterval as unknown as Ask; f(ask);", ["repeats"]),
      bad("const f = setTimeout satisfies Ask; f(ask);"),
      bad("class Page { private poll(): void { setTimeout(() => this.poll(), 1); } }", ["repeats"], once),
    ],
  },
});

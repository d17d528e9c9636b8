// The Worker's entry: the Worker itself, before it the envelope of several appends, and beside it the module that
// shows and edits documents and reads requests of MCP, which is instantiated when the first request needs it.
import { answerBatch, isBatch } from "./batch.js";
import * as glue from "./lazy_bg.js";
import module from "./lazy_bg.wasm";
import mcpTools from "./mcp-tools.js";
import openapi from "./openapi.js";
import Worker from "./worker.js";

let ready = false;

function start() {
  const { exports } = new WebAssembly.Instance(module, { "./lazy_bg.js": glue });
  glue.__wbg_set_wasm(exports);
  exports.__wbindgen_start?.();
  ready = true;
}

const lazily = (name) => (...args) => {
  if (!ready) start();
  return glue[name](...args);
};

// One step of a request of MCP: takes what the call before answered, and gives the next call, when it is
// time for it, or the response.
async function stepMcp(request, answer) {
  if (answer) request.handleAnswer(answer.ok, answer.headers, await answer.text(), Date.now());
  const response = request.response();
  if (response) {
    // Its memory is the module's, which the collector does not see.
    request.free();
    return response;
  }
  const pause = request.afterMs;
  if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause));
  return request.call();
}

const functions = ["showText", "showJson", "checkEdits", "edit", "replacement"].map((name) => [name, lazily(name)]);

// Named in src/edge/lazy_module.rs, src/edge/openapi.rs and src/lazy_module/mcp.rs.
globalThis.yrelayLazy = {
  ...Object.fromEntries(functions),
  mcpTools: () => mcpTools,
  openapi: () => openapi,
  openMcp: (...args) => lazily("openMcp")(...args, Date.now()),
  stepMcp,
};

export * from "./worker.js";

export default class extends Worker {
  fetch(request) {
    return isBatch(request) ? answerBatch(request, (append) => super.fetch(append)) : super.fetch(request);
  }
}

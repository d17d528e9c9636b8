// The Worker's entry: the Worker itself, and beside it the module that shows and edits documents and
// reads requests of MCP, which is instantiated when the first request needs it.
import * as glue from "./lazy_bg.js";
import module from "./lazy_bg.wasm";
import mcpTools from "./mcp-tools.js";
import openapi from "./openapi.js";

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

// Named in src/edge/lazy_module.rs, src/edge/openapi.rs and src/lazy_module/mcp.rs.
globalThis.yrelayLazy = Object.fromEntries(["showText", "showJson", "checkEdits", "edit", "replacement", "openMcp"].map((name) => [name, lazily(name)]));
globalThis.yrelayLazy.answerMcp = async (request, answer, elapsed) => request.handleAnswer(answer.ok, answer.headers, await answer.text(), elapsed);
globalThis.yrelayLazy.mcpTools = () => mcpTools;
globalThis.yrelayLazy.openapi = () => openapi;

export * from "./worker.js";
export { default } from "./worker.js";

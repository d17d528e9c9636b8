// The Worker's entry: the Worker itself, and the module that shows and edits documents, which is
// instantiated when the first request needs it.
import * as glue from "./documents_bg.js";
import module from "./documents_bg.wasm";
import openapi from "./openapi.js";

let ready = false;

function start() {
  const { exports } = new WebAssembly.Instance(module, { "./documents_bg.js": glue });
  glue.__wbg_set_wasm(exports);
  exports.__wbindgen_start?.();
  ready = true;
}

const lazily = (name) => (...args) => {
  if (!ready) start();
  return glue[name](...args);
};

// Named in src/edge/document_module.rs and src/edge/openapi.rs.
globalThis.yrelayDocuments = Object.fromEntries(["showText", "showJson", "checkEdits", "edit", "replacement"].map((name) => [name, lazily(name)]));
globalThis.yrelayDocuments.openapi = () => openapi;

export * from "./worker.js";
export { default } from "./worker.js";

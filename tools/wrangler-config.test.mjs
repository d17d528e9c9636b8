import assert from "node:assert/strict";
import { test } from "node:test";
import { lintConfig, parseConfig, readConfig } from "./wrangler-config.mjs";

test("wrangler.toml of this repository is read whole and is clean", () => {
  const config = readConfig();
  assert.equal(config.main, "build/index.js");
  assert.deepEqual(config.durable_objects.bindings, [{ name: "ROOM", class_name: "Room" }]);
  assert.equal(config.d1_databases[0].binding, "DB");
  assert.deepEqual(lintConfig(config, config), []);
});

test("a line that the reader does not know is an error with its number", () => {
  assert.throws(() => parseConfig('name = "a"\nname: b'), /wrangler.toml:2/);
  assert.throws(() => parseConfig("a = [\n1]"), /wrangler.toml:1/);
});

test("o02 a class outside new_sqlite_classes is reported", () => {
  const config = parseConfig('[[durable_objects.bindings]]\nname = "A"\nclass_name = "A"\n[[migrations]]\ntag = "v1"\nnew_classes = ["A"]');
  assert.equal(lintConfig(config).length, 2);
});

test("o01 a released migration that changed or went is reported, an appended one is not", () => {
  const released = parseConfig('[[migrations]]\ntag = "v1"\nnew_sqlite_classes = ["A"]');
  const appended = parseConfig('[[migrations]]\ntag = "v1"\nnew_sqlite_classes = ["A"]\n[[migrations]]\ntag = "v2"\nnew_sqlite_classes = ["B"]');
  assert.deepEqual(lintConfig(appended, released), []);
  assert.equal(lintConfig(released, appended).length, 1);
  assert.equal(lintConfig(parseConfig('[[migrations]]\ntag = "v0"'), released).length, 1);
});

test("keys and the dev switch do not ship", () => {
  assert.equal(lintConfig(parseConfig('[vars]\nDEV_MODE = "1"\nAPI_JWT_SECRET = "x"')).length, 2);
});

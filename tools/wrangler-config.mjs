// Reads wrangler.toml for the local stack, and checks it. Only the subset of TOML that file uses:
// tables, arrays of tables, and one-line values that are also JSON. Anything else is an error, so a
// line that would be misread is never skipped.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The root of the repository. */
export const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..");

/** Parses the text of a wrangler.toml; throws with the line number. */
export function parseConfig(text) {
  const config = {};
  let table = config;
  text.split(/\r?\n/).forEach((raw, index) => {
    const line = raw.trim();
    if (line === "" || line.startsWith("#")) return;
    const header = /^(\[\[?)([A-Za-z0-9_.]+)\]\]?$/.exec(line);
    if (header) {
      table = openTable(config, header[2].split("."), header[1] === "[[");
      return;
    }
    const pair = /^([A-Za-z0-9_]+)\s*=\s*(.+)$/.exec(line);
    if (!pair) throw new Error(`wrangler.toml:${index + 1}: not understood: ${line}`);
    try {
      table[pair[1]] = JSON.parse(pair[2]);
    } catch {
      throw new Error(`wrangler.toml:${index + 1}: the value of ${pair[1]} is not a one-line JSON value`);
    }
  });
  return config;
}

/** The table that a header opens; of an array of tables, its new last one. */
function openTable(config, path, isArray) {
  const name = path.at(-1);
  const parent = path.slice(0, -1).reduce((table, part) => (table[part] ??= {}), config);
  if (!isArray) return (parent[name] ??= {});
  (parent[name] ??= []).push({});
  return parent[name].at(-1);
}

/** Reads wrangler.toml of this repository. */
export function readConfig(path = join(ROOT, "wrangler.toml")) {
  return parseConfig(readFileSync(path, "utf8"));
}

/**
 * What is wrong with a configuration, as sentences. `released` is the configuration of the last
 * release, if there is one: its migrations must still be there, unchanged and first.
 */
export function lintConfig(config, released) {
  const problems = [];
  const migrations = config.migrations ?? [];
  const sqlite = new Set(migrations.flatMap((migration) => migration.new_sqlite_classes ?? []));
  for (const { class_name: name } of config.durable_objects?.bindings ?? []) {
    if (!sqlite.has(name)) problems.push(`class ${name} is in no new_sqlite_classes`);
  }
  for (const migration of migrations) {
    if (migration.new_classes) problems.push(`migration ${migration.tag} uses new_classes: a class cannot become SQLite later`);
  }
  const tags = migrations.map((migration) => migration.tag);
  if (new Set(tags).size !== tags.length) problems.push("two migrations have the same tag");
  (released?.migrations ?? []).forEach((migration, index) => {
    if (JSON.stringify(migrations[index]) !== JSON.stringify(migration)) {
      problems.push(`migration ${migration.tag} was released and is changed, moved or gone`);
    }
  });
  for (const name of ["DEV_MODE", "API_JWT_SECRET", "SCOPE_SIGNING_KEY"]) {
    if (name in (config.vars ?? {})) problems.push(`${name} must not be in [vars]`);
  }
  return problems;
}

/** The configuration of the last tagged release, or undefined when nothing was released. */
function releasedConfig() {
  const git = (...args) => execFileSync("git", args, { cwd: ROOT, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  const tag = git("tag", "--list", "v*", "--sort=-v:refname").split("\n")[0];
  return tag ? parseConfig(git("show", `${tag}:wrangler.toml`)) : undefined;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const problems = lintConfig(readConfig(), releasedConfig());
  for (const problem of problems) console.error(`wrangler.toml: ${problem}`);
  process.exitCode = problems.length === 0 ? 0 : 1;
}

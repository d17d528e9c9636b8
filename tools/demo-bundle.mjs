// Bundles the demo page (client-sdk/demo) into files that any static server can serve. Run as a program it
// writes them into build/demo, which wrangler.toml deploys beside the Worker.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import { ROOT } from "./wrangler-config.mjs";

const PAGE = join(ROOT, "client-sdk", "demo");
const OUT = join(ROOT, "build", "demo");
/** What is served as it is: the page, and the headers that the platform adds to it. */
const PLAIN = ["index.html", "_headers"];

/** The page's files: a map of names to bytes. */
export function bundleDemo() {
  const { outputFiles } = buildSync({
    entryPoints: [
      { in: join(PAGE, "main.ts"), out: "main" },
      { in: join(PAGE, "styles", "index.css"), out: "main" },
    ],
    outdir: OUT,
    bundle: true,
    format: "esm",
    target: "es2022",
    minify: true,
    write: false,
    logLevel: "warning",
  });
  const built = outputFiles.map(({ path, contents }) => [path.slice(OUT.length + 1), Buffer.from(contents)]);
  return new Map([...built, ...PLAIN.map((name) => [name, readFileSync(join(PAGE, name))])]);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  rmSync(OUT, { recursive: true, force: true });
  mkdirSync(OUT, { recursive: true });
  for (const [name, bytes] of bundleDemo()) {
    writeFileSync(join(OUT, name), bytes);
    console.error(`build/demo/${name}: ${bytes.length} B`);
  }
}

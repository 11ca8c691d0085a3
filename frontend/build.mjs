// Bundles the pages' scripts and the style sheet into dist/; `node build.mjs tests` bundles the tests instead.
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const MOST_BYTES = 120_000; // of all scripts, compressed
const common = { bundle: true, target: ["es2022"], logLevel: "warning" };
const named = (folder, end) =>
  readdirSync(folder)
    .filter((f) => f.endsWith(end))
    .map((f) => `${folder}/${f}`);

if (process.argv[2] === "tests") {
  rmSync("dist-tests", { recursive: true, force: true });
  await build({
    ...common,
    entryPoints: named("src", ".test.ts"),
    outdir: "dist-tests",
    outExtension: { ".js": ".test.mjs" },
    format: "esm",
    platform: "node",
  });
} else {
  rmSync("dist", { recursive: true, force: true });
  await build({
    ...common,
    entryPoints: [...named("src/pages", ".ts"), "src/site.css", "src/embed.css"],
    outdir: "dist",
    entryNames: "[name]",
    format: "iife",
    minify: true,
    legalComments: "none",
  });
  // The server sends the compressed ones to whoever takes them.
  const compressed = (file) => gzipSync(readFileSync(file), { level: 9 });
  for (const file of [...named("dist", ".js"), ...named("dist", ".css")]) writeFileSync(`${file}.gz`, compressed(file));
  const bytes = named("dist", ".js.gz").reduce((sum, file) => sum + statSync(file).size, 0);
  if (bytes > MOST_BYTES) throw new Error(`The scripts have ${bytes} bytes compressed, more than ${MOST_BYTES}.`);
}

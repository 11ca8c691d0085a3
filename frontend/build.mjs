// Bundles the pages' scripts and the style sheet into dist/; `node build.mjs tests` bundles the tests instead.
import { readdirSync, rmSync } from "node:fs";
import { build } from "esbuild";

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
}

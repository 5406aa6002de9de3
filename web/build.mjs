// Bundles what every page loads: one script, one style sheet. Called by `python -m infer_course.web_build`.
import { build } from "esbuild";

const outdir = process.argv[2] ?? "../book/_static/gen";
const common = { bundle: true, minify: true, legalComments: "none", logLevel: "warning", outdir };

// `.mjs`: a plain `.js` in a static folder may be put on pages by the book builder on its own.
await build({ ...common, entryPoints: { site: "src/site.ts" }, format: "esm", target: "es2022", outExtension: { ".js": ".mjs" } });
await build({ ...common, entryPoints: { site: "css/site.css" }, target: ["chrome111", "firefox113", "safari16.4"] });

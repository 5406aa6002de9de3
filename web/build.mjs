// Bundles what every page loads (one script, one style sheet) and what single pages load beside it. Called by `python -m infer_course.web_build`.
import { existsSync, readdirSync } from "node:fs";
import { build } from "esbuild";

const outdir = process.argv[2] ?? "../book/_static/gen";
const common = { bundle: true, minify: true, legalComments: "none", logLevel: "warning", outdir };

// `src/<name>/page.ts` becomes `<name>.mjs`, and `css/<name>.css` its style; a page asks for both with `bundle: <name>` in its front matter.
const pages = readdirSync("src", { withFileTypes: true }).filter((entry) => entry.isDirectory() && existsSync(`src/${entry.name}/page.ts`)).map((entry) => entry.name);
const styles = pages.filter((name) => existsSync(`css/${name}.css`));
const entries = (names, path) => Object.fromEntries(names.map((name) => [name, path(name)]));

// What several share, or import when it is needed (`await import(…)`), becomes a file of its own (`splitting`).
// `.mjs`: a plain `.js` in a static folder may be put on pages by the book builder on its own.
const scripts = { site: "src/site.ts", python: "src/python.ts", "python-worker": "src/python-worker.ts", ...entries(pages, (name) => `src/${name}/page.ts`) };
await build({ ...common, entryPoints: scripts, format: "esm", splitting: true, target: "es2022", outExtension: { ".js": ".mjs" } });
await build({ ...common, entryPoints: { site: "css/site.css", ...entries(styles, (name) => `css/${name}.css`) }, target: ["chrome111", "firefox113", "safari16.4"] });

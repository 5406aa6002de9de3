/** Runs the library's own Python away from the page: loads Pyodide from the site, unpacks our modules, answers one call after another. */

import type { Answer, Request } from "./python";

interface Door {
  call(module: string, fn: string, args: string): string;
}
interface Pyodide {
  unpackArchive(buffer: ArrayBuffer, format: string): void;
  pyimport(name: string): Door;
}

/** What a worker's `self` is, as far as it is needed: the type checker knows the page's own. */
interface Scope {
  postMessage(answer: Answer): void;
  addEventListener(type: "message", listener: (event: MessageEvent<Request>) => void): void;
}

const scope = self as unknown as Scope;
const vendor = new URL("../../vendor/", import.meta.url).href;
const say = (answer: Answer): void => scope.postMessage(answer);

async function start(): Promise<Door> {
  say({ progress: "Loading Python: 13 MB, once; then it is in the browser’s cache …" });
  const ours = fetch(`${vendor}python/infer.zip`, { cache: "no-cache" });
  ours.catch(() => undefined); // looked at below; Pyodide's own failure is told first
  const { loadPyodide } = (await import(`${vendor}pyodide/pyodide.mjs`)) as { loadPyodide(options: object): Promise<Pyodide> };
  const python = await loadPyodide({ indexURL: `${vendor}pyodide/` });
  say({ progress: "Loading the library …" });
  const got = await ours;
  if (!got.ok) throw new Error(`infer.zip: ${got.status}`);
  python.unpackArchive(await got.arrayBuffer(), "zip");
  return python.pyimport("infer_course.browser");
}

let door: Promise<Door> | undefined;

scope.addEventListener("message", async ({ data }) => {
  try {
    door ??= start();
    await door;
  } catch (error) {
    door = undefined;
    return say({ id: data.id, failed: String(error) });
  }
  try {
    const answer = JSON.parse((await door).call(data.module, data.fn, data.args)) as { value?: unknown; error?: string; name?: string };
    say({ id: data.id, ...answer });
  } catch (error) {
    say({ id: data.id, error: String(error), name: "Bug" });
  }
});

/**
 * The library's own Python in the page: one worker for the page, started by the first call of `python()`, served by the site alone.
 *
 *     const lab = await python(say);                       // `say` hears what is being loaded, in words for people
 *     const view = await lab.call("infer_course.calculators", "view", { name: "kv-cache", state });
 *
 * Arguments and results are JSON: an array is positional, an object is by name. A named Python error rejects with `PythonError`.
 */

export interface Request {
  id: number;
  module: string;
  fn: string;
  args: string;
}
export type Answer = { progress: string } | { id: number; failed: string } | { id: number; error?: string; name?: string; value?: unknown };

export interface Python {
  call(module: string, fn: string, args: unknown): Promise<unknown>;
}

/** `error` is what Python said. `mistake` is true where the reader can mend it (a UserError), false for a bug of ours. */
export class PythonError extends Error {
  readonly error: string;
  readonly mistake: boolean;

  constructor(
    error: string,
    readonly kind: string,
  ) {
    super(error);
    this.error = error;
    this.mistake = kind !== "Bug";
  }
}

/** Python could not be started: the files are missing, or the browser forbids what it needs. Calling again tries again. */
export class NoPythonError extends Error {}

const WHY =
  "Python could not be started in this browser. It needs the page to be served (not opened as a file), WebAssembly, and module workers; reload the page to try again.";

let started: Promise<Python> | undefined;
const listeners = new Set<(text: string) => void>();

/** The page's Python, started if it is not. `progress` hears short texts until it runs. Rejects with NoPythonError. */
export function python(progress?: (text: string) => void): Promise<Python> {
  if (progress) listeners.add(progress);
  started ??= start();
  started.catch(() => (started = undefined)).finally(() => progress && listeners.delete(progress));
  return started;
}

async function start(): Promise<Python> {
  let worker: Worker;
  try {
    worker = new Worker(new URL("./python-worker.mjs", import.meta.url), { type: "module", name: "python" });
  } catch (error) {
    throw new NoPythonError(`${WHY} (${String(error)})`);
  }
  let last = 0;
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();

  const end = (why: string): void => {
    worker.terminate();
    started = undefined;
    for (const { reject } of waiting.values()) reject(new NoPythonError(`${WHY} (${why})`));
    waiting.clear();
  };
  worker.addEventListener("error", (event) => end(event.message || "the worker could not be loaded"));
  worker.addEventListener("message", ({ data }: MessageEvent<Answer>) => {
    if ("progress" in data) return listeners.forEach((tell) => tell(data.progress));
    if ("failed" in data) return end(data.failed);
    const asked = waiting.get(data.id);
    waiting.delete(data.id);
    if (data.error !== undefined) asked?.reject(new PythonError(data.error, data.name ?? "Bug"));
    else asked?.resolve(data.value);
  });

  const lab: Python = {
    call: (module, fn, args) =>
      new Promise((resolve, reject) => {
        waiting.set((last += 1), { resolve, reject });
        worker.postMessage({ id: last, module, fn, args: JSON.stringify(args ?? []) } satisfies Request);
      }),
  };
  await lab.call("infer_course.browser", "ready", []);
  return lab;
}

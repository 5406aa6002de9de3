/** Fetches what search looks through, once, when it is first asked for. */

import { Engine, type Data } from "./engine";

let loading: Promise<Engine> | undefined;

export function engine(): Promise<Engine> {
  const root = document.documentElement.dataset.content_root ?? "";
  loading ??= fetch(`${root}_static/find.json`)
    .then((answer) => {
      if (!answer.ok) throw new Error(`find.json: ${answer.status}`);
      return answer.json() as Promise<Data>;
    })
    .then((data) => Engine.of(data))
    .catch((error: unknown) => {
      loading = undefined; // the next try may go well
      throw error;
    });
  return loading;
}

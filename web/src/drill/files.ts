/** Files in and out: a progress file is merged, a measurement record is kept, anything else is refused by name. */

import type { App } from "./app";
import { dateOf, many } from "./frame";
import { dumps, isMeasurement, loads, type Progress, ProgressError } from "./progress";
import { labOfRecord } from "./measured";

export function saveFile(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function exportProgress(app: App): void {
  saveFile(`inference-lab-progress-${dateOf(new Date(app.now()))}.json`, dumps(app.vault.progress));
}

/** Reads files that were chosen or dropped, and says what became of each. */
export async function take(app: App, files: Iterable<File>): Promise<void> {
  const said: string[] = [];
  for (const file of files) said.push(takeText(app, file.name, await file.text()));
  app.say(said.join(" "));
  app.draw();
}

export function takeText(app: App, name: string, text: string): string {
  let data: unknown = null;
  try {
    data = JSON.parse(text);
  } catch {
    /* said below */
  }
  if (isMeasurement(data)) {
    const cards = app.catalogue.cards.filter((card) => card.measurements.some(({ id }) => labOfRecord(id) === labOfRecord(data.id)));
    app.vault.keep(data);
    return `${data.id} is kept: ${cards.length ? `your numbers stand beside ours on ${many(cards.length, "question")}.` : "no question shows this lab yet."}`;
  }
  try {
    return merged(app, loads(text, name));
  } catch (error) {
    if (!(error instanceof ProgressError)) throw error;
    return `${error.message}. Nothing was changed.`;
  }
}

function merged(app: App, other: Progress): string {
  const before = app.vault.progress;
  const known = new Set(before.reviews.map((review) => `${review.at} ${review.card}`));
  const fresh = other.reviews.filter((review) => !known.has(`${review.at} ${review.card}`)).length;
  app.vault.merge(other);
  const records = app.vault.progress.measurements.length - before.measurements.length;
  const strangers = other.reviews.filter((review) => !app.catalogue.byId.has(review.card)).length;
  return [
    `Merged: ${many(fresh, "new review")}, ${other.reviews.length - fresh} known before.`,
    records > 0 ? `${many(records, "measurement record")} added.` : "",
    strangers > 0 ? `${many(strangers, "review")} of cards that this site does not have (any more): kept.` : "",
  ].filter(Boolean).join(" ");
}

/** Files may be dropped anywhere on the page. */
export function acceptDrops(app: App): void {
  const holdsFiles = (event: DragEvent): boolean => event.dataTransfer?.types.includes("Files") ?? false;
  addEventListener("dragover", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    document.body.classList.add("dr-dropping");
  });
  addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) document.body.classList.remove("dr-dropping");
  });
  addEventListener("drop", (event) => {
    document.body.classList.remove("dr-dropping");
    if (!holdsFiles(event)) return;
    event.preventDefault();
    void take(app, [...(event.dataTransfer?.files ?? [])]);
  });
}

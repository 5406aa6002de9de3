/**
 * Judges a number that the reader put down before seeing the answer. Choosing the unit is part of the answer (GB is not GiB), so a number
 * without a unit is asked for one, unless there is only one. The right value in every unit that may be chosen comes with the card, so
 * nothing is converted here. `src/infer_course/drill/estimate.py` is the reference. No DOM here.
 */

const NUMBER = /^[~≈=]?\s*([+-]?(?:(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d[\d_ ]*)(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)\s*([^\d\s,].*)?$/i;
const PER_TOKEN = /(\/|per)(tokens?|tok)$/;
const THOUSANDS = /^([kKM])(?=$|\s|tok)\s*/;
const SPELT: Record<string, string> = {
  byte: "b", bytes: "b", "×": "x", times: "x", percent: "%", token: "tokens", tok: "tokens", "tok/s": "tokens/s", "token/s": "tokens/s",
  request: "requests", req: "requests", sec: "s", second: "s", seconds: "s", minute: "min", minutes: "min",
};

export type Choice = readonly [shown: string, right: number];
export type State = "right" | "off" | "not-a-number" | "unit-missing" | "unit-unknown" | "not-positive";

/** `value` is the number in the card's own unit (null if it could not be read) and `ratio` is it over the right one. */
export interface Judged {
  state: State;
  value: number | null;
  ratio: number | null;
  unit: string;
}

/** `131,072 B` → 131072 and "B", `120k tokens` → 120000 and "tokens"; the unit is "" where none was typed. null without a number. */
export function parse(text: string): { number: number; unit: string } | null {
  const found = NUMBER.exec(text.trim());
  if (!found) return null;
  let number = Number((found[1] ?? "").replace(/[,_ ]/g, ""));
  let unit = (found[2] ?? "").trim();
  const thousands = THOUSANDS.exec(unit);
  if (thousands) {
    number *= thousands[1] === "M" ? 1_000_000 : 1000;
    unit = unit.slice(thousands[0].length);
  }
  return Number.isFinite(number) ? { number, unit } : null;
}

/** `choices` are (unit as shown, the right value in it); `unit` is the card's own, `tolerance` a fraction (0.1 is ±10 %). */
export function judge(text: string, unit: string, tolerance: number, choices: readonly Choice[]): Judged {
  const judged = (state: State, shown = ""): Judged => ({ state, value: null, ratio: null, unit: shown });
  const read = parse(text);
  if (!read) return judged("not-a-number");
  const named = new Map(choices.map((choice) => [key(choice[0]), choice]));
  if (!read.unit && choices.length > 1) return judged("unit-missing");
  const typed = key(read.unit);
  const plainCount = choices.length === 1 && choices[0]?.[0] === "" && typed !== "%";
  const choice = !read.unit || plainCount ? choices[0] : readings(typed).map((name) => named.get(name)).find((found) => found !== undefined);
  if (!choice) return judged("unit-unknown", read.unit);
  const [shown, right] = choice;
  if (read.number <= 0 && right > 0) return judged("not-positive", shown);
  const own = named.get(key(unit))?.[1] ?? right;
  const ratio = read.number / right;
  return { state: Math.abs(ratio - 1) <= tolerance + 1e-9 ? "right" : "off", value: ratio * own, ratio, unit: shown };
}

/** What a typed unit may mean, most literal first: as it stands, without "per token", TFLOPS as a rate, TFLOPS as a plural. */
function readings(unit: string): string[] {
  return [unit, unit.replace(PER_TOKEN, ""), unit.endsWith("flops") ? `${unit.slice(0, -5)}flop/s` : unit, unit.replace(/s$/, "")];
}

/** Units are told apart by their letters only: `kib`, `KiB` and `KIB` are one, `kB` is another. */
function key(unit: string): string {
  const plain = unit.replace(/\s+/g, "").toLowerCase().replace(/[µμ]/g, "u");
  return SPELT[plain] ?? plain;
}

/** What to say to the reader. It tells how far off and in which direction, not what is right: that stays behind the answer. */
export function says(judged: Judged, tolerance: number, answer: string): string {
  const ratio = judged.ratio ?? 1;
  switch (judged.state) {
    case "not-a-number":
      return "Write a number, such as 12.5 or 4,096.";
    case "unit-missing":
      return "In which unit? GB is not GiB.";
    case "unit-unknown":
      return `“${judged.unit}” is none of the units here: choose one.`;
    case "not-positive":
      return "It is more than nothing: write a positive number.";
    case "right":
      return `Right: ${answer}, and yours is within ${Number((tolerance * 100).toPrecision(6))} %. Now say why.`;
    case "off":
      return `${farOff(ratio)}. Which factor is missing, or one too many?`;
  }
}

/** `2 times too small`, `12 % too large` */
export function farOff(ratio: number): string {
  const far = ratio > 1 ? ratio : 1 / ratio;
  const times = far < 10 ? Number(far.toPrecision(2)) : Math.round(far).toLocaleString("en");
  const size = far < 2 ? `${Math.round(Math.abs(ratio - 1) * 100)} %` : `${times} times`;
  return `${size} too ${ratio > 1 ? "large" : "small"}`;
}

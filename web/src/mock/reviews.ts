/** An interview's questions as reviews of the drill, graded by what the answers had (`reviews` in `src/infer_course/mock/terminal.py` does the same). */

import type { CardText } from "../drill/cards";
import type { Review } from "../drill/progress";
import { score } from "./score";
import { counted, itemsOf, type Sitting } from "./sitting";

/** One millisecond apart, so that each has a time of its own. */
export function reviews(sitting: Sitting, at: number, text: (card: string) => CardText): Review[] {
  return counted(sitting).map((answer, number) => {
    const items = itemsOf(text(answer.card));
    return {
      card: answer.card,
      at: at + number,
      rating: score(items, answer.ticked, answer.asked, sitting.level).rating,
      mode: "explain",
      seconds: Math.round(answer.seconds),
      rubric: items.map(({ id }) => id).filter((id) => answer.ticked.includes(id)),
      estimate: answer.estimate === null ? null : Number(answer.estimate.toPrecision(6)),
      mock: true,
    };
  });
}

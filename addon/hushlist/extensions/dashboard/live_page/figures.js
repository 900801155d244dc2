// What the figures say of themselves, and the chart that fits them.
import {columns, sums} from "./charts.js";
import {make, soft, t, whole} from "./kit.js";

/** What only a dry run let pass is said as that. */
export const wouldBlock = (number) => `${t("action_would")}: ${whole.format(number)}`;

/** Which requests are counted, and how many there were. */
export function whatIsCounted(figures) {
  const {all, stopped, would} = sums(figures.bars);
  return soft(would ? `${wouldBlock(would)} · ` : "", t(figures.counted === "all" ? "counts_all" : "counts_log", {number: whole.format(all), stopped: whole.format(stopped)}));
}

export const columnsOf = (figures, shades = []) => (figures.bars.length ? columns(figures, shades) : make("p", {class: "soft"}, t("nothing")));

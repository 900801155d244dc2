// What the figures say of themselves, and the chart that fits them.
import {columns, sums} from "./charts.js";
import {make, soft, t, whole} from "./kit.js";

/** Which requests are counted, and how many there were. */
export function whatIsCounted(figures) {
  const {all, stopped} = sums(figures.bars);
  return soft(t(figures.counted === "all" ? "counts_all" : "counts_log", {number: whole.format(all), stopped: whole.format(stopped)}));
}

export const columnsOf = (figures, shades = []) => (figures.bars.length ? columns(figures, shades) : make("p", {class: "soft"}, t("nothing")));

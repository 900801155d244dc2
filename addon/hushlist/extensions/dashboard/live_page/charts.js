// Charts, drawn as SVG. Each has a name that says in words what it shows.
import {dayName, draw, hour, make, minutes, t, weekday, whole} from "./kit.js";

const KINDS = ["passed", "would", "warned", "stopped"];
const total = (bar) => KINDS.reduce((sum, kind) => sum + (bar[kind] ?? 0), 0);
export const sums = (bars) => ({all: bars.reduce((sum, bar) => sum + total(bar), 0), stopped: bars.reduce((sum, bar) => sum + bar.stopped + bar.warned, 0), would: bars.reduce((sum, bar) => sum + bar.would, 0)});
const minuteOf = (at) => Number(at.slice(11, 13)) * 60 + Number(at.slice(14, 16));

/** Columns: of a day by the quarter of an hour, else of days; what was stopped stands at the foot. */
export function columns(figures, shades = []) {
  const isDay = figures.step < 60;
  const days = daysOf(figures);
  const slots = isDay ? 96 : days.length;
  const by = new Map();
  for (const bar of figures.bars) {
    const place = isDay ? Math.floor(minuteOf(bar.at) / 15) : days.indexOf(bar.at.slice(0, 10));
    const sum = by.get(place) ?? {passed: 0, would: 0, warned: 0, stopped: 0};
    for (const kind of KINDS) sum[kind] += bar[kind];
    by.set(place, sum);
  }
  const most = Math.max(1, ...[...by.values()].map(total));
  const [width, height] = [960, 200];
  const step = width / slots;
  const parts = shades.map(([begin, end]) => draw("rect", {class: "shade", x: begin / 1440 * width, y: 0, width: (end - begin) / 1440 * width, height}));
  for (const [place, bar] of by) {
    let foot = height;
    for (const kind of ["stopped", "warned", "would", "passed"]) {
      const size = bar[kind] / most * (height - 6);
      if (size) parts.push(draw("rect", {class: kind, x: place * step + step * 0.1, y: (foot -= size), width: step * 0.8, height: size}));
    }
  }
  const marks = isDay ? [0, 6, 12, 18].map((hourNumber) => [hourNumber / 24, hour(`${figures.first}T${String(hourNumber).padStart(2, "0")}:00`)])
    : days.map((day, place) => [place / slots, place % Math.ceil(slots / 7) ? "" : weekdayOr(day, slots)]);
  const {all, stopped} = sums(figures.bars);
  return make("figure", {class: "chart"},
    draw("svg", {viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": t("chart_says", {number: whole.format(all), stopped: whole.format(stopped)})}, parts),
    make("div", {class: "marks", "aria-hidden": "true"}, marks.map(([at, text]) => {
      const mark = make("span", {}, text);
      mark.style.left = `${at * 100}%`;
      return mark;
    })), legend(figures.bars));
}

const weekdayOr = (day, slots) => (slots <= 7 ? weekday(day) : dayName(day));
const legend = (bars) => make("ul", {class: "legend", "aria-hidden": "true"}, KINDS.filter((kind) => bars.some((bar) => bar[kind]))
  .map((kind) => make("li", {class: kind}, t(`figure_${kind}`))));

export function daysOf({first, now}) {
  const dates = [];
  for (let day = new Date(`${first}T00:00Z`); dates.length < 400 && day.toISOString().slice(0, 10) <= now.slice(0, 10); day.setUTCDate(day.getUTCDate() + 1)) dates.push(day.toISOString().slice(0, 10));
  return dates;
}

/** The hours of some days: the darker, the more requests. */
export function heat(figures) {
  const days = daysOf(figures);
  const counts = new Map(figures.bars.map((bar) => [bar.at.slice(0, 13), total(bar)]));
  const most = Math.max(1, ...counts.values());
  const cell = 20;
  const rows = days.map((day, row) => Array.from({length: 24}, (_, hourNumber) => {
    const number = counts.get(`${day}T${String(hourNumber).padStart(2, "0")}`) ?? 0;
    const level = number ? Math.ceil(number / most * 4) : 0;
    return draw("rect", {class: `heat-${level}`, x: hourNumber * cell, y: row * cell, width: cell - 2, height: cell - 2, rx: 3},
      draw("title", {}, `${dayName(day)}, ${hour(`${day}T${String(hourNumber).padStart(2, "0")}:00`)} · ${whole.format(number)}`));
  }));
  const {all} = sums(figures.bars);
  return make("figure", {class: "heat"},
    make("div", {class: "days", "aria-hidden": "true"}, days.map((day) => make("span", {}, weekday(day)))),
    draw("svg", {viewBox: `0 0 ${24 * cell} ${days.length * cell}`, role: "img", "aria-label": t("heat_says", {number: whole.format(all)})}, rows.flat()),
    make("div", {class: "marks", "aria-hidden": "true"}, [0, 6, 12, 18].map((hourNumber) => {
      const mark = make("span", {}, hour(`${figures.first}T${String(hourNumber).padStart(2, "0")}:00`));
      mark.style.left = `${hourNumber / 24 * 100}%`;
      return mark;
    })));
}

/** Minutes of some days up to today, with the limit of a day as a line. */
export function minuteColumns({days, limit, per}, today, name) {
  const [width, height, step] = [700, 160, 700 / days.length];
  const most = Math.max(1, ...days, per === "day" ? limit : 0);
  const last = Date.parse(`${today.slice(0, 10)}T00:00Z`);
  const dates = days.map((_, place) => new Date(last - (days.length - 1 - place) * 86400e3).toISOString().slice(0, 10));
  const parts = days.map((number, place) => draw("rect", {class: per === "day" && number >= limit ? "stopped" : "passed", x: place * step + step * 0.15, y: height - number / most * (height - 8), width: step * 0.7, height: number / most * (height - 8)}));
  const foot = height - limit / most * (height - 8);
  if (per === "day") parts.push(draw("line", {class: "limit", x1: 0, x2: width, y1: foot, y2: foot}));
  return make("figure", {class: "chart minutes"},
    draw("svg", {viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `${name}: ${days.map((number, place) => `${weekday(dates[place])} ${minutes(number)}`).join(", ")}`}, parts),
    make("div", {class: "columns", "aria-hidden": "true"}, days.map((number, place) => make("span", {}, weekday(dates[place]), make("b", {}, whole.format(number))))));
}

/** How much of something is left, as a ring. */
export function ring(left, limit) {
  const around = 2 * Math.PI * 15;
  const part = limit ? Math.max(0, Math.min(1, left / limit)) : 0;
  return draw("svg", {class: `ring ${part ? "" : "empty"}`, viewBox: "0 0 36 36", "aria-hidden": "true"},
    draw("circle", {cx: 18, cy: 18, r: 15}),
    draw("circle", {class: "part", cx: 18, cy: 18, r: 15, "stroke-dasharray": `${part * around} ${around}`, transform: "rotate(-90 18 18)"}));
}

/** The hours of a day as a line. */
export function line(hours) {
  const most = Math.max(1, ...hours);
  const points = hours.map((number, place) => `${place * 4 + 2},${22 - number / most * 20}`).join(" ");
  return draw("svg", {class: "line", viewBox: "0 0 96 24", preserveAspectRatio: "none", "aria-hidden": "true"}, draw("polyline", {points}));
}

/** Values with bars that lead on. */
export function ranking(values) {
  const most = Math.max(1, ...values.map((entry) => entry.number));
  return make("ol", {class: "ranking"}, values.map((entry) => {
    const bar = draw("svg", {class: "measure", "aria-hidden": "true"}, draw("rect", {class: entry.kind ?? "stopped", width: `${entry.number / most * 100}%`, height: "100%"}));
    const inside = [make("span", {class: "name"}, make("bdi", {}, entry.name), entry.more ? make("small", {}, " ", make("bdi", {}, entry.more)) : null), make("span", {class: "number"}, whole.format(entry.number)), bar];
    return row(entry, inside);
  }));
}

const row = (entry, inside) => make("li", {}, entry.href ? make("a", {class: "row", href: entry.href}, ...inside)
  : entry.onclick ? make("button", {class: "row", type: "button", onclick: entry.onclick}, ...inside) : make("div", {class: "row"}, ...inside));

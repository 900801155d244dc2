// Schedules as a week that is drawn, and changed by dragging, by the keyboard, or by the form beside it.
import {preview, read, save} from "./edits.js";
import {button, field, hour, isolate, link, make, may, nameOf, pair, panel, sheet, soft, t, weekday} from "./kit.js";

const NAMES = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const LONG = 1440;
/** A Monday, whose week lends its names. */
const dayName = (day) => weekday(`2024-01-0${day + 1}`);
const clock = (minute) => `${String(Math.floor(minute / 60) % 24).padStart(2, "0")}:${String(minute % 60).padStart(2, "0")}`;
const shown = (minute) => hour(`2024-01-01T${clock(minute)}`);
const minuteOf = (text) => Number(text.split(":")[0]) * 60 + Number(text.split(":")[1]);
const asList = (value) => (value === undefined || value === null ? [] : [value].flat()).flatMap((item) => item.split(",")).map((item) => item.trim());

// -- a schedule as rows: each has days, one span of time, and what else its entry says -----------------------------------

function daysOf(text) {
  const [first, last] = text.toLowerCase().split(/\s*[-‐‑–—]\s*/).map((item) => NAMES.indexOf(item.slice(0, 3)));
  return last === undefined ? [first] : Array.from({length: (last - first + 7) % 7 + 1}, (_, more) => (first + more) % 7);
}

export function rowsOf(value) {
  return [value].flat().flatMap(({days, times, ...rest}) => {
    const on = new Set(days === undefined ? [0, 1, 2, 3, 4, 5, 6] : asList(days).flatMap(daysOf));
    return (times === undefined ? ["00:00-24:00"] : asList(times)).map((span) => {
      const [begin, end] = span.split(/\s*[-‐‑–—]\s*/).map(minuteOf);
      return {days: new Set(on), begin, end: end <= begin ? end + LONG : end, rest};
    });
  });
}

/** Days as a policy names them: `mon-fri`, or each where they have gaps. */
function written(days) {
  const first = [...days].sort().find((day) => !days.has((day + 6) % 7)) ?? 0;
  const run = Array.from({length: days.size}, (_, more) => (first + more) % 7);
  return run.length > 2 && run.every((day) => days.has(day)) ? `${NAMES[run[0]]}-${NAMES[run.at(-1)]}` : [...days].sort().map((day) => NAMES[day]).join(",");
}

/** What the rows are in a policy; those of the same days share an entry. */
export function valueOf(rows) {
  const entries = new Map();
  for (const {days, begin, end, rest} of rows) {
    const key = JSON.stringify([[...days].sort(), rest]);
    if (!entries.has(key)) entries.set(key, {days, rest, spans: []});
    entries.get(key).spans.push([begin, end]);
  }
  const made = [...entries.values()].map(({days, rest, spans}) => {
    const isWhole = spans.length === 1 && spans[0][0] === 0 && spans[0][1] === LONG;
    const times = spans.map(([begin, end]) => `${clock(begin)}-${end === LONG ? "24:00" : clock(end)}`);
    return {...(days.size === 7 ? {} : {days: written(days)}), ...(isWhole && (days.size < 7 || rest.dates) ? {} : {times: times.length === 1 ? times[0] : times}), ...rest};
  });
  return made.length === 1 ? made[0] : made;
}

// -- drawing ------------------------------------------------------------------------------------------------------------

/** A week: a line a day, on which spans of minutes since Monday lie; `touch` makes what lies there. */
function week(name, spans, touch = null) {
  const lines = NAMES.map((_, day) => make("div", {class: "track", "data-day": day}));
  for (const {begin, end, row} of spans) {
    for (let day = Math.floor(begin / LONG); day * LONG < end; day++) {
      const [from, to] = [Math.max(begin, day * LONG), Math.min(end, (day + 1) * LONG)];
      const said = `${dayName(day % 7)}, ${shown(begin % LONG)} – ${shown(end % LONG)}`;
      const item = touch && from === begin ? touch(row, said) : make("div", {class: "span", title: said});
      if (row) item.classList.add("chosen");
      item.style.left = `${(from - day * LONG) / LONG * 100}%`;
      item.style.width = `${(to - from) / LONG * 100}%`;
      lines[day % 7].append(item);
    }
  }
  const all = spans.map(({begin, end}) => `${dayName(Math.floor(begin / LONG) % 7)} ${shown(begin % LONG)} – ${shown(end % LONG)}`);
  return make("div", {class: "week", role: touch ? "group" : "img", "aria-label": pair(name, all.join(", ") || t("never"))},
    lines.map((line, day) => [make("span", {class: "day", "aria-hidden": "true"}, dayName(day)), line]).flat(),
    make("div", {class: "marks", "aria-hidden": "true"}, [0, 6, 12, 18].map((item) => {
      const mark = make("span", {}, shown(item * 60));
      mark.style.left = `${item / 24 * 100}%`;
      return mark;
    })));
}

const drawn = (rows) => rows.flatMap((row) => [...row.days].map((day) => ({begin: day * LONG + row.begin, end: day * LONG + row.end, row})));

// -- changing -----------------------------------------------------------------------------------------------------------

const STEP = 15;
/** A row with another beginning and end, if that is a span. */
function set(row, begin, end) {
  if (end - begin < STEP || end - begin > LONG) return;
  const turn = begin < 0 ? LONG : begin >= LONG ? -LONG : 0;
  Object.assign(row, {begin: begin + turn, end: end + turn});
}

/** The week of rows that can be changed, and the form of each. */
function editor(name, rows) {
  const place = make("div", {class: "explained"});
  const at = ({left, width}, {clientX}) => Math.round((clientX - left) / width * LONG / STEP) * STEP;
  const focus = (row, what, day = "") => {
    const selector = `[data-row="${rows.indexOf(row)}"]${what}`;
    (place.querySelector(`[data-day="${day}"] ${selector}`) ?? place.querySelector(selector) ?? [...place.querySelectorAll("button")].at(-1)).focus();
  };
  const paint = () => place.replaceChildren(drawing(), soft(t("week_keys")), ...rows.map(form), make("div", {class: "actions"}, button(t("add_time"), () => {
    const row = {days: new Set([0, 1, 2, 3, 4]), begin: 20 * 60, end: 22 * 60, rest: {}};
    rows.push(row);
    paint();
    focus(row, " input");
  }, {class: "plain"})));
  const drawing = () => {
    const element = week(name, drawn(rows), (row, said) => make("button", {type: "button", class: "span", "data-row": rows.indexOf(row), "aria-label": said, title: said, onkeydown: (event) => key(event, row), onclick: () => focus(row, " input")}));
    for (const line of element.querySelectorAll(".track")) line.addEventListener("pointerdown", (event) => drag(event, line));
    return element;
  };
  const key = (event, row) => {
    const step = {ArrowLeft: -STEP, ArrowRight: STEP}[event.key];
    if (event.key === "Delete" || event.key === "Backspace") rows.splice(rows.indexOf(row), 1);
    else if (step) set(row, row.begin + (event.shiftKey ? 0 : step), row.end + step);
    else return;
    event.preventDefault();
    const {day} = event.target.parentElement.dataset; // a span of another day moves as well, and does not get the focus
    paint();
    focus(row, ".span", day);
  };
  /** From an empty place, a new span begins; one that is there moves, or one of its ends. */
  const drag = (event, line) => {
    if (event.button) return;
    const span = event.target.closest(".span");
    if (span && span.dataset.row === undefined) return;
    const box = line.getBoundingClientRect(); // the line itself is drawn anew meanwhile
    const begun = at(box, event);
    let row = span ? rows[Number(span.dataset.row)] : null;
    const was = row && {...row};
    const edge = span && event.clientX - span.getBoundingClientRect().left < 12 ? "begin" : span && span.getBoundingClientRect().right - event.clientX < 12 ? "end" : "";
    const move = (next) => {
      const now = at(box, next);
      if (now === begun && !row) return;
      if (!row) rows.push(row = {days: new Set([Number(line.dataset.day)]), begin: begun, end: begun + STEP, rest: {}});
      if (!was) set(row, Math.max(0, Math.min(begun, now)), Math.min(LONG, Math.max(begun, now)));
      else set(row, was.begin + (edge === "end" ? 0 : now - begun), was.end + (edge === "begin" ? 0 : now - begun));
      place.querySelector(".week").replaceWith(drawing());
    };
    const end = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
      removeEventListener("pointercancel", end);
      if (!row || was && was.begin === row.begin && was.end === row.end) return;
      paint();
      focus(row, ".span");
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
    addEventListener("pointercancel", end);
  };
  const form = (row, number) => {
    const times = ["begin", "end"].map((item) => make("input", {type: "time", required: true, value: clock(row[item]), onchange: ({target}) => {
      if (!target.value) return;
      const minute = minuteOf(target.value);
      const [begin, end] = item === "begin" ? [minute, row.end % LONG] : [row.begin, minute];
      set(row, begin, end > begin ? end : end + LONG);
      place.querySelector(".week").replaceWith(drawing());
    }}));
    const days = NAMES.map((_, day) => make("label", {class: "tick"}, make("input", {type: "checkbox", checked: row.days.has(day), onchange: ({target}) => {
      if (target.checked) row.days.add(day); else row.days.delete(day);
      place.querySelector(".week").replaceWith(drawing());
    }}), make("span", {}, dayName(day))));
    const other = Object.entries(row.rest).map(([key, value]) => pair(key, [value].flat().join(", "))).join(" · ");
    return make("fieldset", {class: "fields", "data-row": number}, make("legend", {}, t("time_number", {number: number + 1})),
      make("div", {class: "wide ticks"}, days), field(t("time_from"), times[0]), field(t("time_to"), times[1]), other ? soft(isolate(other)) : null,
      make("div", {class: "actions"}, button(t("remove"), () => {
        rows.splice(rows.indexOf(row), 1);
        paint();
        focus(row, "");
      }, {class: "small", "aria-label": `${t("remove")}: ${t("time_number", {number: number + 1})}`})));
  };
  paint();
  return place;
}

/** Change a schedule, or make one: its week, and for whom only what is allowed passes then. */
async function change(name, people) {
  const [all, groups] = await Promise.all([read("schedules"), read("groups")]).catch((error) => [error]);
  const why = all instanceof Error ? all.message : all.read_only && t("read_only", {why: all.read_only});
  if (why) return sheet(name || t("new_schedule"), soft(why));
  const rows = name ? rowsOf(all.value[name]) : [{days: new Set([0, 1, 2, 3, 6]), begin: 20 * 60, end: 30 * 60, rest: {}}];
  const named = name ? null : make("input", {name: "name", required: true, maxlength: "60"});
  const uses = (group) => name !== "" && group.default?.during === name;
  const choose = (groups.value ?? []).filter((item) => item.default === undefined || uses(item)).map((item) =>
    make("label", {class: "tick"}, make("input", {type: "checkbox", name: "group", value: item.name, checked: uses(item)}), make("span", {}, item.name)));
  const said = make("div", {class: "explained", "aria-live": "polite"});
  const form = make("form", {class: "explained"}, named ? field(t("name"), named) : null, editor(name || t("new_schedule"), rows),
    choose.length ? make("fieldset", {}, make("legend", {}, t("only_allowed_for")), make("div", {class: "ticks"}, choose)) : null,
    said,
    make("div", {class: "actions"}, make("button", {}, t("save")), button(t("preview"), () => preview("schedules", body(), said), {class: "plain"}),
      name ? button(t("remove"), () => done(true), {class: "plain"}) : null));
  const scheduleName = () => name || named.value.trim();
  /** What the sections become, all at once; without the schedule where it goes. */
  const body = (isGone = false) => {
    const chosen = new Set([...form.querySelectorAll("[name=group]:checked")].map((item) => item.value));
    const changed = (groups.value ?? []).map((item) => {
      const wanted = !isGone && chosen.has(item.name);
      if (item.default !== undefined && !uses(item) || wanted === uses(item)) return item;
      const {default: before, ...rest} = item;
      return wanted ? {...rest, default: {action: "block", during: scheduleName(), otherwise: "pass"}} : rest;
    });
    const {[scheduleName()]: gone, ...others} = all.value ?? {};
    const left = isGone ? others : {...(all.value ?? {}), [scheduleName()]: valueOf(rows)};
    const isSame = changed.every((item, place) => item === groups.value[place]);
    return {value: Object.keys(left).length ? left : null, ...(isSame ? {} : {besides: {groups: {value: changed, etag: groups.etag}}})};
  };
  const done = async (isGone = false) => {
    if (!isGone && (!rows.length || rows.some((row) => !row.days.size))) said.textContent = t("say_when");
    else if (await save("schedules", all.etag, body(isGone), said)) dialog.close();
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    done();
  });
  const dialog = sheet(name || t("new_schedule"), form);
  return dialog;
}

/** All schedules as they hold in this week, those that nobody goes by as they are written; and what changes them. */
export async function schedulesPanel({schedules: used, zone}, people) {
  const all = may("manage") ? await read("schedules").catch(() => ({})) : {};
  const unused = Object.entries(all.value ?? {}).filter(([name]) => used.every((item) => item.name !== name));
  const schedules = [...used, ...unused.map(([name, value]) => ({name, groups: [], closing: [], spans: drawn(rowsOf(value)).map(({begin, end}) => [begin, end])}))];
  return panel(t("schedules"), soft(t("this_week", {zone})), schedules.length ? null : soft(t("nothing")), ...schedules.map((item) => make("section", {class: "schedule"},
    make("div", {class: "bar"}, make("h3", {dir: "auto"}, item.name), may("manage") ? button(t("edit"), () => change(item.name, people), {class: "small", "aria-label": `${t("edit")}: ${item.name}`}) : null),
    soft(item.groups.length ? item.groups.map((name, place) => [place ? ", " : "", link(nameOf(`group:${name}`), `#/people/${encodeURIComponent(`group:${name}`)}`), item.closing.includes(name) ? ` (${t("only_allowed")})` : ""]).flat() : t("for_nobody")),
    week(item.name, item.spans.map(([begin, end]) => ({begin, end}))))),
  may("manage") ? make("div", {class: "actions"}, button(t("new_schedule"), () => change("", people), {class: "plain"})) : null);
}

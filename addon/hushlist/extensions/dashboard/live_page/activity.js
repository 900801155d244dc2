// Activity: what is decided and was decided, in one feed; and what would be decided, with each step.
import {heat} from "./charts.js";
import {columnsOf, whatIsCounted} from "./figures.js";
import {
  LOCALE, bdi, button, categoryName, chip, code, dayName, deviceOf, facts, field, get, hour, isolate, link, listName, make, micro, nameOf, octets, pair, panel, personAt, query, select, session, soft, t, table, whole, whoOf, whomOf,
} from "./kit.js";
import {siteSheet} from "./orders.js";
import {requests} from "./requests.js";

const MOST = 100;
const ACTIONS = ["stopped", "block", "warn", "would", "allow", "tag", "pass"];
const FILTERS = ["whom", "action", "category", "list_name", "host", "file", "day", "reference"];
const SHOWN = ["whom", "action", "host", "file", "day"]; // those that the form has
const local = new Intl.DateTimeFormat(LOCALE, {hour: "2-digit", minute: "2-digit", second: "2-digit"});
const dated = new Intl.DateTimeFormat(LOCALE, {day: "numeric", month: "short", hour: "2-digit", minute: "2-digit"});
const shownAs = (item) => (item.would_block ? "would" : item.action);

function fits(item, filters) {
  const is = (value, wanted) => !wanted || value === wanted;
  const host = hostOf(item);
  return is(item.reference, filters.reference) && (is(item.title, filters.list_name))
    && (!filters.action || filters.action === shownAs(item) || filters.action === "stopped" && ["block", "warn"].includes(shownAs(item)))
    && (!filters.whom || [whomOf(item), whomOf(item, true), `group:${item.group}`].includes(filters.whom))
    && (!filters.category || item.category === filters.category || item.category?.startsWith(`${filters.category}/`))
    && (!filters.file || fileWords(item).includes(filters.file.toLowerCase()))
    && (!filters.host || host === filters.host || host.endsWith(`.${filters.host}`));
}

const fileWords = ({file}) => (file ? [(file.kinds ?? []).join(" ") || file.media_type, file.media_type, file.name].filter(Boolean).join(" ").toLowerCase() : "");

export const hostOf = (item) => (item.url ?? "").replace(/^[a-z][a-z0-9+.-]*:\/\//i, "").split(/[/?#]/, 1)[0].replace(/:[0-9]+$/, "");

const ofLastWeek = ({is_all, read}) => soft([t("last_week"), is_all ? "" : t("newest_only", {number: whole.format(read)})].filter(Boolean).join(". "));

export async function activity(_, values) {
  const filters = Object.fromEntries(FILTERS.map((name) => [name, values.get(name) ?? ""]));
  filters.whom ||= session.groups?.length ? `group:${session.groups[0]}` : "";
  const by = ["site", ...(session.groups ? [] : ["file", "page"])].find((item) => item === values.get("by")) ?? "";
  const [state, {people}] = await Promise.all([get("/home").catch(() => null), get("/people").catch(() => ({people: []}))]);
  const at = (more) => `#/activity?${query({...filters, by, ...more})}`;
  const names = new Set([...(session.groups ? [] : [""]), ...people.map((item) => `group:${item.name}`), ...(filters.whom ? [filters.whom] : [])]);
  const form = make("form", {class: "chips", "aria-label": t("show_only")},
    field(t("who"), select("whom", [...names].map((item) => [item, nameOf(item)]), filters.whom)),
    field(t("action"), select("action", [["", t("all_actions")], ...ACTIONS.map((item) => [item, item === "stopped" ? t("stopped") : t(`action_${item}`)])], filters.action)),
    field(t("site"), make("input", {name: "host", type: "search", value: filters.host, maxlength: "2048", dir: "ltr", spellcheck: "false", autocapitalize: "none"})),
    field(t("file"), make("input", {name: "file", type: "search", value: filters.file, maxlength: "255", dir: "ltr", spellcheck: "false", autocapitalize: "none"})),
    by === "page" ? null : field(t("day"), make("input", {name: "day", type: "date", value: filters.day})),
    make("button", {class: "plain"}, t("show")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = at(Object.fromEntries(SHOWN.map((name) => [name, form.elements[name]?.value.trim() ?? ""])));
  });
  const dropped = FILTERS.filter((name) => filters[name] && !SHOWN.includes(name)).map((name) =>
    link(`${name === "category" ? categoryName(filters[name]) : filters[name]} ×`, at({[name]: ""}), {class: "chip", "aria-label": `${t("remove")}: ${filters[name]}`}));
  const said = t(state?.kept === "all" ? "log_keeps_all" : "log_keeps_some");
  const feed = make("div", {class: "feed"});
  const parts = [form, ...(dropped.length ? [make("p", {}, dropped)] : []),
    make("nav", {class: "chips", "aria-label": t("figures")}, [["", "one_by_one"], ["site", "by_site"], ...(session.groups ? [] : [["file", "by_file"], ["page", "as_they_happen"]])].map(([item, key]) => link(t(key), at({by: item}), {"aria-current": item === by ? "true" : null})),
      session.groups ? null : [link(t("over_time"), "#/history"), link(t("what_if"), "#/explain")]),
    soft(by === "page" ? t("as_requests_say") : said), feed];
  const screen = {state, title: t("activity"), parts};
  if (by === "site") {
    const answer = await get("/sites", {whom: filters.whom, action: filters.action, days: 7});
    feed.append(ofLastWeek(answer), table(t("site"), [t("site"), t("who"), t("category"), t("stopped"), t("opened"), ""], answer.sites.map((item) => [item.host, [whoOf(item), deviceOf(item)].filter(Boolean).join(" · "), item.category ? categoryName(item.category) : "", whole.format(item.stopped), whole.format(item.passed),
        button(t("act"), () => siteSheet(item, people), {class: "small", "aria-label": [`${t("act")}: ${item.host}`, whoOf(item), deviceOf(item)].filter(Boolean).join(", ")})])));
    return screen;
  }
  if (by === "file") {
    const answer = await get("/files", {whom: filters.whom, days: 7});
    feed.append(ofLastWeek(answer), table(t("file"), [t("file"), t("stopped"), t("opened"), ""], answer.files.map((item) => [item.file || "–", whole.format(item.stopped), whole.format(item.passed),
      item.file ? link(t("show"), at({file: item.file, by: ""}), {"aria-label": `${t("show")}: ${item.file}`}) : ""])));
    return screen;
  }
  return {...screen, ...(by === "page" ? requests(feed, (item) => fits(item, filters), people) : follow(feed, filters, people))};
}

/** The feed: what the log has, and above it what is decided meanwhile; or that alone, where there is no log. */
function follow(feed, filters, people) {
  const list = make("ol", {class: "rows", "aria-label": t("decisions")});
  const none = soft(t("no_decision"));
  const older = button(t("older"), () => load(), {class: "plain", hidden: true});
  const shownNames = new Set();
  let before = "";
  const show = (records, isNew) => {
    const nameOfIt = (item) => item.reference || item.number; // without a log, it has no reference
    const fresh = records.filter((item) => !shownNames.has(nameOfIt(item)) && fits(item, filters));
    for (const item of fresh) shownNames.add(nameOfIt(item));
    const rows = fresh.map((item) => make("li", {}, row(item, people)));
    if (isNew) list.prepend(...rows); else list.append(...rows);
    while (isNew && list.children.length > 1000) list.lastChild.remove();
    none.hidden = list.children.length > 0;
    none.textContent = t(Object.values(filters).some(Boolean) ? "no_decision_fits" : "no_decision");
    return fresh.length;
  };
  const load = async () => {
    try {
      const answer = await get("/activity", {...filters, before, most: MOST});
      const number = show(answer.records, false);
      before = answer.records.length ? later(answer.records.at(-1).time) : before;
      older.hidden = answer.is_all || !number;
    } catch (error) {
      older.hidden = true; // without a log, what is decided from now on, and was since the start, is there
      if (error.status === 403) none.textContent = error.message;
    }
  };
  const {pause, leave} = watched((answer) => show(answer.reverse(), true), load, !filters.day && !filters.reference && !session.groups);
  feed.append(make("div", {class: "bar"}, make("h2", {}, t("decisions")), filters.day || session.groups ? null : pause), none, list, older);
  return {leave};
}

/** Hand over what is decided, from what the proxy remembers on; its button interrupts that. */
export function watched(take, before = () => {}, goesOn = true) {
  let isPaused = false, isOver = false, last = 0, of = "";
  const pause = button(t("pause"), () => {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", String(isPaused));
  }, {class: "plain", "aria-pressed": "false"});
  const watch = async () => {
    await before();
    while (!isOver && goesOn) {
      if (isPaused || document.hidden) {
        await sleep(500);
        continue;
      }
      try {
        const answer = await get("/live", {of, since: last});
        [of, last] = [answer.of, answer.last];
        if (!isOver && answer.decisions.length) take(answer.decisions);
        await sleep(200);
      } catch (error) {
        if (error.status === 401) return;
        await sleep(2000);
      }
    }
  };
  watch();
  return {pause, leave: () => { isOver = true; }};
}

const sleep = (time) => new Promise((done) => setTimeout(done, time));
/** A moment after one of a record: those of the same moment are asked for again. */
const later = (time) => new Date(Date.parse(time) + 1).toISOString();

/** A decision in a line; `told` gives what its sheet shows besides, `more` stands in the line. */
export function row(item, people, details = () => [], more = null) {
  const host = hostOf(item);
  const [, path = ""] = (item.url ?? "").split(host, 2).length > 1 ? [null, item.url.slice(item.url.indexOf(host) + host.length)] : [];
  const time = new Date(item.time);
  const when = (Date.now() - time < 86400e3 ? local : dated).format(time);
  return make("button", {type: "button", class: "row", onclick: () => decision(item, people, details())},
    make("time", {datetime: item.time}, when), make("span", {class: "who"}, bdi(whoOf(item)), deviceOf(item) ? make("small", {}, " ", bdi(deviceOf(item))) : null),
    chip(shownAs(item)), more, make("span", {class: "url", dir: "ltr"}, make("b", {}, host), path));
}

/** A decision: why, and what can be done. */
export function decision(item, people, details = []) {
  const why = item.fault ?? item.reason;
  const shown = {...item, host: hostOf(item), url: item.original ?? item.url, action: shownAs(item)};
  siteSheet(shown, people,
    make("p", {}, chip(shownAs(item)), " ", why ? make("span", {dir: "auto"}, why) : item.expression ? t("a_rule_fits") : t("no_rule_fits")),
    facts([
      [t("when"), new Date(item.time).toLocaleString(LOCALE)],
      [t("who"), [whoOf(item), deviceOf(item), item.device && item.client].filter(Boolean).join(" · ")],
      [t("address"), code(item.url)],
      item.original && [t("original"), code(item.original)],
      item.file && [t("file"), make("span", {}, bdi(item.file.name ?? ""), make("small", {dir: "ltr"}, [item.file.media_type, ...(item.file.kinds ?? []), item.file.size !== undefined && octets(item.file.size)].filter(Boolean).join(" · ")))],
      item.category && [t("category"), make("span", {}, bdi(categoryName(item.category)), make("small", {dir: "ltr"}, item.category))],
      item.expression && [t("list"), make("span", {}, bdi(listName(item)), make("small", {dir: "ltr"}, `${item.expression} · ${item.rule}`))],
      item.grant && [t("unblocked"), item.grant],
      [t("request"), code(item.reference)],
      item.duration !== undefined && [t("how_long"), micro(item.duration)],
    ]),
    ...details,
    make("p", {}, session.groups ? null : [link(t("explain_this"), `#/explain?${query({url: item.original ?? item.url, client: /^[0-9a-f.:]+$/.test(item.client ?? "") ? item.client : "", user: item.user})}`), " · "],
      link(t("only_this_site"), `#/activity?${query({host: hostOf(item)})}`), whomOf(item) ? [" · ", link(whoOf(item), personAt(whomOf(item)))] : null));
}

/** How many requests there were, and when. */
export async function history(_, values) {
  const days = Number(values.get("days")) || 7;
  const whom = values.get("whom") ?? "";
  const [state, figures] = await Promise.all([get("/home").catch(() => null), get("/figures", {days, whom})]);
  const spans = {1: ["today", "day"], 7: ["last_week", "week"], 31: ["last_month", "month"]};
  return {state, title: t("over_time"), parts: [
    make("nav", {class: "chips", "aria-label": t("over_time")}, Object.entries(spans).map(([item, [key]]) => link(t(key), `#/history?days=${item}`, {"aria-current": Number(item) === days ? "page" : null})),
      link("CSV", `/history.csv?of=${(spans[days] ?? spans[7])[1]}`, {download: true})),
    panel(t("requests"), whatIsCounted(figures), columnsOf(figures)),
    days > 1 ? panel(t("by_hour"), heat(figures)) : null,
    table(t("day"), [t("day"), t("requests"), t("stopped")], dailyRows(figures), {isNarrow: true}),
  ]};
}

function dailyRows({bars, step}) {
  const sums = new Map();
  for (const bar of bars) {
    const label = step < 60 ? `${bar.at.slice(0, 13)}:00` : bar.at.slice(0, 10);
    const [all, stopped] = sums.get(label) ?? [0, 0];
    sums.set(label, [all + bar.passed + bar.would + bar.warned + bar.stopped, stopped + bar.warned + bar.stopped]);
  }
  return [...sums].map(([label, [all, stopped]]) => [step < 60 ? hour(label) : dayName(label), whole.format(all), whole.format(stopped)]);
}

// -- explaining ---------------------------------------------------------------------------------------------------------

export async function explain(_, values) {
  const input = (name, more = {}) => make("input", {name, value: values.get(name) ?? "", dir: "ltr", spellcheck: "false", autocapitalize: "none", ...more});
  const state = await get("/home").catch(() => null);
  const form = make("form", {class: "fields panel", autocomplete: "off"},
    field(t("address"), input("url", {required: true, maxlength: "8000", placeholder: "http://www.example.com/page"}), {class: "field wide"}),
    field(`${t("client")} (192.168.1.7)`, input("client")), field(t("user"), input("user")),
    field(`${t("when")}${state ? ` (${state.zone})` : ""}`, input("at", {type: "datetime-local"})),
    make("div", {class: "actions"}, make("button", {}, t("explain"))));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = `#/explain?${query(Object.fromEntries(new FormData(form)))}`;
  });
  const place = make("div", {class: "explained", "aria-live": "polite"});
  if (values.get("url")) {
    try {
      place.append(...explained(await get("/explain", Object.fromEntries(values))));
    } catch (error) {
      place.append(make("p", {class: "alert"}, `${t("cannot_explain")} ${error.said ?? error.message}`));
    }
  }
  return {state, title: t("what_if"), parts: [form, place]};
}

const until = (text) => `${dayName(text)}, ${hour(text)}`;

function explained(answer) {
  const {decision: decided} = answer;
  const winner = decided.winner;
  const isWinner = (match) => winner && JSON.stringify(match) === JSON.stringify(winner);
  const stops = ["block", "warn"].includes(decided.action);
  const passes = answer.option !== "block" ? answer.option : answer.mode !== "block" ? answer.mode : null;
  const why = decided.fault ?? (winner ? `${winner.expression} · ${listName(winner)} (${winner.source}:${winner.line})` : t("no_rule_fits"));
  const small = (words) => make("small", {}, words);
  const decides = ` – ${t("decides")}`;
  const parts = [make("p", {class: "verdict"}, chip(decided.action), " ", bdi(decided.canonical), small(bdi(why)),
    winner?.reason ? small(bdi(winner.reason)) : null, decided.grant ? small(bdi(decided.grant)) : null,
    stops && passes ? small(t("it_passes", {mode: passes})) : null,
    small([pair(t("group"), nameOf(`group:${answer.group}`)), answer.until && pair(t("until_when"), until(answer.until))].filter(Boolean).join(" · ")),
    ...answer.quotas.map((item) => small(`${t("quota_left", {category: categoryName(item.category), left: whole.format(item.left), limit: whole.format(item.limit), until: until(item.reset)})} ${isolate(`(${item.source}:${item.line})`)}`)))];
  if (decided.matches.length) {
    parts.push(make("h2", {}, t("rules_that_fit")), table(t("rules_that_fit"), ["layer", "action", "expression_of", "written", "where", "category"].map((key) => t(key)),
      decided.matches.map((match) => [match.layer + (isWinner(match) ? decides : ""), chip(match.action), match.expression, code(match.rule), `${match.source}:${match.line}${match.via ? `, ${match.via}` : ""}`, match.category])));
  }
  parts.push(make("h2", {}, t("layers_asked")), table(t("layers_asked"), [t("layer"), t("rules"), t("that_fit")], answer.layers.map((layer) =>
    [layer.name + (layer.decides ? decides : ""), layer.rules === null ? t("no_layer") : whole.format(layer.rules), whole.format(layer.fit)])));
  const steps = make("details", {}, make("summary", {}, t("steps")), table(t("steps"), [t("step"), t("address")], [[t("as_given"), code(answer.url)], ...answer.steps.map((step) => [step.name, code(step.url)])]));
  for (const form of answer.forms) {
    steps.append(make("h3", {}, `${form.via ?? t("canonical")}: `, code(form.url)), table(t("expression_of"), [t("expression_of"), "SHA-256"],
      form.expressions.map((item) => [code(item.expression), make("code", {class: "digest"}, item.sha256)])));
  }
  return [...parts, steps];
}

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
const shownAs = (one) => (one.would_block ? "would" : one.action);

function fits(one, filters) {
  const is = (value, wanted) => !wanted || value === wanted;
  const host = hostOf(one);
  return is(one.reference, filters.reference) && (is(one.title, filters.list_name))
    && (!filters.action || filters.action === shownAs(one) || filters.action === "stopped" && ["block", "warn"].includes(shownAs(one)))
    && (!filters.whom || [whomOf(one), whomOf(one, true), `group:${one.group}`].includes(filters.whom))
    && (!filters.category || one.category === filters.category || one.category?.startsWith(`${filters.category}/`))
    && (!filters.file || fileWords(one).includes(filters.file.toLowerCase()))
    && (!filters.host || host === filters.host || host.endsWith(`.${filters.host}`));
}

const fileWords = ({file}) => (file ? [(file.kinds ?? []).join(" ") || file.media_type, file.media_type, file.name].filter(Boolean).join(" ").toLowerCase() : "");

export const hostOf = (one) => (one.url ?? "").replace(/^[a-z][a-z0-9+.-]*:\/\//i, "").split(/[/?#]/, 1)[0].replace(/:[0-9]+$/, "");

const ofLastWeek = ({is_all, read}) => soft([t("last_week"), is_all ? "" : t("newest_only", {number: whole.format(read)})].filter(Boolean).join(". "));

export async function activity(_, values) {
  const filters = Object.fromEntries(FILTERS.map((name) => [name, values.get(name) ?? ""]));
  filters.whom ||= session.groups?.length ? `group:${session.groups[0]}` : "";
  const by = ["site", ...(session.groups ? [] : ["file", "page"])].find((one) => one === values.get("by")) ?? "";
  const [state, {people}] = await Promise.all([get("/home").catch(() => null), get("/people").catch(() => ({people: []}))]);
  const at = (more) => `#/activity?${query({...filters, by, ...more})}`;
  const names = new Set([...(session.groups ? [] : [""]), ...people.map((one) => `group:${one.name}`), ...(filters.whom ? [filters.whom] : [])]);
  const form = make("form", {class: "chips", "aria-label": t("show_only")},
    field(t("who"), select("whom", [...names].map((one) => [one, nameOf(one)]), filters.whom)),
    field(t("action"), select("action", [["", t("all_actions")], ...ACTIONS.map((one) => [one, one === "stopped" ? t("stopped") : t(`action_${one}`)])], filters.action)),
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
    make("nav", {class: "chips", "aria-label": t("figures")}, [["", "one_by_one"], ["site", "by_site"], ...(session.groups ? [] : [["file", "by_file"], ["page", "as_they_happen"]])].map(([one, key]) => link(t(key), at({by: one}), {"aria-current": one === by ? "true" : null})),
      session.groups ? null : [link(t("over_time"), "#/history"), link(t("what_if"), "#/explain")]),
    soft(by === "page" ? t("as_requests_say") : said), feed];
  const screen = {state, title: t("activity"), parts};
  if (by === "site") {
    const found = await get("/sites", {whom: filters.whom, action: filters.action, days: 7});
    feed.append(ofLastWeek(found), table(t("site"), [t("site"), t("who"), t("category"), t("stopped"), t("opened"), ""], found.sites.map((one) => [one.host, [whoOf(one), deviceOf(one)].filter(Boolean).join(" · "), one.category ? categoryName(one.category) : "", whole.format(one.stopped), whole.format(one.passed),
        button(t("act"), () => siteSheet(one, people), {class: "small", "aria-label": [`${t("act")}: ${one.host}`, whoOf(one), deviceOf(one)].filter(Boolean).join(", ")})])));
    return screen;
  }
  if (by === "file") {
    const found = await get("/files", {whom: filters.whom, days: 7});
    feed.append(ofLastWeek(found), table(t("file"), [t("file"), t("stopped"), t("opened"), ""], found.files.map((one) => [one.file || "–", whole.format(one.stopped), whole.format(one.passed),
      one.file ? link(t("show"), at({file: one.file, by: ""}), {"aria-label": `${t("show")}: ${one.file}`}) : ""])));
    return screen;
  }
  return {...screen, ...(by === "page" ? requests(feed, (one) => fits(one, filters), people) : follow(feed, filters, people))};
}

/** The feed: what the log has, and above it what is decided meanwhile; or that alone, where there is no log. */
function follow(feed, filters, people) {
  const list = make("ol", {class: "rows", "aria-label": t("decisions")});
  const none = soft(t("no_decision"));
  const older = button(t("older"), () => load(), {class: "plain", hidden: true});
  const known = new Set();
  let before = "";
  const show = (records, isNew) => {
    const nameOfIt = (one) => one.reference || one.number; // without a log, it has no reference
    const fresh = records.filter((one) => !known.has(nameOfIt(one)) && fits(one, filters));
    for (const one of fresh) known.add(nameOfIt(one));
    const rows = fresh.map((one) => make("li", {}, row(one, people)));
    if (isNew) list.prepend(...rows); else list.append(...rows);
    while (isNew && list.children.length > 1000) list.lastChild.remove();
    none.hidden = list.children.length > 0;
    none.textContent = t(Object.values(filters).some(Boolean) ? "no_decision_fits" : "no_decision");
    return fresh.length;
  };
  const load = async () => {
    try {
      const found = await get("/activity", {...filters, before, most: MOST});
      const number = show(found.records, false);
      before = found.records.length ? later(found.records.at(-1).time) : before;
      older.hidden = found.is_all || !number;
    } catch (error) {
      older.hidden = true; // without a log, what is decided from now on, and was since the start, is there
      if (error.status === 403) none.textContent = error.message;
    }
  };
  const {pause, leave} = watched((found) => show(found.reverse(), true), load, !filters.day && !filters.reference && !session.groups);
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
        const found = await get("/live", {of, since: last});
        [of, last] = [found.of, found.last];
        if (!isOver && found.decisions.length) take(found.decisions);
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
export function row(one, people, told = () => [], more = null) {
  const host = hostOf(one);
  const [, path = ""] = (one.url ?? "").split(host, 2).length > 1 ? [null, one.url.slice(one.url.indexOf(host) + host.length)] : [];
  const time = new Date(one.time);
  const when = (Date.now() - time < 86400e3 ? local : dated).format(time);
  return make("button", {type: "button", class: "row", onclick: () => decision(one, people, told())},
    make("time", {datetime: one.time}, when), make("span", {class: "who"}, bdi(whoOf(one)), deviceOf(one) ? make("small", {}, " ", bdi(deviceOf(one))) : null),
    chip(shownAs(one)), more, make("span", {class: "url", dir: "ltr"}, make("b", {}, host), path));
}

/** A decision: why, and what can be done. */
export function decision(one, people, told = []) {
  const why = one.fault ?? one.reason;
  const shown = {...one, host: hostOf(one), url: one.original ?? one.url, action: shownAs(one)};
  siteSheet(shown, people,
    make("p", {}, chip(shownAs(one)), " ", why ? make("span", {dir: "auto"}, why) : one.expression ? t("a_rule_fits") : t("no_rule_fits")),
    facts([
      [t("when"), new Date(one.time).toLocaleString(LOCALE)],
      [t("who"), [whoOf(one), deviceOf(one), one.device && one.client].filter(Boolean).join(" · ")],
      [t("address"), code(one.url)],
      one.original && [t("original"), code(one.original)],
      one.file && [t("file"), make("span", {}, bdi(one.file.name ?? ""), make("small", {dir: "ltr"}, [one.file.media_type, ...(one.file.kinds ?? []), one.file.size !== undefined && octets(one.file.size)].filter(Boolean).join(" · ")))],
      one.category && [t("category"), make("span", {}, bdi(categoryName(one.category)), make("small", {dir: "ltr"}, one.category))],
      one.expression && [t("list"), make("span", {}, bdi(listName(one)), make("small", {dir: "ltr"}, `${one.expression} · ${one.rule}`))],
      one.grant && [t("unblocked"), one.grant],
      [t("request"), code(one.reference)],
      one.duration !== undefined && [t("how_long"), micro(one.duration)],
    ]),
    ...told,
    make("p", {}, session.groups ? null : [link(t("explain_this"), `#/explain?${query({url: one.original ?? one.url, client: /^[0-9a-f.:]+$/.test(one.client ?? "") ? one.client : "", user: one.user})}`), " · "],
      link(t("only_this_site"), `#/activity?${query({host: hostOf(one)})}`), whomOf(one) ? [" · ", link(whoOf(one), personAt(whomOf(one)))] : null));
}

/** How many requests there were, and when. */
export async function history(_, values) {
  const days = Number(values.get("days")) || 7;
  const whom = values.get("whom") ?? "";
  const [state, figures] = await Promise.all([get("/home").catch(() => null), get("/figures", {days, whom})]);
  const spans = {1: ["today", "day"], 7: ["last_week", "week"], 31: ["last_month", "month"]};
  return {state, title: t("over_time"), parts: [
    make("nav", {class: "chips", "aria-label": t("over_time")}, Object.entries(spans).map(([one, [key]]) => link(t(key), `#/history?days=${one}`, {"aria-current": Number(one) === days ? "page" : null})),
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

function explained(found) {
  const {decision: decided} = found;
  const winner = decided.winner;
  const isWinner = (match) => winner && JSON.stringify(match) === JSON.stringify(winner);
  const stops = ["block", "warn"].includes(decided.action);
  const passes = found.option !== "block" ? found.option : found.mode !== "block" ? found.mode : null;
  const why = decided.fault ?? (winner ? `${winner.expression} · ${listName(winner)} (${winner.source}:${winner.line})` : t("no_rule_fits"));
  const small = (words) => make("small", {}, words);
  const decides = ` – ${t("decides")}`;
  const parts = [make("p", {class: "verdict"}, chip(decided.action), " ", bdi(decided.canonical), small(bdi(why)),
    winner?.reason ? small(bdi(winner.reason)) : null, decided.grant ? small(bdi(decided.grant)) : null,
    stops && passes ? small(t("it_passes", {mode: passes})) : null,
    small([pair(t("group"), nameOf(`group:${found.group}`)), found.until && pair(t("until_when"), until(found.until))].filter(Boolean).join(" · ")),
    ...found.quotas.map((one) => small(`${t("quota_left", {category: categoryName(one.category), left: whole.format(one.left), limit: whole.format(one.limit), until: until(one.reset)})} ${isolate(`(${one.source}:${one.line})`)}`)))];
  if (decided.matches.length) {
    parts.push(make("h2", {}, t("rules_that_fit")), table(t("rules_that_fit"), ["layer", "action", "expression_of", "written", "where", "category"].map((key) => t(key)),
      decided.matches.map((match) => [match.layer + (isWinner(match) ? decides : ""), chip(match.action), match.expression, code(match.rule), `${match.source}:${match.line}${match.via ? `, ${match.via}` : ""}`, match.category])));
  }
  parts.push(make("h2", {}, t("layers_asked")), table(t("layers_asked"), [t("layer"), t("rules"), t("that_fit")], found.layers.map((layer) =>
    [layer.name + (layer.decides ? decides : ""), layer.rules === null ? t("no_layer") : whole.format(layer.rules), whole.format(layer.fit)])));
  const steps = make("details", {}, make("summary", {}, t("steps")), table(t("steps"), [t("step"), t("address")], [[t("as_given"), code(found.url)], ...found.steps.map((step) => [step.name, code(step.url)])]));
  for (const form of found.forms) {
    steps.append(make("h3", {}, `${form.via ?? t("canonical")}: `, code(form.url)), table(t("expression_of"), [t("expression_of"), "SHA-256"],
      form.expressions.map((one) => [code(one.expression), make("code", {class: "digest"}, one.sha256)])));
  }
  return [...parts, steps];
}

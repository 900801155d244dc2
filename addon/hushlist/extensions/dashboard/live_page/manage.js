// The screens of those who run the filter: rules, lists, devices, the system and the record.
import {
  act, ago, bdi, button, call, categoryName, chip, clientOf, code, decimal, facts, get, isolate, link, listName, make, may, micro, minutes, moment, nameOf, octets, pair, panel, personAt, query, scopeName, select, field, session, sheet, soft, span, t, table, textOr, what, whole,
} from "./kit.js";
import {heldHeads, heldRow, orderForm} from "./orders.js";
import {intoGroup, planCell, planOf} from "./plan.js";
import {subjectsPanel} from "./subjects.js";
import {schedulesPanel} from "./week.js";

const small = (text, label, onclick) => button(text, onclick, {class: "small", "aria-label": `${text}: ${label}`});
const or = (promise, other) => promise.catch(() => other);
const ofLanguage = (titles) => titles[document.documentElement.lang] ?? titles.en;

/** A row of a code, with the button that makes it worthless. */
export const codeRow = (item) => [
  what(item), item.client ? nameOf(item.client) : t("whoever_first"), minutes(item.minutes), moment(item.until), item.by,
  small(t("withdraw"), what(item), () => act(t("told_withdrawn"), () => call("DELETE", `/codes/${item.id}`), false))];
export const codeHeads = () => [t("what"), t("whom"), t("duration"), t("until_when"), t("by"), ""];

// -- rules --------------------------------------------------------------------------------------------------------------

export async function rules() {
  const [state, {people}, week, overrides, {grants}, {blocks}, {codes}] = await Promise.all([
    get("/home"), get("/people"), get("/week"), get("/rules").catch((error) => ({file: error.said ?? error.message, rules: []})),
    or(get("/grants"), {grants: []}), or(get("/blocks"), {blocks: []}), may("approve") ? or(get("/codes"), {codes: []}) : {codes: []},
  ]);
  const plan = await planOf(people);
  const categories = [...new Set(people.flatMap((item) => item.categories.map((each) => each.category)))];
  return {state, title: t("rules"), parts: [
    may("approve") ? panel(t("allow_or_block"), orderForm({}, people)) : null,
    panel(t("unblocked_now"), table(t("unblocked_now"), heldHeads(), grants.map((item) => heldRow("grants", item)))),
    panel(t("blocked_besides"), table(t("blocked_besides"), heldHeads(), blocks.map((item) => heldRow("blocks", item)))),
    may("approve") ? panel(t("codes"), table(t("codes"), codeHeads(), codes.map(codeRow))) : null,
    panel(t("own_rules"), soft(isolate(overrides.file)), table(t("own_rules"), [t("action"), t("expression_of"), t("reason"), t("until_when"), t("comment"), ""], overrides.rules.map((item) => [
      chip(item.action ?? "block"), item.expression, item.reason, item.expires ?? t("for_good"), item.comment,
      may("manage") && item.id ? small(t("remove"), item.expression, () => act(t("told_removed"), () => call("DELETE", `/rules/${item.id}`))) : ""]))),
    panel(t("the_plan"), soft(t("plan_says")), table(t("the_plan"), [t("category"), ...people.map((item) => nameOf(`group:${item.name}`))],
      categories.sort((item, other) => categoryName(item).localeCompare(categoryName(other))).map((name) => [categoryName(name), ...people.map((item) => planCell(plan, item, name))]))),
    await schedulesPanel(week, people),
  ]};
}

// -- services -----------------------------------------------------------------------------------------------------------

/** A tile for each service, with what is done with it for each of the people; and for its whole group. */
export async function services() {
  const [state, {people}, {services: all}, live] = await Promise.all([get("/home"), get("/people"), or(get("/services"), {services: []}), get("/live", {most: 0})]);
  const plan = await planOf(people);
  const tile = (title, category, address) => make("article", {class: "card"}, make("h3", {}, bdi(title)), address ? soft(isolate(address)) : null,
    ...people.map((item) => field(nameOf(`group:${item.name}`), planCell(plan, item, category))));
  const groups = [...new Set(all.map((item) => item.group))].map((name) => all.filter((item) => item.group === name));
  return {state, title: t("services"), parts: [
    soft(t("services_say")),
    live.policy?.lists.some((item) => item.format === "services") ? null : make("p", {class: "alert"}, t("services_unused"), " ", code("catalogue: services")),
    ...groups.map((services) => panel(ofLanguage(services[0].group_titles), make("div", {class: "cards"},
      tile(t("whole_group"), services[0].category.replace(/\/[^/]*$/, "")), ...services.map((item) => tile(item.title, item.category, item.address))))),
  ]};
}

// -- lists --------------------------------------------------------------------------------------------------------------

export async function lists() {
  const [state, {lists: fetched}, live] = await Promise.all([get("/home"), or(get("/lists"), {lists: []}), get("/live", {most: 0})]);
  const stopped = new Map();
  for (const item of live.counts.lists) if (["block", "warn"].includes(item.action)) stopped.set(item.file, (stopped.get(item.file) ?? 0) + item.count);
  const post = (path, url, more = {}) => call("POST", `/lists/${path}`, {url, ...more});
  const byUrl = new Map(fetched.map((item) => [item.url, item]));
  const row = (item) => {
    const fetch = byUrl.get(item.file);
    const name = listName({title: item.title, layer: item.layer});
    const state = fetch?.held ? t("held_back", {why: fetch.reasons.join("; ")}) : fetch?.fault ? t("fetch_failed", {why: fetch.fault}) : item.held ?? t("in_force");
    const actions = [];
    if (fetch?.held) actions.push(small(t("look"), name, () => look(fetch.url, name)));
    if (fetch && may("manage")) {
      actions.push(small(t("update"), name, () => act(t("told_update"), () => post("update", fetch.url), false)));
      if (fetch.versions.length > 1) actions.push(small(t("roll_back"), name, () => act(t("told_rolled_back"), () => post("rollback", fetch.url))));
    }
    return [make("span", {}, bdi(name), make("small", {dir: "ltr"}, item.file)), make("span", {class: item.held || fetch?.held || fetch?.fault ? "bad" : ""}, state), whole.format(item.rules),
      link(whole.format(stopped.get(item.file) ?? 0), `#/activity?${query({list_name: item.title ?? "", action: "stopped"})}`, {"aria-label": `${t("stopped")}: ${name}, ${whole.format(stopped.get(item.file) ?? 0)}`}),
      fetch ? fetch.checked ? ago(fetch.checked) : t("never") : item.modified === null ? t("missing") : ago(item.modified), make("span", {class: "actions"}, ...actions)];
  };
  const {policy} = live;
  const awaited = fetched.filter((item) => policy.lists.every((listed) => listed.file !== item.url)).map((item) => ({file: item.url, title: item.title, layer: item.layer, rules: 0, held: t("missing")}));
  const subjects = may("manage") ? await subjectsPanel() : null;
  const warnings = policy.lists.flatMap((item) => item.warnings);
  return {state, title: t("lists"), parts: [
    panel(t("lists_in_force"), soft(t("since_start")), table(t("lists_in_force"), [t("list"), t("state"), t("rules"), t("stopped"), t("checked"), ""], [...policy.lists, ...awaited].map(row))),
    subjects,
    make("details", {class: "panel"}, make("summary", {}, t("in_detail")), table(t("in_detail"), ["list", "layer", "format", "duplicates", "left_out", "size", "category"].map((key) => t(key)), policy.lists.map((item) => [
      listName(item), item.layer, item.format, whole.format(item.duplicates), whole.format(item.refused), item.size === null ? "" : octets(item.size), item.category ? categoryName(item.category) : ""]))),
    warnings.length ? make("details", {class: "panel"}, make("summary", {}, t("warnings", {number: whole.format(warnings.length)})), make("ul", {lang: "en", dir: "ltr"}, warnings.map((item) => make("li", {}, item)))) : null,
  ]};
}

async function look(url, name) {
  const answer = await get("/lists/held", {url}).catch((error) => error);
  if (answer instanceof Error) return sheet(name, soft(answer.message));
  const lines = (title, number, some) => [make("h3", {}, `${title}: ${whole.format(number)}`), make("pre", {dir: "ltr", tabindex: "0", role: "region", "aria-label": title}, some.join("\n") + (number > some.length ? "\n…" : ""))];
  const dialog = sheet(t("held_back", {why: name}), make("p", {lang: "en", dir: "ltr"}, answer.reasons.join("; ")), ...lines(t("lines_new"), answer.added, answer.added_lines), ...lines(t("lines_gone"), answer.removed, answer.removed_lines),
    may("manage") ? make("div", {class: "actions"}, button(t("accept"), () => {
      dialog.close();
      act(t("told_accepted"), () => call("POST", "/lists/accept", {url, digest: answer.digest}));
    }, {"aria-label": `${t("accept")}: ${name}`})) : null);
  return dialog;
}

// -- devices ------------------------------------------------------------------------------------------------------------

export async function devices() {
  const [state, {devices: answer}, {people}] = await Promise.all([get("/home"), get("/devices"), get("/people")]);
  const named = (item) => make("span", {}, link(nameOf(clientOf(item)), personAt(clientOf(item))), nameOf(clientOf(item)) === item.client || !item.client ? null : make("small", {dir: "ltr"}, ` ${item.client}`));
  const row = (item) => [clientOf(item) ? named(item) : t("somebody"), nameOf(`group:${item.group}`), whole.format(item.requests)];
  const heads = [t("client"), t("group"), t("requests")];
  const rest = answer.filter((item) => item.group === "default");
  return {state, title: t("devices"), parts: [
    panel(t("set_up_device"), soft(t("set_up_says")), make("p", {}, link(t("set_up_page"), "/setup", {class: "button"}))),
    people.length > 1 ? panel(t("in_no_group"), soft(t("since_start")), table(t("in_no_group"), [...heads, ""], rest.map((item) => [...row(item), intoGroup(item)]))) : null,
    panel(t("devices_seen"), soft(t("since_start")), table(t("devices_seen"), heads, answer.map(row), {isNarrow: true, none: state.clients === "drop" ? t("no_clients") : t("nothing")})),
  ]};
}

// -- system -------------------------------------------------------------------------------------------------------------

export async function system() {
  const [state, live, sessions] = await Promise.all([or(get("/home"), null), get("/live", {most: 0}), may("manage") ? or(get("/sessions"), {sessions: []}) : {sessions: []}]);
  const {policy, log, counts, durations, fleet} = live;
  const slowest = durations.slowest;
  const [half, most, nearly] = ["0.5", "0.9", "0.99"].map((share) => micro(durations.quantiles[share]));
  const figures = log.figures;
  const logged = [log.is_on ? isolate(log.folder) : t("off"), log.waiting && t("records_wait", {number: whole.format(log.waiting)}), log.fault && t("log_fault", {why: log.fault}),
    ...(figures ? [t("log_size", {size: octets(figures.octets)}), figures.a_day !== null && t("log_last_day", {number: whole.format(figures.a_day)}), figures.since !== null && t("log_since", {when: moment(figures.since)}), figures.ends && t("log_ends", {name: figures.ends, time: span(figures.keeps ?? figures.days, "day", "long")})] : [])];
  const {reading, readings} = policy;
  const counted = (title, rows, heads) => make("details", {}, make("summary", {}, title), table(title, heads, rows, {isNarrow: true}));
  const of = (action) => whole.format(counts.actions[action] ?? 0);
  return {state, title: t("system"), parts: [
    policy.problem ? make("p", {class: "alert", role: "alert"}, `${t("not_used")}\n${policy.problem}`) : null,
    ...policy.lists.filter((item) => item.held).map((item) => make("p", {class: "alert"}, `${listName(item)}: ${item.held}`)),
    panel(t("state"), facts([
      [t("policy"), policy.file ? isolate(policy.file) : t("no_policy")], [t("mode"), policy.mode], [t("rules"), whole.format(policy.rules)],
      reading && [t("checked"), t("last_read", {when: moment(reading.moment), time: span(reading.duration, "second"), state: t(reading.problem ? "has_mistakes" : "in_force"), used: whole.format(readings.used), all: whole.format(readings.used + readings.refused)})],
      [t("running_for"), ago(live.started)], [t("memory"), octets(live.memory)], [t("log"), logged.filter(Boolean).join("\n")],
      [t("unblocking"), policy.store_fault ? t("not_possible", {why: policy.store_fault}) : t("possible")],
      [t("index"), policy.index ? octets(policy.octets) : "–"], [t("unreadable"), whole.format(counts.faults)], [t("failures"), whole.format(live.failures)],
      live.set_aside.length && [t("damaged_files"), t("damaged_aside", {names: live.set_aside.join(", ")})],
      [t("prometheus"), link("/metrics", "/metrics")],
    ]), soft(t(log.is_on ? "by_the_log" : "no_log"), " ", t(`clients_${log.clients}`), " ", t(`queries_${log.queries}`))),
    panel(t("since_start"), facts([[t("decisions"), whole.format(counts.total)], [t("blocked"), of("block")], [t("warned_of"), of("warn")], counts.would_block && [t("dry_run"), whole.format(counts.would_block)], [t("allowed"), of("allow")], [t("tagged"), of("tag")], [t("no_rule"), of("pass")]]),
      counted(t("by_list"), counts.lists.map((item) => [item.list, chip(item.action), whole.format(item.count)]), [t("list"), t("action"), t("times")]),
      counted(t("by_category"), counts.categories.map((item) => [categoryName(item.category), chip(item.action), whole.format(item.count)]), [t("category"), t("action"), t("times")]),
      counted(t("file"), counts.files.map((item) => [link(item.kind || "–", `#/activity?${query({file: item.kind})}`), chip(item.action), whole.format(item.count)]), [t("file"), t("action"), t("times")]),
      counted(t("by_client"), counts.clients.map((item) => [item.client && nameOf(item.client), item.user, whole.format(item.count)]), [t("client"), t("user"), t("times")]),
      counted(t("stopped_sites"), counts.hosts.map((item) => [item.host, whole.format(item.count)]), [t("site"), t("times")]),
      counted(t("rules_that_hit"), counts.rules.map((item) => [make("span", {}, bdi(item.pattern), make("small", {dir: "ltr"}, item.rule)), whole.format(item.count)]), [t("rule"), t("times")])),
    panel(t("how_long"), slowest ? make("p", {}, t("quantiles", {half, most, nearly, slowest: micro(slowest.duration), url: slowest.url})) : soft(t("nothing")),
      counted(t("share"), durations.histogram.flatMap((number, place) => (number ? [[place < durations.bounds.length ? `≤ ${micro(durations.bounds[place])}` : `> ${micro(durations.bounds.at(-1))}`, whole.format(number)]] : [])), [t("at_most"), t("decisions")])),
    fleet.length > 1 || fleet.some((item) => item.troubles.length) ? panel(t("fleet"), table(t("fleet"), ["proxy", "version", "policy", "index", "running_for", "rate", "memory", "what_is_wrong"].map((key) => t(key)), fleet.map((item) => [
      item.name, item.version, code(item.policy_digest.slice(0, 12)), code(item.index_digest.slice(0, 12)), ago(item.started), decimal(item.rate), octets(item.memory), item.troubles.join("\n") || "–"]))) : null,
    may("manage") ? panel(t("who_is_signed_in"), table(t("who_is_signed_in"), [t("who"), t("from"), t("since"), t("until_when"), ""], sessions.sessions.map((item) => [
      item.name, nameOf(item.client), moment(item.made), moment(item.until), small(t("end"), `${item.name}, ${nameOf(item.client)}`, () => act(t("told_ended"), () => call("DELETE", `/sessions/${item.id}`), false))]))) : null,
  ]};
}

// -- the record ---------------------------------------------------------------------------------------------------------

/** What details of the record are called for people; others keep the interface's names, or are not for people. */
const DETAILS = {
  scope: "which", target: "address", client: "whom", until: "until_when", expires: "until_when", by: "by", reason: "reason", request: "request", host: "site",
  url: "address", category: "category", minutes: "minutes_number", expression: "expression_of", action: "action", name: "who", what: "what", word: "answer", comment: "comment",
};
const UNTOLD = ["id", "how", "made", "minute", "undone", "digest"];
const done = (word) => textOr(`did_${word.replaceAll(" ", "_")}`, word);

function detail(name, text) {
  const kinds = {until: moment, what: done, scope: scopeName, client: nameOf, category: categoryName, target: (value) => (value.startsWith("hrn:") ? categoryName(value) : value), action: (action) => t(`action_${action}`)};
  return isolate(pair(DETAILS[name] ? t(DETAILS[name]) : name, kinds[name]?.(text) ?? text));
}

export async function record(_, values) {
  const [state, {record: answer}] = await Promise.all([or(get("/home"), null), get("/record")]);
  const who = values.get("who") ?? "";
  const names = [...new Set(answer.map((item) => item.who))];
  const form = make("form", {class: "chips"}, field(t("who"), select("who", [["", t("everybody")], ...names.map((item) => [item, item])], who)), make("button", {class: "plain"}, t("show")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = `#/record?${query({who: form.elements.who.value})}`;
  });
  const detailsOf = (details) => Object.entries(details).filter(([name, text]) => text !== null && text !== "*" && typeof text !== "object" && !UNTOLD.includes(name)).map(([name, text]) => detail(name, text)).join(", ");
  return {state, title: t("record"), parts: [form, table(t("record"), [t("when"), t("who"), t("from"), t("what"), ""], answer.filter((item) => !who || item.who === who).map((item) => [
    moment(item.at), item.who, nameOf(item.client), make("span", {}, done(item.what), make("small", {}, detailsOf(item.detail))),
    item.undone ? t("undone_by", {who: item.undone_by}) : item.can_undo && may("approve") ? small(t("undo"), `${done(item.what)}, ${moment(item.at)}`, () => act(t("told_undone"), () => call("POST", `/record/${item.id}/undo`, {}), false)) : ""]))]};
}

// -- alerts -------------------------------------------------------------------------------------------------------------

const EVENTS = {"new-device": "alert_new_device", "refused-certificate": "alert_refused_certificate", "held-back": "alert_held_back"};
const TOLD = {url: "address", host: "site", category: "category", list: "list", rule: "rule", why: "reason"};

/** An alert as a card: what happened, to whom, how often, and the button that says that somebody has seen it. */
export function alertCard(item, level = "h3") {
  const title = `${item.name}: ${item.who ? nameOf(item.who) : t("somebody")}`;
  const event = EVENTS[item.about.event];
  return make("article", {class: item.seen === null ? "card waiting" : "card"}, make(level, {dir: "auto"}, title), event ? make("p", {}, t(event)) : null,
    facts([...Object.entries(TOLD).filter(([key]) => item.about[key]).map(([key, text]) => [t(text), key === "category" ? categoryName(item.about[key]) : item.about[key]]), [t("when"), moment(item.last)]]),
    soft(t("alert_times", {number: whole.format(item.number)}), item.seen === null ? "" : ` · ${pair(t("alert_seen"), `${item.seen_by ?? ""}, ${moment(item.seen)}`)}`),
    item.seen === null && may("approve") ? make("div", {class: "actions"}, button(t("alert_seen"), () => act(t("told_seen"), () => call("POST", `/alerts/${item.id}/seen`, {}), false), {"aria-label": `${t("alert_seen")}: ${title}`})) : null);
}

/** The alerts that nobody has seen come first. */
export async function alerts() {
  const [state, answer] = await Promise.all([or(get("/home"), null), get("/alerts")]);
  const [open, seen] = [true, false].map((is) => answer.alerts.filter((item) => (item.seen === null) === is));
  return {state, title: t("alerts"), parts: [
    panel(t("not_seen"), open.length ? make("div", {class: "cards"}, open.map((item) => alertCard(item))) : soft(t("nothing"))),
    panel(t("seen_before"), seen.length ? make("div", {class: "cards"}, seen.map((item) => alertCard(item))) : soft(t("nothing"))),
  ]};
}

export async function more() {
  return {state: await or(get("/home"), null), title: t("act"), parts: [make("ul", {class: "plain-list menu"},
    ["services", "alerts", "lists", "devices", "system", "record", "settings"].map((item) => make("li", {}, link(t(item), `#/${item}`)))), session.name ? null : soft(t("only_shows"))]};
}


// Shows what the proxy decides: asks for what is new, and waits for the answer. Every text is set as text, never as
// markup; whatever it says was written by others.
"use strict";

const MOST_KEPT = 1000;
const MOST_SHOWN = 200;
const PAUSE = 1500; // ms, after something went wrong
const CALM = 100; // ms between two requests

const byId = (id) => document.getElementById(id);
const TEXTS = JSON.parse(document.body.dataset.texts);
const LANGUAGE = document.documentElement.lang;
/** The reader's own kind of the page's language, for numbers and dates. */
const LOCALE = navigator.languages.find((one) => one.split("-")[0] === LANGUAGE.split("-")[0]) ?? LANGUAGE;
/** A value among words that run from right to left keeps its own direction. */
const isolate = (value) => (document.dir === "rtl" ? `\u2068${value}\u2069` : String(value));
/** A text in the reader's language; `{name}` in it stands for a value. No text depends on a number's plural. */
const t = (key, values = {}) => TEXTS[key].replace(/\{(\w+)\}/g, (_, name) => isolate(values[name]));
const pair = (name, value) => t("pair", {name, value});

const whole = new Intl.NumberFormat(LOCALE);
const short = new Intl.NumberFormat(LOCALE, {maximumFractionDigits: 1});
const clock = new Intl.DateTimeFormat(LOCALE, {hour: "2-digit", minute: "2-digit", second: "2-digit"});
const day = new Intl.DateTimeFormat(LOCALE, {dateStyle: "medium", timeStyle: "medium"});
const zoned = new Intl.DateTimeFormat(LOCALE, {dateStyle: "medium", timeStyle: "short", timeZone: "UTC"});
/** A number of days, hours and so on, in words; or abbreviated. */
const span = (number, unit, unitDisplay = "long") => new Intl.NumberFormat(LOCALE, {style: "unit", unit, unitDisplay, maximumFractionDigits: 1}).format(number);

/** An element with attributes and children; a string is text. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** A text of others among the page's own, which may run in the other direction. */
const bdi = (text) => (typeof text === "string" && text ? make("bdi", {}, text) : text);

/** Set a text only where it differs, so that nothing is announced or selected anew. */
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Fill an element anew; what has the focus keeps it, by its label. */
function refill(element, ...children) {
  const label = element.contains(document.activeElement) ? document.activeElement.ariaLabel : null;
  element.replaceChildren(...children);
  if (label) [...element.querySelectorAll("[aria-label]")].find((one) => one.ariaLabel === label)?.focus({preventScroll: true});
}

const octets = (number) => {
  if (number === null || number === undefined) return t("unknown");
  const units = ["B", "KiB", "MiB", "GiB"];
  let place = 0;
  for (; number >= 1024 && place < units.length - 1; place++) number /= 1024;
  return `${short.format(number)} ${units[place]}`;
};
const micro = (number) => {
  if (number === null || number === undefined) return "–";
  if (number >= 1e6) return span(number / 1e6, "second", "short");
  return number >= 1000 ? span(number / 1000, "millisecond", "short") : `${short.format(number)} µs`;
};
const seconds = (number) => {
  const minutes = Math.floor(number / 60);
  if (minutes < 1) return span(Math.floor(number), "second", "short");
  return minutes < 60 ? span(minutes, "minute", "short") : `${span(Math.floor(minutes / 60), "hour", "short")} ${span(minutes % 60, "minute", "short")}`;
};
const moment = (number) => (number === null ? t("unknown") : day.format(new Date(number * 1000)));
/** A moment by the clock of the policy, with its offset. */
const until = (text) => `${zoned.format(new Date(`${text.slice(0, 16)}Z`))} (UTC${text.slice(-6).replace("+00:00", "")})`;
const chip = (action) => make("span", {class: `chip ${action}`}, t(`action_${action}`));

// -- tables that sort ---------------------------------------------------------------------------------------------------

/** Let a table's headers sort it; calls `changed` with key and direction (1 or -1). */
function sortable(table, key, direction, changed) {
  const heads = [...table.querySelectorAll("thead th[data-key]")];
  const mark = () => {
    for (const head of heads) {
      const is = head.dataset.key === key;
      if (is) head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    }
  };
  for (const head of heads) {
    const button = make("button", {type: "button"}, head.textContent);
    button.addEventListener("click", () => {
      direction = head.dataset.key === key ? -direction : head.classList.contains("number") ? -1 : 1;
      key = head.dataset.key;
      mark();
      changed(key, direction);
    });
    head.replaceChildren(button);
  }
  mark();
}

function compare(key, direction) {
  return (one, other) => {
    const a = one[key] ?? null;
    const b = other[key] ?? null;
    if (a === b) return 0;
    if (a === null) return 1; // what is not known comes last
    if (b === null) return -1;
    return direction * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), LANGUAGE));
  };
}

// -- decisions ----------------------------------------------------------------------------------------------------------

let decisions = []; // the newest first
let isPaused = false;
let isLocked = false; // nobody is signed in who may see it
let order = {key: "number", direction: -1};

function prepare(decision) {
  decision.label = decision.title ?? decision.list;
  decision.shown = decision.would_block ? "would" : decision.action;
  decision.who = [decision.user, decision.client].filter(Boolean).join(" · ");
  decision.words = [
    ...[decision.who, decision.shown, t(`action_${decision.shown}`), decision.url, decision.original, decision.expression, decision.rule, decision.label, decision.list],
    ...[decision.category, decision.reason, decision.fault, decision.group, decision.method, decision.reference],
  ].filter(Boolean).join(" ").toLowerCase();
  return decision;
}

function fits(decision) {
  const action = byId("action").value;
  if (action === "would" ? !decision.would_block : action && (decision.action !== action || decision.would_block)) return false;
  const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  return words.every((word) => decision.words.includes(word));
}

function row(decision, isFresh) {
  const ask = () => {
    byId("explain-url").value = decision.original ?? decision.url;
    byId("explain-client").value = /^[0-9a-f.:]+$/.test(decision.client ?? "") ? decision.client : "";
    byId("explain-user").value = decision.user ?? "";
    byId("explain-at").value = "";
    byId("explain-heading").scrollIntoView({block: "start"});
    byId("explain").requestSubmit();
  };
  const time = make("time", {datetime: decision.time}, clock.format(new Date(decision.time)));
  const url = make("button", {type: "button", class: "link", dir: "ltr", title: t("explain_this"), onclick: ask});
  url.textContent = decision.url;
  const why = decision.fault ?? decision.reason;
  return make("tr", {role: "row", class: isFresh ? "fresh" : null, "data-number": decision.number},
    make("td", {role: "cell"}, time),
    make("td", {role: "cell"}, ...(decision.who ? [decision.who] : []), ...(decision.group && decision.group !== "default" ? [make("small", {}, decision.group)] : [])),
    make("td", {role: "cell"}, chip(decision.shown), ...(decision.grant ? [make("small", {}, t("unblocked"))] : []), " ",
      ...oneClick({...decision, scope: "host", isStopped: ["block", "warn"].includes(decision.action)}, decision.url).flatMap((one) => [one, " "])),
    make("td", {role: "cell"}, url, ...(decision.original ? [make("small", {}, `${t("original")}: `, bdi(decision.original))] : []), ...(why ? [make("small", {dir: "auto"}, why)] : [])),
    make("td", {role: "cell"}, ...(decision.expression ? [bdi(decision.expression), make("small", {}, bdi(decision.rule))] : [])),
    make("td", {role: "cell"}, bdi(decision.label)),
    make("td", {role: "cell"}, bdi(decision.category)),
    make("td", {role: "cell", class: "number"}, short.format(decision.duration)),
  );
}

/** Hand something to whoever acts on it. */
function choose(detail, isDone = false) {
  document.dispatchEvent(new CustomEvent("chosen", {detail: {...detail, isDone}}));
}

/** Buttons of a row, for those who may: one that does the likely thing at once, and one that fills the form with it. */
function oneClick(detail, name) {
  const button = (text, own, onclick) => make("button", {type: "button", class: `small act ${own}`, "aria-label": `${text}: ${name}`, title: text === t("act") ? null : `${text}: ${span(30, "minute")}`, onclick}, text);
  const [text, own] = detail.isStopped ? [t("allow"), "of-approve"] : [t("block"), "of-manage"];
  return [...(detail.scope ? [button(text, own, () => choose(detail, true))] : []), button(t("act"), "of-approve", () => choose(detail))];
}

/** A button that shows the decisions with some words. */
function showing(words) {
  const show = () => {
    byId("action").value = "";
    byId("filter").value = words;
    showDecisions();
    byId("decisions").scrollIntoView({block: "start"});
    byId("filter").focus({preventScroll: true});
  };
  return make("button", {type: "button", class: "small", "aria-label": `${t("show")}: ${words}`, onclick: show}, t("show"));
}

function showDecisions(fresh = new Set()) {
  const found = decisions.filter(fits);
  if (order.key !== "number" || order.direction > 0) found.sort(compare(order.key, order.direction));
  const shown = found.slice(0, MOST_SHOWN);
  const body = byId("rows").tBodies[0];
  // rows that are there stay, so that the focus and what is selected do
  const there = new Map([...body.rows].map((one) => [one.dataset.number, one]));
  const wanted = shown.map((one) => there.get(String(one.number)) ?? row(one, fresh.has(one.number)));
  const kept = new Set(wanted);
  for (const one of [...body.rows]) if (!kept.has(one)) one.remove();
  wanted.forEach((one, place) => {
    if (body.rows[place] !== one) body.insertBefore(one, body.rows[place] ?? null);
  });
  byId("none").hidden = shown.length > 0;
  say(byId("none"), t(decisions.length ? "no_decision_fits" : "no_decision"));
  const numbers = {shown: whole.format(shown.length), found: whole.format(found.length), total: whole.format(decisions.length)};
  say(byId("shown"), decisions.length ? t("shown_of", numbers) : "");
}

// -- figures ------------------------------------------------------------------------------------------------------------

function facts(list, pairs) {
  const text = JSON.stringify(pairs);
  if (list.dataset.text === text) return;
  list.dataset.text = text;
  list.replaceChildren(...pairs.map(([name, value, kind]) =>
    make("div", {class: kind}, make("dt", {}, name), make("dd", {}, value))));
}

function showFigures(data) {
  const {counts, durations} = data;
  const of = (action) => counts.actions[action] ?? 0;
  const number = (value) => whole.format(value);
  facts(byId("figures"), [
    [t("decisions"), number(counts.total)],
    [t("blocked"), number(of("block")), "block"],
    [t("warned_of"), number(of("warn")), "warn"],
    ...(counts.would_block ? [[t("dry_run"), number(counts.would_block), "would"]] : []),
    [t("allowed"), number(of("allow")), "allow"],
    [t("tagged"), number(of("tag")), "tag"],
    [t("no_rule"), number(of("pass"))],
    ...(data.failures ? [[t("failures"), number(data.failures), "failures"]] : []),
    [t("median"), micro(durations.quantiles["0.5"])],
    [t("percentile"), micro(durations.quantiles["0.99"])],
    [t("memory"), octets(data.memory)],
  ]);
  const slowest = durations.slowest;
  const [half, most, nearly] = ["0.5", "0.9", "0.99"].map((share) => micro(durations.quantiles[share]));
  say(byId("quantiles"), slowest ? t("quantiles", {half, most, nearly, slowest: micro(slowest.duration), url: slowest.url}) : t("nothing"));
  showHistogram(durations);
}

function showHistogram({bounds, histogram}) {
  const most = Math.max(1, ...histogram);
  const last = histogram.findLastIndex((number) => number > 0);
  const body = byId("histogram").tBodies[0];
  const rows = histogram.slice(0, last + 1).map((number, place) => {
    const bar = make("i");
    bar.style.width = `${(100 * number) / most}%`;
    const bound = place < bounds.length ? `≤ ${micro(bounds[place])}` : `> ${micro(bounds[bounds.length - 1])}`;
    return make("tr", {}, make("td", {}, bound), make("td", {"aria-hidden": "true"}, bar), make("td", {class: "number"}, whole.format(number)));
  });
  body.replaceChildren(...rows);
}

/** A table of what was counted most: title, and columns as [heading, key, kind]. */
function counter(id, title, columns) {
  const heads = columns.map(([name, key, kind]) => make("th", {scope: "col", "data-key": key, class: kind === "number" ? "number" : null}, name));
  const table = make("table", {id}, make("thead", {}, make("tr", {}, ...heads)), make("tbody"));
  const heading = make("h2", {id: `${id}-heading`}, title);
  const empty = make("p", {class: "soft"}, t("nothing"));
  const scroll = make("div", {class: "scroll", tabindex: "0", role: "group", "aria-labelledby": `${id}-heading`}, table);
  byId("counts").append(make("section", {class: "panel counted", "aria-labelledby": `${id}-heading`}, heading, scroll, empty));
  let rows = [];
  let sort = {key: "count", direction: -1};
  const cell = (one, [, key, kind]) => {
    if (kind === "number") return make("td", {class: "number"}, whole.format(one[key]));
    if (kind === "list") return make("td", {}, bdi(one[key]), " ", showing(one[key]));
    if (kind === "rule") {
      const act = /^[a-z0-9.-]+\//.test(one[key]) ? oneClick({url: one[key]}, one[key]) : []; // not of hashes and filters
      return make("td", {}, bdi(one[key]), make("small", {}, bdi(one.rule)), make("span", {class: "actions"}, showing(one.rule), ...act));
    }
    const scope = {host: "host", category: "category"}[key];
    const name = one[key] ?? one.user;
    const act = kind === "chosen" && name ? oneClick({...one, scope, isOfAll: key !== "client", isStopped: key === "host" || ["block", "warn"].includes(one.action)}, name) : [];
    return make("td", {}, kind === "action" ? chip(one[key]) : bdi(one[key]), ...(act.length ? [make("span", {class: "actions"}, ...act)] : []));
  };
  const draw = () => {
    const sorted = [...rows].sort(compare(sort.key, sort.direction));
    refill(table.tBodies[0], ...sorted.map((one) => make("tr", {}, ...columns.map((column) => cell(one, column)))));
    scroll.hidden = !rows.length;
    empty.hidden = rows.length > 0;
  };
  sortable(table, sort.key, sort.direction, (key, direction) => { sort = {key, direction}; draw(); });
  return (fresh, none = t("nothing")) => {
    say(empty, none);
    if (JSON.stringify(fresh) === JSON.stringify(rows) && rows.length) return;
    rows = fresh;
    draw();
  };
}

let showCounts = () => {};

function makeCounters() {
  const times = [t("times"), "count", "number"];
  const action = [t("action"), "action", "action"];
  const lists = counter("top-lists", t("by_list"), [[t("list"), "list", "list"], action, times]);
  const categories = counter("top-categories", t("by_category"), [[t("category"), "category", "chosen"], action, times]);
  const clients = counter("top-clients", t("by_client"), [[t("client"), "client", "chosen"], [t("user"), "user"], times]);
  const hosts = counter("top-hosts", t("stopped_sites"), [[t("site"), "host", "chosen"], times]);
  const rules = counter("top-rules", t("rules_that_hit"), [[t("rule"), "pattern", "rule"], times]);
  showCounts = ({counts, log}) => {
    lists(counts.lists);
    categories(counts.categories);
    clients(counts.clients, log.clients === "drop" ? t("no_clients") : undefined);
    hosts(counts.hosts);
    rules(counts.rules);
  };
}

// -- the policy ---------------------------------------------------------------------------------------------------------

let lists = [];
let listOrder = {key: null, direction: 1};

function showLists() {
  const sorted = listOrder.key ? [...lists].sort(compare(listOrder.key, listOrder.direction)) : lists;
  const rows = sorted.map((one) => make("tr", {},
    make("th", {scope: "row"}, bdi(one.title ?? one.file), ...(one.title ? [make("small", {}, bdi(one.file))] : []),
      " ", showing(one.title ?? one.file), ...(one.category ? [" ", ...oneClick({category: one.category}, one.category)] : [])),
    make("td", {}, one.layer),
    make("td", {}, one.format),
    ...["rules", "duplicates", "refused", "covered"].map((key) =>
      make("td", {class: "number"}, one[key] === null ? "–" : whole.format(one[key]))),
    make("td", {}, one.modified === null ? t("missing") : make("time", {datetime: new Date(one.modified * 1000).toISOString()}, moment(one.modified))),
    make("td", {class: "number"}, one.size === null ? "" : octets(one.size)),
  ));
  refill(byId("lists").tBodies[0], ...rows);
  const warnings = lists.flatMap((one) => one.warnings);
  byId("warnings").replaceChildren(...(warnings.length ? [make("details", {},
    make("summary", {}, t("warnings", {number: whole.format(warnings.length)})),
    make("ul", {lang: "en", dir: "ltr"}, ...warnings.map((one) => make("li", {}, one))))] : []));
}

let policyText = "";
let groupsText = "";

/** How large the log is, how fast it grows, how far it reaches back, and which of its settings ends it first. */
function logFigures(figures) {
  if (!figures) return [];
  const {a_day: number, since, ends, keeps, days} = figures;
  return [
    t("log_size", {size: octets(figures.octets)}),
    number !== null && t("log_last_day", {number: whole.format(number)}),
    since !== null && t("log_since", {when: moment(since)}),
    ends && t("log_ends", {name: ends, time: span(keeps ?? days, "day")}),
  ];
}

function showPolicy(data) {
  const {policy, log} = data;
  const groups = policy.groups.map((one) => (one.mode === "block" ? one.name : `${one.name} (${one.mode})`)).join(", ");
  say(byId("policy"), policy.file ? [isolate(policy.file), pair(t("rules"), whole.format(policy.rules)), pair(t("mode"), policy.mode)].join(" · ") : t("no_policy"));
  const named = policy.groups.map((one) => one.name).join("\n");
  if (named !== groupsText) {
    groupsText = named;
    document.dispatchEvent(new CustomEvent("groups", {detail: policy.groups.map((one) => one.name)}));
  }
  say(byId("zone"), policy.zone ? `(${policy.zone})` : "");
  const held = policy.lists.filter((one) => one.held).map((one) => `${one.file}: ${one.held}`);
  byId("held").hidden = !held.length;
  say(byId("held"), [...new Set(held)].join("\n"));
  const problem = byId("problem");
  problem.hidden = !policy.problem;
  say(problem, policy.problem ? `${t("not_used")}\n${policy.problem}` : "");
  const reading = policy.reading;
  const {used, refused} = policy.readings;
  say(byId("reading"), reading
    ? t("last_read", {when: moment(reading.moment), time: span(reading.duration, "second", "short"), state: t(reading.problem ? "has_mistakes" : "in_force"), used: whole.format(used), all: whole.format(used + refused)})
    : "");
  const shown = [t(log.is_on ? "by_the_log" : "no_log"), t(`clients_${log.clients}`), t(`queries_${log.queries}`), t("in_memory", {number: whole.format(MOST_KEPT)})];
  say(byId("privacy"), shown.join(" "));
  const logged = [log.is_on ? isolate(log.folder) : t("off"), log.waiting && t("records_wait", {number: whole.format(log.waiting)}), log.fault && t("log_fault", {why: log.fault}), ...logFigures(log.figures)];
  facts(byId("state"), [
    [t("running_for"), seconds(data.now - data.started)],
    [t("groups"), groups || "–"],
    [t("log"), logged.filter(Boolean).join("\n")],
    [t("unblocking"), policy.store_fault ? t("not_possible", {why: policy.store_fault}) : t("possible")],
    [t("index"), policy.index ? `${isolate(policy.index)} (${octets(policy.octets)})` : "–"],
    [t("unreadable"), whole.format(data.counts.faults)],
    [t("failures"), whole.format(data.failures)],
    ...(data.set_aside.length ? [[t("damaged_files"), t("damaged_aside", {names: data.set_aside.join(", ")})]] : []),
  ]);
  const text = JSON.stringify(policy.lists);
  if (text !== policyText) {
    policyText = text;
    lists = policy.lists;
    showLists();
  }
}

function showFleet({fleet, now}) {
  byId("fleet").hidden = fleet.length < 2 && !fleet.some((one) => one.troubles.length);
  byId("proxies").tBodies[0].replaceChildren(...fleet.map((one) => make("tr", {},
    make("th", {scope: "row"}, one.name),
    make("td", {}, one.version),
    make("td", {}, code(one.policy_digest.slice(0, 12))),
    make("td", {}, code(one.index_digest.slice(0, 12))),
    make("td", {}, seconds(now - one.started)),
    make("td", {class: "number"}, short.format(one.rate)),
    make("td", {class: "number"}, octets(one.memory)),
    make("td", {}, one.troubles.join("\n") || "–"),
  )));
}

// -- explaining ---------------------------------------------------------------------------------------------------------

function table(name, heads, rows) {
  for (const one of rows) { // on a phone, some tables are shown as lists
    one.setAttribute("role", "row");
    [...one.cells].forEach((cell, place) => { if (cell.hasChildNodes()) cell.dataset.head = heads[place]; });
  }
  return make("div", {class: "scroll", tabindex: "0", role: "group", "aria-label": name}, make("table", {role: "table"},
    make("thead", {role: "rowgroup"}, make("tr", {role: "row"}, ...heads.map((head) => make("th", {scope: "col", role: "columnheader"}, head)))),
    make("tbody", {role: "rowgroup"}, ...rows)));
}
const code = (text) => make("code", {dir: "ltr"}, text);
const cells = (...values) => values.map((value) => make("td", {role: "cell"}, bdi(value)));

const quotaText = (one) => `${t("quota_left", {...one, left: whole.format(one.left), limit: whole.format(one.limit), until: until(one.reset)})} ${isolate(`(${one.source}:${one.line})`)}`;

function explained(found) {
  const {decision} = found;
  const winner = decision.winner;
  const isWinner = (match) => winner && JSON.stringify(match) === JSON.stringify(winner);
  const stops = ["block", "warn"].includes(decision.action);
  const passes = found.option !== "block" ? found.option : found.mode !== "block" ? found.mode : null;
  const why = decision.fault ?? (winner ? `${winner.expression} · ${winner.title ?? winner.list} (${winner.source}:${winner.line})` : t("no_rule_fits"));
  const small = (words) => make("small", {}, words);
  const parts = [make("p", {class: "verdict"}, chip(decision.action), " ", bdi(decision.canonical),
    small(bdi(why)),
    ...(winner?.reason ? [small(bdi(winner.reason))] : []),
    ...(decision.grant ? [small(bdi(decision.grant))] : []),
    ...(stops && passes ? [small(t("it_passes", {mode: passes}))] : []),
    small([pair(t("group"), found.group), found.until && pair(t("until_when"), until(found.until))].filter(Boolean).join(" · ")),
    ...found.quotas.map((one) => small(quotaText(one))))];
  const decides = ` – ${t("decides")}`;
  if (decision.matches.length) {
    parts.push(make("h3", {}, t("rules_that_fit")), table(t("rules_that_fit"), ["layer", "action", "expression_of", "written", "where", "category"].map((key) => t(key)),
      decision.matches.map((match) => make("tr", {class: isWinner(match) ? "wins" : null}, ...cells(
        isolate(match.layer) + (isWinner(match) ? decides : ""), chip(match.action), match.expression, code(match.rule),
        `${match.source}:${match.line}${match.via ? `, ${match.via}` : ""}`, match.category)))));
  }
  parts.push(make("h3", {}, t("layers_asked")), table(t("layers_asked"), [t("layer"), t("rules"), t("that_fit")], found.layers.map((layer) =>
    make("tr", {class: layer.decides ? "wins" : null}, ...cells(isolate(layer.name) + (layer.decides ? decides : ""),
      layer.rules === null ? t("no_layer") : whole.format(layer.rules), whole.format(layer.fit))))));
  const steps = make("details", {}, make("summary", {}, t("steps")));
  steps.append(table(t("steps"), [t("step"), t("address")], [[t("as_given"), found.url], ...found.steps.map((step) => [step.name, step.url])].map(
    ([name, url]) => make("tr", {}, ...cells(name, code(url))))));
  for (const form of found.forms) {
    steps.append(make("h3", {}, `${form.via ?? t("canonical")}: `, code(form.url)), table(t("expression_of"), [t("expression_of"), "SHA-256"],
      form.expressions.map((one) => make("tr", {}, ...cells(code(one.expression), make("code", {class: "digest"}, one.sha256))))));
  }
  return [...parts, steps];
}

let asked = 0;

async function explain(event) {
  event.preventDefault();
  const place = byId("explanation");
  const mine = ++asked;
  let parts;
  try {
    const query = new URLSearchParams(new FormData(byId("explain")));
    const response = await fetch(`/explain?${query}`, {headers: {"X-Hushlist": "live"}});
    const found = await response.json();
    parts = response.ok ? explained(found) : [make("p", {class: "alert"}, `${t("cannot_explain")} ${found.error ?? ""}`)];
  } catch {
    parts = [make("p", {class: "alert"}, t("proxy_silent"))];
  }
  if (mine === asked) place.replaceChildren(...parts);
}

// -- requests for access ------------------------------------------------------------------------------------------------

let requestsText = "";
let answers = () => []; // the buttons of a request

function showRequests({requests}) {
  const text = JSON.stringify([requests, document.body.dataset.role]); // who may answer has buttons
  if (text === requestsText) return;
  requestsText = text;
  byId("requests").hidden = !requests.length;
  const isAnswering = requests.some((one) => answers(one).length);
  const heads = ["request", "asked", "who", "address", "reason", ...(isAnswering ? ["answer"] : [])];
  refill(byId("waiting"), table(t("waiting"), heads.map((key) => t(key)), requests.map((one) => make("tr", {}, ...cells(
    String(one.id) + (one.times > 1 ? ` (×${whole.format(one.times)})` : ""), moment(one.asked), one.user ?? one.client, code(one.url),
    make("span", {dir: "auto"}, one.reason), ...(isAnswering ? [make("span", {class: "actions"}, ...answers(one))] : []))))));
}

// -- asking -------------------------------------------------------------------------------------------------------------

const sleep = (time) => new Promise((done) => setTimeout(done, time));

function status(kind, text) {
  const pill = byId("status");
  pill.className = `pill ${kind}`;
  say(pill, text);
}

function take(data, session) {
  const fresh = data.decisions.map(prepare).reverse();
  const isNew = data.of !== session.of;
  const isFirst = session.of === "";
  decisions = (isNew ? fresh : [...fresh, ...decisions]).slice(0, MOST_KEPT);
  Object.assign(session, {of: data.of, last: data.last});
  if (fresh.length || isNew) showDecisions(isFirst ? new Set() : new Set(fresh.map((one) => one.number)));
  showFigures(data);
  showCounts(data);
  showPolicy(data);
  showFleet(data);
  showRequests(data);
}

async function follow() {
  const session = {of: "", last: 0};
  for (;;) {
    if (isPaused || isLocked || document.hidden) {
      await sleep(CALM);
      continue;
    }
    try {
      const response = await fetch(`/data?since=${session.last}&of=${session.of}`, {headers: {"X-Hushlist": "live"}});
      if (response.status === 401 || response.status === 403) {
        isLocked = true;
        document.dispatchEvent(new Event("locked"));
        continue;
      }
      if (!response.ok) throw new Error(String(response.status));
      const data = await response.json();
      if (isPaused) continue; // it is asked for again
      take(data, session);
      status("live", t("live"));
      await sleep(CALM);
    } catch (error) {
      console.warn(error);
      if (!isPaused) status("lost", t("no_answer"));
      await sleep(PAUSE);
    }
  }
}

// a browser leaves what is only partly seen as it is
document.addEventListener("focusin", ({target}) => {
  if (target.matches("button:focus-visible")) target.scrollIntoView({block: "nearest", inline: "nearest"});
});
makeCounters();
sortable(byId("rows"), order.key, order.direction, (key, direction) => { order = {key: key === "client" ? "who" : key, direction}; showDecisions(); });
sortable(byId("lists"), null, 1, (key, direction) => { listOrder = {key, direction}; showLists(); });
byId("filter").addEventListener("input", () => showDecisions());
byId("action").addEventListener("change", () => showDecisions());
byId("explain").addEventListener("submit", explain);
byId("pause").addEventListener("click", () => {
  isPaused = !isPaused;
  byId("pause").setAttribute("aria-pressed", String(isPaused));
  status(isPaused ? "paused" : "", t(isPaused ? "paused" : "connecting"));
});
follow();

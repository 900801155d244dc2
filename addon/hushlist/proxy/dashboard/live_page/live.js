// Shows what the proxy decides: asks for what is new, and waits for the answer. Every text is set as text, never as
// markup; whatever it says was written by others.
"use strict";

const MOST_KEPT = 1000;
const MOST_SHOWN = 200;
const PAUSE = 1500; // ms, after something went wrong
const CALM = 100; // ms between two requests

const byId = (id) => document.getElementById(id);
const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", {maximumFractionDigits: 1});
const clock = new Intl.DateTimeFormat("en-GB", {hour: "2-digit", minute: "2-digit", second: "2-digit"});
const day = new Intl.DateTimeFormat("en-GB", {dateStyle: "medium", timeStyle: "medium"});

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
  if (number === null || number === undefined) return "unknown";
  const units = ["B", "KiB", "MiB", "GiB"];
  let place = 0;
  for (; number >= 1024 && place < units.length - 1; place++) number /= 1024;
  return `${short.format(number)} ${units[place]}`;
};
const micro = (number) => {
  if (number === null || number === undefined) return "–";
  if (number >= 1e6) return `${short.format(number / 1e6)} s`;
  return number >= 1000 ? `${short.format(number / 1000)} ms` : `${short.format(number)} µs`;
};
const seconds = (number) => {
  const minutes = Math.floor(number / 60);
  if (minutes < 1) return `${Math.floor(number)} s`;
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
};
const moment = (number) => (number === null ? "unknown" : day.format(new Date(number * 1000)));
/** A moment with its offset, as the block page writes it. */
const until = (text) => text.replace(/^(.{10})T(.{5}).*([+-]..:..)$/, "$1 $2 (UTC$3)");
const chip = (action) => make("span", {class: `chip ${action.split(" ")[0]}`}, action);

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
    return direction * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
  };
}

// -- decisions ----------------------------------------------------------------------------------------------------------

let decisions = []; // the newest first
let isPaused = false;
let isLocked = false; // nobody is signed in who may see it
let order = {key: "number", direction: -1};

function prepare(decision) {
  decision.label = decision.title ?? decision.list;
  decision.shown = decision.would_block ? `would ${decision.action}` : decision.action;
  decision.who = [decision.user, decision.client].filter(Boolean).join(" · ");
  decision.words = [
    ...[decision.who, decision.shown, decision.url, decision.original, decision.expression, decision.rule, decision.label, decision.list],
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
  const url = make("button", {type: "button", class: "link", title: "Explain this address", onclick: ask});
  url.textContent = decision.url;
  const why = decision.fault ?? decision.reason;
  return make("tr", {role: "row", class: isFresh ? "fresh" : null, "data-number": decision.number},
    make("td", {role: "cell"}, time),
    make("td", {role: "cell"}, ...(decision.who ? [decision.who] : []), ...(decision.group && decision.group !== "default" ? [make("small", {}, decision.group)] : [])),
    make("td", {role: "cell"}, chip(decision.shown), ...(decision.grant ? [make("small", {}, "unblocked")] : []), " ",
      ...oneClick({...decision, scope: "host", isStopped: ["block", "warn"].includes(decision.action)}, decision.url)),
    make("td", {role: "cell"}, url, ...(decision.original ? [make("small", {dir: "ltr"}, `as sent: ${decision.original}`)] : []), ...(why ? [make("small", {dir: "auto"}, why)] : [])),
    make("td", {role: "cell"}, ...(decision.expression ? [decision.expression, make("small", {}, decision.rule)] : [])),
    make("td", {role: "cell"}, decision.label ?? ""),
    make("td", {role: "cell"}, decision.category ?? ""),
    make("td", {role: "cell", class: "number"}, short.format(decision.duration)),
  );
}

/** Hand something to whoever acts on it. */
function choose(detail, isDone = false) {
  document.dispatchEvent(new CustomEvent("chosen", {detail: {...detail, isDone}}));
}

/** Buttons of a row, for those who may: one that does the likely thing at once, and one that fills the form with it. */
function oneClick(detail, name) {
  const button = (text, own, onclick) => make("button", {type: "button", class: `small act ${own}`, "aria-label": `${text}: ${name}`, title: text === "Act" ? null : `${text} for half an hour`, onclick}, text);
  const [text, own] = detail.isStopped ? ["Allow", "of-approve"] : ["Block", "of-manage"];
  return [...(detail.scope ? [button(text, own, () => choose(detail, true)), " "] : []), button("Act", "of-approve", () => choose(detail))];
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
  return make("button", {type: "button", class: "small", "aria-label": `Show: ${words}`, title: "Show its decisions", onclick: show}, "Show");
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
  say(byId("none"), decisions.length ? "No decision fits." : "No decision yet: whatever is asked for by the proxy appears here.");
  const more = found.length > shown.length ? `the first ${whole.format(shown.length)} of ` : "";
  say(byId("shown"), decisions.length ? `${more}${whole.format(found.length)} of the last ${whole.format(decisions.length)}` : "");
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
    ["Decisions", number(counts.total)],
    ["Blocked", number(of("block")), "block"],
    ["Warned of", number(of("warn")), "warn"],
    ...(counts.would_block ? [["Passed by the dry run", number(counts.would_block), "would"]] : []),
    ["Allowed", number(of("allow")), "allow"],
    ["Tagged", number(of("tag")), "tag"],
    ["No rule", number(of("pass"))],
    ...(data.failures ? [["Failures", number(data.failures), "failures"]] : []),
    ["Median decision", micro(durations.quantiles["0.5"])],
    ["99th percentile", micro(durations.quantiles["0.99"])],
    ["Memory", octets(data.memory)],
  ]);
  const slowest = durations.slowest;
  say(byId("quantiles"), slowest
    ? `Of the last decisions, half took at most ${micro(durations.quantiles["0.5"])}, 90 % ${micro(durations.quantiles["0.9"])}, 99 % ${micro(durations.quantiles["0.99"])}. The slowest of all: ${micro(slowest.duration)}, ${slowest.url}`
    : "None was made yet.");
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
  const empty = make("p", {class: "soft"}, "Nothing yet.");
  const scroll = make("div", {class: "scroll", tabindex: "0", role: "group", "aria-labelledby": `${id}-heading`}, table);
  byId("counts").append(make("section", {class: "panel counted", "aria-labelledby": `${id}-heading`}, heading, scroll, empty));
  let rows = [];
  let sort = {key: "count", direction: -1};
  const cell = (one, [, key, kind]) => {
    if (kind === "number") return make("td", {class: "number"}, whole.format(one[key]));
    if (kind === "list") return make("td", {}, one[key], " ", showing(one[key]));
    if (kind === "rule") {
      const act = /^[a-z0-9.-]+\//.test(one[key]) ? oneClick({url: one[key]}, one[key]) : []; // not of hashes and filters
      return make("td", {}, one[key], make("small", {}, one.rule), showing(one.rule), " ", ...act);
    }
    const scope = {host: "host", category: "category"}[key];
    const name = one[key] ?? one.user;
    const act = kind === "chosen" && name ? oneClick({...one, scope, isStopped: key === "host" || ["block", "warn"].includes(one.action)}, name) : [];
    return make("td", {}, kind === "action" ? chip(one[key]) : one[key] ?? "", ...(act.length ? [" ", ...act] : []));
  };
  const draw = () => {
    const sorted = [...rows].sort(compare(sort.key, sort.direction));
    refill(table.tBodies[0], ...sorted.map((one) => make("tr", {}, ...columns.map((column) => cell(one, column)))));
    scroll.hidden = !rows.length;
    empty.hidden = rows.length > 0;
  };
  sortable(table, sort.key, sort.direction, (key, direction) => { sort = {key, direction}; draw(); });
  return (fresh, none = "Nothing yet.") => {
    say(empty, none);
    if (JSON.stringify(fresh) === JSON.stringify(rows) && rows.length) return;
    rows = fresh;
    draw();
  };
}

let showCounts = () => {};

function makeCounters() {
  const lists = counter("top-lists", "By list", [["List", "list", "list"], ["Action", "action", "action"], ["Times", "count", "number"]]);
  const categories = counter("top-categories", "By category", [["Category", "category", "chosen"], ["Action", "action", "action"], ["Times", "count", "number"]]);
  const clients = counter("top-clients", "By client", [["Client", "client", "chosen"], ["User", "user"], ["Times", "count", "number"]]);
  const hosts = counter("top-hosts", "Hosts that are stopped", [["Host", "host", "chosen"], ["Times", "count", "number"]]);
  const rules = counter("top-rules", "Rules that hit", [["Rule", "pattern", "rule"], ["Times", "count", "number"]]);
  showCounts = ({counts, log}) => {
    lists(counts.lists);
    categories(counts.categories);
    clients(counts.clients, log.clients === "drop" ? "The policy's log keeps no clients, so none are shown." : undefined);
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
    make("th", {scope: "row"}, one.title ?? one.file, ...(one.title ? [make("small", {}, one.file)] : []),
      " ", showing(one.title ?? one.file), ...(one.category ? [" ", ...oneClick({category: one.category}, one.category)] : [])),
    make("td", {}, one.layer),
    make("td", {}, one.format),
    ...["rules", "duplicates", "refused", "covered"].map((key) => make("td", {class: "number"}, whole.format(one[key]))),
    make("td", {}, one.modified === null ? "gone" : make("time", {datetime: new Date(one.modified * 1000).toISOString()}, moment(one.modified))),
    make("td", {class: "number"}, one.size === null ? "" : octets(one.size)),
  ));
  refill(byId("lists").tBodies[0], ...rows);
  const warnings = lists.flatMap((one) => one.warnings);
  byId("warnings").replaceChildren(...(warnings.length ? [make("details", {},
    make("summary", {}, `${whole.format(warnings.length)} ${warnings.length === 1 ? "warning" : "warnings"}`),
    make("ul", {}, ...warnings.map((one) => make("li", {}, one))))] : []));
}

let policyText = "";
let groupsText = "";

function showPolicy(data) {
  const {policy, log} = data;
  const groups = policy.groups.map((one) => (one.mode === "block" ? one.name : `${one.name} (${one.mode})`)).join(", ");
  say(byId("policy"), policy.file ? `${policy.file} · ${whole.format(policy.rules)} rules · mode ${policy.mode}` : "There is no policy that can be used.");
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
  say(problem, policy.problem ? `The last change of the policy is not used, what was good before stays in force:\n${policy.problem}` : "");
  const reading = policy.reading;
  say(byId("reading"), reading
    ? `Last read ${moment(reading.moment)}, in ${short.format(reading.duration)} s: ${reading.problem ? "not used, for its mistakes" : "in force"}. Readings that could be used: ${whole.format(policy.readings.used)} of ${whole.format(policy.readings.used + policy.readings.refused)}.`
    : "");
  const kept = {
    keep: "clients as they are", pseudonym: "clients by pseudonyms", drop: "no clients",
  }[log.clients];
  const queries = log.queries === "drop" ? "addresses without their queries" : "addresses with their queries";
  say(byId("privacy"), `${log.is_on ? `As the policy's log has it: ${kept}, ${queries}.` : `The policy keeps no log; here are ${kept}, ${queries}.`} The last ${whole.format(MOST_KEPT)} decisions are in the memory of the proxy alone.`);
  facts(byId("state"), [
    ["Running for", seconds(data.now - data.started)],
    ["Groups", groups || "none"],
    ["Log", (log.is_on ? log.folder ?? "" : "off") + (log.waiting ? `, ${whole.format(log.waiting)} records wait` : "") + (log.fault ? `\ncannot be written: ${log.fault}` : "")],
    ["Unblocking", policy.store_fault ? `not possible: ${policy.store_fault}` : "possible"],
    ["Index", policy.index ? `${policy.index} (${octets(policy.octets)})` : "none"],
    ["Could not be read", `${whole.format(data.counts.faults)} addresses`],
    ["Failures of the filter", whole.format(data.failures)],
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
    make("td", {}, one.troubles.join("\n") || "nothing"),
  )));
}

// -- explaining ---------------------------------------------------------------------------------------------------------

function table(name, heads, rows) {
  for (const one of rows) one.setAttribute("role", "row"); // on a phone, some tables are shown as lists
  return make("div", {class: "scroll", tabindex: "0", role: "group", "aria-label": name}, make("table", {role: "table"},
    make("thead", {role: "rowgroup"}, make("tr", {role: "row"}, ...heads.map((head) => make("th", {scope: "col", role: "columnheader"}, head)))),
    make("tbody", {role: "rowgroup"}, ...rows)));
}
const code = (text) => make("code", {}, text);
const cells = (...values) => values.map((value) => make("td", {role: "cell"}, value ?? ""));

const quotaText = (one) => `Quota of ${one.category} now: ${one.left} of ${one.limit} minutes a ${one.per} left, until ${until(one.reset)} (${one.source}:${one.line})`;

function explained(found) {
  const {decision} = found;
  const winner = decision.winner;
  const isWinner = (match) => winner && JSON.stringify(match) === JSON.stringify(winner);
  const stops = ["block", "warn"].includes(decision.action);
  const passes = found.option !== "block" ? found.option : found.mode !== "block" ? found.mode : null;
  const why = decision.fault ?? (winner ? `${winner.expression} by ${winner.title ?? winner.list} (${winner.source}:${winner.line})` : "no rule fits");
  const parts = [make("p", {class: "verdict"}, chip(decision.action), ` ${decision.canonical}`,
    make("small", {}, why),
    ...(winner?.reason ? [make("small", {dir: "auto"}, winner.reason)] : []),
    ...(decision.grant ? [make("small", {}, decision.grant)] : []),
    ...(stops && passes ? [make("small", {}, `It passes all the same: mode ${passes}.`)] : []),
    make("small", {}, `For the group ${found.group}${found.until ? `, until ${until(found.until)}` : ""}.`),
    ...found.quotas.map((one) => make("small", {}, quotaText(one))))];
  if (decision.matches.length) {
    parts.push(make("h3", {}, "Rules that fit"), table("Rules that fit", ["Layer", "Action", "Expression", "Rule as written", "Where", "Category"],
      decision.matches.map((match) => make("tr", {class: isWinner(match) ? "wins" : null}, ...cells(
        match.layer + (isWinner(match) ? " – decides" : ""), chip(match.action), match.expression, code(match.rule),
        `${match.source}:${match.line}${match.via ? `, ${match.via}` : ""}`, match.category)))));
  }
  parts.push(make("h3", {}, "Layers that were asked"), table("Layers that were asked", ["Layer", "Rules", "That fit"], found.layers.map((layer) =>
    make("tr", {class: layer.decides ? "wins" : null}, ...cells(layer.name + (layer.decides ? " – decides" : ""),
      layer.rules === null ? "what no layer decides" : whole.format(layer.rules), whole.format(layer.fit))))));
  const steps = make("details", {}, make("summary", {}, "From the address to what is looked up"));
  steps.append(table("Steps of canonicalization", ["Step", "Address"], [["as given", found.url], ...found.steps.map((step) => [step.name, step.url])].map(
    ([name, url]) => make("tr", {}, ...cells(name, code(url))))));
  for (const form of found.forms) {
    steps.append(make("h3", {}, "Canonical: ", code(form.url)), table("Expressions", ["Expression, the most specific first", "SHA-256"],
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
    parts = response.ok ? explained(found) : [make("p", {class: "alert"}, found.error ?? "It cannot be explained.")];
  } catch {
    parts = [make("p", {class: "alert"}, "The proxy does not answer.")];
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
  refill(byId("waiting"), table("Waiting for an answer", ["Request", "Asked", "Who", "Address", "Reason", "Answer"], requests.map((one) => make("tr", {}, ...cells(
    String(one.id) + (one.times > 1 ? ` (${whole.format(one.times)} times)` : ""), moment(one.asked),
    one.user ?? one.client, code(one.url), make("span", {dir: "auto"}, one.reason), make("span", {class: "actions"}, ...answers(one)))))));
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
      status("live", "Live");
      await sleep(CALM);
    } catch (error) {
      console.warn(error);
      if (!isPaused) status("lost", "No answer");
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
  status(isPaused ? "paused" : "", isPaused ? "Paused" : "Connecting");
});
follow();

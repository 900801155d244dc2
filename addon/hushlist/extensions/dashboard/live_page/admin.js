// Lets administrators sign in and act, by the page's own interface. As in live.js, every text is set as text.
"use strict";

const ROLES = ["view", "approve", "manage"];
let session = {needed: false, possible: false, name: null, role: null, token: null};
const may = (role) => ROLES.indexOf(session.role) >= ROLES.indexOf(role);

/** Why something was not done, where the status says it; else the interface's own words say why, in English. */
const REFUSALS = {401: "signed_out", 403: "refused", 404: "gone_by_now", 429: "locked"};

/** Call the interface; its answer, or an error that says why not. */
async function call(method, path, body) {
  const headers = {"X-Hushlist": "live"};
  if (method !== "GET") headers["X-Hushlist-Token"] = session.token ?? "";
  if (body) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(`/api/v1${path}`, {method, headers, body: body && JSON.stringify(body)});
  } catch {
    throw new Error(t("proxy_silent"));
  }
  const found = await response.json().catch(() => ({}));
  if (!response.ok) {
    if (response.status === 401 && path !== "/session") await learn();
    const isSignIn = method === "POST" && path === "/session" && response.status === 401;
    throw new Error(t(isSignIn ? "sign_in_wrong" : REFUSALS[response.status] ?? "went_wrong", {why: found.error ?? response.status}));
  }
  return found;
}

/** Say what came of something, with an element behind it; a screen reader reads it out. */
function tell(text, isWrong = false, more = null) {
  const place = byId("told");
  place.className = isWrong ? "alert" : "";
  if (!text) place.replaceChildren();
  else if (place.firstChild?.data !== text || more) place.replaceChildren(text, ...(more ? [" ", more] : []), " ", button("×", t("close"), dismiss));
}

/** Take away what was said and what a rule would change; the focus goes back. */
function dismiss() {
  tell("");
  byId("preview").replaceChildren();
  goBack();
}

/** The button that undoes what was just done. */
const undoing = (number, words) => button(t("undo"), `${t("undo")}: ${words}`, () => act("told_undone", () => call("POST", `/record/${number}/undo`, {})));

/** Ask for something; say only what went wrong. */
async function ask(path) {
  if (byId("told").className) tell("");
  try {
    return await call("GET", path);
  } catch (error) {
    tell(error.message, true);
    return null;
  }
}

let from = []; // what had the focus before something was done or chosen, and the table around it

/** Remember where the focus is. */
function leave() {
  const was = document.activeElement;
  if (!byId("told").contains(was) && !byId("act").contains(was)) from = [was, was.closest(".scroll")];
}

/** Give the focus back. */
const goBack = () => from.find((one) => one?.isConnected && one.offsetParent)?.focus();

/** Do something, say what came of it, and show what is so now. */
async function act(key, what) {
  leave();
  const announce = (...told) => {
    tell(...told);
    byId("told").focus({preventScroll: true}); // the button that undoes it is next, and Escape leads back
  };
  try {
    const found = await what();
    announce(t(key) + orderText(found.result), false, UNDONE.has(key) ? undoing(found.recorded, t(key)) : null);
    return found;
  } catch (error) {
    announce(error.message, true);
    return null;
  } finally {
    if (session.name) await showAll();
  }
}

const value = (form, name) => form.elements[name].value.trim();
const button = (text, label, onclick) => make("button", {type: "button", class: "small", "aria-label": label, onclick}, text);

/** Fill a table's body; a row is a list of cells: text, or elements. */
function fill(id, rows) {
  const body = byId(id).tBodies[0];
  const heads = [...byId(id).tHead.rows[0].cells];
  const shown = rows.length ? rows : [[make("span", {class: "soft"}, t("nothing"))]];
  refill(body, ...shown.map((cells) =>
    make("tr", {role: "row"}, ...cells.map((cell, place) => make("td", rows.length
      ? {role: "cell", "data-head": heads[place].querySelector(".unseen") ? null : heads[place].textContent} // for phones
      : {role: "cell", colspan: heads.length}, bdi(cell))))));
}

// -- who is signed in ---------------------------------------------------------------------------------------------------

function showSession() {
  isLocked = session.needed && !session.name;
  byId("sign-in").hidden = !isLocked;
  byId("sign-in-form").hidden = !session.possible;
  byId("not-here").hidden = session.possible;
  byId("seen").hidden = isLocked;
  byId("administration").hidden = !session.name;
  byId("who").hidden = !session.name;
  say(byId("who-name"), session.name ? `${session.name} (${t(`role_${session.role}`)})` : "");
  say(byId("footer-words"), t(session.needed ? "is_recorded" : "only_shows"));
  document.body.dataset.role = session.role ?? "";
  for (const element of document.querySelectorAll("[data-for]")) element.hidden = !may(element.dataset.for);
  fit();
  if (isLocked) {
    status("paused", t("signed_out"));
    say(byId("policy"), "");
  }
}

async function learn() {
  try {
    session = await call("GET", "/session");
  } catch {
    return; // the page says that there is no answer
  }
  showSession();
  if (session.name) await showAll();
}

async function signIn(event) {
  event.preventDefault();
  const form = event.target;
  const alert = byId("sign-in-alert");
  alert.hidden = true;
  try {
    session = await call("POST", "/session", {name: value(form, "name"), passphrase: form.elements.passphrase.value});
    form.reset();
    showSession();
    byId("who-name").focus();
    await showAll();
  } catch (error) {
    say(alert, error.message);
    alert.hidden = false;
    form.elements.passphrase.value = "";
    form.elements.passphrase.focus();
  }
}

async function signOut() {
  try {
    session = await call("DELETE", "/session");
    location.reload(); // nothing that was shown stays
  } catch (error) {
    tell(error.message, true);
  }
}

// -- what there is ------------------------------------------------------------------------------------------------------

/** What is done so that a button right beside these words undoes it. */
const UNDONE = new Set(["told_allowed", "told_blocked", "told_minutes", "told_paused", "told_ended", "told_removed"]);
const lasting = (time) => (time === null ? t("for_good") : moment(time));
const EVERYBODY = "everybody"; // the interface's word
const whom = (client) => client ?? t("everybody");
const SCOPES = {host: "site", url: "page", category: "category"};
const what = (one) => (one.scope === "everything" ? t("everything") : pair(t(SCOPES[one.scope]), one.target ?? t("own_choice")));
/** By what something was unblocked, and by whom. */
const by = (one) => [{passphrase: t("passphrase"), code: t("code"), warning: t("warned_title"), administrator: ""}[one.how] ?? one.how, one.by].filter(Boolean).join(", ");

/** What was ordered, for whom, until when, where an answer is about that; and what to know of it, in the interface's words. */
const orderText = (one) => (one?.scope ? ` ${what(one)}, ${whom(one.client)}, ${lasting(one.until ?? null)}` : "")
  + (one?.warning ? ` ${t("attention", {why: one.warning})}` : "");

async function showGrants() {
  const {grants} = await call("GET", "/grants");
  fill("grants", grants.map((one) => [what(one), whom(one.client), lasting(one.until), by(one),
    may("approve") ? button(t("end"), `${t("end")}: ${what(one)}, ${whom(one.client)}`, () => act("told_ended", () => call("DELETE", `/grants/${one.id}`))) : ""]));
}

async function showBlocks() {
  const {blocks} = await call("GET", "/blocks");
  fill("blocks", blocks.map((one) => [what(one), whom(one.client), lasting(one.until), one.reason, one.by,
    may("manage") ? button(t("end"), `${t("end")}: ${t("block")}, ${what(one)}, ${whom(one.client)}`, () => act("told_ended", () => call("DELETE", `/blocks/${one.id}`))) : ""]));
}

async function showWaiting() {
  showRequests(await call("GET", "/requests"));
}

answers = (one) => {
  if (!may("approve")) return [];
  const form = byId("answer");
  const answer = (word, body) => call("POST", `/requests/${one.id}/${word}`, body);
  return [
    button(t("approve"), `${t("approve")}: ${one.id}, ${one.host}`, () => act("told_allowed", () => answer("approve", {scope: value(form, "scope"), minutes: Number(value(form, "minutes"))}))),
    button(t("decline"), `${t("decline")}: ${one.id}, ${one.host}`, () => act("told_declined", () => answer("decline", {word: value(form, "word")}))),
  ];
};

async function showCodes() {
  if (!may("approve")) return;
  const {codes} = await call("GET", "/codes");
  fill("codes", codes.map((one) => [what(one), one.client ?? t("whoever_first"), span(one.minutes, "minute"), moment(one.until), one.by,
    button(t("withdraw"), `${t("withdraw")}: ${what(one)}`, () => act("told_withdrawn", () => call("DELETE", `/codes/${one.id}`)))]));
}

async function showRules() {
  const {file, rules} = await call("GET", "/rules").catch((error) => ({file: error.message, rules: []}));
  say(byId("rules-file"), isolate(file));
  fill("rules", rules.map((one) => [whole.format(one.line), chip(one.action ?? "block"), one.expression, one.reason, one.expires ?? t("for_good"), one.comment,
    may("manage") && one.id ? button(t("remove"), `${t("remove")}: ${one.expression}`, () => act("told_removed", () => call("DELETE", `/rules/${one.id}`))) : ""]));
}

async function showUpdates() {
  const {lists: found} = await call("GET", "/lists");
  const post = (path, url, more = {}) => call("POST", `/lists/${path}`, {url, ...more});
  fill("updates", found.map((one) => {
    const name = one.title ?? one.url;
    const state = [one.fault && t("fetch_failed", {why: one.fault}), one.held && t("held_back", {why: one.reasons.join("; ")})].filter(Boolean).join("\n") || t("in_force");
    const actions = [];
    if (one.held) actions.push(button(t("look"), `${t("look")}: ${name}`, () => look(one.url, name)));
    if (may("manage")) {
      actions.push(button(t("update"), `${t("update")}: ${name}`, () => act("told_update", () => post("update", one.url))));
      if (one.versions.length > 1) actions.push(button(t("roll_back"), `${t("roll_back")}: ${name}`, () => act("told_rolled_back", () => post("rollback", one.url))));
    }
    return [make("span", {}, name, ...(one.title ? [make("small", {}, one.url)] : [])), state, one.checked ? moment(one.checked) : t("never"), whole.format(one.versions.length), make("span", {class: "actions"}, ...actions)];
  }));
}

async function look(url, name) {
  const found = await ask(`/lists/held?url=${encodeURIComponent(url)}`);
  if (!found) return;
  const lines = (title, number, some) => [make("h3", {}, `${title}: ${whole.format(number)}`),
    make("pre", {dir: "ltr", tabindex: "0", "aria-label": title}, some.join("\n") + (number > some.length ? "\n…" : ""))];
  const accept = () => act("told_accepted", async () => {
    await call("POST", "/lists/accept", {url, digest: found.digest});
    byId("difference").replaceChildren();
  });
  byId("difference").replaceChildren(make("h3", {tabindex: "-1"}, t("held_back", {why: name})), make("p", {lang: "en"}, found.reasons.join("; ")),
    ...lines(t("lines_new"), found.added, found.added_lines), ...lines(t("lines_gone"), found.removed, found.removed_lines),
    ...(may("manage") ? [make("p", {}, button(t("accept"), `${t("accept")}: ${name}`, accept))] : []));
  byId("difference").firstChild.focus();
}

/** What details of the record are called for people; others keep the interface's names, or are not for people. */
const DETAILS = {
  scope: "which", target: "address", client: "whom", until: "until_when", expires: "until_when", by: "by", reason: "reason", request: "request", host: "site",
  url: "address", category: "category", minutes: "minutes_number", expression: "expression_of", action: "action", name: "who", what: "what", word: "answer", comment: "comment",
};
const UNTOLD = ["id", "how", "made", "minute", "undone", "digest"];
const done = (word) => TEXTS[`did_${word.replaceAll(" ", "_")}`] ?? word;

function detail(name, text) {
  const kinds = {until: moment, what: done, scope: (scope) => t(SCOPES[scope] ?? "everything"), action: (action) => t(`action_${action}`)};
  return isolate(pair(TEXTS[DETAILS[name]] ?? name, kinds[name]?.(text) ?? text));
}

async function showRecord() {
  const {record} = await call("GET", "/record");
  const told = (details) => Object.entries(details).filter(([name, text]) => text !== null && typeof text !== "object" && !UNTOLD.includes(name))
    .map(([name, text]) => detail(name, text)).join(", ");
  fill("record", record.map((one) => [moment(one.at), one.who, one.client, make("span", {}, done(one.what), make("small", {}, told(one.detail))),
    one.undone ? t("undone_by", {who: one.undone_by}) : one.can_undo && may("approve")
      ? button(t("undo"), `${t("undo")}: ${done(one.what)}, ${moment(one.at)}`, () => act("told_undone", () => call("POST", `/record/${one.id}/undo`, {}))) : ""]));
}

async function showSessions() {
  if (!may("manage")) return;
  const {sessions} = await call("GET", "/sessions");
  fill("sessions", sessions.map((one) => [one.name, one.client, moment(one.made), moment(one.until),
    button(t("end"), `${t("end")}: ${one.name}, ${one.client}`, () => act("told_ended", () => call("DELETE", `/sessions/${one.id}`)))]));
}

async function showAll() {
  try {
    await Promise.all([showWaiting(), showGrants(), showBlocks(), showCodes(), showRules(), showUpdates(), showRecord(), showSessions()]);
  } catch (error) {
    if (session.name) tell(error.message, true);
  }
}

// -- what is done -------------------------------------------------------------------------------------------------------

/** What the form cannot say together is switched off. */
function fit() {
  const form = byId("act");
  const chosen = form.elements.what.value;
  for (const element of form.querySelectorAll("[data-of]")) {
    element.disabled = element.hidden = !element.dataset.of.split(" ").includes(chosen) || !may(element.dataset.for ?? "view");
  }
  if (chosen === "code" && form.elements.minutes.value === "0") form.elements.minutes.value = "30";
  form.elements.target.required = form.elements.client.required = chosen !== "code";
}

async function submitAct(event) {
  event.preventDefault();
  const form = event.target;
  const chosen = value(form, "what");
  const minutes = Number(value(form, "minutes"));
  const place = {scope: value(form, "scope"), target: value(form, "target")};
  const own = {...place, minutes, client: value(form, "client")};
  if (chosen === "code") {
    const made = await act("did_made_a_code", () => call("POST", "/codes", own));
    if (made) tell(t("told_code"), false, code(made.result.code));
  } else {
    await bid(chosen, {...own, reason: value(form, "reason")});
  }
}

/** Allow or block something. */
const bid = (action, own) => act(action === "allow" ? "told_allowed" : "told_blocked", () => call("POST", action === "allow" ? "/grants" : "/blocks", own));

async function previewRule() {
  const form = byId("act");
  const query = new URLSearchParams(Object.fromEntries(["scope", "target", "client"].map((name) => [name, value(form, name)])));
  query.set("action", value(form, "what"));
  const found = await ask(`/preview?${query}`);
  if (!found) return;
  const actions = Object.entries(found.actions).map(([action, number]) => pair(t(`action_${action}`), whole.format(number))).join(", ");
  const numbers = {changed: whole.format(found.changed), requests: whole.format(found.requests), clients: whole.format(found.clients)};
  byId("preview").replaceChildren(
    make("p", {}, [t("would_change", numbers), actions, found.is_all ? "" : t("newest_only", {number: whole.format(10000)})].filter(Boolean).join(" ")),
    make("ul", {}, ...found.addresses.map((one) => make("li", {}, chip(one.action), " ", bdi(one.url), ` (${whole.format(one.count)})`))));
}

async function submitPause(event) {
  event.preventDefault();
  const form = event.target;
  const isBlackout = event.submitter?.value === "blackout";
  const order = {client: `group:${value(form, "group")}`, minutes: Number(value(form, "minutes"))};
  if (!confirm(`${t(isBlackout ? "internet_off" : "pause_group")}: ${value(form, "group")}, ${span(order.minutes, "minute")}?`)) return;
  await act(isBlackout ? "told_blocked" : "told_paused", () => call("POST", isBlackout ? "/blackouts" : "/pauses", order));
}

async function submitHolds(event) {
  event.preventDefault();
  const form = event.target;
  const query = new URLSearchParams(["client", "user", "url"].map((name) => [name, value(form, name)]));
  const found = await ask(`/client?${query}`);
  if (!found) return;
  const {decision} = found;
  const changes = (one) => [pair(one.name, t(one.is_on ? "on" : "off")), one.changes && pair(t("until_when"), until(one.changes))].filter(Boolean).join(" · ");
  const action = (name, none) => (name ? t(`action_${name}`) : t(none));
  const list = make("dl", {class: "facts"});
  facts(list, [
    [t("group"), `${isolate(found.group)} · ${pair(t("mode"), found.mode)}`],
    [t("layers"), found.layers.map((one) => (one.is_on ? isolate(one.name) : `${isolate(one.name)} (${t("off")})`)).join(", ")],
    [t("schedules"), found.schedules.map(changes).join("\n") || "–"],
    [t("categories"), found.categories.map((one) => pair(one.category, action(one.action, "as_lists_say"))).join("\n") || t("as_lists_say")],
    [t("no_rule_decides"), action(found.default, "action_pass")],
    ...(found.grants.length ? [[t("unblocked_now"), found.grants.map((one) => `${what(one)}, ${whom(one.client)}, ${lasting(one.until)}`).join("\n")]] : []),
    ...(found.blocks.length ? [[t("blocked_besides"), found.blocks.map((one) => `${what(one)}, ${whom(one.client)}, ${lasting(one.until)}`).join("\n")]] : []),
    ...(found.quotas.length ? [[t("quotas"), found.quotas.map(quotaText).join("\n")]] : []),
    ...(decision ? [[t("this_address"), pair(t(`action_${decision.action}`), decision.why || t("no_rule_fits"))]] : []),
  ]);
  const who = value(form, "user") ? `user:${value(form, "user")}` : value(form, "client");
  const more = (one, minutes) => button(`+${span(minutes, "minute", "short")}`, `${t("more_minutes", one)} ${span(minutes, "minute")}`, async () => {
    await act("told_minutes", () => call("POST", "/extensions", {category: one.category, minutes, client: one.shared ? `group:${found.group}` : who}));
    form.requestSubmit();
  });
  const extending = may("approve") ? found.quotas.map((one) => make("p", {class: "actions"}, t("more_minutes", one), ...[15, 30, 60].map((minutes) => more(one, minutes)))) : [];
  byId("holding").replaceChildren(list, ...extending);
}

/** A decision, a host or a client that somebody chose elsewhere on the page. */
document.addEventListener("chosen", ({detail}) => {
  if (!session.name) return;
  const isPseudonym = (name) => /^(client|user)-[0-9A-Z]{8}$/.test(name);
  const {client: named = null, user = null} = detail;
  const client = user ? (isPseudonym(user) ? user : `user:${user}`) : named ?? (detail.isOfAll ? EVERYBODY : "");
  const host = detail.host ?? (detail.url ?? "").replace(/^[a-z+.-]+:\/\//, "").split(/[/?]/, 1)[0].replace(/:[0-9]+$/, "");
  const scope = host ? "host" : "category";
  const target = host || (detail.category ?? "");
  if (detail.isDone && client) { // whose it is may not be known: then the form asks
    bid(detail.isStopped ? "allow" : "block", {scope, target, minutes: 30, client, reason: ""});
    return;
  }
  leave();
  const form = byId("act");
  if (target) {
    form.elements.scope.value = scope;
    form.elements.target.value = target;
  } else {
    byId("holds").elements.client.value = user ? "" : named ?? "";
    byId("holds").elements.user.value = user ?? "";
    byId("holds").requestSubmit();
  }
  form.elements.client.value = client;
  Object.assign(form.dataset, {host, url: detail.url ?? "", category: detail.category ?? ""});
  byId("preview").replaceChildren();
  form.scrollIntoView({block: "center"});
  form.elements[!target ? "target" : client ? "what" : "client"].focus();
});
document.addEventListener("groups", ({detail}) => {
  byId("whoever").replaceChildren(make("option", {value: EVERYBODY}, t("everybody")), ...detail.map((name) => make("option", {value: `group:${name}`})));
  byId("groups").replaceChildren(...detail.map((name) => make("option", {value: name})));
});
byId("act").elements.scope.addEventListener("change", ({target}) => {
  const chosen = byId("act").dataset[target.value];
  if (chosen) byId("act").elements.target.value = chosen;
});
for (const id of ["act", "told"]) {
  byId(id).addEventListener("keydown", ({key}) => {
    if (key === "Escape") dismiss();
  });
}
document.addEventListener("locked", learn);
byId("sign-in-form").addEventListener("submit", signIn);
byId("sign-out").addEventListener("click", signOut);
byId("act").addEventListener("submit", submitAct);
byId("answer").addEventListener("submit", (event) => event.preventDefault()); // it says how, and the buttons whom
byId("act").elements.what.addEventListener("change", fit);
byId("preview-rule").addEventListener("click", previewRule);
byId("pause-group").addEventListener("submit", submitPause);
byId("holds").addEventListener("submit", submitHolds);
for (const one of byId("act-minutes").options) {
  const minutes = Number(one.value);
  if (minutes) one.text = minutes < 60 ? span(minutes, "minute") : minutes < 1440 ? span(minutes / 60, "hour") : span(minutes / 1440, "day");
}
fit();
learn();

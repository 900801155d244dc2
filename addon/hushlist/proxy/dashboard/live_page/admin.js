// Lets administrators sign in and act, by the page's own interface. As in live.js, every text is set as text.
"use strict";

const ROLES = ["view", "approve", "manage"];
let session = {needed: false, possible: false, name: null, role: null, token: null};
const may = (role) => ROLES.indexOf(session.role) >= ROLES.indexOf(role);

/** Call the interface; its answer, or an error that says why not. */
async function call(method, path, body) {
  const headers = {"X-Hushlist": "live"};
  if (method !== "GET") headers["X-Hushlist-Token"] = session.token ?? "";
  if (body) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(`/api/v1${path}`, {method, headers, body: body && JSON.stringify(body)});
  } catch {
    throw new Error("The proxy does not answer.");
  }
  const found = await response.json().catch(() => ({}));
  if (!response.ok) {
    if (response.status === 401 && path !== "/session") await learn();
    throw new Error(found.error ?? `It answers ${response.status}.`);
  }
  return found;
}

/** Say what came of something; a screen reader reads it out. */
function tell(text, isWrong = false, undo = null) {
  const place = byId("told");
  place.className = isWrong ? "alert" : "";
  if (place.textContent !== text || undo) place.replaceChildren(text, ...(undo ? [" ", undo] : []));
}

/** The button that undoes what was just done. */
const undoing = (number, words) => button("Undo", `Undo: ${words}`, () => act("Undone.", () => call("POST", `/record/${number}/undo`, {})));

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
async function act(words, what) {
  leave();
  const announce = (...told) => {
    tell(...told);
    byId("told").focus({preventScroll: true}); // the button that undoes it is next, and Escape leads back
  };
  try {
    const found = await what();
    announce(words, false, UNDONE.has(words) ? undoing(found.recorded, words) : null);
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
function fill(id, rows, none) {
  const body = byId(id).tBodies[0];
  const heads = [...byId(id).tHead.rows[0].cells];
  const shown = rows.length ? rows : [[make("span", {class: "soft"}, none)]];
  refill(body, ...shown.map((cells) =>
    make("tr", {role: "row"}, ...cells.map((cell, place) => make("td", rows.length
      ? {role: "cell", dir: "auto", "data-head": heads[place].querySelector(".unseen") ? null : heads[place].textContent} // for phones
      : {role: "cell", colspan: heads.length}, cell ?? "")))));
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
  say(byId("who-name"), session.name ? `${session.name} (${session.role})` : "");
  say(byId("footer-words"), session.needed ? "Whatever is done here is recorded." : "Nothing can be changed here.");
  document.body.dataset.role = session.role ?? "";
  for (const element of document.querySelectorAll("[data-for]")) element.hidden = !may(element.dataset.for);
  fit();
  if (isLocked) {
    status("paused", "Signed out");
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
const UNDONE = new Set(["It is allowed.", "It is blocked.", "The minutes are added.", "The group is paused.", "Ended.", "Removed."]);
const lasting = (time) => (time === null ? "for good" : moment(time));
const whom = (client) => client ?? "everybody";
const what = (one) => (one.scope === "everything" ? "everything that rules stop" : `${one.scope} ${one.target ?? "of the user's choice"}`);

async function showGrants() {
  const {grants} = await call("GET", "/grants");
  fill("grants", grants.map((one) => [what(one), whom(one.client), lasting(one.until), `${one.how}, ${one.by}`,
    may("approve") ? button("End", `End: ${what(one)} for ${whom(one.client)}`, () => act("Ended.", () => call("DELETE", `/grants/${one.id}`))) : ""]),
  "Nothing is unblocked now.");
}

async function showBlocks() {
  const {blocks} = await call("GET", "/blocks");
  fill("blocks", blocks.map((one) => [what(one), whom(one.client), lasting(one.until), one.reason, one.by,
    may("manage") ? button("End", `End the block: ${what(one)} for ${whom(one.client)}`, () => act("Ended.", () => call("DELETE", `/blocks/${one.id}`))) : ""]),
  "Nothing is blocked beside the rules.");
}

async function showWaiting() {
  showRequests(await call("GET", "/requests"));
}

answers = (one) => {
  if (!may("approve")) return [];
  const form = byId("answer");
  const answer = (word, body) => call("POST", `/requests/${one.id}/${word}`, body);
  return [
    button("Approve", `Approve request ${one.id}: ${one.host}`, () => act("It is allowed.", () => answer("approve", {scope: value(form, "scope"), minutes: Number(value(form, "minutes"))}))),
    button("Decline", `Decline request ${one.id}: ${one.host}`, () => act("It is declined.", () => answer("decline", {word: value(form, "word")}))),
  ];
};

async function showCodes() {
  if (!may("approve")) return;
  const {codes} = await call("GET", "/codes");
  fill("codes", codes.map((one) => [what(one), one.client ?? "whoever uses it first", `${whole.format(one.minutes)} min`, moment(one.until), one.by,
    button("Withdraw", `Withdraw the code for ${what(one)}`, () => act("Withdrawn.", () => call("DELETE", `/codes/${one.id}`)))]),
  "There is no code that can be used.");
}

async function showRules() {
  const {file, rules} = await call("GET", "/rules").catch((error) => ({file: error.message, rules: []}));
  say(byId("rules-file"), file);
  fill("rules", rules.map((one) => [whole.format(one.line), chip(one.action ?? "block"), one.expression, one.reason, one.expires ? `to the end of ${one.expires}` : "for good", one.comment,
    may("manage") && one.id ? button("Remove", `Remove the rule: ${one.expression}`, () => act("Removed.", () => call("DELETE", `/rules/${one.id}`))) : ""]),
  "There is no rule.");
}

async function showUpdates() {
  const {lists: found} = await call("GET", "/lists");
  const post = (path, url, more = {}) => call("POST", `/lists/${path}`, {url, ...more});
  fill("updates", found.map((one) => {
    const name = one.title ?? one.url;
    const state = [one.fault && `failed: ${one.fault}`, one.held && `held back: ${one.reasons.join("; ")}`].filter(Boolean).join("\n") || "in force";
    const actions = [];
    if (one.held) actions.push(button("Look", `What is held back of ${name}`, () => look(one.url, name)));
    if (may("manage")) {
      actions.push(button("Update", `Update ${name} now`, () => act("It is fetched within seconds.", () => post("update", one.url))));
      if (one.versions.length > 1) actions.push(button("Go back", `Go back to the version of ${name} before`, () => act("The version before is in force.", () => post("rollback", one.url))));
    }
    return [make("span", {}, name, ...(one.title ? [make("small", {}, one.url)] : [])), state, one.checked ? moment(one.checked) : "never", String(one.versions.length), make("span", {class: "actions"}, ...actions)];
  }), "The policy fetches no list.");
}

async function look(url, name) {
  const found = await ask(`/lists/held?url=${encodeURIComponent(url)}`);
  if (!found) return;
  const lines = (title, number, some) => [make("h3", {}, `${title}: ${whole.format(number)}`),
    make("pre", {tabindex: "0", "aria-label": title}, some.join("\n") + (number > some.length ? "\n…" : ""))];
  const accept = () => act("It is in force.", async () => {
    await call("POST", "/lists/accept", {url, digest: found.digest});
    byId("difference").replaceChildren();
  });
  byId("difference").replaceChildren(make("h3", {tabindex: "-1"}, `Held back of ${name}`), make("p", {}, found.reasons.join("; ")),
    ...lines("Lines that are new", found.added, found.added_lines), ...lines("Lines that would be gone", found.removed, found.removed_lines),
    ...(may("manage") ? [make("p", {}, button("Accept", `Accept what is held back of ${name}`, accept))] : []));
  byId("difference").firstChild.focus();
}

async function showRecord() {
  const {record} = await call("GET", "/record");
  const told = (detail) => Object.entries(detail).filter(([, text]) => text !== null && typeof text !== "object").map(([name, text]) =>
    `${name}: ${["until", "made"].includes(name) ? moment(text) : text}`).join(", ");
  fill("record", record.map((one) => [moment(one.at), one.who, one.client, make("span", {}, one.what, make("small", {}, told(one.detail))),
    one.undone ? `undone by ${one.undone_by}` : one.can_undo && may("approve")
      ? button("Undo", `Undo: ${one.what}, ${moment(one.at)}`, () => act("Undone.", () => call("POST", `/record/${one.id}/undo`, {}))) : ""]),
  "Nothing was done yet.");
}

async function showSessions() {
  if (!may("manage")) return;
  const {sessions} = await call("GET", "/sessions");
  fill("sessions", sessions.map((one) => [one.name, one.client, moment(one.made), moment(one.until),
    button("End", `End the session of ${one.name} at ${one.client}`, () => act("Ended.", () => call("DELETE", `/sessions/${one.id}`)))]), "Nobody.");
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
  form.elements.target.required = chosen !== "code";
}

async function submitAct(event) {
  event.preventDefault();
  const form = event.target;
  const chosen = value(form, "what");
  const minutes = Number(value(form, "minutes"));
  const place = {scope: value(form, "scope"), target: value(form, "target")};
  const own = {...place, minutes, client: value(form, "client")};
  if (chosen === "code") {
    const made = await act("A code was made.", () => call("POST", "/codes", own));
    if (made) tell(`The code, which is shown this once: ${made.result.code}`);
  } else {
    await bid(chosen, {...own, reason: value(form, "reason")});
  }
}

/** Allow or block something. */
const bid = (action, own) => act(action === "allow" ? "It is allowed." : "It is blocked.", () => call("POST", action === "allow" ? "/grants" : "/blocks", own));

async function previewRule() {
  const form = byId("act");
  const query = new URLSearchParams(Object.fromEntries(["scope", "target", "client"].map((name) => [name, value(form, name)])));
  query.set("action", value(form, "what"));
  const found = await ask(`/preview?${query}`);
  if (!found) return;
  const actions = Object.entries(found.actions).map(([action, number]) => `${whole.format(number)} ${action}`).join(", ");
  const part = found.is_all ? "" : " (of the 10,000 newest records)";
  byId("preview").replaceChildren(
    make("p", {}, `In the last week it would have changed${part}: ${whole.format(found.changed)} of the requests that it covers, ${whole.format(found.requests)}; clients ${whole.format(found.clients)}${actions ? `; ${actions}` : ""}.`),
    make("ul", {}, ...found.addresses.map((one) => make("li", {}, chip(one.action), ` ${one.url} (${whole.format(one.count)})`))));
}

async function submitPause(event) {
  event.preventDefault();
  const form = event.target;
  await act("The group is paused.", () => call("POST", "/pauses", {group: value(form, "group"), minutes: Number(value(form, "minutes"))}));
}

async function submitHolds(event) {
  event.preventDefault();
  const form = event.target;
  const query = new URLSearchParams(["client", "user", "url"].map((name) => [name, value(form, name)]));
  const found = await ask(`/client?${query}`);
  if (!found) return;
  const {decision} = found;
  const changes = (one) => `${one.name}: ${one.is_on ? "on" : "off"}${one.until ? `, until ${moment(one.until)}` : ""}`;
  const list = make("dl", {class: "facts"});
  facts(list, [
    ["Group", `${found.group} (mode ${found.mode})`],
    ["Layers", found.layers.map((one) => (one.is_on ? one.name : `${one.name} (off now)`)).join(", ")],
    ["Schedules", found.schedules.map(changes).join("\n") || "none"],
    ["Categories", found.categories.map((one) => `${one.category}: ${one.action ?? "as the lists say"}`).join("\n") || "as the lists say"],
    ["What no rule decides", found.default ?? "pass"],
    ...(found.blocks.length ? [["Blocked beside the rules", found.blocks.map((one) => `${what(one)} for ${whom(one.client)}, ${lasting(one.until)}`).join("\n")]] : []),
    ...(found.quotas.length ? [["Quotas", found.quotas.map(quotaText).join("\n")]] : []),
    ...(decision ? [["This address", `${decision.action}: ${decision.why || "no rule fits"}`]] : []),
  ]);
  const who = value(form, "user") ? `user:${value(form, "user")}` : value(form, "client");
  const more = (one, minutes) => button(`+${minutes} min`, `${minutes} more minutes of ${one.category}`, async () => {
    await act("The minutes are added.", () => call("POST", "/extensions", {category: one.category, minutes, client: one.shared ? `group:${found.group}` : who}));
    form.requestSubmit();
  });
  const extending = may("approve") ? found.quotas.map((one) => make("p", {class: "actions"}, `More minutes of ${one.category}:`, ...[15, 30, 60].map((minutes) => more(one, minutes)))) : [];
  byId("holding").replaceChildren(list, ...extending);
}

/** A decision, a host or a client that somebody chose elsewhere on the page. */
document.addEventListener("chosen", ({detail}) => {
  if (!session.name) return;
  const address = /^[0-9a-f.:]+$/.test(detail.client ?? "") ? detail.client : "";
  const client = detail.user ? `user:${detail.user}` : address;
  const host = detail.host ?? (detail.url ?? "").replace(/^[a-z+.-]+:\/\//, "").split(/[/?]/, 1)[0].replace(/:[0-9]+$/, "");
  const scope = host ? "host" : "category";
  const target = host || (detail.category ?? "");
  if (detail.isDone) {
    bid(detail.isStopped ? "allow" : "block", {scope, target, minutes: 30, client, reason: ""});
    return;
  }
  leave();
  const form = byId("act");
  if (target) {
    form.elements.scope.value = scope;
    form.elements.target.value = target;
  } else {
    byId("holds").elements.client.value = address;
    byId("holds").elements.user.value = detail.user ?? "";
    byId("holds").requestSubmit();
  }
  form.elements.client.value = client;
  Object.assign(form.dataset, {host, url: detail.url ?? "", category: detail.category ?? ""});
  byId("preview").replaceChildren();
  form.scrollIntoView({block: "center"});
  form.elements[target ? "what" : "target"].focus();
});
document.addEventListener("groups", ({detail}) => {
  byId("whoever").replaceChildren(...detail.map((name) => make("option", {value: `group:${name}`})));
  byId("groups").replaceChildren(...detail.map((name) => make("option", {value: name})));
});
byId("act").elements.scope.addEventListener("change", ({target}) => {
  const chosen = byId("act").dataset[target.value];
  if (chosen) byId("act").elements.target.value = chosen;
});
for (const id of ["act", "told"]) {
  byId(id).addEventListener("keydown", ({key}) => {
    if (key !== "Escape") return;
    tell("");
    byId("preview").replaceChildren();
    goBack();
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
fit();
learn();

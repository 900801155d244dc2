// What every screen uses: texts, elements, numbers and times in the reader's language, and calls of the interface.
// Every text is set as text, never as markup; whatever it says was written by others.

export const byId = (id) => document.getElementById(id);
const TEXTS = JSON.parse(document.body.dataset.texts);
const LANGUAGE = document.documentElement.lang;
/** The reader's own kind of the page's language, for numbers and dates. */
export const LOCALE = navigator.languages.find((item) => item.split("-")[0] === LANGUAGE.split("-")[0]) ?? LANGUAGE;
/** A value among words that run from right to left keeps its own direction. */
export const isolate = (value) => (document.dir === "rtl" ? `\u2068${value}\u2069` : String(value));
/** A text in the reader's language; `{name}` in it stands for a value. No text depends on a number's plural. */
export const t = (key, values = {}) => TEXTS[key].replace(/\{(\w+)\}/g, (_, name) => isolate(values[name]));
export const textOr = (key, other) => TEXTS[key] ?? other;
export const pair = (name, value) => t("pair", {name, value});

// -- elements -----------------------------------------------------------------------------------------------------------

function filled(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An element with attributes and children; a string is text. */
export const make = (name, attributes = {}, ...children) => filled(document.createElement(name), attributes, children);
export const draw = (name, attributes = {}, ...children) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
/** A text of others among the page's own, which may run in the other direction. */
export const bdi = (text) => (typeof text === "string" && text ? make("bdi", {}, text) : text);
export const code = (text) => make("code", {dir: "ltr"}, text);
export const soft = (...children) => make("p", {class: "soft"}, ...children);
export const button = (text, onclick, more = {}) => make("button", {type: "button", onclick, ...more}, text);
export const link = (text, href, more = {}) => make("a", {href, ...more}, bdi(text));
export const chip = (action) => make("span", {class: `chip ${action}`}, t(`action_${action}`));
export const panel = (title, ...children) => make("section", {class: "panel"}, make("h2", {}, title), ...children);
export const facts = (pairs) => make("dl", {class: "facts"}, pairs.filter(Boolean).map(([name, value]) =>
  make("div", {}, make("dt", {}, name), make("dd", {}, bdi(value)))));
export const field = (name, control, more = {}) => make("label", {class: "field", ...more}, make("span", {}, name), control);
export const select = (name, options, chosen) => {
  const made = make("select", {name}, options.map(([value, text]) => make("option", {value}, text)));
  if (chosen !== undefined && chosen !== null) made.value = chosen;
  return made;
};
/** A choice of a `select`, and the button that acts on it, which a change shows: the arrow keys alone do nothing. */
export function choice(chosen, name, does, word = t("save")) {
  const before = chosen.value;
  const apply = button(word, () => does(chosen.value), {class: "small", hidden: true});
  chosen.addEventListener("change", () => {
    apply.hidden = chosen.value === before;
    apply.ariaLabel = `${word}: ${name}, ${chosen.selectedOptions[0].text}`;
  });
  return make("div", {class: "choice"}, chosen, apply);
}

/** Rows that are a table on a screen, and cards on a phone; `isNarrow`: a table there, too. */
export function table(name, heads, rows, {none = t("nothing"), isNarrow = false} = {}) {
  if (!rows.length) return soft(none);
  const row = (cells) => make("tr", {role: "row"}, cells.map((cell, place) =>
    make("td", {role: "cell", "data-head": heads[place] || null}, bdi(cell))));
  return make("div", {class: `scroll ${isNarrow ? "narrow" : ""}`, tabindex: "0", role: "region", "aria-label": name}, make("table", {role: "table"},
    make("thead", {role: "rowgroup"}, make("tr", {role: "row"}, heads.map((head) =>
      make("th", {scope: "col", role: "columnheader"}, head || make("span", {class: "unseen"}, t("actions")))))),
    make("tbody", {role: "rowgroup"}, rows.map(row))));
}

/** Fill an element anew; what has the focus keeps it, by its name. */
export function refill(element, ...children) {
  const was = element.contains(document.activeElement) ? document.activeElement : null;
  const named = (item) => item.ariaLabel ?? item.labels?.[0]?.textContent ?? item.textContent;
  const label = was && named(was);
  element.replaceChildren(...children.flat().filter(Boolean));
  if (label) [...element.querySelectorAll("a, button, input, select")].find((item) => named(item) === label)?.focus({preventScroll: true});
}

// -- numbers and times --------------------------------------------------------------------------------------------------

export const whole = new Intl.NumberFormat(LOCALE);
const short = new Intl.NumberFormat(LOCALE, {maximumFractionDigits: 1});
const full = new Intl.DateTimeFormat(LOCALE, {dateStyle: "medium", timeStyle: "short"});
const wall = (options) => {
  const format = new Intl.DateTimeFormat(LOCALE, {timeZone: "UTC", ...options});
  return (text) => format.format(new Date(`${text.slice(0, 16).padEnd(16, "T00:00".slice(text.length - 10))}Z`));
};
/** Times by the clock of the policy, as the interface writes them: an hour, a day, and what is near enough to say less. */
export const hour = wall({hour: "numeric", minute: "2-digit"});
export const weekday = wall({weekday: "short"});
export const dayName = wall({weekday: "short", day: "numeric", month: "short"});
const dayAndHour = wall({weekday: "short", hour: "numeric", minute: "2-digit"});
const nextDay = (text) => new Date(Date.parse(`${text.slice(0, 10)}T00:00Z`) + 86400e3).toISOString().slice(0, 10);
export const near = (text, now) => (text.slice(0, 10) === now.slice(0, 10) || (text.slice(0, 10) === nextDay(now) && text.slice(11, 16) < "12:00") ? hour(text) : dayAndHour(text));
/** A number of days, hours and so on, in words; or abbreviated. */
export const span = (number, unit, unitDisplay = "short") =>
  new Intl.NumberFormat(LOCALE, {style: "unit", unit, unitDisplay, maximumFractionDigits: 1}).format(number);
export const minutes = (number) => (number < 120 && number !== 60 ? span(number, "minute")
  : number < 1440 ? span(number / 60, "hour") : span(number / 1440, "day"));
export const moment = (seconds) => (seconds === null ? t("unknown") : full.format(new Date(seconds * 1000)));
const relative = new Intl.RelativeTimeFormat(LOCALE, {numeric: "auto", style: "short"});
/** How long ago something was. */
export function ago(seconds) {
  const past = seconds - Date.now() / 1000;
  const [size, unit] = [[86400, "day"], [3600, "hour"], [60, "minute"]].find(([item]) => Math.abs(past) >= item) ?? [1, "second"];
  return relative.format(Math.round(past / size), unit);
}
export const lasting = (time) => (time === null ? t("for_good") : t("till", {time: ends(time)}));
/** When something ends: today an hour, else a day and an hour, by the clock of this device. */
export function ends(time) {
  const when = new Date(time * 1000);
  const isToday = when.toDateString() === new Date().toDateString();
  return new Intl.DateTimeFormat(LOCALE, {...(isToday ? {} : {weekday: "short"}), hour: "numeric", minute: "2-digit"}).format(when);
}
export const octets = (number) => {
  if (number === null || number === undefined) return t("unknown");
  const units = ["B", "KiB", "MiB", "GiB"];
  let place = 0;
  for (; number >= 1024 && place < units.length - 1; place++) number /= 1024;
  return `${short.format(number)} ${units[place]}`;
};
export const micro = (number) => {
  if (number === null || number === undefined) return "–";
  if (number >= 1e6) return span(number / 1e6, "second");
  return number >= 1000 ? span(number / 1000, "millisecond") : `${short.format(number)} µs`;
};
export const decimal = (number) => short.format(number);

// -- names --------------------------------------------------------------------------------------------------------------

const REST = "default";
/** What a category is called for people: the last part of its name. */
export const categoryName = (name) => decodeURIComponent(name.replace(/\/+$/, "").split("/").at(-1)).replace(/[-_]+/g, " ");
/** What the policy calls the devices of addresses and users, where these may be shown; it is read again after a while. */
let devices = new Map();
let namesUntil = 0;
const NAMES_AGE = 60e3;
export const forgetNames = () => { namesUntil = 0; };
export async function learnNames() {
  if (Date.now() < namesUntil) return;
  namesUntil = Date.now() + NAMES_AGE;
  const {names} = await get("/network/names").catch(() => ({names: []}));
  devices = new Map(names.map((item) => [item.client, item.name]));
}
/** What somebody is called whom an order, a record or a request names. */
export function nameOf(whom) {
  if (whom === null || whom === undefined || whom === "" || whom === "everybody") return t("everybody");
  if (whom.startsWith("group:")) return whom.slice(6) === REST ? t("everybody_else") : whom.slice(6);
  return devices.get(whom) ?? whom.replace(/^(user|device):/, "");
}
/** The device of a record or a request, if it has a name. */
const ownDevice = (item) => item.device ?? devices.get(clientOf(item)) ?? devices.get(item.client);
const isPseudonym = (name) => /^(client|user)-[0-9A-Z]{8}$/.test(name);
/** The user of a record, or else its address; nothing where neither may be shown. */
export const clientOf = ({user, client}) => (user && !isPseudonym(user) ? `user:${user}` : user || client || "");
const isPerson = (item) => item.group && item.group !== REST;
/** Whom an order is for that is about a record: its group, where that is a person's; else its user or its device. */
export const whomOf = (item, isAlone = false) => ((isAlone || !isPerson(item)) && clientOf(item)) || (item.group ? `group:${item.group}` : "");
export const whoOf = (item) => ((!isPerson(item) && ownDevice(item)) || (whomOf(item) ? nameOf(whomOf(item)) : t("somebody")));
/** A device, by its name if it has one, or a user, beside the name of its group. */
export const deviceOf = (item) => (isPerson(item) ? ownDevice(item) ?? item.user ?? item.client ?? "" : "");
/** Where somebody's screen is: of whoever sees some groups alone, the class's; what somebody did is with the rest. */
export const personAt = (whom) => (!session.groups ? `#/people/${encodeURIComponent(whom)}`
  : whom.startsWith("group:") ? `#/class/${encodeURIComponent(whom)}` : `#/activity?${query({whom})}`);
export const listName = (item) => item.title ?? (item.layer === "overrides" ? t("own_rules") : t("list_of", {name: item.layer ?? t("unknown")}));
const SCOPES = {host: "site", url: "page", category: "category"};
export const what = (item) => (item.scope === "everything" ? t("everything")
  : item.scope === "category" ? categoryName(item.target) : item.target ?? t("own_choice"));
export const scopeName = (scope) => t(SCOPES[scope] ?? "everything");

// -- the interface ------------------------------------------------------------------------------------------------------

const ROLES = ["view", "approve", "manage"];
export const session = {needed: false, possible: false, name: null, role: null, token: null, groups: undefined};
export const may = (role) => ROLES.indexOf(session.role) >= ROLES.indexOf(role);
/** Why something was not done, where the status says it; else the interface's own words say why, in English. */
const REFUSALS = {401: "signed_out", 403: "refused", 404: "gone_by_now", 429: "locked"};

/** Call the interface; its answer, or an error that says why not. */
export async function call(method, path, body, more = {}) {
  const headers = {"X-Hushlist": "live", ...more};
  if (method !== "GET") headers["X-Hushlist-Token"] = session.token ?? "";
  if (body) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(`/api/v1${path}`, {method, headers, body: body && JSON.stringify(body)});
  } catch {
    throw new Error(t("proxy_silent"));
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) {
    if (response.status === 401 && path !== "/session") document.dispatchEvent(new Event("locked"));
    if (response.status === 403) document.dispatchEvent(new Event("refused"));
    const isSignIn = method === "POST" && path === "/session" && response.status === 401;
    const words = t(isSignIn ? "sign_in_wrong" : REFUSALS[response.status] ?? "went_wrong", {why: answer.error ?? response.status});
    throw Object.assign(new Error(words), {status: response.status, said: answer.error, detail: answer.detail});
  }
  return answer;
}

export const query = (values) => new URLSearchParams(Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined)).toString();
export const get = (path, values = {}) => call("GET", Object.keys(values).length ? `${path}?${query(values)}` : path);

// -- what is said, and what is done --------------------------------------------------------------------------------------

let from = null; // what had the focus before something was done

/** Say what came of something; a screen reader reads it out. */
export function tell(text, isWrong = false, more = null) {
  const place = byId("message");
  place.className = isWrong ? "alert" : "";
  place.replaceChildren(...(text ? [make("span", {}, text), ...(more ? [more] : []), button("×", dismiss, {"aria-label": t("close")})] : []));
}

export function dismiss() {
  tell("");
  (from?.isConnected ? from : byId("title")).focus();
}

/** Do something, and say what came of it, with a button that undoes it; then show what is so now. */
export async function act(words, what, isUndone = true) {
  if (!byId("message").contains(document.activeElement)) from = document.activeElement;
  try {
    const answer = await what();
    const said = typeof words === "function" ? words(answer.result) : words;
    const more = answer.result?.warning ? ` ${t("attention", {why: answer.result.warning})}` : "";
    tell(said + more, false, isUndone && answer.recorded ? button(t("undo"), () => act(t("told_undone"), () => call("POST", `/record/${answer.recorded}/undo`, {}), false)) : null);
    const lead = () => byId("message").focus({preventScroll: true}); // the button that undoes it is next, and Escape leads back
    lead();
    document.querySelector("dialog")?.addEventListener("close", lead); // until then, nothing outside of it takes the focus
    document.dispatchEvent(new Event("done"));
    return answer;
  } catch (error) {
    tell(error.message, true);
    if (error.status === 404) document.dispatchEvent(new Event("done")); // what is shown is gone; else a form stays
    return null;
  }
}

/** A sheet with a title, above the screen; Escape closes it. */
export function sheet(title, ...children) {
  const dialog = make("dialog", {"aria-labelledby": "sheet-title"},
    make("div", {class: "bar"}, make("h2", {id: "sheet-title", dir: "auto"}, title), button("×", () => dialog.close(), {class: "plain", "aria-label": t("close")})),
    ...children);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", ({target}) => { if (target === dialog) dialog.close(); });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

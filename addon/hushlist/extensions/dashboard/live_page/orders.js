// What people do from any screen: answer, allow, block, more time, the internet or the filter off.
import {ring} from "./charts.js";
import {
  act, bdi, button, call, categoryName, chip, code, ends, field, get, hour, lasting, link, make, may, minutes, nameOf, near, select, session, sheet, soft, t, what, whoOf, whole, whomOf,
} from "./kit.js";

/** Minutes to a time by the clock of the policy, today or tomorrow. */
export const minutesTo = (clock, time) => {
  const of = (text) => Number(text.slice(0, 2)) * 60 + Number(text.slice(3, 5));
  return (of(time) - of(clock.slice(11, 16)) + 1440 - 1) % 1440 + 1;
};
const MIDNIGHT = "00:00";

/** What an order came to, in a sentence. */
const said = (key) => (item) => t(key, {what: what(item), whom: nameOf(item.client ?? null), when: lasting(item.until ?? null)});
export const allow = (order) => act(said("told_open"), () => call("POST", "/grants", order));
export const block = (order) => act((item) => (item.scope ? said("told_shut")(item) : t("told_rule")), () => call("POST", "/blocks", order));
export const end = (kind, item) => act(t("told_ended"), () => call("DELETE", `/${kind}/${item.id}`));

/** Buttons in a row that end a sheet. */
const choices = (values, does) => {
  const row = make("div", {class: "actions"});
  for (const [text, value] of values) row.append(button(text, () => { row.closest("dialog")?.close(); does(value); }));
  return row;
};

/** Ask for how long the internet is off. */
export function internetOff(whom, morning) {
  const off = (end) => act((item) => t("told_off", {whom: nameOf(item.client), when: lasting(item.until)}), () => call("POST", "/blackouts", {client: whom, ...end}));
  sheet(`${t("internet_off_short")}: ${nameOf(whom)}`, soft(t("internet_off_says")),
    choices(lengths(morning), off));
}

/** For how long everything can be off. */
const lengths = (morning) => [...[15, 30, 60].map((number) => [minutes(number), {minutes: number}]), [t("until_morning", {time: hour(morning)}), {until: "morning"}]];

/** Ask whether the filter is to be off, which is no pause of the internet. */
export function filterOff(whom, morning) {
  const off = (end) => act((item) => t("told_filter_off", {whom: nameOf(item.client), when: lasting(item.until)}), () => call("POST", "/pauses", {client: whom, ...end}));
  sheet(`${t("filter_off")}: ${nameOf(whom)}`, make("p", {}, t("filter_off_says")), choices(lengths(morning), off));
}

/** Give more minutes: at once where there is one quota, else of the one that is chosen. */
export function moreTime(quotas, whom) {
  const give = ({whom: of, use}, number = 15) => act(() => t("told_more", {what: categoryName(use.category), whom: nameOf(of), number: minutes(number)}),
    () => call("POST", "/extensions", {category: use.category, minutes: number, client: of}));
  if (quotas.length === 1) return give(quotas[0]);
  return sheet(`${t("more_time")}: ${nameOf(whom)}`, ...quotas.flatMap((item) => [make("h3", {}, `${categoryName(item.use.category)} · ${nameOf(item.of ?? item.whom)}`), choices([15, 30, 60].map((number) => [`+${minutes(number)}`, number]), (number) => give(item, number))]));
}

/** The card of a request that waits for an answer. */
export function card(item, clock) {
  const who = whoOf(item);
  const approve = (number) => act(said("told_open"), () => call("POST", `/requests/${item.id}/approve`, {scope: "host", minutes: number}));
  const wants = t("asks_for", {who, what: item.host});
  const row = (text, does, more = {}) => button(text, does, {"aria-label": `${text}: ${wants}`, ...more});
  return make("article", {class: "card waiting"},
    make("h3", {}, wants),
    soft([item.category && categoryName(item.category), t("since_then", {time: ends(item.asked)}), item.times > 1 && `×${whole.format(item.times)}`].filter(Boolean).join(" · ")),
    item.reason ? make("blockquote", {dir: "auto"}, item.reason) : null,
    may("approve") ? make("div", {class: "actions"},
      ...[15, 60].map((number) => row(minutes(number), () => approve(number))),
      row(t("today"), () => approve(minutesTo(clock, MIDNIGHT))),
      row(t("decline"), () => decline(item), {class: "plain"}),
      button("…", () => answerElse(item, approve), {class: "plain", "aria-label": `${t("act")}: ${wants}`})) : null);
}

/** The card of a report of a mistake. */
export function mistake(item) {
  const said = t("reports_mistake", {who: whoOf(item), what: item.host});
  const row = (text, does, more = {}) => button(text, does, {"aria-label": `${text}: ${said}`, ...more});
  return make("article", {class: "card waiting"},
    make("h3", {}, said),
    make("p", {}, code(item.url)), soft([`${item.rule} – ${item.list}`, t("since_then", {time: ends(item.asked)}), item.times > 1 && `×${whole.format(item.times)}`].filter(Boolean).join(" · ")),
    item.words ? make("blockquote", {dir: "auto"}, item.words) : null,
    make("div", {class: "actions"},
      item.source ? row(t("for_publisher"), () => forPublisher(item), {class: "plain"}) : null,
      may("approve") ? row(t("settle"), () => act(t("told_settled"), () => call("POST", `/reports/${item.id}/settle`, {}), false)) : null));
}

async function forPublisher(item) {
  const {publisher, text} = await get(`/reports/${item.id}/text`);
  const area = make("textarea", {rows: "10", dir: "ltr", lang: "en", "aria-label": t("for_publisher")});
  area.value = text;
  const copy = button(t("copy"), () => { area.select(); navigator.clipboard?.writeText(area.value); });
  sheet(t("for_publisher"), make("p", {}, t("for_publisher_says")),
    publisher ? make("p", {}, link(publisher, publisher, {rel: "noreferrer", target: "_blank"})) : soft(t("no_publisher")),
    area, make("div", {class: "actions"}, copy));
}

const decline = (item, word = "") => act(t("told_declined"), () => call("POST", `/requests/${item.id}/decline`, {word}), false);

function answerElse(item) {
  const form = make("form", {class: "fields"},
    field(t("which"), select("scope", [["host", `${t("site")}: ${item.host}`], ["site", `${t("site_with")}: ${item.host}`], ["url", `${t("page")}: ${item.url}`], ...(item.category ? [["category", `${t("category")}: ${categoryName(item.category)}`]] : [])])),
    field(t("duration"), durations("minutes")),
    field(t("decline_word"), make("input", {name: "word", maxlength: "300"})),
    make("div", {class: "actions"}, make("button", {}, t("approve")), make("button", {value: "no", class: "plain"}, t("decline"))));
  const dialog = sheet(t("asks_for", {who: whoOf(item), what: item.host}), code(item.url), form);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const {scope, minutes: number, word} = form.elements;
    dialog.close();
    if (event.submitter.value === "no") decline(item, word.value.trim());
    else act(said("told_open"), () => call("POST", `/requests/${item.id}/approve`, {scope: scope.value, minutes: Number(number.value)}));
  });
}

function durations(name, isForGood = false) {
  return select(name, [...[15, 30, 60, 120, 240, 1440, 10080, 43200].map((item) => [String(item), minutes(item)]), ...(isForGood ? [["0", t("for_good")]] : [])], "30");
}

/** The sheet of a site or of a decision: one sentence to act, with what it would have changed. */
export function siteSheet(item, people, ...more) {
  const whom = whomOf(item);
  const device = whomOf(item, true);
  const isStopped = item.stopped ?? ["block", "warn"].includes(item.action);
  const kind = isStopped ? "allow" : "block";
  const mayDo = may(isStopped ? "approve" : "manage");
  const does = isStopped ? allow : block;
  const quick = mayDo && whom ? button(t(isStopped ? "allow_for" : "block_for", {what: item.host, whom: nameOf(whom), time: minutes(30)}), () => {
    dialog.close();
    does({scope: "host", target: item.host, minutes: 30, client: whom});
  }) : null;
  const dialog = sheet(item.host, quick, ...more,
    may("approve") && !session.groups ? make("details", {}, make("summary", {}, t("in_other_ways")), orderForm({...item, kind, whom}, people, device, () => dialog.close())) : null);
  return dialog;
}

/** A form for an order: what, for whom, for how long. */
export function orderForm({host = "", url = "", category = "", kind = "allow", whom = ""}, people, device = "", done = () => {}) {
  const names = [...new Set([whom, device, ...people.map((item) => `group:${item.name}`)].filter(Boolean))];
  const whose = select("client", [["", "–"], ...names.map((item) => [item, nameOf(item)]), ["everybody", t("everybody")], ["else", t("somebody_else")]], whom);
  const targets = {host, site: host, url, category};
  const action = select("kind", [["allow", t("allow")], ...(may("manage") ? [["block", t("block")]] : []), ["code", t("make_code")]], kind);
  const form = make("form", {class: "fields", autocomplete: "off"},
    field(t("what"), action),
    field(t("which"), select("scope", [["host", t("site")], ["site", t("site_with")], ["url", t("page")], ["category", t("category")]], host || !category ? "host" : "category")),
    field(t("target"), make("input", {name: "target", value: host || category, maxlength: "8000", dir: "ltr", spellcheck: "false", autocapitalize: "none", placeholder: "www.example.com"}), {class: "field wide"}),
    field(t("whom"), whose),
    field(`${t("whom")} (192.168.1.7, user:max)`, make("input", {name: "other", maxlength: "300", dir: "ltr", spellcheck: "false", autocapitalize: "none"}), {class: "field wide", hidden: true}),
    field(t("duration"), durations("minutes", may("manage"))),
    field(t("reason_shown"), make("input", {name: "reason", maxlength: "200"}), {class: "field wide"}),
    make("p", {class: "soft wide", "aria-live": "polite"}),
    make("div", {class: "actions"}, make("button", {}, t("do_it")), button(t("preview"), () => preview(form), {class: "plain"})));
  const {scope, target, other, client, reason, minutes: number} = form.elements;
  scope.addEventListener("change", () => { if (targets[scope.value]) target.value = targets[scope.value]; });
  const fit = () => {
    other.parentElement.hidden = client.value !== "else";
    reason.parentElement.hidden = action.value === "code";
    target.required = action.value !== "code";
  };
  form.addEventListener("change", fit);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const order = {scope: scope.value, target: target.value.trim(), minutes: Number(number.value), client: whoseOf(form)};
    if (action.value === "code") return makeCode(order, done);
    if (!order.client) { // never everybody, by mistake
      form.querySelector("[aria-live]").textContent = t("say_whom");
      return client.focus();
    }
    done();
    return (action.value === "allow" ? allow : block)({...order, reason: reason.value.trim()});
  });
  fit();
  return form;
}

const whoseOf = (form) => (form.elements.client.value === "else" ? form.elements.other.value.trim() : form.elements.client.value);

async function makeCode(order, done) {
  const made = await act(t("did_made_a_code"), () => call("POST", "/codes", {...order, minutes: order.minutes || 30}));
  if (!made) return;
  done();
  sheet(t("told_code"), make("p", {class: "code"}, code(made.result.code)));
}

async function preview(form) {
  const place = form.querySelector("[aria-live]");
  const {scope, target, kind} = form.elements;
  try {
    const answer = await get("/preview", {scope: scope.value, target: target.value.trim(), action: kind.value === "block" ? "block" : "allow", client: whoseOf(form) || "everybody"});
    const numbers = {changed: whole.format(answer.changed), requests: whole.format(answer.requests), clients: whole.format(answer.clients)};
    place.replaceChildren([t("would_change", numbers), answer.is_all ? "" : t("newest_only", {number: whole.format(10000)})].filter(Boolean).join(" "),
      make("ul", {}, answer.addresses.map((item) => make("li", {}, chip(item.action), " ", bdi(item.url), ` (${whole.format(item.count)})`))));
  } catch (error) {
    place.textContent = error.message;
  }
}

/** A row of a grant or a block, with the button that ends it. */
export const heldRow = (kind, item) => [
  what(item), nameOf(item.client), item.until === null ? t("for_good") : ends(item.until), item.reason ?? "", byWhom(item),
  may(kind === "grants" ? "approve" : "manage") ? button(t("end"), () => end(kind, item), {class: "small", "aria-label": `${t("end")}: ${what(item)}, ${nameOf(item.client)}`}) : "",
];
export const heldHeads = () => [t("what"), t("whom"), t("until_when"), t("reason"), t("by"), ""];
const byWhom = (item) => [{passphrase: t("passphrase"), code: t("code"), warning: t("warned_title"), administrator: ""}[item.how] ?? item.how, item.by && nameOf(item.by)].filter(Boolean).join(", ");

/** What holds for somebody, in sentences. */
export function sentences(person, now) {
  const {blocks, grants, schedules, closing, mode} = person;
  const off = blocks.find((item) => item.scope === "everything");
  const free = grants.find((item) => item.scope === "everything");
  const said = [];
  if (off) said.push([t("internet_is_off", {when: lasting(off.until)}), "off", () => end("blocks", off)]);
  if (free) said.push([t("filter_is_off", {when: lasting(free.until)}), "free", () => end("grants", free)]);
  if (mode !== "block") said.push([t(mode === "off" ? "filtering_off" : "filtering_dry"), "free"]);
  for (const item of schedules) {
    const isClosing = closing.includes(item.name) && person.default === "block";
    const time = item.changes && near(item.changes, now);
    if (item.is_on) said.push([t(isClosing ? "closed_until" : "on_until", {name: item.name, time: time ?? "–"}), isClosing ? "off" : ""]);
  }
  const next = schedules.filter((item) => !item.is_on && item.until).sort((item, other) => item.until - other.until)[0];
  if (next) said.push([t("on_from", {name: next.name, time: near(next.changes, now)}), "next"]);
  return said.length ? said : [[t("as_usual"), ""]];
}

/** How much is left of a quota. */
export const quotaText = ({use, of}) => t("quota_is", {category: [categoryName(use.category), of && nameOf(of)].filter(Boolean).join(" · "), left: whole.format(use.left), limit: whole.format(use.limit)});
export const quotaList = (quotas) => make("ul", {class: "plain-list quotas"}, quotas.map((item) => make("li", {}, ring(item.use.left, item.use.limit), quotaText(item))));

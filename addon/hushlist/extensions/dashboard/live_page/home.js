// Home: whether all is well, who waits, what holds for whom, the day, and what was stopped most. And people.
import {columns, heat, line, minuteColumns, ranking} from "./charts.js";
import {
  button, categoryName, clientOf, facts, get, link, listName, make, may, minutes, nameOf, pair, panel, personAt, soft, t, table, whoOf, whole,
} from "./kit.js";
import {card, filterOff, heldHeads, heldRow, internetOff, mistake, moreTime, quotaList, sentences, siteSheet} from "./orders.js";
import {columnsOf, whatIsCounted, wouldBlock} from "./figures.js";
import {alertCard} from "./manage.js";

const MOST = 5;

export async function home() {
  const [state, {alerts}, people, figures, stopped, {reports}] = await Promise.all([
    get("/home"), get("/alerts").catch(() => ({alerts: []})), get("/people"), get("/figures").catch(() => null), get("/sites", {action: "stopped"}).catch(() => null),
    get("/reports").catch(() => ({reports: []})),
  ]);
  return {state, title: t("home"), parts: [
    troubles(state),
    unseen(alerts.filter((one) => one.seen === null)),
    state.would_block ? make("p", {class: "soft"}, `${t("since_start")} – ${wouldBlock(state.would_block)}`) : null,
    state.requests.length ? make("section", {"aria-labelledby": "asked"}, make("h2", {id: "asked"}, t("waiting")), make("div", {class: "cards"}, state.requests.map((one) => card(one, state.clock)))) : null,
    reports.length ? make("section", {"aria-labelledby": "mistakes"}, make("h2", {id: "mistakes"}, t("mistakes")), make("div", {class: "cards"}, reports.map(mistake))) : null,
    make("section", {"aria-labelledby": "people"}, make("h2", {id: "people"}, t("people")), make("div", {class: "cards"}, people.people.map((one) => tile(one, state, figures)))),
    figures ? panel(t("the_day"), whatIsCounted(figures), columns(figures, shades(people.people, state.clock))) : null,
    ...(stopped ? most(stopped, people.people) : []),
  ]};
}

/** The newest alerts that nobody has seen. */
function unseen(open) {
  if (!open.length) return null;
  return make("section", {"aria-labelledby": "alerts"}, make("h2", {id: "alerts"}, t("alerts")), make("div", {class: "cards"}, open.slice(0, 3).map((one) => alertCard(one))),
    open.length > 3 ? make("p", {}, link(t("alert_more", {number: whole.format(open.length - 3)}), "#/alerts")) : null);
}

const TROUBLES = {
  policy: ["not_used", "#/system"], held: ["trouble_held", "#/lists"], fetch: ["trouble_fetch", "#/lists"],
  authority: ["trouble_authority", "/setup"], devices: ["trouble_devices", "#/devices"],
};

function troubles(state) {
  const shown = state.troubles.map((one) => {
    const [key, href] = TROUBLES[one.kind] ?? ["trouble_warning", "#/system"];
    return make("li", {class: `trouble ${one.kind}`}, make("div", {}, make("strong", {}, t(key, {name: one.name ?? t("list_of", {name: "?"})})),
      one.said ? make("small", {lang: "en", dir: "ltr"}, one.said) : null), link(t("look"), href, {class: "button", "aria-label": `${t("look")}: ${t(key, {name: one.name ?? ""})}`}));
  });
  return shown.length ? make("section", {"aria-labelledby": "troubles"}, make("h2", {id: "troubles"}, t("to_look_at")), make("ul", {class: "plain-list"}, shown)) : null;
}

/** The spans of today in which somebody's schedule stops whatever no rule allows, as minutes. */
function shades(people, clock) {
  const minute = (text) => Number(text.slice(11, 13)) * 60 + Number(text.slice(14, 16));
  const found = [];
  for (const {schedules, closing} of people) {
    for (const one of schedules) {
      if (!closing.includes(one.name) || !one.changes || one.changes.slice(0, 10) > clock.slice(0, 10) && !one.is_on) continue;
      const isToday = one.changes.slice(0, 10) === clock.slice(0, 10);
      found.push(one.is_on ? [minute(clock), isToday ? minute(one.changes) : 1440] : [minute(one.changes), 1440]);
    }
  }
  return found;
}

/** Somebody, with what holds now and next, and what can be done. */
function tile(person, state, figures, level = "h3") {
  const whom = `group:${person.name}`;
  const name = nameOf(whom);
  const hours = figures?.groups[person.name];
  const said = sentences(person, state.clock);
  const named = (text, onclick, more = {}) => button(text, onclick, {"aria-label": `${text}: ${name}`, ...more});
  const [, , turnOn] = said.find(([, , ends]) => ends) ?? [];
  return make("article", {class: "card person"},
    make("div", {class: "bar"}, make(level, {}, link(name, personAt(whom))),
      hours ? make("p", {class: "soft hours"}, line(hours), pair(t("requests_today"), whole.format(hours.reduce((sum, one) => sum + one, 0)))) : null),
    make("ul", {class: "plain-list"}, said.map(([text, kind]) => make("li", {class: kind}, text))),
    person.quotas.length ? quotaList(person.quotas.slice(0, 3)) : null,
    make("div", {class: "actions"},
      turnOn && may("manage") ? named(t("turn_on"), turnOn) : null,
      !turnOn && may("manage") ? named(t("internet_off_short"), () => internetOff(whom, state.morning)) : null,
      person.quotas.length && may("approve") ? named(`+${minutes(15)}`, () => moreTime(person.quotas, whom), {class: "plain"}) : null,
      !turnOn && may("manage") ? named(t("filter_off"), () => filterOff(whom, state.morning), {class: "plain"}) : null));
}

/** What was stopped most: sites with whose they were, and categories. */
function most(stopped, people) {
  const sites = [...stopped.sites].sort((one, other) => other.stopped - one.stopped).slice(0, MOST);
  const categories = new Map();
  for (const one of stopped.sites) if (one.category) categories.set(one.category, (categories.get(one.category) ?? 0) + one.stopped);
  const top = [...categories].sort((one, other) => other[1] - one[1]).slice(0, MOST);
  const said = [t("today_by_log"), stopped.is_all ? "" : t("newest_only", {number: whole.format(stopped.read)})].filter(Boolean).join(" ");
  return [make("div", {class: "pair"},
    panel(t("stopped_host"), soft(said), sites.length ? ranking(sites.map((one) => ({name: one.host, more: whoOf(one), number: one.stopped, onclick: () => siteSheet(one, people, more(one))}))) : soft(t("nothing"))),
    panel(t("stopped_category"), soft(said), top.length ? ranking(top.map(([name, number]) => ({name: categoryName(name), number, href: `#/activity?${new URLSearchParams({category: name, action: "stopped"})}`}))) : soft(t("nothing"))))];
}

/** What a sheet says of a site, and where it leads. */
const more = (one) => make("div", {}, facts([
  [t("who"), whoOf(one)], one.category && [t("category"), categoryName(one.category)], one.title && [t("list"), listName(one)],
  [t("stopped"), whole.format(one.stopped)], [t("opened"), whole.format(one.passed)],
]), make("p", {}, link(t("show_decisions"), `#/activity?${new URLSearchParams({host: one.host})}`)));

export async function people() {
  const [state, found, figures] = await Promise.all([get("/home"), get("/people"), get("/figures").catch(() => null)]);
  return {state, title: t("people"), parts: [make("div", {class: "cards"}, found.people.map((one) => tile(one, state, figures, "h2")))]};
}

/** Somebody: a group, a user or a device. */
export async function person(whom, values) {
  const days = Number(values.get("days")) || 1;
  const [state, {people: all}, today, week, sites] = await Promise.all([
    get("/home"), get("/people"), get("/figures", {whom, days}).catch(() => null), get("/figures", {whom, days: 7}).catch(() => null), get("/sites", {whom, days}).catch(() => null),
  ]);
  const own = await holds(whom, all);
  const name = nameOf(whom);
  if (!own) return {state, title: name, parts: [soft(t("gone_by_now"))]};
  const said = sentences(own, state.clock);
  const choose = make("nav", {class: "chips", "aria-label": t("duration")}, [1, 7, 31].map((one) => link(t({1: "today", 7: "last_week", 31: "last_month"}[one]), `${personAt(whom)}?days=${one}`, {"aria-current": one === days ? "page" : null})));
  const order = (one) => ({...one, group: whom.startsWith("group:") ? whom.slice(6) : null, client: whom.startsWith("group:") ? null : one.client, user: whom.startsWith("group:") ? null : one.user});
  const list = (kind) => (sites?.sites ?? []).filter((one) => one[kind]).sort((one, other) => other[kind] - one[kind]).slice(0, 12)
    .map((one) => ({name: one.host, more: [one.category && categoryName(one.category), own.members.length > 1 && clientOf(one) && nameOf(clientOf(one))].filter(Boolean).join(" · "), number: one[kind], kind, onclick: () => siteSheet(order({...one, stopped: kind === "stopped" ? one.stopped : 0}), all, more(one))}));
  const counted = soft(`${t({1: "today", 7: "last_week", 31: "last_month"}[days])}. ${t("by_the_log")}`, sites?.is_all === false ? ` ${t("newest_only", {number: whole.format(sites.read)})}` : "");
  const kept = state.kept === "all" ? "" : t("log_keeps_some");
  return {state, title: name, parts: [
    panel(t("now"), make("ul", {class: "plain-list"}, said.map(([text, kind]) => make("li", {class: kind}, text))),
      own.members?.length ? soft(own.members.map(nameOf).join(", ")) : null,
      own.quotas.length ? quotaList(own.quotas) : null,
      make("div", {class: "actions"},
        ...said.filter(([, , ends]) => ends && may("manage")).map(([text, , ends]) => button(t("turn_on"), ends, {"aria-label": `${t("turn_on")}: ${text}`})),
        may("manage") ? button(t("internet_off_short"), () => internetOff(whom, state.morning)) : null,
        own.quotas.length && may("approve") ? button(t("more_time"), () => moreTime(own.quotas, whom), {class: "plain"}) : null,
        may("manage") ? button(t("filter_off"), () => filterOff(whom, state.morning), {class: "plain"}) : null,
        whom.startsWith("group:") && !own.is_rest ? link(t("this_lesson"), `#/class/${encodeURIComponent(whom)}`, {class: "button plain"}) : null)),
    ...minutesOf(own.quotas, state.clock),
    choose,
    today ? panel(t(days === 1 ? "the_day" : "over_time"), whatIsCounted(today), columnsOf(today, days === 1 ? shades([own], state.clock) : [])) : soft(t("no_log")),
    make("div", {class: "pair"},
      sites ? panel(t("stopped"), counted, ranking(list("stopped")), list("stopped").length ? null : soft(t("nothing"))) : null,
      sites ? panel(t("opened"), counted.cloneNode(true), kept ? soft(kept) : null, ranking(list("passed")), list("passed").length ? null : soft(t("nothing"))) : null),
    week ? panel(t("the_week"), whatIsCounted(week), heat(week)) : null,
    make("p", {}, link(t("show_decisions"), `#/activity?${new URLSearchParams({whom})}`)),
    own.grants.length ? panel(t("unblocked_now"), table(t("unblocked_now"), heldHeads(), own.grants.map((one) => heldRow("grants", one)))) : null,
    own.blocks.length ? panel(t("blocked_besides"), table(t("blocked_besides"), heldHeads(), own.blocks.map((one) => heldRow("blocks", one)))) : null,
    panel(t("categories"), own.categories.length ? facts(own.categories.map((one) => [categoryName(one.category), one.action ? t(`action_${one.action}`) : t("as_lists_say")])) : soft(t("as_lists_say"))),
  ]};
}

/** The minutes of use of the last days, by category. */
function minutesOf(quotas, clock) {
  const used = quotas.filter((one) => one.use.days.length);
  if (!used.length) return [];
  return [panel(t("minutes_by_day"), soft(t("minutes_say")), ...used.map((one) => {
    const name = [categoryName(one.use.category), one.of && nameOf(one.of)].filter(Boolean).join(" · ");
    return make("section", {}, make("h3", {dir: "auto"}, name), minuteColumns(one.use, clock, name));
  }))];
}

async function holds(whom, all) {
  if (whom.startsWith("group:")) return all.find((one) => `group:${one.name}` === whom) ?? null;
  const isUser = whom.startsWith("user:");
  const found = await get("/client", isUser ? {user: whom.slice(5)} : {client: whom});
  return {...found, name: whom, closing: [], members: [t("in_group", {name: nameOf(`group:${found.group}`)})], quotas: found.quotas.map((use) => ({whom: use.shared ? `group:${found.group}` : whom, of: null, use}))};
}


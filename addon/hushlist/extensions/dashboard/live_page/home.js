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
    unseen(alerts.filter((item) => item.seen === null)),
    state.would_block ? make("p", {class: "soft"}, `${t("since_start")} – ${wouldBlock(state.would_block)}`) : null,
    state.requests.length ? make("section", {"aria-labelledby": "waiting"}, make("h2", {id: "waiting"}, t("waiting")), make("div", {class: "cards"}, state.requests.map((item) => card(item, state.clock)))) : null,
    reports.length ? make("section", {"aria-labelledby": "mistakes"}, make("h2", {id: "mistakes"}, t("mistakes")), make("div", {class: "cards"}, reports.map(mistake))) : null,
    make("section", {"aria-labelledby": "people"}, make("h2", {id: "people"}, t("people")), make("div", {class: "cards"}, people.people.map((item) => tile(item, state, figures)))),
    figures ? panel(t("the_day"), whatIsCounted(figures), columns(figures, shades(people.people, state.clock))) : null,
    ...(stopped ? most(stopped, people.people) : []),
  ]};
}

/** The newest alerts that nobody has seen. */
function unseen(open) {
  if (!open.length) return null;
  return make("section", {"aria-labelledby": "alerts"}, make("h2", {id: "alerts"}, t("alerts")), make("div", {class: "cards"}, open.slice(0, 3).map((item) => alertCard(item))),
    open.length > 3 ? make("p", {}, link(t("alert_more", {number: whole.format(open.length - 3)}), "#/alerts")) : null);
}

const TROUBLES = {
  policy: ["not_used", "#/system"], held: ["trouble_held", "#/lists"], fetch: ["trouble_fetch", "#/lists"],
  authority: ["trouble_authority", "/setup"], devices: ["trouble_devices", "#/devices"],
};

function troubles(state) {
  const shown = state.troubles.map((item) => {
    const [key, href] = TROUBLES[item.kind] ?? ["trouble_warning", "#/system"];
    return make("li", {class: `trouble ${item.kind}`}, make("div", {}, make("strong", {}, t(key, {name: item.name ?? t("list_of", {name: "?"})})),
      item.said ? make("small", {lang: "en", dir: "ltr"}, item.said) : null), link(t("look"), href, {class: "button", "aria-label": `${t("look")}: ${t(key, {name: item.name ?? ""})}`}));
  });
  return shown.length ? make("section", {"aria-labelledby": "troubles"}, make("h2", {id: "troubles"}, t("to_look_at")), make("ul", {class: "plain-list"}, shown)) : null;
}

/** The spans of today in which somebody's schedule stops whatever no rule allows, as minutes. */
function shades(people, clock) {
  const minute = (text) => Number(text.slice(11, 13)) * 60 + Number(text.slice(14, 16));
  const spans = [];
  for (const {schedules, closing} of people) {
    for (const item of schedules) {
      if (!closing.includes(item.name) || !item.changes || item.changes.slice(0, 10) > clock.slice(0, 10) && !item.is_on) continue;
      const isToday = item.changes.slice(0, 10) === clock.slice(0, 10);
      spans.push(item.is_on ? [minute(clock), isToday ? minute(item.changes) : 1440] : [minute(item.changes), 1440]);
    }
  }
  return spans;
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
      hours ? make("p", {class: "soft hours"}, line(hours), pair(t("requests_today"), whole.format(hours.reduce((sum, item) => sum + item, 0)))) : null),
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
  const sites = [...stopped.sites].sort((item, other) => other.stopped - item.stopped).slice(0, MOST);
  const categories = new Map();
  for (const item of stopped.sites) if (item.category) categories.set(item.category, (categories.get(item.category) ?? 0) + item.stopped);
  const top = [...categories].sort((item, other) => other[1] - item[1]).slice(0, MOST);
  const said = [t("today_by_log"), stopped.is_all ? "" : t("newest_only", {number: whole.format(stopped.read)})].filter(Boolean).join(" ");
  return [make("div", {class: "pair"},
    panel(t("stopped_host"), soft(said), sites.length ? ranking(sites.map((item) => ({name: item.host, more: whoOf(item), number: item.stopped, onclick: () => siteSheet(item, people, more(item))}))) : soft(t("nothing"))),
    panel(t("stopped_category"), soft(said), top.length ? ranking(top.map(([name, number]) => ({name: categoryName(name), number, href: `#/activity?${new URLSearchParams({category: name, action: "stopped"})}`}))) : soft(t("nothing"))))];
}

/** What a sheet says of a site, and where it leads. */
const more = (item) => make("div", {}, facts([
  [t("who"), whoOf(item)], item.category && [t("category"), categoryName(item.category)], item.title && [t("list"), listName(item)],
  [t("stopped"), whole.format(item.stopped)], [t("opened"), whole.format(item.passed)],
]), make("p", {}, link(t("show_decisions"), `#/activity?${new URLSearchParams({host: item.host})}`)));

export async function people() {
  const [state, answer, figures] = await Promise.all([get("/home"), get("/people"), get("/figures").catch(() => null)]);
  return {state, title: t("people"), parts: [make("div", {class: "cards"}, answer.people.map((item) => tile(item, state, figures, "h2")))]};
}

/** Somebody: a group, a user or a device. */
export async function person(whom, values) {
  const days = Number(values.get("days")) || 1;
  const [state, {people: all}, today, week, sites] = await Promise.all([
    get("/home"), get("/people"), get("/figures", {whom, days}).catch(() => null), get("/figures", {whom, days: 7}).catch(() => null), get("/sites", {whom, days}).catch(() => null),
  ]);
  const holder = await holds(whom, all);
  const name = nameOf(whom);
  if (!holder) return {state, title: name, parts: [soft(t("gone_by_now"))]};
  const said = sentences(holder, state.clock);
  const choose = make("nav", {class: "chips", "aria-label": t("duration")}, [1, 7, 31].map((item) => link(t({1: "today", 7: "last_week", 31: "last_month"}[item]), `${personAt(whom)}?days=${item}`, {"aria-current": item === days ? "page" : null})));
  const order = (item) => ({...item, group: whom.startsWith("group:") ? whom.slice(6) : null, client: whom.startsWith("group:") ? null : item.client, user: whom.startsWith("group:") ? null : item.user});
  const list = (kind) => (sites?.sites ?? []).filter((item) => item[kind]).sort((item, other) => other[kind] - item[kind]).slice(0, 12)
    .map((item) => ({name: item.host, more: [item.category && categoryName(item.category), holder.members.length > 1 && clientOf(item) && nameOf(clientOf(item))].filter(Boolean).join(" · "), number: item[kind], kind, onclick: () => siteSheet(order({...item, stopped: kind === "stopped" ? item.stopped : 0}), all, more(item))}));
  const counted = soft(`${t({1: "today", 7: "last_week", 31: "last_month"}[days])}. ${t("by_the_log")}`, sites?.is_all === false ? ` ${t("newest_only", {number: whole.format(sites.read)})}` : "");
  const kept = state.kept === "all" ? "" : t("log_keeps_some");
  return {state, title: name, parts: [
    panel(t("now"), make("ul", {class: "plain-list"}, said.map(([text, kind]) => make("li", {class: kind}, text))),
      holder.members?.length ? soft(holder.members.map(nameOf).join(", ")) : null,
      holder.quotas.length ? quotaList(holder.quotas) : null,
      make("div", {class: "actions"},
        ...said.filter(([, , ends]) => ends && may("manage")).map(([text, , ends]) => button(t("turn_on"), ends, {"aria-label": `${t("turn_on")}: ${text}`})),
        may("manage") ? button(t("internet_off_short"), () => internetOff(whom, state.morning)) : null,
        holder.quotas.length && may("approve") ? button(t("more_time"), () => moreTime(holder.quotas, whom), {class: "plain"}) : null,
        may("manage") ? button(t("filter_off"), () => filterOff(whom, state.morning), {class: "plain"}) : null,
        whom.startsWith("group:") && !holder.is_rest ? link(t("this_lesson"), `#/class/${encodeURIComponent(whom)}`, {class: "button plain"}) : null)),
    ...minutesOf(holder.quotas, state.clock),
    choose,
    today ? panel(t(days === 1 ? "the_day" : "over_time"), whatIsCounted(today), columnsOf(today, days === 1 ? shades([holder], state.clock) : [])) : soft(t("no_log")),
    make("div", {class: "pair"},
      sites ? panel(t("stopped"), counted, ranking(list("stopped")), list("stopped").length ? null : soft(t("nothing"))) : null,
      sites ? panel(t("opened"), counted.cloneNode(true), kept ? soft(kept) : null, ranking(list("passed")), list("passed").length ? null : soft(t("nothing"))) : null),
    week ? panel(t("the_week"), whatIsCounted(week), heat(week)) : null,
    make("p", {}, link(t("show_decisions"), `#/activity?${new URLSearchParams({whom})}`)),
    holder.grants.length ? panel(t("unblocked_now"), table(t("unblocked_now"), heldHeads(), holder.grants.map((item) => heldRow("grants", item)))) : null,
    holder.blocks.length ? panel(t("blocked_besides"), table(t("blocked_besides"), heldHeads(), holder.blocks.map((item) => heldRow("blocks", item)))) : null,
    panel(t("categories"), holder.categories.length ? facts(holder.categories.map((item) => [categoryName(item.category), item.action ? t(`action_${item.action}`) : t("as_lists_say")])) : soft(t("as_lists_say"))),
  ]};
}

/** The minutes of use of the last days, by category. */
function minutesOf(quotas, clock) {
  const used = quotas.filter((item) => item.use.days.length);
  if (!used.length) return [];
  return [panel(t("minutes_by_day"), soft(t("minutes_say")), ...used.map((item) => {
    const name = [categoryName(item.use.category), item.of && nameOf(item.of)].filter(Boolean).join(" · ");
    return make("section", {}, make("h3", {dir: "auto"}, name), minuteColumns(item.use, clock, name));
  }))];
}

async function holds(whom, all) {
  if (whom.startsWith("group:")) return all.find((item) => `group:${item.name}` === whom) ?? null;
  const isUser = whom.startsWith("user:");
  const answer = await get("/client", isUser ? {user: whom.slice(5)} : {client: whom});
  return {...answer, name: whom, closing: [], members: [t("in_group", {name: nameOf(`group:${answer.group}`)})], quotas: answer.quotas.map((use) => ({whom: use.shared ? `group:${answer.group}` : whom, of: null, use}))};
}


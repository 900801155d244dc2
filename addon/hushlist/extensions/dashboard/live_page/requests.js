// Requests as they happen, for who tries a list: of which type, for which page, in which frame and tab.
import {hostOf, row, watched} from "./activity.js";
import {button, code, facts, field, make, select, t, whole} from "./kit.js";

const MOST = 1000; // as many as the proxy keeps
const LONGEST = 100;
const originOf = (url) => /^[a-z]+:\/\/[^/?#]*/i.exec(url)?.[0] ?? "";

/** Where requests belong, as far as they say: each is given after those before it. */
export class Places {
  #placeOf = new Map(); // of each browser, where a page, frame or style sheet belongs, by its URL and by its origin
  #tabs = 0;
  #loads = 0;

  /** The tab, the load of a page there, its host and URL, and the frame; what is not known is empty. */
  of(item) {
    const {type = "", page = "", by = "", site = "", agent = ""} = item.told ?? {};
    const browser = [item.client, item.user, agent].join(" ");
    const asks = this.#find(browser, by || (site === "same-origin" && type !== "document" ? originOf(item.url) : ""));
    let place = asks ?? {tab: 0, load: page, page, url: "", frame: ""};
    if (type === "document") {
      const tab = asks?.tab || (!by && this.#placeOf.get(`${browser} ${item.url}`)?.tab) || ++this.#tabs; // the same again is a reload
      place = {tab, load: ++this.#loads, page: hostOf(item), url: item.url, frame: ""};
    } else if (type === "subdocument") place = {...place, frame: item.url};
    if (["document", "subdocument", "stylesheet"].includes(type)) this.#keep(`${browser} ${item.url}`, place);
    if (["document", "subdocument"].includes(type)) this.#keep(`${browser} ${originOf(item.url)}`, place);
    return place;
  }

  #find(browser, url) {
    return url ? this.#placeOf.get(`${browser} ${url}`) ?? this.#placeOf.get(`${browser} ${originOf(url)}`) : undefined;
  }

  #keep(key, place) {
    this.#placeOf.delete(key);
    this.#placeOf.set(key, place);
    if (this.#placeOf.size > 4 * MOST) this.#placeOf.delete(this.#placeOf.keys().next().value);
  }
}

const cut = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);
const PARTIES = {first: "party_first", third: "party_third"};
/** What requests are told apart by: of each, its value, and what it is called. */
const KINDS = {
  type: (item) => [item.told?.type, item.told?.type],
  party: (item) => [item.told?.party, item.told?.party && t(PARTIES[item.told.party])],
  page: (item) => [item.place.load, pageOf(item.place)],
  frame: (item) => [item.place.frame, cut(item.place.frame)],
  tab: (item) => [item.place.tab, whole.format(item.place.tab)],
};
const pageOf = ({load, page, url}) => (url ? `${whole.format(load)}: ${cut(url.replace(/^[a-z]+:\/\//i, ""))}` : page);

/** The requests that the proxy remembers, and those that come, each with where it belongs. */
export function requests(feed, fits, people) {
  const places = new Places();
  const list = make("ol", {class: "rows requests", "aria-label": t("requests")});
  const shown = []; // the newest last, as they came
  const choices = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, select(kind, [["", t("all")]])]));
  const number = make("p", {class: "soft", role: "status"});
  const sift = () => {
    for (const {item, element} of shown) element.hidden = !Object.entries(choices).every(([kind, {value}]) => !value || String(KINDS[kind](item)[0]) === value);
    number.textContent = t(shown.length ? "so_many_of" : "no_decision", {number: whole.format(shown.filter(({element}) => !element.hidden).length), all: whole.format(shown.length)});
  };
  const only = (values) => {
    for (const [kind, choice] of Object.entries(choices)) choice.value = values[kind] ?? "";
    sift();
  };
  const offer = () => {
    for (const [kind, choice] of Object.entries(choices)) {
      const offered = new Map(shown.map(({item}) => KINDS[kind](item)).filter(([value]) => value).map(([value, name]) => [String(value), name]));
      const before = choice.value;
      if (before && !offered.has(before)) offered.set(before, before);
      if (choice.length === offered.size + 1 && [...offered.keys()].every((value) => choice.querySelector(`[value="${CSS.escape(value)}"]`))) continue;
      choice.replaceChildren(make("option", {value: ""}, t("all")), ...[...offered].map(([value, name]) => make("option", {value}, name)));
      choice.value = before;
    }
  };
  const placed = (item) => {
    const same = shown.filter((other) => other.item.place.load === item.place.load && item.place.load !== "").length;
    return [facts([
      item.told?.type && [t("type"), code(item.told.type)],
      item.told?.party && [t("party"), t(PARTIES[item.told.party])],
      item.place.page && [t("page"), code(item.place.url || item.place.page)],
      item.place.frame && [t("frame"), code(item.place.frame)],
      item.place.tab !== 0 && [t("tab"), whole.format(item.place.tab)],
    ]), same > 1 ? button(t("same_page", {number: whole.format(same - 1)}), () => { only({page: String(item.place.load)}); document.querySelector("dialog")?.close(); }, {class: "plain"}) : null];
  };
  for (const choice of Object.values(choices)) choice.addEventListener("change", sift);
  const {pause, leave} = watched((decisions) => {
    for (const item of decisions) {
      item.place = places.of(item);
      if (!fits(item)) continue;
      const element = make("li", {}, row(item, people, () => placed(item),
        make("small", {class: "request-details"}, [item.told?.type, item.told?.party && t(PARTIES[item.told.party]), item.place.tab ? `${t("tab")} ${whole.format(item.place.tab)}` : "", item.place.frame && t("frame")].filter(Boolean).join(" · "))));
      shown.push({item, element});
      list.prepend(element);
      if (shown.length > MOST) shown.shift().element.remove();
    }
    offer();
    sift();
  });
  feed.append(make("div", {class: "bar"}, make("h2", {}, t("requests")), pause),
    make("div", {class: "chips"}, Object.entries(choices).map(([kind, choice]) => field(t(kind), choice))), number, list);
  return {leave};
}

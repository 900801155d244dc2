// Requests as they happen, for who tries a list: of which type, for which page, in which frame and tab.
import {hostOf, row, watched} from "./activity.js";
import {button, code, facts, field, make, select, t, whole} from "./kit.js";

const MOST = 1000; // as many as the proxy keeps
const LONGEST = 100;
const originOf = (url) => /^[a-z]+:\/\/[^/?#]*/i.exec(url)?.[0] ?? "";

/** Where requests belong, as far as they say: each is given after those before it. */
export class Places {
  #known = new Map(); // of each browser, where a page, frame or style sheet belongs, by its URL and by its origin
  #tabs = 0;
  #loads = 0;

  /** The tab, the load of a page there, its host and URL, and the frame; what is not known is empty. */
  of(one) {
    const {type = "", page = "", by = "", site = "", agent = ""} = one.told ?? {};
    const browser = [one.client, one.user, agent].join(" ");
    const asks = this.#find(browser, by || (site === "same-origin" && type !== "document" ? originOf(one.url) : ""));
    let place = asks ?? {tab: 0, load: page, page, url: "", frame: ""};
    if (type === "document") {
      const tab = asks?.tab || (!by && this.#known.get(`${browser} ${one.url}`)?.tab) || ++this.#tabs; // the same again is a reload
      place = {tab, load: ++this.#loads, page: hostOf(one), url: one.url, frame: ""};
    } else if (type === "subdocument") place = {...place, frame: one.url};
    if (["document", "subdocument", "stylesheet"].includes(type)) this.#keep(`${browser} ${one.url}`, place);
    if (["document", "subdocument"].includes(type)) this.#keep(`${browser} ${originOf(one.url)}`, place);
    return place;
  }

  #find(browser, url) {
    return url ? this.#known.get(`${browser} ${url}`) ?? this.#known.get(`${browser} ${originOf(url)}`) : undefined;
  }

  #keep(key, place) {
    this.#known.delete(key);
    this.#known.set(key, place);
    if (this.#known.size > 4 * MOST) this.#known.delete(this.#known.keys().next().value);
  }
}

const cut = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);
const PARTIES = {first: "party_first", third: "party_third"};
/** What requests are told apart by: of each, its value, and what it is called. */
const KINDS = {
  type: (one) => [one.told?.type, one.told?.type],
  party: (one) => [one.told?.party, one.told?.party && t(PARTIES[one.told.party])],
  page: (one) => [one.place.load, pageOf(one.place)],
  frame: (one) => [one.place.frame, cut(one.place.frame)],
  tab: (one) => [one.place.tab, whole.format(one.place.tab)],
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
    for (const {one, element} of shown) element.hidden = !Object.entries(choices).every(([kind, {value}]) => !value || String(KINDS[kind](one)[0]) === value);
    number.textContent = t(shown.length ? "so_many_of" : "no_decision", {number: whole.format(shown.filter(({element}) => !element.hidden).length), all: whole.format(shown.length)});
  };
  const only = (values) => {
    for (const [kind, choice] of Object.entries(choices)) choice.value = values[kind] ?? "";
    sift();
  };
  const offer = () => {
    for (const [kind, choice] of Object.entries(choices)) {
      const offered = new Map(shown.map(({one}) => KINDS[kind](one)).filter(([value]) => value).map(([value, name]) => [String(value), name]));
      const before = choice.value;
      if (before && !offered.has(before)) offered.set(before, before);
      if (choice.length === offered.size + 1 && [...offered.keys()].every((value) => choice.querySelector(`[value="${CSS.escape(value)}"]`))) continue;
      choice.replaceChildren(make("option", {value: ""}, t("all")), ...[...offered].map(([value, name]) => make("option", {value}, name)));
      choice.value = before;
    }
  };
  const placed = (one) => {
    const same = shown.filter((other) => other.one.place.load === one.place.load && one.place.load !== "").length;
    return [facts([
      one.told?.type && [t("type"), code(one.told.type)],
      one.told?.party && [t("party"), t(PARTIES[one.told.party])],
      one.place.page && [t("page"), code(one.place.url || one.place.page)],
      one.place.frame && [t("frame"), code(one.place.frame)],
      one.place.tab !== 0 && [t("tab"), whole.format(one.place.tab)],
    ]), same > 1 ? button(t("same_page", {number: whole.format(same - 1)}), () => { only({page: String(one.place.load)}); document.querySelector("dialog")?.close(); }, {class: "plain"}) : null];
  };
  for (const choice of Object.values(choices)) choice.addEventListener("change", sift);
  const {pause, leave} = watched((decisions) => {
    for (const one of decisions) {
      one.place = places.of(one);
      if (!fits(one)) continue;
      const element = make("li", {}, row(one, people, () => placed(one),
        make("small", {class: "told"}, [one.told?.type, one.told?.party && t(PARTIES[one.told.party]), one.place.tab ? `${t("tab")} ${whole.format(one.place.tab)}` : "", one.place.frame && t("frame")].filter(Boolean).join(" · "))));
      shown.push({one, element});
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

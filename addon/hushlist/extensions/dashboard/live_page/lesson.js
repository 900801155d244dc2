// A class in its lesson: who opened what last, what was stopped, who asks; a site for all of it, and codes to print.
import {act, bdi, button, call, clientOf, code, ends, field, get, link, make, may, minutes, nameOf, pair, panel, personAt, query, select, session, sheet, soft, t, table, whole} from "./kit.js";
import {codeHeads, codeRow} from "./manage.js";
import {allow, card, heldHeads, heldRow, internetOff} from "./orders.js";

/** Minutes of a lesson. */
const LESSON = 45;
const MOST_CODES = 40;

/** The classes of whoever sees these alone. */
export async function classes() {
  if (session.groups.length === 1) return lesson(`group:${session.groups[0]}`);
  const state = await get("/home");
  const number = (name) => state.requests.filter((item) => item.group === name).length;
  const entry = (name) => make("li", {}, make("a", {href: personAt(`group:${name}`)}, bdi(name), number(name) ? make("small", {}, pair(t("waiting"), whole.format(number(name)))) : null));
  return {state, title: t("people"), parts: [session.groups.length ? make("ul", {class: "plain-list menu"}, session.groups.map(entry)) : soft(t("gone_by_now"))]};
}

export async function lesson(whom) {
  const [state, {people}, {codes: printed}, {sites}, {records}] = await Promise.all([
    get("/home"), get("/people"), may("approve") ? get("/codes").catch(() => ({codes: []})) : {codes: []}, get("/sites", {whom}).catch(() => ({sites: []})), get("/activity", {whom, action: "stopped", most: 500}).catch(() => ({records: []})),
  ]);
  const group = people.find((item) => `group:${item.name}` === whom);
  if (!group) return {state, title: nameOf(whom), parts: [soft(t("gone_by_now"))]};
  const ofClass = printed.filter((item) => item.client === whom);
  const begun = Date.now() - LESSON * 60e3;
  // a pseudonym is nobody's whom the policy names
  const pupils = new Map((state.clients === "keep" ? group.members : []).filter((item) => !item.includes("/")).map((item) => [nameOf(item), {stopped: [], whom: item}]));
  const pupil = (item) => {
    const name = clientOf(item) ? nameOf(clientOf(item)) : t("somebody");
    const member = pupils.get(name) ?? pupils.set(name, {stopped: []}).get(name);
    return Object.assign(member, {whom: clientOf(item)});
  };
  for (const item of sites) {
    const member = pupil(item);
    if (!member.last || item.last > member.last.last) member.last = item;
  }
  for (const item of records) if (Date.parse(item.time) >= begun) pupil(item).stopped.push(item);
  const requests = state.requests.filter((item) => item.group === group.name);
  const row = ([name, {last, stopped, whom: pupil}]) => [pupil && !pupil.startsWith("device:") ? link(name, personAt(pupil)) : name, last ? make("span", {}, last.host, make("small", {}, ` ${ends(Date.parse(last.last) / 1000)}`)) : "–",
    stopped.length ? link(whole.format(stopped.length), `#/activity?${query({whom: pupil, action: "stopped"})}`, {"aria-label": `${t("stopped_lately")}: ${name}, ${whole.format(stopped.length)}`}) : whole.format(0)];
  const site = make("input", {name: "site", required: true, maxlength: "2048", dir: "ltr", spellcheck: "false", autocapitalize: "none", placeholder: "www.example.com"});
  const open = make("form", {class: "fields"}, field(t("open_for_class", {time: minutes(LESSON)}), site), make("div", {class: "actions"}, make("button", {}, t("allow"))));
  open.addEventListener("submit", (event) => {
    event.preventDefault();
    allow({scope: "host", target: site.value.trim(), minutes: LESSON, client: whom});
  });
  return {state, title: nameOf(whom), parts: [
    requests.length ? make("section", {"aria-labelledby": "waiting"}, make("h2", {id: "waiting"}, t("waiting")), make("div", {class: "cards"}, requests.map((item) => card(item, state.clock)))) : null,
    may("approve") ? panel(t("this_lesson"), open, make("div", {class: "actions"},
      may("manage") ? button(t("internet_off_short"), () => internetOff(whom, state.morning), {class: "plain"}) : null, button(t("print_codes"), () => codes(whom), {class: "plain"}), link(t("show_decisions"), `#/activity?${query({whom})}`))) : null,
    panel(t("who"), soft(t("today_by_log")), table(t("who"), [t("name"), t("last_site"), t("stopped_lately")], [...pupils].sort().map(row), {isNarrow: true})),
    group.grants.length ? panel(t("unblocked_now"), table(t("unblocked_now"), heldHeads(), group.grants.map((item) => heldRow("grants", item)))) : null,
    group.blocks.length ? panel(t("blocked_besides"), table(t("blocked_besides"), heldHeads(), group.blocks.map((item) => heldRow("blocks", item)))) : null,
    ofClass.length ? panel(t("codes"), table(t("codes"), codeHeads(), ofClass.map(codeRow))) : null,
  ]};
}

/** Ask how many codes, make them one by one for a class, and show them as a page to print. */
function codes(whom) {
  const number = make("input", {type: "number", name: "number", min: "1", max: String(MOST_CODES), value: "10", required: true});
  const time = select("minutes", [15, 30, LESSON, 90].map((item) => [String(item), minutes(item)]), String(LESSON));
  const form = make("form", {class: "fields"}, field(t("how_many_codes"), number), field(t("duration"), time), make("div", {class: "actions"}, make("button", {}, t("make_code"))));
  const dialog = sheet(t("print_codes"), form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    dialog.close();
    const made = [];
    await act(t("did_made_a_code"), async () => {
      for (let left = Math.min(MOST_CODES, Number(number.value)); left > 0; left--) made.push((await call("POST", "/codes", {scope: "host", minutes: Number(time.value), client: whom})).result.code);
      return {result: {}};
    }, false);
    if (made.length) sheet(t("print_codes"), soft(`${t("told_code")} ${minutes(Number(time.value))}`), make("ul", {class: "codes"}, made.map((item) => make("li", {}, code(item)))), make("div", {class: "actions"}, button(t("print"), () => print())));
  });
}

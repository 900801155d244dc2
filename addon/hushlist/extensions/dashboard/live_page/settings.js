// The policy, section by section, by the table of its keys; and what of it other screens change with one choice.
import {
  act, bdi, button, call, categoryName, chip, code, field, get, link, make, may, nameOf, panel, select, sheet, soft, t, table, whole,
} from "./kit.js";

const read = (section) => get(`/policy/${section}`);
const put = (section, etag, body) => call("PUT", `/policy/${section}`, body, {"If-Match": etag});
/** Of a sentence in Markdown, its words. */
const plainly = (text) => text.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/`/g, "");

/** Save a section; where it was changed meanwhile or cannot be used, show what is so and why. */
async function save(section, etag, body) {
  let problem = null;
  const done = await act(t("told_saved"), async () => {
    try {
      return await put(section, etag, body);
    } catch (error) {
      problem = error;
      throw error;
    }
  });
  const detail = problem?.detail;
  if (detail?.now) {
    sheet(t("changed_meanwhile"), make("h3", {}, t("as_it_is")), make("pre", {dir: "ltr", tabindex: "0", role: "region", "aria-label": t("as_it_is")}, detail.now.text),
      make("h3", {}, t("as_you_wrote")), make("pre", {dir: "ltr", tabindex: "0", role: "region", "aria-label": t("as_you_wrote")}, detail.text ?? JSON.stringify(detail.value, null, 2)));
  } else if (detail?.problems) {
    sheet(t("went_wrong_here"), make("ul", {lang: "en", dir: "ltr"}, detail.problems.map((one) =>
      make("li", {}, [one.line && `${one.file}:${one.line}`, one.what, one.why].filter(Boolean).join(": ")))));
  }
  return done;
}

export async function settings(name) {
  const state = await get("/home").catch(() => null);
  if (name) return section(name, state);
  const found = await get("/policy");
  const row = (one) => [may("manage") ? link(one.name, `#/settings/${one.name}`) : one.name, make("span", {lang: "en", dir: "ltr"}, plainly(one.sentence)), one.line ? whole.format(one.line) : t("not_there")];
  const there = (is) => found.sections.filter((one) => Boolean(one.line) === is).map(row);
  const heads = [t("name"), t("what"), t("line")];
  return {state, title: t("settings"), parts: [
    soft(t("settings_say"), " ", code(found.file)),
    found.read_only ? make("p", {class: "alert"}, t("read_only", {why: found.read_only})) : null,
    found.problem ? make("p", {class: "alert"}, `${t("not_used")}\n${found.problem}`) : null,
    may("manage") ? make("div", {class: "actions"}, button(t("roll_back"), () => act(t("told_saved"), () => call("POST", "/policy/undo", {})), {class: "plain"})) : null,
    panel(t("policy"), table(t("policy"), heads, there(true))),
    make("details", {class: "panel"}, make("summary", {}, t("not_there")), table(t("not_there"), heads, there(false))),
  ]};
}

/** One section: as it is written, with what a change would have made otherwise in the last week. */
async function section(name, state) {
  const [found, {sections}, {schema}] = await Promise.all([read(name), get("/policy"), get("/policy/schema")]);
  const row = sections.find((one) => one.name === name);
  const choices = choicesOf(schema.properties?.[name], schema);
  const place = make("div", {class: "explained", "aria-live": "polite"});
  const area = make("textarea", {name: "text", rows: "16", spellcheck: "false", autocapitalize: "none", dir: "ltr"});
  area.value = found.text || `${name}: `;
  const isSimple = choices.length && (found.value === null || typeof found.value !== "object");
  const simple = isSimple ? select("value", [["", "–"], ...choices.map((one) => [one, one])], found.value ?? "") : null;
  const body = () => (simple ? {value: simple.value || null} : area.value.trim() ? {text: area.value.endsWith("\n") ? area.value : `${area.value}\n`} : {value: null});
  const form = make("form", {class: "fields panel"}, simple ? field(name, simple) : field("YAML", area, {class: "field wide"}),
    make("div", {class: "actions"}, make("button", {disabled: found.read_only !== null}, t("save")),
      button(t("preview"), () => preview(name, body(), place), {class: "plain"}),
      found.line ? button(t("remove"), () => save(name, found.etag, {value: null}), {class: "plain"}) : null), place);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    save(name, found.etag, body());
  });
  return {state, title: name, parts: [
    make("p", {}, link(t("settings"), "#/settings")),
    row ? make("p", {lang: "en", dir: "ltr"}, plainly(row.sentence)) : null,
    found.read_only ? make("p", {class: "alert"}, t("read_only", {why: found.read_only})) : null, form,
  ]};
}

/** The words that a section may be, by its schema. */
function choicesOf(one, schema, depth = 0) {
  if (!one || depth > 6) return [];
  if (one.$ref) return choicesOf(one.$ref.replace(/^#\//, "").split("/").reduce((at, key) => at?.[key], schema), schema, depth + 1);
  if (one.enum) return one.enum.filter((value) => typeof value === "string");
  return [...new Set([...(one.anyOf ?? []), ...(one.oneOf ?? [])].flatMap((each) => choicesOf(each, schema, depth + 1)))];
}

async function preview(name, body, place) {
  try {
    const found = await call("POST", `/policy/${name}/preview`, body);
    place.replaceChildren(make("p", {}, found.unknown_because ?? t("policy_would", {requests: whole.format(found.requests), stopped: whole.format(found.stopped), passed: whole.format(found.let_through), other: whole.format(found.other)})),
      ...(found.warnings.length ? [make("ul", {lang: "en", dir: "ltr"}, found.warnings.map((one) => make("li", {}, one)))] : []),
      make("pre", {dir: "ltr", tabindex: "0", role: "region", "aria-label": name}, found.text),
      make("ul", {}, found.addresses.map((one) => make("li", {}, chip(one.was), " → ", chip(one.will), " ", bdi(one.url), ` (${whole.format(one.count)})`))));
  } catch (error) {
    const problems = error.detail?.problems?.map((one) => `${one.file}:${one.line}: ${one.what}: ${one.why}`);
    place.replaceChildren(make("p", {class: "alert", lang: "en"}, (problems ?? [error.said ?? error.message]).join("\n")));
  }
}

// -- what one choice changes --------------------------------------------------------------------------------------------

const ACTIONS = ["block", "warn", "tag", "pass"];

/** Where the actions of categories stand: everybody's, and of each group its own. */
export async function planOf(people) {
  if (!may("manage")) return null;
  const [everybody, groups] = await Promise.all([read("categories"), read("groups")]).catch(() => [null, null]);
  if (!everybody || everybody.read_only || groups.read_only) return null;
  const categories = Object.values({...everybody.value}).length || groups.value ? [everybody.value ?? {}, groups.value ?? []] : [{}, []];
  return {everybody, groups, own: (name) => (name === "default" ? categories[0] : categories[1].find((one) => one.name === name)?.categories ?? {}), people};
}

/** A cell of the plan: the action of a category for somebody, which can be chosen where it is always the same. */
export function planCell(plan, person, category) {
  const found = person.categories.find((each) => each.category === category);
  const now = found?.action ? chip(found.action) : make("span", {}, "–");
  const own = plan?.own(person.name);
  const key = own && (Object.keys(own).find((one) => one === category || category.endsWith(`/${one}`)) ?? category);
  if (!own || typeof own[key] === "object" && own[key] !== null) return now;
  const chosen = select("action", [["", own[key] === undefined && found?.action ? `(${t(`action_${found.action}`)})` : t("as_lists_say")], ...ACTIONS.map((one) => [one, t(`action_${one}`)])], own[key] ?? "");
  chosen.setAttribute("aria-label", `${categoryName(category)}, ${nameOf(`group:${person.name}`)}`);
  chosen.addEventListener("change", () => {
    const {[key]: _, ...others} = own;
    const actions = chosen.value ? {...others, [key]: chosen.value} : others;
    const value = Object.keys(actions).length ? actions : null;
    if (person.name === "default") save("categories", plan.everybody.etag, {value});
    else save("groups", plan.groups.etag, {value: plan.groups.value.map((one) => {
      if (one.name !== person.name) return one;
      const {categories: before, ...rest} = one;
      return value ? {...one, categories: value} : rest;
    })});
  });
  return chosen;
}

/** Put a device that is in no group into one. */
export function intoGroup(device) {
  const address = device.client;
  if (!may("manage") || !address || !/^[0-9a-f.:]+$/.test(address)) return "";
  return button(t("into_group"), async () => {
    const groups = await read("groups").catch((error) => error);
    if (groups instanceof Error || groups.read_only) return sheet(t("into_group"), soft(groups.message ?? t("read_only", {why: groups.read_only})));
    const named = make("input", {name: "name", maxlength: "100"});
    const known = (groups.value ?? []).map((one) => one.name);
    const form = make("form", {class: "fields"}, field(t("group"), select("group", [...known.map((one) => [one, one]), ["", t("new_group")]])), field(t("new_group"), named),
      make("div", {class: "actions"}, make("button", {}, t("save"))));
    const dialog = sheet(`${t("into_group")}: ${address}`, form);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const name = form.elements.group.value || named.value.trim();
      if (!name) return named.focus();
      dialog.close();
      const value = known.includes(name) ? groups.value.map((one) => (one.name === name ? {...one, clients: [...(one.clients ?? []), address]} : one)) : [...(groups.value ?? []), {name, clients: [address]}];
      return save("groups", groups.etag, {value});
    });
    return dialog;
  }, {class: "small", "aria-label": `${t("into_group")}: ${address}`});
}

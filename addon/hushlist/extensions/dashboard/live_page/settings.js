// The policy, section by section, by the table of its keys.
import {plainly, preview, read, save} from "./edits.js";
import {formOf} from "./forms.js";
import {act, button, call, code, field, get, link, make, may, panel, soft, t, table, whole} from "./kit.js";

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

/** Whether two values say the same, in whatever order their keys stand. */
const same = (one, other) => (one && other && typeof one === "object" && typeof other === "object" ? Object.keys(one).length === Object.keys(other).length && Object.keys(one).every((key) => same(one[key], other[key])) : String(one) === String(other));

/** One section: a form that its schema makes, and how it is written; each with what a change would have made otherwise. */
async function section(name, state) {
  const [found, {sections}, {schema}] = await Promise.all([read(name), get("/policy"), get("/policy/schema")]);
  const row = sections.find((one) => one.name === name);
  const own = formOf(schema.properties?.[name] ?? {}, found.value ?? undefined, schema, name);
  const isWhole = same(own.read() ?? null, found.value); // else the form would lose something
  const area = make("textarea", {name: "text", rows: "16", spellcheck: "false", autocapitalize: "none", dir: "ltr"});
  area.value = found.text || `${name}: `;
  const form = (body, ...inside) => {
    const place = make("div", {class: "explained", "aria-live": "polite"});
    const made = make("form", {class: "explained"}, ...inside,
      make("div", {class: "actions"}, make("button", {disabled: found.read_only !== null}, t("save")),
        button(t("preview"), () => preview(name, body(), place), {class: "plain"})), place);
    made.addEventListener("submit", (event) => {
      event.preventDefault();
      save(name, found.etag, body(), place);
    });
    return made;
  };
  const yaml = () => (area.value.trim() ? {text: area.value.endsWith("\n") ? area.value : `${area.value}\n`} : {value: null});
  return {state, title: name, parts: [
    make("p", {}, link(t("settings"), "#/settings")),
    row ? make("p", {lang: "en", dir: "ltr"}, plainly(row.sentence)) : null,
    found.read_only ? make("p", {class: "alert"}, t("read_only", {why: found.read_only})) : null,
    isWhole ? make("section", {class: "panel", "aria-label": name}, form(() => ({value: own.read() ?? null}), own.element)) : null,
    make("details", {class: "panel", open: !isWhole}, make("summary", {}, t("as_yaml")), form(yaml, field("YAML", area)),
      found.line ? button(t("remove"), () => save(name, found.etag, {value: null}), {class: "plain", "aria-label": `${t("remove")}: ${name}`}) : null),
  ]};
}

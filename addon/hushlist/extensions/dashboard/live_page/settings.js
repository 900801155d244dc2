// The policy, section by section, by the table of its keys.
import {plainly, preview, read, save} from "./edits.js";
import {formOf} from "./forms.js";
import {act, button, call, code, field, get, link, make, may, panel, soft, t, table, whole} from "./kit.js";

export async function settings(name) {
  const state = await get("/home").catch(() => null);
  if (name) return section(name, state);
  const answer = await get("/policy");
  const row = (item) => [may("manage") ? link(item.name, `#/settings/${item.name}`) : item.name, make("span", {lang: "en", dir: "ltr"}, plainly(item.sentence)), item.line ? whole.format(item.line) : t("not_there")];
  const there = (is) => answer.sections.filter((item) => Boolean(item.line) === is).map(row);
  const heads = [t("name"), t("what"), t("line")];
  return {state, title: t("settings"), parts: [
    soft(t("settings_say"), " ", code(answer.file)),
    answer.read_only ? make("p", {class: "alert"}, t("read_only", {why: answer.read_only})) : null,
    answer.problem ? make("p", {class: "alert"}, `${t("not_used")}\n${answer.problem}`) : null,
    may("manage") ? make("div", {class: "actions"}, button(t("roll_back"), () => act(t("told_saved"), () => call("POST", "/policy/undo", {})), {class: "plain"})) : null,
    panel(t("policy"), table(t("policy"), heads, there(true))),
    make("details", {class: "panel"}, make("summary", {}, t("not_there")), table(t("not_there"), heads, there(false))),
  ]};
}

/** Whether two values say the same, in whatever order their keys stand. */
const same = (item, other) => (item && other && typeof item === "object" && typeof other === "object" ? Object.keys(item).length === Object.keys(other).length && Object.keys(item).every((key) => same(item[key], other[key])) : String(item) === String(other));

/** One section: a form that its schema makes, and how it is written; each with what a change would have made otherwise. */
async function section(name, state) {
  const [answer, {sections}, {schema}] = await Promise.all([read(name), get("/policy"), get("/policy/schema")]);
  const row = sections.find((item) => item.name === name);
  const fields = formOf(schema.properties?.[name] ?? {}, answer.value ?? undefined, schema, name);
  const isWhole = same(fields.read() ?? null, answer.value); // else the form would lose something
  const area = make("textarea", {name: "text", rows: "16", spellcheck: "false", autocapitalize: "none", dir: "ltr"});
  area.value = answer.text || `${name}: `;
  const form = (body, ...inside) => {
    const place = make("div", {class: "explained", "aria-live": "polite"});
    const made = make("form", {class: "explained"}, ...inside,
      make("div", {class: "actions"}, make("button", {disabled: answer.read_only !== null}, t("save")),
        button(t("preview"), () => preview(name, body(), place), {class: "plain"})), place);
    made.addEventListener("submit", (event) => {
      event.preventDefault();
      save(name, answer.etag, body(), place);
    });
    return made;
  };
  const yaml = () => (area.value.trim() ? {text: area.value.endsWith("\n") ? area.value : `${area.value}\n`} : {value: null});
  return {state, title: name, parts: [
    make("p", {}, link(t("settings"), "#/settings")),
    row ? make("p", {lang: "en", dir: "ltr"}, plainly(row.sentence)) : null,
    answer.read_only ? make("p", {class: "alert"}, t("read_only", {why: answer.read_only})) : null,
    isWhole ? make("section", {class: "panel", "aria-label": name}, form(() => ({value: fields.read() ?? null}), fields.element)) : null,
    make("details", {class: "panel", open: !isWhole}, make("summary", {}, t("as_yaml")), form(yaml, field("YAML", area)),
      answer.line ? button(t("remove"), () => save(name, answer.etag, {value: null}), {class: "plain", "aria-label": `${t("remove")}: ${name}`}) : null),
  ]};
}

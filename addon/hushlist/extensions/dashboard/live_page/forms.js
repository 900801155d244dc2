// Forms that are made of the schema of the policy's table of keys: a control for each kind of value.
import {plainly} from "./edits.js";
import {button, choice, make, refill, select, t} from "./kit.js";

/** A control: its element, and what its value is now; nothing is `undefined`. */
const control = (element, read) => ({element, read});
const LONGEST_LIST = 400;

/** Draw rows anew; what has the focus keeps it, or the last button gets it, where what had it is gone. */
function repaint(place, ...rows) {
  const had = place.contains(document.activeElement);
  refill(place, ...rows);
  if (had && !place.contains(document.activeElement)) [...place.querySelectorAll("button, select")].at(-1)?.focus();
}

/** A schema with what it refers to; `schema` is the whole one. */
function resolved(part, whole) {
  let complete = part;
  for (let depth = 0; complete?.$ref && depth < 8; depth++) {
    const {$ref, ...rest} = complete;
    complete = {...$ref.replace(/^#\//, "").split("/").reduce((at, key) => at?.[key], whole), ...rest};
  }
  return Object.assign({}, complete, ...(complete?.allOf ?? []).map((part) => resolved(part, whole)));
}

/** The kinds of value that a schema takes; an editor's booleans are the words beside them. */
function kindsOf(part, whole) {
  const complete = resolved(part, whole);
  const choices = complete.properties ? null : complete.anyOf ?? complete.oneOf;
  const all = choices ? choices.flatMap((each) => kindsOf(each, whole)) : [complete];
  return all.filter((each) => each.type !== "boolean" && !("const" in each) && Object.keys(each).some((key) => ["type", "enum", "properties", "additionalProperties"].includes(key)));
}

const isMapping = (kind) => kind.properties || kind.additionalProperties;
const shapeOf = (value) => (Array.isArray(value) ? "list" : value !== null && typeof value === "object" ? "mapping" : "text");
const shapeOfKind = (kind) => (kind.type === "array" ? "list" : isMapping(kind) || kind.type === "object" || Array.isArray(kind.type) && kind.type.includes("object") ? "mapping" : "text");
const SHAPES = {list: "shape_list", mapping: "in_detail", text: "shape_text"};

/** Which of the kinds a value is of. */
function kindOf(kinds, value) {
  const shaped = kinds.filter((kind) => shapeOfKind(kind) === shapeOf(value));
  if (shapeOf(value) === "mapping") return shaped.find((kind) => !kind.properties || Object.keys(value).every((key) => key in kind.properties)) ?? shaped[0];
  return shaped.find((kind) => kind.enum?.includes(String(value))) ?? shaped.find((kind) => !kind.enum) ?? shaped[0];
}

/** A control for a value that has a schema; where it may be of several kinds, with a choice of them. */
export function formOf(schema, value, whole, name) {
  const kinds = kindsOf(schema, whole);
  const words = [...new Set(kinds.flatMap((kind) => kind.enum ?? []))].map(String);
  const others = kinds.filter((kind) => !kind.enum);
  const texts = others.filter((kind) => shapeOfKind(kind) === "text");
  if (!kinds.length) return textOf({}, [], value, name);
  if (!others.length) return choiceOf(words, value, name);
  if (others.length === texts.length) return textOf(texts[0], words, value, name);
  if (kinds.length === 1) return ofKind(kinds[0], value, whole, name);
  const shaped = others.filter((kind) => shapeOfKind(kind) !== "text");
  const options = [["", "–"], ...words.map((word) => [`=${word}`, word]), ...(texts.length ? [["text", t(SHAPES.text)]] : []),
    ...shaped.map((kind, place) => [String(place), shaped.filter(isMapping).length > 1 && kind.properties ? (kind.required ?? Object.keys(kind.properties).slice(0, 1)).join(", ") : t(SHAPES[shapeOfKind(kind)])])];
  const kind = value === undefined || value === null ? null : kindOf(kinds, value);
  const chosen = !kind ? "" : kind.enum?.includes(String(value)) ? `=${value}` : shapeOf(value) === "text" ? "text" : String(shaped.indexOf(kind));
  const choose = select("kind", options, chosen);
  choose.setAttribute("aria-label", name);
  const place = make("div", {class: "explained"});
  const controls = new Map(); // what was typed stays, whatever kinds the arrow keys go over
  let inner = null;
  const makeOne = (start) => (choose.value === "text" ? textOf(texts[0], [], start, name) : choose.value === "" || choose.value.startsWith("=") ? null : ofKind(shaped[Number(choose.value)], start, whole, name));
  const fill = (start) => {
    if (!controls.has(choose.value)) controls.set(choose.value, makeOne(start));
    inner = controls.get(choose.value);
    place.replaceChildren(...(inner ? [inner.element] : []));
  };
  choose.addEventListener("change", () => fill(undefined));
  fill(value ?? undefined);
  return control(make("div", {class: "explained"}, choose, place), () => (choose.value.startsWith("=") ? choose.value.slice(1) : inner?.read()));
}

function ofKind(kind, value, whole, name) {
  if (kind.type === "array") return listOf(kind, value, whole, name);
  if (kind.properties) return mappingOf(kind, value, whole, name);
  if (kind.additionalProperties) return namesOf(kind, value, whole, name);
  return rawOf(value, name);
}

function choiceOf(words, value, name) {
  const chosen = select("value", [["", "–"], ...words.map((word) => [word, word])], value ?? "");
  chosen.setAttribute("aria-label", name);
  return control(chosen, () => chosen.value || undefined);
}

/** A pattern as the attribute of an input takes it; none where the browser cannot read it so. */
function patternOf({pattern}) {
  if (!pattern?.startsWith("^")) return null;
  try {
    new RegExp(pattern, "v");
    return pattern.replace(/^\^|\$$/g, "");
  } catch {
    return null;
  }
}

let lists = 0;
function textOf(kind, words, value, name) {
  const id = `words-${lists++}`;
  const isNumber = kind.minimum !== undefined;
  const input = make("input", {value: value ?? "", "aria-label": name, dir: "auto", spellcheck: "false", autocapitalize: "none", maxlength: kind.maxLength ?? 8000, inputmode: isNumber ? "numeric" : null,
    pattern: patternOf(kind), title: isNumber ? `${kind.minimum} – ${kind.maximum}` : null, list: words.length ? id : null});
  const offered = words.length && words.length < LONGEST_LIST ? make("datalist", {id}, words.map((word) => make("option", {value: word}))) : null;
  return control(make("div", {}, input, offered), () => input.value.trim() || undefined);
}

/** What no form fits is JSON. */
function rawOf(value, name) {
  const area = make("textarea", {rows: "4", dir: "ltr", spellcheck: "false", "aria-label": `${name} (JSON)`});
  area.value = value === undefined ? "" : JSON.stringify(value, null, 1);
  return control(area, () => {
    try {
      return area.value.trim() ? JSON.parse(area.value) : undefined;
    } catch {
      return area.value; // the text itself, which is refused with the reason
    }
  });
}

/** Items in their order, each of which can be moved up and removed. */
function listOf(kind, value, whole, name) {
  const items = (Array.isArray(value) ? value : value === undefined ? [] : [value]).map((content) => formOf(kind.items, content, whole, name));
  const place = make("div", {class: "explained"});
  const isSimple = kindsOf(kind.items, whole).every((each) => shapeOfKind(each) === "text");
  const titleOf = (item, number) => {
    const content = item.read();
    return (content && typeof content === "object" ? content.name ?? content.title ?? content.file ?? content.url ?? content.catalogue ?? Object.values(content).find((part) => typeof part === "string") : content) ?? `${number + 1}`;
  };
  const paint = (opened = null) => repaint(place, items.map((item, number) => {
    const title = titleOf(item, number);
    const row = make("div", {class: "actions"},
      number ? button("↑", () => { items.splice(number - 1, 2, item, items[number - 1]); paint(item); }, {class: "small", "aria-label": `${t("move_up")}: ${name}, ${title}`}) : null,
      button(t("remove"), () => { items.splice(number, 1); paint(); }, {class: "small", "aria-label": `${t("remove")}: ${name}, ${title}`}));
    return isSimple ? make("div", {class: "item"}, item.element, row)
      : make("details", {class: "item", open: item === opened}, make("summary", {dir: "auto"}, title), item.element, row);
  }), make("div", {class: "actions"}, button(t("add"), () => {
    const item = formOf(kind.items, undefined, whole, name);
    items.push(item);
    paint(item);
    item.element.querySelector("input, select")?.focus();
  }, {class: "small", "aria-label": `${t("add")}: ${name}`})));
  paint();
  return control(place, () => {
    const all = items.map((item) => item.read()).filter((read) => read !== undefined);
    return all.length ? all : undefined;
  });
}

/** The keys that are there, each with its sentence; the others can be added. */
function mappingOf(kind, value, whole, name) {
  const start = value ?? {};
  const place = make("div", {class: "explained keys"});
  const there = new Map();
  const add = (key) => there.set(key, formOf(kind.properties[key], start[key], whole, key));
  const isNeeded = (key) => kind.required?.includes(key);
  Object.keys(kind.properties).filter((key) => key in start || isNeeded(key)).forEach(add);
  const paint = () => {
    const missing = Object.keys(kind.properties).filter((key) => !there.has(key));
    const more = select("key", [["", t("add_key")], ...missing.map((key) => [key, key])]);
    more.setAttribute("aria-label", `${t("add_key")}: ${name}`);
    const addition = choice(more, name, (key) => {
      add(key);
      const {element} = there.get(key);
      paint();
      element.closest(".key").querySelector("input, select, textarea")?.focus();
    }, t("add"));
    repaint(place, [...there].map(([key, editor]) => make("div", {class: "key"}, make("div", {class: "bar"}, make("strong", {lang: "en", dir: "ltr"}, key),
      isNeeded(key) ? null : button(t("remove"), () => { there.delete(key); paint(); }, {class: "small", "aria-label": `${t("remove")}: ${key}`})),
    make("small", {lang: "en", dir: "ltr"}, plainly(kind.properties[key].description ?? "")), editor.element)), missing.length ? addition : null);
  };
  paint();
  return control(place, () => {
    const all = Object.fromEntries([...there].map(([key, editor]) => [key, editor.read()]).filter(([, editor]) => editor !== undefined));
    return Object.keys(all).length ? all : undefined;
  });
}

/** Names that people give, each with a value. */
function namesOf(kind, value, whole, name) {
  const words = kindsOf(kind.propertyNames ?? {}, whole).flatMap((part) => part.enum ?? []);
  const rows = Object.entries(value ?? {}).map(([key, editor]) => [textOf({}, words, key, t("name")), formOf(kind.additionalProperties, editor, whole, key)]);
  const place = make("div", {class: "explained"});
  const paint = () => repaint(place, rows.map((row) => make("div", {class: "key"}, row[0].element, row[1].element, make("div", {class: "actions"},
    button(t("remove"), () => { rows.splice(rows.indexOf(row), 1); paint(); }, {class: "small", "aria-label": `${t("remove")}: ${row[0].read() ?? name}`})))),
  make("div", {class: "actions"}, button(t("add"), () => {
    rows.push([textOf({}, words, undefined, t("name")), formOf(kind.additionalProperties, undefined, whole, name)]);
    paint();
    rows.at(-1)[0].element.querySelector("input").focus();
  }, {class: "small", "aria-label": `${t("add")}: ${name}`})));
  paint();
  return control(place, () => {
    const all = Object.fromEntries(rows.map(([key, editor]) => [key.read(), editor.read()]).filter(([key, editor]) => key !== undefined && editor !== undefined));
    return Object.keys(all).length ? all : undefined;
  });
}

// Lists of the catalogue by what they are about, each chosen for everybody or for some groups with one form.
import {preview, read, save} from "./edits.js";
import {button, categoryName, field, get, make, nameOf, pair, panel, select, soft, t, textOr, whole} from "./kit.js";

const lastOf = (category) => category.split("/").at(-1);
/** A name in a policy stands for a category: it, or its last levels. */
const isNamed = (key, category) => key === category || category.endsWith(`/${key}`);
const actionOf = (actions, category) => Object.entries(actions ?? {}).find(([key]) => isNamed(key, category))?.[1];
const without = (actions, category) => Object.fromEntries(Object.entries(actions ?? {}).filter(([key]) => !isNamed(key, category)));
const orNothing = (value) => (Object.keys(value).length ? value : null);

/** The subjects as tiles; nothing where the policy cannot be changed here. */
export async function subjectsPanel() {
  const [{catalogue}, layers, categories, groups] = await Promise.all([get("/lists/catalogue"), read("layers"), read("categories"), read("groups")]).catch(() => [{}]);
  if (!catalogue || layers.read_only) return null;
  const subjects = new Map();
  for (const item of catalogue) subjects.set(item.category, [...(subjects.get(item.category) ?? []), item]);
  const policy = {layers, categories, groups};
  return panel(t("by_subject"), soft(t("by_subject_says")), make("div", {class: "cards subjects"}, [...subjects].map(([category, lists]) => tile(category, lists, policy))));
}

function tile(category, lists, policy) {
  const names = (policy.groups.value ?? []).map((item) => item.name);
  const isThere = lists.some((item) => item.is_used);
  const everybody = actionOf(policy.categories.value, category);
  const isOn = isThere && (everybody === "block" || everybody === undefined && !category.endsWith("/services"));
  const of = new Map((policy.groups.value ?? []).map((item) => [item.name, actionOf(item.categories, category)]));
  const isOther = [everybody, ...of.values()].some((item) => ![undefined, "block", "pass"].includes(item)); // nothing is overwritten unseen
  const title = textOr(`subject_${lastOf(category).replaceAll("-", "_")}`, categoryName(category));
  const tick = (value, text, checked) => make("label", {class: "tick"}, make("input", {type: "checkbox", name: "whom", value, checked, disabled: isOther}), make("span", {}, text));
  const which = isThere ? null : select("list", lists.map((item) => [item.name, `${item.publisher}: ${item.purpose}`]));
  const place = make("div", {class: "explained", "aria-live": "polite"});
  const ticks = [tick("everybody", t("everybody"), isOn), ...names.map((name) => tick(`group:${name}`, nameOf(`group:${name}`), isThere && of.get(name) === "block"))];
  const used = lists.filter((item) => item.is_used);
  const whom = ticks.map((item) => item.querySelector("input")).filter((item) => item.checked).map((item) => nameOf(item.value));
  const form = make("form", {class: "explained"},
    isThere ? soft(used.map((item) => `${item.publisher}${item.size ? ` (${whole.format(item.size)})` : ""}`).join(", ")) : lists.length > 1 ? field(t("list"), which) : soft(make("span", {lang: "en", dir: "ltr"}, `${lists[0].publisher}: ${lists[0].purpose}`)),
    make("fieldset", {}, make("legend", {}, t("block_for_whom")), make("div", {class: "ticks"}, ticks)),
    isOther ? soft(t("other_actions")) : make("div", {class: "actions"}, make("button", {class: "small", "aria-label": `${t("save")}: ${title}`}, t("save")), button(t("preview"), () => preview("layers", body(), place), {class: "small", "aria-label": `${t("preview")}: ${title}`})), place);
  /** The sections as they become: the list among the last layer's, and the action of its category for each. */
  const body = () => {
    const chosen = new Set([...form.querySelectorAll("[name=whom]:checked")].map((item) => item.value));
    const isForAll = chosen.has("everybody");
    const besides = {categories: {value: orNothing({...without(policy.categories.value, category), [category]: isForAll ? "block" : "pass"}), etag: policy.categories.etag}};
    if (names.length) besides.groups = {etag: policy.groups.etag, value: policy.groups.value.map((item) => {
      const {categories: before, ...rest} = item;
      const left = without(before, category);
      const next = chosen.has(`group:${item.name}`) ? {...left, [category]: "block"} : left;
      return orNothing(next) ? {...rest, categories: next} : rest;
    })};
    return {value: isThere || !chosen.size ? policy.layers.value : withList(policy.layers.value ?? [], lists.find((item) => !which || item.name === which.value)), besides};
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    save("layers", policy.layers.etag, body(), place);
  });
  return make("details", {class: "item subject"}, make("summary", {}, title, make("small", {}, whom.length ? ` ${pair(t("block_for_whom"), whom.join(", "))}` : "")), form);
}

/** The layers with a list of the catalogue at the end of the last one that has lists. */
function withList(layers, {name, is_fetched: isFetched}) {
  const entry = {catalogue: name, ...(isFetched ? {optional: "true"} : {})};
  const place = layers.findLastIndex((item) => item.lists && item.name !== "overrides");
  return place < 0 ? [...layers, {name: "catalogue", lists: [entry]}] : layers.map((item, number) => (number === place ? {...item, lists: [...item.lists, entry]} : item));
}

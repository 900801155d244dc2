// What other screens change of the policy with one choice: the action of a category, and the group of a device.
import {read, save} from "./edits.js";
import {button, categoryName, chip, choice, field, make, may, nameOf, select, sheet, soft, t} from "./kit.js";

const ACTIONS = ["block", "warn", "tag", "pass"];

/** Where the actions of categories stand: everybody's, and of each group its own. */
export async function planOf(people) {
  if (!may("manage")) return null;
  const [everybody, groups] = await Promise.all([read("categories"), read("groups")]).catch(() => [null, null]);
  if (!everybody || everybody.read_only || groups.read_only) return null;
  const categories = Object.values({...everybody.value}).length || groups.value ? [everybody.value ?? {}, groups.value ?? []] : [{}, []];
  return {everybody, groups, ofGroup: (name) => (name === "default" ? categories[0] : categories[1].find((item) => item.name === name)?.categories ?? {}), people};
}

/** A cell of the plan: the action of a category for somebody, which can be chosen where it is always the same. */
export function planCell(plan, person, category) {
  const current = person.categories.find((each) => each.category === category);
  const now = current?.action ? chip(current.action) : make("span", {}, "–");
  const ofGroup = plan?.ofGroup(person.name);
  const key = ofGroup && (Object.keys(ofGroup).find((item) => item === category || category.endsWith(`/${item}`)) ?? category);
  if (!ofGroup || typeof ofGroup[key] === "object" && ofGroup[key] !== null) return now;
  const chosen = select("action", [["", ofGroup[key] === undefined && current?.action ? `(${t(`action_${current.action}`)})` : t("as_lists_say")], ...ACTIONS.map((item) => [item, t(`action_${item}`)])], ofGroup[key] ?? "");
  const name = `${categoryName(category)}, ${nameOf(`group:${person.name}`)}`;
  chosen.setAttribute("aria-label", name);
  return choice(chosen, name, (action) => {
    const {[key]: _, ...others} = ofGroup;
    const actions = action ? {...others, [key]: action} : others;
    const value = Object.keys(actions).length ? actions : null;
    if (person.name === "default") save("categories", plan.everybody.etag, {value});
    else save("groups", plan.groups.etag, {value: plan.groups.value.map((item) => {
      if (item.name !== person.name) return item;
      const {categories: before, ...rest} = item;
      return value ? {...item, categories: value} : rest;
    })});
  });
}

/** Put a device that is in no group into one. */
export function intoGroup(device) {
  const address = device.client;
  if (!may("manage") || !address || !/^[0-9a-f.:]+$/.test(address)) return "";
  return button(t("into_group"), async () => {
    const groups = await read("groups").catch((error) => error);
    if (groups instanceof Error || groups.read_only) return sheet(t("into_group"), soft(groups.message ?? t("read_only", {why: groups.read_only})));
    const named = make("input", {name: "name", maxlength: "100"});
    const names = (groups.value ?? []).map((item) => item.name);
    const form = make("form", {class: "fields"}, field(t("group"), select("group", [...names.map((item) => [item, item]), ["", t("new_group")]])), field(t("new_group"), named),
      make("div", {class: "actions"}, make("button", {}, t("save"))));
    const dialog = sheet(`${t("into_group")}: ${nameOf(address)}`, form);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const name = form.elements.group.value || named.value.trim();
      if (!name) return named.focus();
      dialog.close();
      const value = names.includes(name) ? groups.value.map((item) => (item.name === name ? {...item, clients: [...(item.clients ?? []), address]} : item)) : [...(groups.value ?? []), {name, clients: [address]}];
      return save("groups", groups.etag, {value});
    });
    return dialog;
  }, {class: "small", "aria-label": `${t("into_group")}: ${nameOf(address)}`});
}

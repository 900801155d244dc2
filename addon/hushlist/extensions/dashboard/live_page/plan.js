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
  const name = `${categoryName(category)}, ${nameOf(`group:${person.name}`)}`;
  chosen.setAttribute("aria-label", name);
  return choice(chosen, name, (action) => {
    const {[key]: _, ...others} = own;
    const actions = action ? {...others, [key]: action} : others;
    const value = Object.keys(actions).length ? actions : null;
    if (person.name === "default") save("categories", plan.everybody.etag, {value});
    else save("groups", plan.groups.etag, {value: plan.groups.value.map((one) => {
      if (one.name !== person.name) return one;
      const {categories: before, ...rest} = one;
      return value ? {...one, categories: value} : rest;
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
    const known = (groups.value ?? []).map((one) => one.name);
    const form = make("form", {class: "fields"}, field(t("group"), select("group", [...known.map((one) => [one, one]), ["", t("new_group")]])), field(t("new_group"), named),
      make("div", {class: "actions"}, make("button", {}, t("save"))));
    const dialog = sheet(`${t("into_group")}: ${nameOf(address)}`, form);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const name = form.elements.group.value || named.value.trim();
      if (!name) return named.focus();
      dialog.close();
      const value = known.includes(name) ? groups.value.map((one) => (one.name === name ? {...one, clients: [...(one.clients ?? []), address]} : one)) : [...(groups.value ?? []), {name, clients: [address]}];
      return save("groups", groups.etag, {value});
    });
    return dialog;
  }, {class: "small", "aria-label": `${t("into_group")}: ${nameOf(address)}`});
}

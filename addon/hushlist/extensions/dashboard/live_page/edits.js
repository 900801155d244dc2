// What changes a section of the policy: saved only where nobody else has changed it meanwhile, and previewed before.
import {act, bdi, call, chip, get, make, sheet, t, whole} from "./kit.js";

export const read = (section) => get(`/policy/${section}`);
const put = (section, etag, body) => call("PUT", `/policy/${section}`, body, {"If-Match": etag});

/** Save a section; where it was changed meanwhile or cannot be used, show what is so and why, also at a place. */
export async function save(section, etag, body, place = null) {
  let problem = null;
  const done = await act(t("told_saved"), async () => {
    try {
      return await put(section, etag, body);
    } catch (error) {
      problem = error;
      place?.replaceChildren(make("p", {class: "alert"}, error.message));
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

/** Of a sentence in Markdown, its words. */
export const plainly = (text) => text.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/`/g, "");

/** Say what a change of a section would have made otherwise in the last week. */
export async function preview(name, body, place) {
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

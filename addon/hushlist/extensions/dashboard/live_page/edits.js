// What changes a section of the policy: saved only where nobody else has changed it meanwhile, and previewed before.
import {act, bdi, call, chip, get, make, sheet, t, whole} from "./kit.js";

export const read = (section) => get(`/policy/${section}`);
const put = (section, etag, body) => call("PUT", `/policy/${section}`, body, {"If-Match": etag});

/** Why a section could not be used: each mistake in a line. */
const problemsOf = (error) => (error.detail?.problems?.map((item) => [item.line && `${item.file}:${item.line}`, item.what, item.why].filter(Boolean).join(": ")) ?? [error.said ?? error.message]).join("\n");

/** Save a section; where it was changed meanwhile or cannot be used, show what is so and why, at a place if there is one. */
export async function save(section, etag, body, place = null) {
  let problem = null;
  const done = await act(t("told_saved"), async () => {
    try {
      return await put(section, etag, body);
    } catch (error) {
      problem = error;
      place?.replaceChildren(make("p", {class: "alert", lang: "en"}, problemsOf(error)));
      throw error;
    }
  });
  const detail = problem?.detail;
  if (detail?.now) {
    sheet(t("changed_meanwhile"), make("h3", {}, t("as_it_is")), make("pre", {dir: "ltr", tabindex: "0", role: "region", "aria-label": t("as_it_is")}, detail.now.text),
      make("h3", {}, t("as_you_wrote")), make("pre", {dir: "ltr", tabindex: "0", role: "region", "aria-label": t("as_you_wrote")}, detail.text ?? JSON.stringify(detail.value, null, 2)));
  } else if (!place && detail?.problems) {
    sheet(t("went_wrong_here"), make("p", {class: "alert", lang: "en"}, problemsOf(problem)));
  }
  return done;
}

/** Of a sentence in Markdown, its words. */
export const plainly = (text) => text.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/`/g, "");

/** Say what a change of a section would have made otherwise in the last week. */
export async function preview(name, body, place) {
  try {
    const answer = await call("POST", `/policy/${name}/preview`, body);
    place.replaceChildren(make("p", {}, answer.unknown_because ?? t("policy_would", {requests: whole.format(answer.requests), stopped: whole.format(answer.stopped), passed: whole.format(answer.let_through), other: whole.format(answer.other)})),
      ...(answer.warnings.length ? [make("ul", {lang: "en", dir: "ltr"}, answer.warnings.map((item) => make("li", {}, item)))] : []),
      make("pre", {dir: "ltr", tabindex: "0", role: "region", "aria-label": name}, answer.text),
      make("ul", {}, answer.addresses.map((item) => make("li", {}, chip(item.was), " → ", chip(item.will), " ", bdi(item.url), ` (${whole.format(item.count)})`))));
  } catch (error) {
    place.replaceChildren(make("p", {class: "alert", lang: "en"}, problemsOf(error)));
  }
}

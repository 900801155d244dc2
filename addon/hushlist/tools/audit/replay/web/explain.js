// Why a record is decided as it is: all that the engine says of it.

const DONE = {
  block: "blocked",
  warn: "stopped with a warning",
  allow: "allowed",
  tag: "tagged, and passes",
  pass: "passed",
};

function where(rule) {
  return rule.line ? `${rule.source}:${rule.line}` : rule.source;
}

function listName(source) {
  return report.names[source] ?? source;
}

function facts(pairs) {
  const list = element("dl");
  for (const [name, value] of pairs) {
    if (value == null || value === "" || value === 0) continue;
    list.append(element("div", {}, element("dt", {}, name), element("dd", {}, value)));
  }
  return list;
}

function isSame(value, other) {
  return ["rule", "source", "line", "expression"].every((name) => value[name] === other?.[name]);
}

function sentence(why) {
  const rule = why.winner;
  if (why.fault) return [`The URL cannot be read: ${why.fault}.`];
  if (why.grant) return [`A temporary unblock lets it pass: ${why.grant}.`];
  if (!rule) return ["No rule of any list fits it."];
  return ["The rule ", code(rule.rule), " fits it; it stands at ", code(where(rule)), "."];
}

function plainTable(caption, heads, rows) {
  return element("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": caption },
    element("table", {},
      element("caption", {}, caption),
      element("thead", {}, element("tr", {}, heads.map((head) => element("th", { scope: "col" }, head)))),
      element("tbody", {}, rows.map((row) => element("tr", { class: row.kind }, row.cells.map((cell) => element("td", {}, cell)))))));
}

function matchesOf(why) {
  if (!why.matches.length) return null;
  return plainTable("Rules that fit, in the order in which they decide", ["Action", "Rule", "Where it stands", "Fits the expression", "Layer"],
    why.matches.map((match) => ({
      kind: isSame(match, why.winner) ? "winner" : null,
      cells: [
        [action(match.action), isSame(match, why.winner) ? element("strong", {}, " decides") : null],
        code(match.rule),
        code(`${listName(match.source)}:${match.line}`),
        [code(match.expression), match.via ? ` by ${match.via}` : null],
        match.layer,
      ],
    })));
}

function formsOf(why) {
  const fits = new Set(why.matches.map((match) => match.expression));
  return (why.forms ?? []).map((form, place) => {
    const title = `Looked up: ${count(form.expressions.length, "expression")}` + (place ? ` of another reading, ${form.canonical}` : "");
    return plainTable(title, ["Expression", "SHA-256"],
      form.expressions.map((row) => ({
        kind: fits.has(row.expression) ? "fits" : null,
        cells: [[code(row.expression), fits.has(row.expression) ? element("strong", {}, " fits") : null], element("code", { class: "hash" }, row.sha256)],
      })));
  });
}

function explain(key) {
  const record = report.records_shown[key];
  const why = record.explanation;
  const rule = why.winner;
  const close = element("button", { type: "button", class: "close" }, "Close");
  const dialog = document.getElementById("explanation");
  close.addEventListener("click", () => dialog.close());
  dialog.replaceChildren(
    element("div", { class: "bar-of-dialog" },
      element("h2", { id: "explanation-title" }, "Why this is ", element("span", { class: `done ${why.action}` }, DONE[why.action] ?? why.action)),
      close),
    element("p", { class: "sentence" }, sentence(why)),
    facts([
      ["URL", code(record.url)],
      ["Canonical URL", code(why.canonical)],
      ["Deciding rule", rule && code(rule.rule)],
      ["It stands at", rule && code(where(rule))],
      ["List", rule && (rule.title ?? rule.list)],
      ["Category", rule?.category && code(rule.category)],
      ["Reason", rule?.reason],
      ["Expires", rule?.expires],
      ["Holds until", rule?.until],
      ["Layer", rule?.layer],
      ["Group of clients", why.group],
      ["Kind of request", record.kind],
      ["Page", record.page && code(record.page)],
      ["Host names asked for", record.request?.hosts.length > 1 ? record.request.hosts.join(", ") : null],
      ["Method", record.method],
      ["Status", record.status ? String(record.status) : null],
      ["Time", record.time && new Date(1000 * record.time).toISOString()],
      ["Client", [record.client, record.user].filter(Boolean).join(", ")],
      ["Recorded in", record.source && code(`${record.source}:${record.number}`)],
    ]),
    ...[matchesOf(why), ...formsOf(why)].filter(Boolean),
  );
  dialog.showModal();
  dialog.scrollTop = 0;
}

function isOutside({ target, clientX, clientY }) {
  const { left, right, top, bottom } = target.getBoundingClientRect();
  return clientX < left || clientX > right || clientY < top || clientY > bottom;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-record]");
  if (button) explain(button.dataset.record);
  else if (event.target.id === "explanation" && isOutside(event)) event.target.close();
});

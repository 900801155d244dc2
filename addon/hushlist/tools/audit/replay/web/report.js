// The parts of the page, in their order.

const ACTIONS = ["block", "warn", "tag", "allow", "pass"]; // in the order of the bar
const stoppedInAll = Object.values(report.kinds).reduce((sum, entry) => sum + entry.stopped, 0);
const breaksInAll = Object.values(report.breaks).reduce((sum, entry) => sum + entry.requests, 0);
const HINTS = {
  fits: "requests that a rule fits, whatever comes of it",
  stopped: "requests that it decides to block or to warn of",
  alone: "of the stopped requests, those that nothing else would stop",
  breaks: "of those that it stops: pages, and scripts and styles of the page's own site",
  popular: "of those that it stops: requests to popular domains",
};

const NAMES = { document: "page" };

function most(rows, of) {
  return rows.reduce((so_far, row) => Math.max(so_far, of(row)), 0);
}

function listTitle(entry) {
  if (!entry) return "a list that is left out";
  const file = listName(entry.source);
  return entry.title && entry.title !== file ? [entry.title, element("small", {}, breakable(file))] : breakable(file);
}

function hits(name, head) {
  return { head, hint: HINTS[name], of: (row) => row[name] };
}

// Columns of hits that every table of lists, categories and rules has.
function hitColumns(rows) {
  const widest = most(rows, (row) => Math.max(row.stopped, row.alone));
  return [
    hits("stopped", "Stopped"),
    hits("alone", "Alone"),
    {
      head: "Alone, shared", kind: "wide", of: (row) => row.stopped,
      show: (row) => bar([[Math.min(row.alone, row.stopped), "alone"], [Math.max(0, row.stopped - row.alone), "shared"]], widest),
    },
    hits("fits", "Fits"),
    ...(report.popular ? [hits("popular", "To popular")] : []),
    hits("breaks", "Breaks"),
  ];
}

function examples(keys) {
  const shown = keys.filter((key) => key in report.records_shown);
  if (!shown.length) return "";
  return element("details", {}, element("summary", {}, count(shown.length, "example")),
    element("ul", { class: "examples" }, shown.map((key) => element("li", {}, explained(key)))));
}

const exampleColumn = { head: "Examples", kind: "folded", of: (row) => row.examples.length, show: (row) => examples(row.examples) };
const legend = () => element("p", { class: "legend" },
  element("span", { class: "key alone" }, "stopped by this alone"),
  element("span", { class: "key shared" }, "another would stop it, too"));

// -- heading and figures ----------------------------------------------------------------------------------------------

function scope() {
  const { at, client, user, port, as_recorded: asRecorded } = report.options;
  const who = [user && `the user ${user}`, client && `the client ${client}`, port && `port ${port}`].filter(Boolean).join(", ");
  const sources = report.sources.length + (report.left_out.sources ?? 0);
  const parts = [`${count(report.records, "request")} of ${count(sources, "source")}`];
  parts.push(asRecorded ? "each decided for its own client and time" : `decided for ${who || "anybody"}, as of ${day(at)}`);
  parts.push(`made on ${day(report.made)}`);
  document.getElementById("scope").textContent = visible(parts.join("; "));
}

function day(iso) {
  const time = new Date(iso);
  return isNaN(time) ? iso : `${time.toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

function figure(value, text, more, href, kind) {
  const name = element("dt", {}, href ? element("a", { href }, text) : text);
  return element("div", { class: kind }, name, element("dd", {}, element("strong", {}, value), more && element("span", {}, more)));
}

function figures() {
  const rules = report.lists.reduce((sum, entry) => sum + entry.rules, 0);
  const fired = report.lists.reduce((sum, entry) => sum + entry.fired, 0);
  const faults = Object.values(report.faults).reduce((sum, entry) => sum + entry, 0);
  const popular = report.popular_domains.reduce((sum, entry) => sum + entry.stopped, 0);
  const rate = report.records_a_second;
  const made = element("dl", { class: "figures" },
    figure(percent(stoppedInAll, report.records), "Stopped", `${number(stoppedInAll)} of ${count(report.records, "request")}`, "#actions", "main"),
    figure(number(breaksInAll), "Break pages", "stopped pages, own scripts and styles", "#breaks", breaksInAll ? "bad" : null),
    report.popular && figure(number(popular), "To popular domains", `${count(report.popular_domains.length + (report.left_out.popular_domains ?? 0), "domain")} of ${number(report.popular.domains)}`, "#popular"),
    figure(number(report.lists.length + (report.left_out.lists ?? 0)), "Lists", `${number(fired)} of ${count(rules, "rule")} fired`, "#lists"),
    figure(number(report.broken.count), "Broken records", faults ? `and ${count(faults, "URL")} that cannot be read` : "that could not be read", report.broken.count || faults ? "#broken" : null),
    figure(rate == null ? "–" : number(rate), "Requests a second", `${report.seconds < 10 ? report.seconds.toFixed(1) : number(Math.round(report.seconds))} s, ${count(report.workers, "process", "processes")}`),
  );
  document.getElementById("main").append(element("h2", { class: "hidden" }, "Figures"), made);
}

// -- what is done -----------------------------------------------------------------------------------------------------

function actions() {
  const counts = Object.entries(report.actions).sort(([left], [other]) => ACTIONS.indexOf(left) - ACTIONS.indexOf(other));
  const chart = bar(counts.map(([name, value]) => [value, name]), report.records);
  chart.classList.add("actions");
  const key = element("ul", { class: "legend-of-actions" }, counts.map(([name, value]) => element("li", {},
    action(name), element("strong", {}, percent(value, report.records)), ` ${number(value)}`)));
  const kinds = Object.entries(report.kinds).map(([kind, entry]) => ({ kind, ...entry }));
  const largest = most(kinds, (entry) => entry.requests);
  section("actions", "Actions", "What is done",
    report.records
      ? "What the policy does with the requests, and what those are for that it stops."
      : "No request was found in the sources: are these the files that were meant, and is their format known?",
    report.records ? element("figure", {}, chart, element("figcaption", {}, key)) : null,
    table({
      caption: "By kind of request", rows: kinds, sorted: 1,
      columns: [
        { head: "Kind", of: (row) => row.kind },
        { head: "Stopped", of: (row) => row.stopped },
        { head: "Requests", of: (row) => row.requests },
        { head: "Share", of: (row) => row.stopped / row.requests, show: (row) => percent(row.stopped, row.requests) },
        { head: "Stopped, and others", kind: "wide", of: (row) => row.stopped, show: (row) => bar([[row.stopped, "block"], [row.requests - row.stopped, "pass"]], largest) },
      ],
    }));
}

function breaks() {
  const rows = Object.entries(report.breaks).flatMap(([kind, entry]) => entry.examples
    .filter((key) => key in report.records_shown)
    .map((key) => ({ kind, key, record: report.records_shown[key] })));
  const numbers = Object.entries(report.breaks).map(([kind, entry]) => count(entry.requests, NAMES[kind] ?? kind)).join(", ");
  const by = (row) => row.record.explanation.winner;
  const whose = (row) => (by(row) ? `${listName(by(row).source)}:${by(row).line}` : row.record.explanation.fault);
  section("breaks", "Breakage", "What breaks pages",
    breaksInAll
      ? `A person notices when a page itself is stopped, or a script or style of the page's own site: ${numbers}.`
      : "No page breaks: no document is stopped, nor a script or style of a page's own site.",
    rows.length ? table({
      caption: `Examples: ${number(rows.length)} of ${number(breaksInAll)}`, rows, sorted: 1, rises: true,
      filter: { names: "examples", of: (row) => `${row.kind} ${row.record.url} ${row.record.page} ${whose(row)}` },
      columns: [
        { head: "What is stopped", of: (row) => row.record.url, show: (row) => explained(row.key) },
        { head: "Kind", of: (row) => NAMES[row.kind] ?? row.kind },
        { head: "By", kind: "place-of-rule", of: whose, show: (row) => code(whose(row)) },
        { head: "On the page", of: (row) => row.record.page, show: (row) => (row.record.page === row.record.url ? "itself" : code(short(row.record.page))) },
      ],
    }) : null);
}

function parties() {
  const rows = report.third_parties;
  if (!rows.length) return;
  const largest = most(rows, (row) => row.stopped);
  const pages = (row) => element("details", {}, element("summary", {}, count(row.pages.counts.length, "page")),
    element("ul", { class: "examples" }, row.pages.counts.map(([name, requests]) => element("li", {}, code(short(name)), ` ${number(requests)}`))));
  section("parties", "Other sites", "What is stopped of other sites that people notice",
    "Players, payment, sign-in, maps and the like, by a table of their hosts, where the record names the page. Whether a page misses them, a browser tells: hushlist visit.",
    table({
      caption: "By what it is for, and list", rows, sorted: 1, leftOut: report.left_out.third_parties,
      columns: [
        { head: "What for", of: (row) => report.roles[row.role] ?? row.role },
        { head: "Stopped", of: (row) => row.stopped },
        { head: "Stopped requests", kind: "wide", of: (row) => row.stopped, show: (row) => bar([[row.stopped, "block"]], largest) },
        { head: "List", of: (row) => listName(row.source), show: (row) => breakable(listName(row.source)) },
        { head: "On the pages", kind: "folded", of: (row) => row.pages.counts.length, show: pages },
        exampleColumn,
      ],
    }));
}

// -- lists, categories, rules -----------------------------------------------------------------------------------------

function lists() {
  section("lists", "Lists", "Lists",
    "What each list stops; what only it adds; and how many of its rules fit anything at all.",
    legend(),
    table({
      caption: "Lists", isTitled: true, rows: report.lists, sorted: 1, leftOut: report.left_out.lists,
      columns: [
        { head: "List", of: (row) => row.title ?? listName(row.source), show: listTitle },
        ...hitColumns(report.lists),
        { head: "Rules", of: (row) => row.rules },
        { head: "Fired", hint: "rules that fit at least one request", of: (row) => row.fired },
        exampleColumn,
      ],
    }));
}

function overlaps() {
  const places = report.matrix;
  if (!places.length) return;
  const both = new Map();
  for (const entry of report.overlaps) {
    const [left, other] = entry.lists;
    both.set(`${left} ${other}`, entry.requests).set(`${other} ${left}`, entry.requests);
  }
  const largest = most(report.overlaps, (entry) => entry.requests);
  const name = (place) => listName(report.lists[place]?.source);
  const cell = (row, column) => {
    if (row === column) return element("td", { class: "diagonal", title: `only ${name(row)}` }, number(report.lists[row]?.alone));
    const value = both.get(`${row} ${column}`);
    if (!value) return element("td", { class: "none" }, "·");
    // by magnitude: a few requests are to be seen beside thousands
    const heat = Math.round((9 * Math.log1p(value)) / Math.log1p(largest));
    return element("td", { class: `heat heat-${heat}`, title: `${name(row)} and ${name(column)}` }, number(value));
  };
  const head = (place, index) => element("th", { scope: "col", title: name(place) }, element("span", { "aria-hidden": "true" }, index + 1), element("span", { class: "hidden" }, name(place)));
  const matrix = element("table", { class: "matrix" },
    element("caption", {}, "Requests that two lists would stop; framed: those that only this list stops"),
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "List"), places.map(head))),
    element("tbody", {}, places.map((row, index) => element("tr", {},
      element("th", { scope: "row" }, element("span", { class: "place", "aria-hidden": "true" }, index + 1), breakable(name(row))),
      places.map((column) => cell(row, column))))));
  const involved = new Set(report.overlaps.flatMap((entry) => entry.lists));
  const others = report.lists.length - involved.size;
  const notes = [];
  if (others) notes.push(`${count(others, "list")} ${others === 1 ? "overlaps" : "overlap"} with no other`);
  if (involved.size > places.length) notes.push(`the ${number(places.length)} lists that overlap most are shown, of ${number(involved.size)}`);
  section("overlaps", "Overlap", "Overlap", "Two lists that would stop the same requests do the same work: the darker, the more.",
    element("div", { class: "scroll of-matrix", role: "region", tabindex: "0", "aria-label": "Overlap of lists" }, matrix),
    notes.length ? element("p", { class: "status" }, `${notes.join("; ")}.`) : null);
}

function categories() {
  section("categories", "Categories", "Categories", "What the rules of each category stop.",
    legend(),
    table({
      caption: "Categories", isTitled: true, rows: report.categories, sorted: 1, leftOut: report.left_out.categories,
      columns: [
        { head: "Category", of: (row) => row.category, show: (row) => (row.category ? code(row.category) : "without a category") },
        ...hitColumns(report.categories),
        exampleColumn,
      ],
    }));
}

function rules() {
  const names = ["place", "line", "rule", "category", "fits", "decided", "stopped", "alone", "popular", "breaks", "example"];
  const rows = report.rules.map((row) => Object.fromEntries(row.map((value, index) => [names[index], value])));
  const where = (row) => `${listName(report.lists[row.place]?.source)}:${row.line}`;
  const left = report.left_out.records_shown;
  section("rules", "Rules", "Rules",
    `${count(report.rules_hit, "rule")} fit${report.rules_hit === 1 ? "s" : ""} at least one request. A rule opens the explanation of an example, where the page has one.` +
      (left ? ` ${count(left, "explanation is", "explanations are")} left out to keep it small.` : ""),
    table({
      caption: "Rules that fit", rows, sorted: 1, leftOut: report.left_out.rules,
      filter: { names: "rules", of: (row) => `${row.rule} ${where(row)} ${row.category ?? ""}` },
      columns: [
        { head: "Rule", of: (row) => row.rule, show: (row) => (row.example ? explained(row.example, row.rule) : code(row.rule)) },
        ...hitColumns(rows),
        { head: "Where it stands", kind: "place-of-rule", of: where, show: (row) => code(where(row)) },
      ],
    }));
}

function unused() {
  const rows = report.lists.filter((entry) => entry.rules > entry.fired);
  const never = (row) => row.rules - row.fired;
  if (!rows.length) return;
  const first = (row) => (row.unused_first.length ? element("details", {},
    element("summary", {}, `${number(row.unused_first.length)} of them`),
    element("ol", { class: "lines" }, row.unused_first.map((entry) => element("li", { value: entry.line }, code(entry.text))))) : "");
  section("unused", "Unused rules", "Rules that never fired", "No recorded request fits these. Many lists are written for far more sites than one record has.",
    table({
      caption: "Rules that never fired, by list", rows, sorted: 1,
      columns: [
        { head: "List", of: (row) => row.title ?? listName(row.source), show: listTitle },
        { head: "Never fired", of: never },
        { head: "Rules", of: (row) => row.rules },
        { head: "Share", of: (row) => never(row) / row.rules, show: (row) => percent(never(row), row.rules) },
        { head: "Fired, and not", kind: "wide", of: never, show: (row) => bar([[row.fired, "alone"], [never(row), "pass"]], row.rules) },
        { head: "The first", kind: "folded", of: (row) => row.unused_first.length, show: first },
      ],
    }));
}

// -- sites ------------------------------------------------------------------------------------------------------------

function sites() {
  const rows = report.sites;
  const largest = most(rows, (row) => row[1]);
  const error = report.sites_error ? ` Each number may be up to ${number(report.sites_error)} too small.` : "";
  section("sites", "Sites", "Sites", `Requests by the site that they go to: ${count(report.sites_stopped, "site")} with stopped ones.${error}`,
    table({
      caption: "Sites", isTitled: true, rows, sorted: 1, leftOut: report.left_out.sites,
      filter: { names: "sites", of: (row) => row[0] },
      columns: [
        { head: "Site", of: (row) => row[0], show: (row) => code(row[0]) },
        { head: "Stopped", of: (row) => row[2] },
        { head: "Requests", of: (row) => row[1] },
        { head: "Share", of: (row) => (row[1] ? row[2] / row[1] : 0), show: (row) => percent(row[2], row[1]) },
        { head: "Stopped, and others", kind: "wide", of: (row) => row[2], show: (row) => bar([[row[2], "block"], [row[1] - row[2], "pass"]], largest) },
        { head: "Breaks pages", of: (row) => row[3] },
      ],
    }));
}

function popular() {
  if (!report.popular) return;
  const rows = report.popular_domains;
  const largest = most(rows, (row) => row.stopped);
  section("popular", "Popular domains", "Popular domains that are stopped",
    ["Requests that are stopped, though they go to a popular domain or below one, by ", code(report.popular.path), "."],
    table({
      caption: "Popular domains", isTitled: true, rows, sorted: 0, rises: true, leftOut: report.left_out.popular_domains,
      filter: { names: "domains", of: (row) => row.domain },
      columns: [
        { head: "Rank", of: (row) => row.rank },
        { head: "Domain", of: (row) => row.domain, show: (row) => code(row.domain) },
        { head: "Stopped", of: (row) => row.stopped },
        { head: "Stopped requests", kind: "wide", of: (row) => row.stopped, show: (row) => bar([[row.stopped, "block"]], largest) },
      ],
    }),
    examples(report.popular_examples) || null);
}

// -- answers ----------------------------------------------------------------------------------------------------------

function ofAnswers(name, called, title, text, rows, leftOut) {
  if (!rows.length) return;
  section(name, called, title, text,
    table({
      caption: title, isTitled: true, rows, sorted: 1, leftOut,
      columns: [
        { head: "Rule", of: (row) => row[0], show: (row) => code(row[0]) },
        { head: "Requests", of: (row) => row[1] },
      ],
    }));
}

function changes() {
  ofAnswers("changes", "Header fields", "Rules for heads that change header fields",
    "Of recorded requests that pass, or of their answers, as far as the record has these. Nothing is stopped by them.",
    report.changes, report.left_out.changes);
}

function doubts() {
  ofAnswers("doubts", "Not recorded", "Rules for files and heads that depend on what was not recorded",
    "Of these requests, the record does not have what a rule asks for, such as the body of an answer: they count as not stopped by it.",
    report.doubts, report.left_out.doubts);
}

// -- decryption -------------------------------------------------------------------------------------------------------

function decryption() {
  const every = report.decryption.https;
  if (!every) return;
  const rows = Object.entries(report.settings).map(([key, name]) => ({ name, key, ...report.decryption[key] }));
  const share = (head, name) => ({ head, of: (row) => row[name], show: (row) => `${percent(row[name], every[name])} (${number(row[name])})` });
  section("decryption", "Decryption", "What is decrypted",
    `Which of ${count(every.requests, "request")} by https to ${count(every.hosts, "host")} each setting of decrypt decrypts. A connection is counted for each host on each page. Decided otherwise: stopped, or not, because nobody looks inside.`,
    table({
      caption: "Settings", rows,
      columns: [
        { head: "Setting", of: (row) => row.name },
        share("Hosts", "hosts"),
        share("Connections", "connections"),
        share("Requests", "requests"),
        { head: "Decrypted requests", kind: "wide", of: (row) => row.requests, show: (row) => bar([[row.requests, "alone"]], every.requests) },
        { head: "Decided otherwise", of: (row) => (row.key === "page" ? "" : row.otherwise) },
      ],
    }));
}

// -- the rest ---------------------------------------------------------------------------------------------------------

function slowest() {
  const rows = report.slowest;
  if (!rows.length) return;
  const largest = most(rows, (row) => row.microseconds);
  section("slowest", "Slowest", "Slowest decisions", "How long the engine took; the first decisions of a run also read the index into memory.",
    table({
      caption: "Slowest decisions", isTitled: true, rows, sorted: 0,
      columns: [
        { head: "Microseconds", of: (row) => row.microseconds },
        { head: "Time", kind: "wide", of: (row) => row.microseconds, show: (row) => bar([[row.microseconds, "alone"]], largest) },
        { head: "URL", of: (row) => report.records_shown[row.record]?.url ?? "", show: (row) => explained(row.record) },
      ],
    }));
}

function broken() {
  const { count: all, first } = report.broken;
  const faults = Object.entries(report.faults).map(([why, requests]) => ({ why, requests }));
  if (!all && !faults.length) return;
  section("broken", "Broken", "Broken records", "What could not be read. It is counted and named, and the rest goes on.",
    table({
      caption: `Records that could not be read: ${first.length < all ? `the first ${number(first.length)} of ` : ""}${number(all)}`,
      rows: first,
      columns: [
        { head: "Source", of: (row) => row.source, show: (row) => code(listName(row.source)) },
        { head: "Record", of: (row) => row.number, show: (row) => (row.number ? number(row.number) : "the source as a whole") },
        { head: "Why", of: (row) => row.why },
      ],
    }),
    table({
      caption: "URLs that could not be decided", rows: faults, sorted: 1,
      columns: [{ head: "Why", of: (row) => row.why }, { head: "Requests", of: (row) => row.requests }],
    }));
}

function about() {
  const words = element("dl", { class: "words" }, Object.entries(HINTS).map(([word, text]) => element("div", {}, element("dt", {}, word), element("dd", {}, text))));
  section("about", "About", "What was audited, and by what",
    ["The policy ", code(report.policy.path), ", whose files together have the SHA-256 ", element("code", { class: "hash" }, report.policy.digest), "."],
    table({
      caption: "Sources", rows: report.sources, leftOut: report.left_out.sources,
      columns: [
        { head: "Source", of: (row) => row.source, show: (row) => code(listName(row.source)) },
        { head: "Format", of: (row) => row.format },
        { head: "Requests", of: (row) => row.records },
        { head: "Broken", of: (row) => row.broken },
        { head: "Skipped", hint: "that no proxy is asked for, such as data: URLs", of: (row) => row.skipped },
      ],
    }),
    table({
      caption: "Files that decide", rows: report.policy.lists,
      columns: [
        { head: "List", of: (row) => row.source, show: (row) => code(row.source) },
        { head: "SHA-256", of: (row) => row.digest, show: (row) => element("code", { class: "hash" }, row.digest) },
      ],
    }),
    element("h3", {}, "What the words mean"), words);
}

for (const part of [scope, figures, actions, breaks, parties, lists, overlaps, categories, rules, sites, popular, changes, doubts, decryption, unused, slowest, broken, about]) part();

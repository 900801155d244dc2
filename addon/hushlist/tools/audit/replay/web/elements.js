"use strict";

// Elements of the page. Whatever comes from the report goes in as text, never as markup.

const report = JSON.parse(document.getElementById("report").textContent);
const PAGE = 200; // rows that a table shows at first, and that a click adds

const whole = new Intl.NumberFormat("en");
const collator = new Intl.Collator("en", { numeric: true });

function number(value) {
  return value == null ? "" : whole.format(value);
}

function percent(value, of) {
  if (!of) return "0%";
  const share = (100 * value) / of;
  if (value && share < 0.05) return "<0.1%";
  if (value < of && share > 99.95) return ">99.9%";
  return `${share.toFixed(1)}%`;
}

// "1 request", "2 requests"
function count(value, singular, several = `${singular}s`) {
  return `${number(value)} ${value === 1 ? singular : several}`;
}

// Text that may come from a URL: what cannot be seen, or would turn around what is read, is shown as an escape. Python
// keeps an octet that is no UTF-8 as a lone surrogate from U+DC80 on.
function visible(text) {
  return String(text ?? "").replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Cn}\p{Co}\p{Zl}\p{Zp}]/gu, (sign) => {
    const code = sign.codePointAt(0);
    if (code < 0x80 || (code >= 0xdc80 && code <= 0xdcff)) return `\\x${(code & 0xff).toString(16).padStart(2, "0")}`;
    return `\\u{${code.toString(16)}}`;
  });
}

function fill(made, attributes, content) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(name, "");
    else if (value != null && value !== false) made.setAttribute(name, visible(value));
  }
  made.append(...content.flat().filter((part) => part != null).map((part) => (part instanceof Node ? part : visible(part))));
  return made;
}

function element(name, attributes = {}, ...content) {
  return fill(document.createElement(name), attributes, content);
}

function drawing(name, attributes = {}, ...content) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, content);
}

// Text that may be broken into lines behind what divides a path.
function breakable(text) {
  const parts = visible(text).split(/(?<=[/:?&_])/);
  return parts.flatMap((part, place) => (place ? [document.createElement("wbr"), part] : [part]));
}

function code(text) {
  return element("code", {}, breakable(text));
}

// A bar of parts, [[value, class], ...]; as wide as its place where they sum to `of`. The numbers stand beside it.
function bar(parts, of) {
  const svg = drawing("svg", { class: "bar", viewBox: "0 0 1000 10", preserveAspectRatio: "none", "aria-hidden": "true" });
  let x = 0;
  for (const [value, kind] of parts) {
    if (!(value > 0) || !of) continue;
    const width = Math.max(4, (1000 * value) / of);
    svg.append(drawing("rect", { x, y: 0, width, height: 10, class: kind }));
    x += width;
  }
  return svg;
}

function action(name) {
  return element("span", { class: `action ${name}` }, name);
}

// What opens the explanation of a record; only its address where it has none.
function explained(key, text) {
  const record = report.records_shown[key];
  if (!record) return text ?? "";
  return element("button", { type: "button", class: "explain", "data-record": key, "aria-haspopup": "dialog" }, breakable(short(text ?? record.url)));
}

function short(text) {
  const shown = visible(text);
  return shown.length > 160 ? `${shown.slice(0, 160)}…` : shown;
}

// A section with a heading, which is linked to by a shorter name at the top of the page.
function section(id, name, title, text, ...content) {
  const made = element("section", { id, "aria-labelledby": `${id}-title` });
  made.append(element("h2", { id: `${id}-title` }, title));
  if (text) made.append(element("p", { class: "about" }, ...[text].flat()));
  made.append(...content.filter((part) => part != null));
  document.getElementById("main").append(made);
  document.getElementById("contents").append(element("li", {}, element("a", { href: `#${id}` }, name)));
  return made;
}

// A table that is sorted by clicks on its heads, shows its first rows, and is filtered where `filter` names its rows.
// Columns: {head, hint, of: what a row is sorted by, show: what its cell has, kind: how that is laid out}; of kind "wide"
// is a bar, which is not sorted by.
class Table {
  constructor({ caption, isTitled = false, columns, rows, sorted = null, rises = false, filter = null, leftOut = 0 }) {
    Object.assign(this, { columns, rows, filter, leftOut, found: rows });
    this.order = { column: sorted, falls: !rises };
    this.numeric = columns.map((column) => rows.every((row) => typeof (column.of(row) ?? 0) === "number"));
    this.kinds = columns.map((column, place) => column.kind ?? (this.numeric[place] ? "numeric" : null));
    this.heads = columns.map((column, place) => this.head(column, place));
    this.body = element("tbody");
    const table = element("table", {}, element("caption", { class: isTitled && "hidden" }, caption), element("thead", {}, element("tr", {}, this.heads)), this.body);
    this.more = element("button", { type: "button", class: "more" });
    this.more.addEventListener("click", () => {
      const first = this.body.rows.length;
      this.show(first);
      (this.body.rows[first].querySelector("button") ?? scroll).focus({ preventScroll: true });
    });
    this.status = element("p", { class: "status", role: "status" });
    const scroll = element("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": caption }, table);
    this.whole = element("div", { class: "table" }, filter && this.field(), scroll, this.status, this.more);
    this.sort();
  }

  head(column, place) {
    const button = element("button", { type: "button", title: column.hint }, column.head);
    button.addEventListener("click", () => {
      const falls = this.order.column === place ? !this.order.falls : this.numeric[place];
      this.order = { column: place, falls };
      this.sort();
    });
    const kind = this.kinds[place];
    return element("th", { scope: "col", class: kind }, kind === "wide" ? column.head : button);
  }

  field() {
    const input = element("input", { type: "search", autocomplete: "off", spellcheck: "false" });
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      this.texts ??= new Map(this.rows.map((row) => [row, visible(this.filter.of(row)).toLowerCase()]));
      this.found = this.ordered.filter((row) => words.every((word) => this.texts.get(row).includes(word)));
      this.isFiltered = words.length > 0;
      this.show();
    });
    this.input = input;
    return element("label", { class: "filter" }, `Filter ${this.filter.names}`, input);
  }

  sort() {
    const { column, falls } = this.order;
    this.ordered = this.rows;
    if (column !== null) {
      const of = this.columns[column].of;
      const compare = this.numeric[column] ? (a, b) => (a ?? -1) - (b ?? -1) : (a, b) => collator.compare(a ?? "", b ?? "");
      this.ordered = [...this.rows].sort((a, b) => (falls ? compare(of(b), of(a)) : compare(of(a), of(b))));
    }
    this.heads.forEach((head, place) => {
      if (place === column) head.setAttribute("aria-sort", falls ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    if (this.isFiltered) {
      const fitting = new Set(this.found);
      this.found = this.ordered.filter((row) => fitting.has(row));
    } else this.found = this.ordered;
    this.show();
  }

  // Shows so many rows as before, and PAGE more.
  show(before = 0) {
    if (!before) this.body.replaceChildren();
    this.body.append(...this.found.slice(before, before + PAGE).map((row) => this.row(row)));
    const shown = this.body.rows.length;
    const rest = this.found.length - shown;
    this.more.hidden = !rest;
    this.more.textContent = `Show ${number(Math.min(PAGE, rest))} more`;
    const sentences = [];
    if (this.isFiltered) sentences.push(`${number(this.found.length)} of ${number(this.rows.length)} fit the filter`);
    if (rest) sentences.push(`the first ${number(shown)} of ${number(this.found.length)} are shown`);
    if (this.leftOut) sentences.push(`${number(this.leftOut)} more are left out of this page to keep it small; --json has them all`);
    this.status.textContent = sentences.length ? `${sentences.join("; ")}.` : "";
  }

  row(row) {
    const cells = this.columns.map((column, place) => {
      const value = column.show ? column.show(row) : this.numeric[place] ? number(column.of(row)) : column.of(row);
      const kind = this.kinds[place];
      return place ? element("td", { class: kind }, value) : element("th", { scope: "row", class: kind }, value);
    });
    return element("tr", {}, cells);
  }
}

function table(options) {
  return options.rows.length ? new Table(options).whole : null;
}

// Runs before every script of a page: time goes on by calls and not by clocks, random numbers are the same each time, and
// what fails, and who listens to what, is kept for the probe.
(() => {
  "use strict";
  const kept = { errors: [], listeners: [] };
  Object.defineProperty(window, "__hushlistVisit", { value: kept });

  const begun = %MOMENT%;
  let calls = 0;
  const now = () => begun + Math.floor(calls++ / 50) * 50;
  const RealDate = Date;
  window.Date = class Date extends RealDate {
    constructor(...parts) { if (parts.length) super(...parts); else super(now()); }
    static now() { return now(); }
  };
  let seed = 0x2545f491;
  const random = () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 4294967296;
  };
  Math.random = random;
  if (window.Crypto) {
    Crypto.prototype.getRandomValues = function (array) {
      const octets = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
      for (let place = 0; place < octets.length; place++) octets[place] = random() * 256;
      return array;
    };
    Crypto.prototype.randomUUID = () => "00000000-0000-4000-8000-000000000000".replace(/0/g, () => Math.floor(random() * 16).toString(16));
  }

  const script = () => {
    const places = (new Error().stack || "").match(/https?:[^\s)]+?(?=:\d+:\d+)/g) || [];
    return places.length ? places[places.length - 1].split("#")[0] : "";
  };
  const fail = (text, where) => { if (kept.errors.length < 200) kept.errors.push([String(text).slice(0, 300), where || ""]); };
  window.addEventListener("error", (event) => { if (event.message) fail(event.message, event.filename); }, true);
  window.addEventListener("unhandledrejection", (event) => fail(`unhandled: ${event.reason && event.reason.message || event.reason}`, ""));
  const listen = EventTarget.prototype.addEventListener;
  EventTarget.prototype.addEventListener = function (kind, ...rest) {
    if (/^(click|submit|change|input|keydown|pointerdown|mousedown)$/.test(kind) && this instanceof Element && kept.listeners.length < 5000) {
      kept.listeners.push([this, kind, script()]);
    }
    return listen.call(this, kind, ...rest);
  };
})();

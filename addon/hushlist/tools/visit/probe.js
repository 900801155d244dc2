// What a person sees of a page, for comparison with another visit of the same.
return (() => {
  "use strict";
  const kept = window.__hushlistVisit || { errors: [], listeners: [] };
  const [width, height] = [innerWidth, innerHeight];
  const CONSENT = /cookie|consent|datenschutz|einwillig|privacidad|confidentialit|gdpr|privacy/i;
  const BLOCKER = new RegExp([
    "ad.?block", "(disable|turn off|pause|switch off|whitelist).{0,40}(block|ads?\\b)", "werbeblocker", "adblocker", "bloqueur.{0,6} de pub",
    "bloqueador de (anuncios|publicidad)", "blocco.{0,12}pubblicit", "allow ads", "we noticed.{0,60}block", "annonsblock", "reklam engelley", "広告ブロック", "блокировщик",
  ].join("|"), "i");
  const SPINNER = /(^|[-_\s])(spin(ner|ning)?|loader|loading|preload(er)?|skeleton|progress|wait(ing)?|throbber)([-_\s]|$)/i;
  const AD = /(^|[-_\s])(ad|ads|adv|advert\w*|adslot|banner|sponsor\w*|promo\w*|outbrain|taboola|recirc|commercial|werbung|anzeige\w*|dfp|gpt)([-_\s\d]|$)/i;
  const SIZES = [[300, 250], [728, 90], [160, 600], [970, 250], [320, 50], [336, 280], [300, 600], [970, 90], [468, 60], [120, 600], [320, 100], [250, 250], [200, 200], [234, 60]];

  const names = (element) => `${element.id || ""} ${typeof element.className === "string" ? element.className : ""} ${element.getAttribute("role") || ""}`;
  const box = (element) => { const r = element.getBoundingClientRect(); return [Math.round(r.left + scrollX), Math.round(r.top + scrollY), Math.round(r.width), Math.round(r.height)]; };
  const seen = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true, contentVisibilityAuto: true });
  const isAd = (element) => {
    for (let up = element, depth = 0; up && up !== document.body && depth < 6; up = up.parentElement, depth++) if (AD.test(names(up))) return true;
    const [, , w, h] = box(element);
    return SIZES.some(([x, y]) => Math.abs(w - x) <= 2 && Math.abs(h - y) <= 2);
  };
  const path = (element) => {
    const parts = [];
    for (let up = element; up && up !== document.documentElement && parts.length < 12; up = up.parentElement) {
      if (up.id) { parts.unshift(`#${up.id}`); break; }
      const alike = up.parentElement ? [...up.parentElement.children].filter((other) => other.tagName === up.tagName) : [up];
      parts.unshift(`${up.tagName.toLowerCase()}${alike.length > 1 ? `:nth-of-type(${alike.indexOf(up) + 1})` : ""}`);
    }
    return parts.join(">");
  };
  const cookies = () => { try { return document.cookie ? document.cookie.split(";").length : 0; } catch { return 0; } };
  const host = (address) => { try { return new URL(address, location.href).hostname; } catch { return ""; } };

  const main = document.querySelector("main, [role=main], article, #content, #main") || document.body;
  const words = {};
  const content = {};
  const boxes = {};
  const controls = {};
  const pictures = {};
  const videos = {};
  const forms = {};
  const frames = {};
  const spinners = [];
  const notices = [];
  const dialogs = [];
  let screen = 0;

  const walk = document.createTreeWalker(document.body || document.documentElement, NodeFilter.SHOW_TEXT);
  let texts = 0;
  for (let node = walk.nextNode(); node && texts < 20000; node = walk.nextNode()) {
    const parent = node.parentElement;
    if (!parent || /^(SCRIPT|STYLE|NOSCRIPT|TEMPLATE|OPTION)$/.test(parent.tagName) || !node.data.trim() || !seen(parent)) continue;
    texts++;
    const range = document.createRange();
    range.selectNodeContents(node);
    const r = range.getBoundingClientRect();
    if (!r.width || !r.height) continue;
    const ad = isAd(parent);
    if (!ad) screen += covered(r);
    for (const word of node.data.toLowerCase().match(/[\p{L}\p{N}]+/gu) || []) {
      words[word] = (words[word] || 0) + 1;
      if (!ad && main.contains(parent)) content[word] = (content[word] || 0) + 1;
    }
  }
  function covered(r) {
    const w = Math.min(r.right, width) - Math.max(r.left, 0), h = Math.min(r.bottom, height) - Math.max(r.top, 0);
    return w > 0 && h > 0 ? w * h : 0;
  }

  let count = 0;
  for (const element of document.body ? document.body.querySelectorAll("*") : []) {
    if (++count > 20000) break;
    const tag = element.tagName;
    const style = getComputedStyle(element);
    const isSeen = seen(element);
    const where = box(element);
    const label = names(element);
    if (!isSeen) continue;
    if (/^(H1|H2|H3|P|NAV|MAIN|ARTICLE|SECTION|HEADER|FOOTER|ASIDE|UL|OL|TABLE|FORM|BUTTON|INPUT|A|FIGURE)$/.test(tag) && where[2] && where[3] && !isAd(element) && Object.keys(boxes).length < 3000) {
      boxes[path(element)] = [...where, [style.display, style.float, style.fontFamily, style.fontSize, style.color, style.backgroundColor, style.padding, style.borderTopWidth].join("|")];
    }
    if (/^(IMG)$/.test(tag) && where[2] >= 40 && where[3] >= 40) {
      const address = element.currentSrc || element.src;
      pictures[path(element)] = { address, there: element.complete && element.naturalWidth > 1, ad: isAd(element), area: where[2] * where[3] };
      if (element.naturalWidth > 1 && !isAd(element)) screen += covered(element.getBoundingClientRect());
    } else if (/^(VIDEO|AUDIO)$/.test(tag) && (tag === "AUDIO" || where[2] >= 120)) {
      videos[path(element)] = { address: element.currentSrc, there: element.readyState >= 1 && !element.error, ad: isAd(element), moves: element.currentTime > 0 };
      screen += covered(element.getBoundingClientRect());
    } else if (/^(CANVAS|SVG|OBJECT|EMBED)$/i.test(tag) && where[2] >= 40) {
      if (!isAd(element)) screen += covered(element.getBoundingClientRect());
    } else if (tag === "IFRAME" && where[2] > 10 && where[3] > 10) {
      frames[path(element)] = { address: element.src, ad: isAd(element), area: where[2] * where[3] };
      if (!isAd(element)) screen += covered(element.getBoundingClientRect());
    } else if (tag === "FORM") {
      const inputs = [...element.elements].filter((field) => field.type !== "hidden" && seen(field));
      forms[path(element)] = { inputs: inputs.length, secret: inputs.some((field) => field.type === "password"), address: element.action, ad: isAd(element), text: label + " " + (element.innerText || "").slice(0, 200) };
    }
    if (/^(BUTTON|INPUT|SELECT|TEXTAREA|SUMMARY)$/.test(tag) || /button|tab|menuitem|switch/.test(element.getAttribute("role") || "")) {
      if (!isAd(element)) controls[path(element)] = { kind: tag, disabled: !!element.disabled };
    }
    if ((SPINNER.test(label) || element.getAttribute("aria-busy") === "true") && !isAd(element) && where[2] && where[3]) {
      spinners.push([path(element), where[2] * where[3]]);
    }
    if (/^(fixed|absolute|sticky)$/.test(style.position) && where[2] * where[3] > width * height * 0.02 && where[2] && element.offsetParent !== undefined) {
      const text = (element.innerText || "").slice(0, 1000);
      const share = covered(element.getBoundingClientRect()) / (width * height);
      if (share > 0.02) dialogs.push({ path: path(element), share, consent: CONSENT.test(text) && !!element.querySelector("button, a, [role=button], input"), text: text.slice(0, 200), blocker: BLOCKER.test(text) });
    }
    if (element.children.length === 0 || [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) {
      const text = [...element.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data).join(" ").trim();
      if (text.length > 8 && BLOCKER.test(text)) notices.push(text.slice(0, 200));
    }
  }
  const listeners = [];
  for (const [target, kind, script] of kept.listeners) {
    if (target.isConnected) listeners.push([path(target), kind, script]);
  }
  const overflow = [document.body, document.documentElement].some((element) => element && /hidden|clip/.test(getComputedStyle(element).overflowY));
  const styles = [...document.styleSheets].map((sheet) => sheet.href).filter(Boolean);
  const timing = performance.getEntriesByType("navigation")[0];
  return {
    title: document.title, address: location.href, width, height, long: document.documentElement.scrollHeight,
    words, content, boxes, controls, pictures, videos, forms, frames, spinners, notices, dialogs, listeners, styles,
    errors: kept.errors, screen: Math.min(1, screen / (width * height)), locked: overflow,
    seconds: timing ? (timing.loadEventEnd || timing.domContentLoadedEventEnd) / 1000 : 0,
    links: [...document.links].slice(0, 2000).map((link) => link.href), host: host(location.href),
    cookies: cookies(),
  };
})();

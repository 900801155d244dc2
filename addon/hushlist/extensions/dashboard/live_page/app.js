// The page: who is signed in, which screen an address names, and what stays above all screens.
import {activity, explain, history} from "./activity.js";
import {home, people, person} from "./home.js";
import {ago, byId, call, dismiss, forgetNames, learnNames, make, nameOf, pair, personAt, query, refill, session, t, tell, whole} from "./kit.js";
import {alerts, devices, lists, more, record, rules, services, system} from "./manage.js";
import {classes, lesson} from "./lesson.js";
import {settings} from "./settings.js";

/** The screens, by the first part of their addresses; those that show now are drawn again from time to time, in ms. */
const SCREENS = {
  "": [home, 8000], people: [people, 15000], class: [lesson, 15000], activity: [activity], history: [history], explain: [explain], rules: [rules],
  alerts: [alerts, 15000], lists: [lists], devices: [devices, 30000], system: [system, 10000], record: [record], settings: [settings], services: [services], more: [more],
};
/** Those of whoever sees the clients of some groups alone: to them, the interface gives nothing else. */
const SCREENS_OF_GROUPS = {"": [classes, 15000], class: [lesson, 15000], activity: [activity], record: [record]};
const screens = () => (session.groups ? SCREENS_OF_GROUPS : SCREENS);
/** Which part of the navigation a screen belongs to. */
const UNDER = {class: "people", history: "activity", explain: "activity", alerts: "more", lists: "more", devices: "more", system: "more", record: "more", services: "more", settings: "more"};

let shown = null; // what the screen that is shown has to leave
let turn = 0;

function route() {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [name, ...rest] = path.split("/");
  return {name: name in screens() ? name : "", rest: decodeURIComponent(rest.join("/")), values: new URLSearchParams(search)};
}

/** Draw the screen that the address names; again where it is drawn already: then what has the focus keeps it.
 * `mayWait`: not where somebody began something while the screen's figures were on their way. */
async function show(isAgain = false, mayWait = false) {
  const mine = ++turn;
  if (session.needed && !session.name) return;
  const {name, rest, values} = route();
  const [screen] = name === "people" && rest ? [() => person(rest, values)] : screens()[name];
  let answer;
  try {
    await learnNames();
    answer = await screen(rest, values);
  } catch (error) {
    if (mine === turn) answer = {title: t("went_wrong_here"), parts: [make("p", {class: "alert"}, error.said ?? error.message)]};
  }
  if (mine !== turn || !answer || mayWait && isBusy()) return answer?.leave?.();
  shown?.leave?.();
  shown = answer;
  byId("title").textContent = answer.title;
  document.title = `${answer.title} · Hushlist`;
  const open = isAgain ? [...byId("screen").querySelectorAll("details")].map((item) => item.open) : [];
  refill(byId("screen"), ...answer.parts);
  [...byId("screen").querySelectorAll("details")].forEach((item, place) => { item.open = open[place] ?? false; });
  if (answer.state) showState(answer.state);
  for (const item of document.querySelectorAll("#nav a")) {
    const screenName = item.getAttribute("href").slice(2);
    if (screenName === name || (screenName === UNDER[name] && item.dataset.small === "")) item.setAttribute("aria-current", "page");
    else item.removeAttribute("aria-current");
  }
  if (!isAgain) {
    scrollTo(0, 0);
    if (document.activeElement !== byId("q")) byId("title").focus({preventScroll: true}); // somebody types there already
  }
}

/** The state of the filter in words. */
function showState(state) {
  const key = {block: "filtering_on", tag: "filtering_dry", off: "filtering_off"}[state.mode];
  const parts = [pair(t("rules"), whole.format(state.rules)), state.checked && t("lists_checked", {when: ago(state.checked)}), state.clients !== "keep" && t(`clients_${state.clients}`)];
  const place = byId("state");
  place.className = state.mode === "block" && !state.troubles.length ? "good" : "odd";
  const said = [t(key), ...parts.filter(Boolean)].join(" · ");
  if (place.textContent !== said) place.textContent = said;
  byId("waits").textContent = state.requests.length ? whole.format(state.requests.length) : "";
}

/** Look for what was typed: the number of a block page, a person, or a site. */
async function search(event) {
  event.preventDefault();
  const typed = event.target.elements.q.value.trim();
  if (!typed) return;
  event.target.elements.q.blur(); // the screen that it leads to gets the focus
  const {people: all} = await call("GET", "/people").catch(() => ({people: []}));
  const named = all.find((item) => nameOf(`group:${item.name}`).toLowerCase() === typed.toLowerCase());
  const isAddress = /^([0-9]+\.){3}[0-9]+$/.test(typed) || /^[0-9a-f]*:[0-9a-f:]+$/i.test(typed);
  if (named) location.hash = personAt(`group:${named.name}`);
  else if (isAddress) location.hash = personAt(typed);
  else if (/^[0-9A-Z]{10}$/i.test(typed)) location.hash = `#/activity?${query({reference: typed.toUpperCase()})}`;
  else location.hash = `#/activity?${query({host: typed.replace(/^[a-z]+:\/\//i, "").split(/[/?#]/, 1)[0]})}`;
  event.target.reset();
}

// -- who is signed in ---------------------------------------------------------------------------------------------------

function showSession() {
  const isLocked = session.needed && !session.name;
  byId("sign-in").hidden = !isLocked;
  byId("sign-in-form").hidden = !session.possible;
  byId("not-here").hidden = session.possible;
  for (const id of ["screen", "nav", "search"]) byId(id).hidden = isLocked || id === "search" && Boolean(session.groups);
  for (const item of document.querySelectorAll("#nav a")) {
    item.hidden = !(item.getAttribute("href").slice(2) in screens());
    if (session.groups) item.classList.remove("wide-only");
  }
  byId("sign-out").hidden = !session.name;
  byId("footer").textContent = [session.name ? `${session.name} (${session.groups?.join(", ") ?? t(`role_${session.role}`)})` : "", t(session.needed ? "is_recorded" : "only_shows")].filter(Boolean).join(" · ");
  document.body.dataset.role = session.role ?? "";
  if (isLocked) {
    byId("title").textContent = t("sign_in");
    byId("state").textContent = t("signed_out");
    document.querySelector("dialog")?.close();
    byId("screen").replaceChildren();
  }
}

/** What somebody else had in this window is theirs. */
function take(answer) {
  forgetNames();
  Object.assign(session, {groups: undefined}, answer);
}

async function learn() {
  try {
    take(await call("GET", "/session"));
  } catch (error) {
    return tell(error.message, true);
  }
  showSession();
  return show();
}

/** Where something is refused, the policy may have limited whoever is signed in: then the page is theirs anew. */
async function learnAgain() {
  const answer = await call("GET", "/session").catch(() => session);
  if (String(answer.groups) === String(session.groups) && answer.role === session.role) return;
  take(answer);
  showSession();
  await show();
}

async function signIn(event) {
  event.preventDefault();
  const {name, passphrase} = event.target.elements;
  const alert = byId("sign-in-alert");
  alert.hidden = true;
  try {
    take(await call("POST", "/session", {name: name.value.trim(), passphrase: passphrase.value}));
    event.target.reset();
    showSession();
    await show();
  } catch (error) {
    alert.textContent = error.message;
    alert.hidden = false;
    passphrase.value = "";
    passphrase.focus();
  }
}

document.addEventListener("refused", learnAgain);
byId("sign-in-form").addEventListener("submit", signIn);
byId("sign-out").addEventListener("click", async () => {
  try {
    await call("DELETE", "/session");
    location.reload(); // nothing that was shown stays
  } catch (error) {
    tell(error.message, true);
  }
});
byId("search").addEventListener("submit", search);
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("title").focus();
});
byId("message").addEventListener("keydown", ({key}) => { if (key === "Escape") dismiss(); });
addEventListener("hashchange", () => {
  document.querySelector("dialog")?.close();
  tell(""); // it was of the screen before
  show();
});
document.addEventListener("locked", learn);
document.addEventListener("done", () => {
  forgetNames();
  if (!shown?.leave) show(true); // a feed goes on by itself
});

/** Whether somebody is in the middle of something, which drawing anew would take away. */
let isPressed = false; // a button that goes away between press and release is never clicked
addEventListener("pointerdown", () => { isPressed = true; }, true);
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => setTimeout(() => { isPressed = false; }), true);
const isBusy = () => isPressed || document.hidden || document.querySelector("dialog") || byId("screen").querySelector("input:focus, select:focus, textarea:focus") || getSelection().type === "Range";
let drawn = Date.now();
setInterval(() => {
  const [, every] = screens()[route().name];
  if (!every || isBusy() || Date.now() - drawn < every) return;
  drawn = Date.now();
  show(true, true);
}, 1000);
learn();

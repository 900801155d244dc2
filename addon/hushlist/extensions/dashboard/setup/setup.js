// A request over https to the page's own host shows whether this browser accepts the certificate; and addresses are copied.
"use strict";
const place = document.getElementById("test");
const say = (is) => {
  place.className = is ? "good" : "bad";
  place.textContent = is ? place.dataset.good : place.dataset.bad;
  document.getElementById("trusted").hidden = !is;
  document.getElementById("help").hidden = is;
};
if (place) fetch(place.dataset.url, {cache: "no-store", credentials: "omit"}).then((answer) => say(answer.ok), () => say(false));
for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    // without https, a page has no clipboard of its own: it can copy what is selected
    const field = document.createElement("textarea");
    field.value = button.dataset.copy;
    button.after(field);
    field.select();
    if (document.execCommand("copy")) button.textContent = button.dataset.done;
    field.remove();
    button.focus();
  });
}

// A request over https to the page's own host shows whether this browser accepts the certificate.
"use strict";
const place = document.getElementById("test");
const say = (is) => {
  place.className = is ? "good" : "bad";
  place.textContent = is ? place.dataset.good : place.dataset.bad;
};
fetch(place.dataset.url, {cache: "no-store", credentials: "omit"}).then((answer) => say(answer.ok), () => say(false));

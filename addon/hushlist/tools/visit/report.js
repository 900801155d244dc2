"use strict";
for (const figure of document.querySelectorAll("figure.compare")) {
  const [range, differs] = figure.querySelectorAll("input");
  const shots = figure.querySelector(".shots");
  const shown = shots.querySelector(".with");
  range.addEventListener("input", () => { shown.style.clipPath = `inset(0 0 0 ${100 - range.value}%)`; });
  differs.addEventListener("change", () => { shots.classList.toggle("differs", differs.checked); shown.style.clipPath = ""; });
}

"use strict";
for (const figure of document.querySelectorAll("figure.compare")) {
  const [range, differs] = figure.querySelectorAll("input");
  const shots = figure.querySelector(".shots");
  const shown = shots.querySelector(".with");
  const cut = () => { shown.style.clipPath = differs.checked ? "" : `inset(0 0 0 ${100 - range.value}%)`; };
  range.addEventListener("input", cut);
  differs.addEventListener("change", () => { shots.classList.toggle("differs", differs.checked); cut(); });
}

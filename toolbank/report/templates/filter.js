"use strict";
for (const box of document.querySelectorAll("input[data-filters]")) {
  const rows = document.querySelectorAll("#" + box.dataset.filters + " [data-text]");
  const told = document.getElementById(box.dataset.filters + "-count");
  box.addEventListener("input", () => {
    const words = box.value.toLowerCase().split(/\s+/);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    told.textContent = shown + " shown";
  });
}

"use strict";
// Starts the parts of the page, and connects them.

const data = JSON.parse(document.getElementById("data").textContent);
const timeline = data.timeline ? new Timeline(data) : null;
const tree = new Tree(data);
tree.onChoose = (keys) => timeline?.choose(keys);
if (timeline) timeline.onOpen = (key) => tree.open(key);
tree.start();

for (const button of document.querySelectorAll("button[data-key]")) {
  button.addEventListener("click", () => tree.open(data.keys.indexOf(button.dataset.key)));
}

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});

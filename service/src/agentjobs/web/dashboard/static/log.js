// The log of a job: follows it, searches it, and links to its lines.
import { announce, follow } from "./dashboard.js";

const maxLines = 5000;
const box = document.getElementById("log");
const lines = box.querySelector("[data-log-lines]");
const rest = box.querySelector("[data-log-rest]");
const tool = (name) => document.getElementById(`log-${name}`);
const following = tool("follow");
const failure = /\b(error|exception|traceback|panic|fatal|failed|failure)\b/i;

// Numbers count from the first line that is shown.
let first = Number(box.dataset.firstLine);
const sheet = new CSSStyleSheet();
document.adoptedStyleSheets = [sheet];
const count = () => sheet.replaceSync(`#log { counter-reset: line ${first - 1}; }`);
const scrollToEnd = () => {
  if (following?.checked) box.scrollTop = box.scrollHeight;
};
const show = (line) => {
  if (following) following.checked = false;
  box.querySelector(".line.current")?.classList.remove("current");
  line.classList.add("current");
  line.scrollIntoView({ block: "center" });
};

const search = {
  hits: [],
  at: -1,
  update() {
    const query = tool("search").value.trim().toLowerCase();
    for (const line of box.querySelectorAll(".hit")) line.classList.remove("hit");
    this.hits = query ? [...lines.children].filter((line) => line.textContent.toLowerCase().includes(query)) : [];
    for (const line of this.hits) line.classList.add("hit");
    this.at = Math.min(this.at, this.hits.length - 1);
    this.tell();
  },
  tell() {
    const total = this.hits.length;
    tool("match-count").textContent = !tool("search").value.trim() ? "" : total ? `${this.at + 1} of ${total}` : "No matches";
  },
  move(step) {
    if (!this.hits.length) return;
    this.at = (this.at + step + this.hits.length) % this.hits.length;
    show(this.hits[this.at]);
    this.tell();
  },
};

// The server sends a time with the first of its lines only.
const stamp = () => {
  let at;
  for (const line of box.querySelectorAll(".line")) at = line.dataset.at ??= at;
};

const showLinked = () => {
  const number = Number(/^#L(\d+)$/.exec(location.hash)?.[1]);
  if (!number) return;
  const line = lines.children[number - first];
  if (line) show(line);
  else announce(`Line ${number} is not shown here; download the full log.`);
};

count();
stamp();
scrollToEnd();
showLinked();
addEventListener("hashchange", showLinked);
following?.addEventListener("change", scrollToEnd);
box.addEventListener("wheel", (move) => {
  if (move.deltaY < 0 && following) following.checked = false;
}, { passive: true });
// A click on the number of a line links to it.
box.addEventListener("click", ({ target, clientX }) => {
  const line = target.closest(".line");
  if (!line || clientX - line.getBoundingClientRect().left > Number.parseFloat(getComputedStyle(line).paddingLeft)) return;
  location.hash = `L${first + [...lines.children].indexOf(line)}`;
});
// How the log is shown is kept in this browser.
for (const name of ["wrap", "times"]) {
  const choice = tool(name);
  const apply = () => box.classList.toggle(name, choice.checked);
  choice.checked = (localStorage.getItem(choice.id) ?? `${choice.checked}`) === "true";
  choice.addEventListener("change", () => {
    localStorage.setItem(choice.id, choice.checked);
    apply();
  });
  apply();
}
tool("first-error").addEventListener("click", () => {
  const line = [...lines.children].find((candidate) => failure.test(candidate.textContent));
  if (line) show(line);
  else announce("No line looks like an error.");
});
tool("search").addEventListener("input", () => {
  search.at = -1;
  search.update();
  search.move(1);
});
tool("search").form.addEventListener("submit", (sent) => {
  sent.preventDefault();
  search.move(1);
});
for (const button of document.querySelectorAll("[data-search-step]")) {
  button.addEventListener("click", () => search.move(Number(button.dataset.searchStep)));
}

let after = box.dataset.after;
if (box.dataset.log) {
  follow(() => `${box.dataset.log}?after=${after}`, {
    lines: ({ html, rest: unfinished, after: sequence }) => {
      const template = document.createElement("template");
      template.innerHTML = html;
      lines.append(template.content);
      rest.innerHTML = unfinished;
      after = sequence;
      for (; lines.childElementCount > maxLines; first += 1) lines.firstElementChild.remove();
      count();
      stamp();
      tool("empty")?.remove();
      search.update();
      scrollToEnd();
    },
  });
}

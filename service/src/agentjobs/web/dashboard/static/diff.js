// Changed files: folds them, moves between them, links to their lines, and marks them as viewed.
import { shortcuts } from "./dashboard.js";

const files = [...document.querySelectorAll(".file")];
const move = (step) => {
  const others = files.filter((file) => step * (file.getBoundingClientRect().top - 8) > 2);
  const file = others.at(step > 0 ? 0 : -1);
  file?.scrollIntoView();
  file?.querySelector("summary").focus({ preventScroll: true });
};
shortcuts.n = () => move(1);
shortcuts.p = () => move(-1);

addEventListener("click", ({ target }) => {
  if (target.matches("[data-fold]")) {
    const isOpen = files.some((file) => file.open);
    // Files that are not on the page yet are fetched, not too many at once.
    files.forEach((file, index) => (file.open = !isOpen && (index < 50 || !file.dataset.lazy)));
    target.textContent = isOpen ? "Expand all" : "Collapse all";
  } else if (target.matches(".diff td[id]")) {
    const y = scrollY;
    location.hash = target.id;
    scrollTo(0, y);
  }
});

addEventListener("submit", async (sent) => {
  const { target: form, submitter: button } = sent;
  if (form.id !== "marks") return;
  sent.preventDefault();
  const isViewed = button.value === "yes";
  const body = new URLSearchParams(new FormData(form, button));
  const response = await fetch(button.formAction, { method: "POST", body, headers: { "X-Part": "1" } });
  if (!response.ok || response.redirected) return location.reload();
  form.csrf.value = await response.text();
  button.value = isViewed ? "no" : "yes";
  button.ariaPressed = isViewed;
  button.disabled = false;
  button.nextElementSibling.open = !isViewed;
  const count = document.querySelectorAll("[aria-pressed=true]").length;
  form.querySelector("output").value = form.querySelector("meter").value = count;
});

// A line of a file that is not on the page yet.
const reveal = () => {
  const { hash } = location;
  const file = document.getElementById(hash.slice(1, 16));
  if (!file?.dataset.lazy || file.querySelector(hash)) return;
  new MutationObserver(() => location.replace(hash)).observe(file.lastElementChild, { childList: true });
  file.open = true;
};
addEventListener("hashchange", reveal);
reveal();

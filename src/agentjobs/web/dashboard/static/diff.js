// Changed files: folds them, moves between them, and links to their lines.
const files = [...document.querySelectorAll(".file")];

document.addEventListener("click", ({ target }) => {
  if (target.matches("[data-fold]")) {
    const isOpen = files.some((file) => file.open);
    // Files that are not on the page yet are fetched.
    let left = 20;
    for (const file of files) file.open = !isOpen && (!file.dataset.lazy || left-- > 0);
    target.textContent = isOpen ? "Expand all" : "Collapse all";
  } else if (target.matches(".diff td[id]")) {
    const y = scrollY;
    location.hash = target.id;
    scrollTo(0, y);
  }
});

document.addEventListener("keydown", (key) => {
  const step = { n: 1, p: -1 }[key.key];
  if (!step || key.ctrlKey || key.metaKey || key.altKey || key.target.matches("input, textarea, select")) return;
  const tops = files.map((file) => file.getBoundingClientRect().top);
  const file = files[step > 0 ? tops.findIndex((top) => top > 10) : tops.findLastIndex((top) => top < 6)];
  file?.scrollIntoView();
  file?.querySelector("summary").focus({ preventScroll: true });
});

// A line of a file that is not on the page yet.
const reveal = () => {
  const { hash } = location;
  const file = document.getElementById(hash.slice(1, 16));
  if (!file?.dataset.lazy || document.getElementById(hash.slice(1))) return;
  new MutationObserver(() => location.replace(hash)).observe(file.lastElementChild, { childList: true });
  file.open = true;
};
addEventListener("hashchange", reveal);
reveal();

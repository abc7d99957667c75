// Opens the form for a comment below the line whose number is clicked.
document.addEventListener("click", async ({ target }) => {
  if (!target.matches(".diff td[id]")) return;
  const url = `${location.pathname}?comment=${target.id.slice(5)}`;
  const response = await fetch(url, { headers: { "X-Part": "1" } });
  if (!response.ok) return;
  document.getElementById("line-comment")?.closest("tr")?.remove();
  const row = target.closest("tr");
  row.insertAdjacentHTML("afterend", await response.text());
  row.nextElementSibling.querySelector("textarea").focus();
});

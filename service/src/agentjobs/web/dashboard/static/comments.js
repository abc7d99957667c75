// Opens the form of a comment below the line whose number is clicked.
addEventListener("click", async ({ target }) => {
  if (target.matches("[data-cancel]")) target.closest("tr, form").remove();
  if (!target.matches(".diff td[id]")) return;
  const form = await fetch(`?comment=${target.id.slice(5)}`, { headers: { "X-Part": 1 } });
  if (form.status === 401) return location.reload();
  if (!form.ok) return;
  // What was written moves to the other line.
  const text = document.getElementById("line-body")?.value ?? "";
  document.querySelector("tr:has(#line-comment)")?.remove();
  target.parentNode.insertAdjacentHTML("afterend", await form.text());
  const field = document.getElementById("line-body");
  field.value = text;
  field.focus();
});

// Live updates. Every page works without this script. It stores the viewer's time zone, in a cookie, and which filter was changed.

const announcements = document.getElementById("announcements");
const announce = (text) => {
  announcements.textContent = text;
  clearTimeout(announcements.timer);
  announcements.timer = setTimeout(() => announcements.replaceChildren(), 6000);
};

// The server shows times, filters and plots in the viewer's time zone from the next page on.
const page = document.documentElement.dataset;
const browserZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (browserZone && browserZone !== page.zone) {
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `${page.zoneCookie}=${browserZone}; path=/; max-age=31536000; samesite=lax${secure}`;
}

// Durations that still grow, formatted as the server formats them.
const units = [[86_400, "d"], [3_600, "h"], [60, "min"], [1, "s"]];
const duration = (seconds) => {
  const at = Math.max(units.findIndex(([size]) => seconds >= size), 0);
  if (seconds < 60) return `${seconds} s`;
  const [[size, unit], [smaller, name]] = units.slice(at, at + 2);
  const rest = Math.floor((seconds % size) / smaller);
  return `${Math.floor(seconds / size)} ${unit}${rest ? ` ${rest} ${name}` : ""}`;
};
const countUp = (root) => {
  for (const timer of root.querySelectorAll("[data-elapsed]")) {
    timer.startedAt ??= performance.now() - Number(timer.dataset.elapsed);
    const text = duration(Math.floor((performance.now() - timer.startedAt) / 1000));
    if (timer.textContent !== text) timer.textContent = text;
  }
};

// How long ago, or until when, as the server says it. Dates of more than a month ago stay as they are.
const distance = (seconds) => {
  const size = Math.abs(seconds);
  if (size < 60) return seconds <= 0 ? "just now" : "in a moment";
  const [unit, name] = units.find(([unitSize]) => size >= unitSize);
  const amount = `${Math.floor(size / unit)} ${name}`;
  return seconds <= 0 ? `${amount} ago` : `in ${amount}`;
};
const tellTime = (root) => {
  for (const moment of root.querySelectorAll("[data-moment]")) {
    const seconds = (Date.parse(moment.dateTime) - Date.now()) / 1000;
    const text = distance(seconds < 0 ? Math.ceil(seconds) : Math.floor(seconds));
    if (Math.abs(seconds) < 2_592_000 && moment.textContent !== text) moment.textContent = text;
  }
};
const tick = (root) => {
  countUp(root);
  tellTime(root);
};
setInterval(() => tick(document), 1000);

// Buttons that copy the text of another element, or of the one before them.
const copy = async (button) => {
  const source = document.getElementById(button.dataset.copy) ?? button.previousElementSibling;
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(source.dataset.full ?? source.textContent);
    button.classList.add("copied");
    if (before) button.textContent = "Copied";
    announce("Copied.");
  } catch {
    getSelection().selectAllChildren(source);
    announce("Selected. Copy it with the keyboard.");
  }
  setTimeout(() => {
    button.textContent = before;
    button.classList.remove("copied");
  }, 2000);
};

// The title and the icon of the tab tell the state, which live updates change.
const showState = (root) => {
  for (const { dataset } of root.querySelectorAll("[data-title]")) {
    document.title = dataset.title;
    if (dataset.icon) document.querySelector("link[rel=icon]").href = dataset.icon;
  }
};

const addressOf = (element) =>
  element.id ? `#${CSS.escape(element.id)}` : element.href ? `a[href="${CSS.escape(element.getAttribute("href"))}"]` : "";

// Replaces a part of the page with the server's update. An unchanged part stays untouched, so that
// focus and selection survive.
const swap = ({ id, html }) => {
  const element = document.getElementById(id);
  if (!element) return;
  const replacement = element.cloneNode(false);
  replacement.innerHTML = html;
  // Details that the viewer opened stay open, and selected rows stay selected.
  for (const open of element.querySelectorAll("details[open][id]")) {
    replacement.querySelector(`#${CSS.escape(open.id)}`)?.setAttribute("open", "");
  }
  for (const { name, value } of element.querySelectorAll("input:checked")) {
    const box = replacement.querySelector(`input[name="${CSS.escape(name)}"][value="${CSS.escape(value)}"]`);
    if (box) box.checked = true;
  }
  prepare(replacement);
  tick(element);
  if (replacement.isEqualNode(element)) return;
  const focused = element.contains(document.activeElement) ? addressOf(document.activeElement) : "";
  element.replaceChildren(...replacement.childNodes);
  if (focused) element.querySelector(focused)?.focus({ preventScroll: true });
  showSelection();
};

// Shows that live updates are interrupted, without moving the rest of the page.
const showConnectionState = (isLive) => {
  let line = document.getElementById("connection");
  if (!line) {
    if (isLive) return;
    line = document.createElement("p");
    line.id = "connection";
    line.className = "toast";
    line.setAttribute("role", "status");
    document.body.append(line);
  }
  line.hidden = isLive;
  line.textContent = isLive ? "" : "Live updates are interrupted. Reconnecting; reload the page if this does not help.";
};

// A stream is open only while its page is visible: browsers limit the connections to a host.
const follow = (address, handlers) => {
  let source = null;
  let hasEnded = false;
  let failures = 0;
  let timer = 0;
  const stop = () => {
    clearTimeout(timer);
    source?.close();
    source = null;
  };
  const reconnect = () => {
    // The browser would give up after an error response, and would request the same part again.
    stop();
    if (hasEnded) return;
    failures += 1;
    if (failures > 1) showConnectionState(false);
    timer = setTimeout(start, Math.min(500 * 2 ** failures, 30_000));
  };
  const start = () => {
    if (source || hasEnded || document.hidden) return;
    source = new EventSource(address());
    source.addEventListener("error", reconnect);
    source.addEventListener("open", () => {
      failures = 0;
      showConnectionState(true);
    });
    for (const [name, handle] of Object.entries(handlers)) {
      source.addEventListener(name, (message) => handle(JSON.parse(message.data), message));
    }
    source.addEventListener("end", () => {
      hasEnded = true;
      stop();
    });
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start()));
  addEventListener("pagehide", stop);
  start();
};

const fetchPart = async (address) => {
  const response = await fetch(address, { headers: { Accept: "text/html", "X-Part": "1" } });
  // A redirect leads to the sign-in page.
  if (!response.ok || response.redirected) throw new Error(response.statusText);
  return response.text();
};

// Fetches a part of a page when the viewer opens it.
const load = async (details) => {
  const body = details.querySelector("[data-lazy-body]");
  if (!body || details.dataset.loaded) return;
  details.dataset.loaded = "yes";
  try {
    body.innerHTML = await fetchPart(details.dataset.lazy);
    prepare(body);
  } catch {
    delete details.dataset.loaded;
    announce("Could not load this. Close and open it to try again.");
  }
};

// Finds anything by a part of its name.
const finder = document.getElementById("finder");
const find = async () => {
  const field = finder.querySelector("input");
  const query = field.value;
  const results = finder.querySelector("[data-results]");
  try {
    const html = await fetchPart(`${field.form.action}?${new URLSearchParams({ q: query })}`);
    // The answer to what was typed last.
    if (query !== field.value) return;
    const focused = results.contains(document.activeElement) && addressOf(document.activeElement);
    results.innerHTML = html;
    if (focused) (results.querySelector(focused) ?? field).focus();
  } catch {
    results.textContent = "Could not search. Press Enter to try again.";
  }
};
const openFinder = () => {
  finder.showModal();
  finder.querySelector("input").select();
  find();
};

// Moves the focus to the link of another row, or of another result.
const moveFocus = (rows, step) => {
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const row = rows[at < 0 && step < 0 ? rows.length - 1 : Math.min(Math.max(at + step, 0), rows.length - 1)];
  row?.querySelector("a").focus();
};
const rowsOf = (selector) => [...document.querySelectorAll(selector)].filter((row) => row.querySelector("a"));
const shortcuts = {
  "/": () => {
    const field = document.querySelector("main input[type=search]");
    if (field?.offsetParent) field.select();
    else openFinder();
  },
  j: () => moveFocus(rowsOf("main tbody tr, main .plain-list > li"), 1),
  k: () => moveFocus(rowsOf("main tbody tr, main .plain-list > li"), -1),
  x: () => document.activeElement.closest("tr, li")?.querySelector("input[type=checkbox]")?.click(),
};
const isTyping = (element) => element.matches("input:not([type=checkbox]), textarea, select");

// Actions on selected rows are shown once there are some.
const showSelection = () => {
  for (const bar of document.querySelectorAll("[data-bulk]")) {
    const count = bar.elements.length && [...bar.elements].filter((box) => box.checked).length;
    bar.classList.toggle("inactive", !count);
    bar.querySelector("[data-selected]").textContent = `${count} selected:`;
  }
};
document.addEventListener("change", ({ target }) => {
  if (target.matches("[data-select-all]")) {
    for (const box of target.closest("table").querySelectorAll("td.select input")) box.checked = target.checked;
  }
  if (target.matches("[type=checkbox]")) showSelection();
});

const prepare = (root) => {
  tick(root);
  showState(root);
  for (const details of root.querySelectorAll("details[data-lazy]")) {
    details.addEventListener("toggle", () => details.open && load(details));
    if (details.open) load(details);
  }
};

document.addEventListener("click", (click) => {
  const button = click.target.closest("[data-copy]");
  if (button) copy(button);
  if (click.target.closest('[href$="#add"]')) setTimeout(openForm);
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(click.target)) menu.open = false;
  }
});
document.addEventListener("keydown", (key) => {
  const isModified = key.ctrlKey || key.metaKey;
  if (finder && !key.altKey && isModified && key.key === "k") {
    key.preventDefault();
    openFinder();
  } else if (isModified && key.key === "Enter") {
    key.target.closest("textarea")?.form.requestSubmit();
  } else if (finder?.open && /^Arrow(Up|Down)$/.test(key.key)) {
    key.preventDefault();
    moveFocus(rowsOf("#finder li"), key.key === "ArrowDown" ? 1 : -1);
  } else if (finder && !finder.open && !isModified && !key.altKey && shortcuts[key.key] && !isTyping(key.target)) {
    key.preventDefault();
    shortcuts[key.key]();
  }
  if (key.key !== "Escape") return;
  const open = document.activeElement?.closest("details.menu[open], details.confirm[open]");
  if (open) {
    open.open = false;
    open.querySelector("summary").focus();
  }
});
finder?.addEventListener("input", find);
// Enter opens the first result.
finder?.addEventListener("submit", async (sent) => {
  sent.preventDefault();
  await find();
  const first = finder.querySelector("[data-results] a");
  if (!first) return sent.target.submit();
  finder.close();
  first.click();
});
document.querySelector("[data-find]")?.addEventListener("click", (click) => {
  click.preventDefault();
  openFinder();
});
finder?.addEventListener("click", (click) => click.target === finder && finder.close());

// Filters apply on change; what is typed applies when the field is left or with Enter.
const applyFilters = ({ target, type }) => {
  const isToggle = target.matches("select, [type=checkbox]");
  const isChanged = type === "change" ? isToggle : !isToggle && target.value !== target.defaultValue;
  const form = isChanged && target.closest("form.filters[method=get]");
  if (!form) return;
  sessionStorage.filter = target.id;
  form.requestSubmit();
};
document.addEventListener("change", applyFilters);
document.addEventListener("focusout", applyFilters);
document.addEventListener("formdata", ({ target, formData }) => {
  if (target.method === "get") for (const [name, value] of [...formData]) if (!value) formData.delete(name);
});
document.addEventListener("submit", (sent) => {
  // Prevents a second submission. Deferred, because a disabled button is not part of the form data.
  const button = sent.submitter;
  if (button && sent.target.method === "post") setTimeout(() => (button.disabled = true));
});
addEventListener("pageshow", ({ persisted }) => {
  // After Back, a kept page would show filters that its list does not have.
  if (persisted) for (const form of document.querySelectorAll("form.filters")) form.reset();
  for (const button of document.querySelectorAll("form[method=post] button[disabled]")) button.disabled = false;
});

// A form that opens is ready to be filled in. Links to #add open it.
document.addEventListener("toggle", ({ target }) => {
  if (target.matches("details.add[open]")) target.querySelector("input:not([type=hidden]), select, textarea")?.focus();
}, true);
const openForm = () => {
  const form = location.hash === "#add" && document.getElementById("add");
  if (form) form.open = true;
};
addEventListener("hashchange", openForm);

prepare(document);
showSelection();
openForm();
// On a narrow screen the navigation bars scroll: show the current page's link.
for (const current of document.querySelectorAll(".side [aria-current], .tabs [aria-current]")) {
  const bar = current.parentElement;
  bar.scrollLeft = current.offsetLeft - (bar.clientWidth - current.offsetWidth) / 2;
}
// A stream renders its parts with the form tokens and time zone of this page.
const live = (address) => {
  const parameters = new URLSearchParams({ form: page.form, zone: page.zone });
  return `${address}${address.includes("?") ? "&" : "?"}${parameters}`;
};
for (const region of document.querySelectorAll("[data-live]")) follow(() => live(region.dataset.live), { part: swap });
(document.getElementById("problem") ?? document.getElementById(sessionStorage.filter))?.focus();
sessionStorage.removeItem("filter");

export { announce, follow, shortcuts };

// What is live on the pages. Every page works without it. It keeps one thing: the viewer's time zone.

const announce = (text) => {
  document.getElementById("announcements").textContent = text;
};

// The server shows times, filters and plots in the viewer's time zone from the next page on.
const page = document.documentElement.dataset;
const ownZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (ownZone && ownZone !== page.zone) {
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `${page.zoneCookie}=${ownZone}; path=/; max-age=31536000; samesite=lax${secure}`;
}

// Durations that go on, in the form of the server's.
const units = [[86_400, "d"], [3_600, "h"], [60, "min"], [1, "s"]];
const duration = (seconds) => {
  const at = Math.max(units.findIndex(([size]) => seconds >= size), 0);
  if (seconds < 60) return `${seconds} s`;
  const [[size, unit], [smaller, name]] = units.slice(at, at + 2);
  const rest = Math.floor((seconds % size) / smaller);
  return `${Math.floor(seconds / size)} ${unit}${rest ? ` ${rest} ${name}` : ""}`;
};
const countUp = (root) => {
  for (const each of root.querySelectorAll("[data-elapsed]")) {
    each.began ??= performance.now() - Number(each.dataset.elapsed);
    const shown = duration(Math.floor((performance.now() - each.began) / 1000));
    if (each.textContent !== shown) each.textContent = shown;
  }
};
setInterval(() => countUp(document), 1000);

// Buttons that copy what stands in another element.
const copy = async (button) => {
  const source = document.getElementById(button.dataset.copy);
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
    announce("Copied to the clipboard.");
  } catch {
    getSelection().selectAllChildren(source);
    announce("Selected. Copy it with the keyboard.");
  }
  setTimeout(() => (button.textContent = before), 2000);
};

// Parts of the page that the server sends anew. What is the same already stays untouched, so that
// focus and selection survive.
const swap = ({ id, html, digest }) => {
  const element = document.getElementById(id);
  if (!element || element.dataset.digest === digest) return;
  const fresh = element.cloneNode(false);
  fresh.innerHTML = html;
  // What somebody has opened stays open.
  for (const open of element.querySelectorAll("details[open][id]")) {
    fresh.querySelector(`#${CSS.escape(open.id)}`)?.setAttribute("open", "");
  }
  prepare(fresh);
  const isEqual = fresh.isEqualNode(element);
  element.dataset.digest = digest;
  if (isEqual) return;
  const focused = element.contains(document.activeElement) ? document.activeElement.id : "";
  element.replaceChildren(...fresh.childNodes);
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
};

// Told when nothing comes any more, in a place that moves nothing else.
const tellConnection = (isLive) => {
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

// A stream is open only while its page is looked at: browsers allow few connections to one place.
const follow = (address, handlers) => {
  let source = null;
  let over = false;
  let failures = 0;
  let timer = 0;
  const stop = () => {
    clearTimeout(timer);
    source?.close();
    source = null;
  };
  const again = () => {
    // Not by the browser itself: it would give up at the first refusal, and ask for the same part.
    stop();
    if (over) return;
    failures += 1;
    if (failures > 1) tellConnection(false);
    timer = setTimeout(start, Math.min(500 * 2 ** failures, 30_000));
  };
  const start = () => {
    if (source || over || document.hidden) return;
    source = new EventSource(address());
    source.addEventListener("error", again);
    source.addEventListener("open", () => {
      failures = 0;
      tellConnection(true);
    });
    for (const [name, handle] of Object.entries(handlers)) {
      source.addEventListener(name, (message) => handle(JSON.parse(message.data), message));
    }
    source.addEventListener("end", () => {
      over = true;
      stop();
    });
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start()));
  addEventListener("pagehide", stop);
  start();
};

// A part of a page that is fetched when it is opened.
const load = async (details) => {
  const place = details.querySelector("[data-lazy-body]");
  if (!place || details.dataset.loaded) return;
  details.dataset.loaded = "yes";
  try {
    const answer = await fetch(details.dataset.lazy, { headers: { Accept: "text/html", "X-Part": "1" } });
    // A redirect leads to the sign-in page.
    if (!answer.ok || answer.redirected) throw new Error(answer.statusText);
    place.innerHTML = await answer.text();
    prepare(place);
  } catch {
    delete details.dataset.loaded;
    announce("Could not load this section. Close and open it to try again.");
  }
};

// The log of a job: new lines at the end, the view kept there as long as it is followed.
const mostLines = 5000;
const followLog = (box) => {
  const lines = box.querySelector("[data-log-lines]");
  const rest = box.querySelector("[data-log-rest]");
  const following = document.getElementById("log-follow");
  const toEnd = () => {
    if (following?.checked) box.scrollTop = box.scrollHeight;
  };
  let after = box.dataset.after;
  following?.addEventListener("change", toEnd);
  box.addEventListener("wheel", (move) => {
    if (move.deltaY < 0 && following) following.checked = false;
  }, { passive: true });
  toEnd();
  if (!box.dataset.log) return;
  follow(() => `${box.dataset.log}?after=${after}`, {
    lines: ({ html, rest: unfinished, after: sequence }) => {
      const fresh = document.createElement("template");
      fresh.innerHTML = html;
      lines.append(fresh.content);
      rest.innerHTML = unfinished;
      after = sequence;
      while (lines.childElementCount > mostLines) lines.firstElementChild.remove();
      document.getElementById("log-empty")?.remove();
      search.again();
      toEnd();
    },
  });
};

const search = {
  hits: [],
  at: -1,
  again() {
    const field = document.getElementById("log-search");
    const box = document.getElementById("log");
    const found = document.getElementById("log-found");
    if (!field || !box) return;
    const wanted = field.value.trim().toLowerCase();
    for (const line of box.querySelectorAll(".hit")) line.classList.remove("hit", "current");
    this.hits = wanted
      ? [...box.querySelectorAll(".line")].filter((line) => line.textContent.toLowerCase().includes(wanted))
      : [];
    for (const line of this.hits) line.classList.add("hit");
    this.at = Math.min(this.at, this.hits.length - 1);
    if (found) found.textContent = wanted ? `${this.hits.length} lines` : "";
  },
  move(step) {
    if (!this.hits.length) return;
    this.hits[this.at]?.classList.remove("current");
    this.at = (this.at + step + this.hits.length) % this.hits.length;
    const follow = document.getElementById("log-follow");
    if (follow) follow.checked = false;
    this.hits[this.at].classList.add("current");
    this.hits[this.at].scrollIntoView({ block: "center" });
    announce(`Line ${this.at + 1} of ${this.hits.length}`);
  },
};

const prepare = (root) => {
  countUp(root);
  for (const each of root.querySelectorAll(".js-only")) each.hidden = false;
  for (const each of root.querySelectorAll(".no-js")) each.hidden = true;
  for (const each of root.querySelectorAll("details[data-lazy]")) {
    each.addEventListener("toggle", () => each.open && load(each));
    if (each.open) load(each);
  }
};

document.addEventListener("click", (click) => {
  const button = click.target.closest("[data-copy], [data-search-step]");
  if (button?.dataset.copy) copy(button);
  if (button?.dataset.searchStep) search.move(Number(button.dataset.searchStep));
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(click.target)) menu.open = false;
  }
});
document.addEventListener("keydown", (key) => {
  if (key.key !== "Escape") return;
  const open = document.activeElement?.closest("details.menu[open], details.confirm[open]");
  if (open) {
    open.open = false;
    open.querySelector("summary").focus();
  }
});
document.addEventListener("submit", (sent) => {
  // A second click must not do it twice. Not at once: a disabled button would not be sent.
  const button = sent.submitter;
  if (button && sent.target.method === "post") setTimeout(() => (button.disabled = true));
});
addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("form[method=post] button[disabled]")) button.disabled = false;
});

prepare(document);
// On a narrow screen the navigation bars scroll: show where one is.
for (const current of document.querySelectorAll(".sections [aria-current], .side [aria-current], .tabs [aria-current]")) {
  const bar = current.parentElement;
  bar.scrollLeft = current.offsetLeft - (bar.clientWidth - current.offsetWidth) / 2;
}
// A stream sends its parts as this page has them: with the same form tokens and time zone.
const live = (address) => {
  const own = new URLSearchParams({ form: page.form, zone: page.zone });
  return `${address}${address.includes("?") ? "&" : "?"}${own}`;
};
for (const each of document.querySelectorAll("[data-live]")) follow(() => live(each.dataset.live), { part: swap });
const log = document.getElementById("log");
if (log) {
  followLog(log);
  const field = document.getElementById("log-search");
  field?.addEventListener("input", () => search.again());
  field?.form?.addEventListener("submit", (sent) => {
    sent.preventDefault();
    search.move(1);
  });
}
document.getElementById("fault")?.focus();

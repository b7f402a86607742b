// The shell: who is here, the navigation, the router, the connection and the keyboard.

import { get, may, onSignedOut, partId, pathWith, submit } from "./api.js";
import { h, outside, show } from "./dom.js";
import { showHelp, startKeys } from "./keyboard.js";
import { isUp, onEvent, startLive, tellSignIn } from "./live.js";
import { PAGES } from "./pages.js";
import { announce, button, emptyState, problemBox } from "./parts.js";
import { showSettings } from "./settings.js";
import { showSignIn } from "./sign_in.js";
import { startWaitingCount } from "./waiting_count.js";
import { languageTag, t } from "./words.js";

let me = null;
const ends = new Set();
let turn = 0;
const main = h("main", { id: "page", class: "page", tabindex: "-1" });
const banner = h("div.banner", { role: "status", hidden: true });
const announcer = h("div", { id: "announcer", class: "unseen", "aria-live": "polite", role: "status" });

function findPage(path) {
  for (const page of PAGES) {
    const found = new RegExp(`^${page.path.replace(/:(\w+)/g, "(?<$1>[^/]+)")}$`).exec(path);
    if (!found) continue;
    try {
      return { page, params: Object.fromEntries(Object.entries(found.groups || {}).map(([name, text]) => [name, partId(text)])) };
    } catch {
      return null;
    }
  }
  return null;
}

function go(address) {
  history.pushState(null, "", address);
  return showPage();
}

// Change parameters of the address without showing the page anew.
function setQuery(changes) {
  const query = Object.fromEntries(new URLSearchParams(location.search));
  history.replaceState(null, "", pathWith(location.pathname, { ...query, ...changes }));
}

function leavePage() {
  turn += 1;
  ends.forEach((end) => end());
  ends.clear();
  // A dialog belongs to the page that opened it.
  document.querySelectorAll("dialog").forEach((each) => each.close());
}

async function showPage({ quiet = false } = {}) {
  leavePage();
  const mine = turn;
  const path = location.pathname === "/" ? "/inbox" : location.pathname;
  const found = findPage(path);
  markNav(found?.page);
  const title = found ? titleOf(found.page) : t("app.not_found");
  nameWindow(title);
  // A page draws into its own element, so that what comes late does not disturb the next.
  const root = h("div.page-root");
  show(main, root);
  main.setAttribute("aria-busy", "true");
  if (!found) {
    show(root, h("h1", title), emptyState("", h("a", { href: "/inbox" }, t("app.to_inbox"))));
  } else if (!may(me, roleOf(found.page))) {
    show(root, h("h1", title), emptyState(sayRoles(roleOf(found.page))));
  } else {
    const query = new URLSearchParams(location.search);
    // What a page keeps is called when it is left, also before it was ready.
    const keep = (end) => (mine === turn ? ends.add(end) : end());
    try {
      await found.page.show(root, { params: found.params, query, me, go, setQuery, keep });
    } catch (problem) {
      if (problem.status !== 401) root.append(problemBox(problem), button(t("action.try_again"), () => showPage()));
      if (!problem.status && problem.code !== "unreachable") console.error(problem);
    }
  }
  if (mine !== turn) return;
  main.removeAttribute("aria-busy");
  if (!quiet) focusHeading(title);
}

// A page is for callers and is named after its path, unless it says otherwise.
const roleOf = ({ role = "call" }) => role;
const titleOf = ({ path, title = path.slice(1) }) => t(`label.${title}`);
const sectionOf = ({ path }) => path.split("/")[1];

function sayRoles(role) {
  const roles = me.roles.map((each) => t(`role.${each}`)).join(", ") || t("app.no_roles");
  return t("app.role_needed", { role: t(`role.${role}`), roles });
}

function focusHeading(title) {
  const heading = main.querySelector("h1");
  if (heading && !main.contains(document.activeElement)) {
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
  }
  scrollTo(0, 0);
  announce(title);
}

let pageTitle = "";
let waiting = 0;

function nameWindow(title = pageTitle) {
  pageTitle = title;
  document.title = `${waiting ? `(${waiting}) ` : ""}${title} · Wieldy`;
}

const signInButton = () => button(t("app.sign_in"), () => location.assign("/sign-in"), { kind: "quiet small" });

let nav, side;

function makeFrame() {
  const pages = PAGES.filter((page) => !page.path.includes(":") && may(me, roleOf(page)));
  const link = (page) => h("li", h("a", { href: page.path, "data-nav": sectionOf(page) }, titleOf(page)));
  nav = h("nav.nav", { "aria-label": t("app.nav") }, h("ul", pages.map(link)));
  const menu = button(t("app.menu"), () => {
    const open = side.classList.toggle("open");
    menu.setAttribute("aria-expanded", String(open));
  }, { "aria-expanded": "false", "aria-controls": "side-parts", class: "button menu" });
  const name = me.name === null ? t("app.local") : outside(me.name, { longest: 60 });
  const end = h(
    "div.side-end",
    connectionMark(),
    h("div.row", button(t("app.settings"), showSettings, { kind: "quiet small" }), button(t("app.help"), showHelp, { kind: "quiet small", keys: "?" })),
    h("div.row", h("span.who", name), me.name === null ? signInButton() : button(t("app.sign_out"), signOut, { kind: "quiet small" })),
  );
  const brand = h("a", { href: "/inbox", class: "brand" }, h("img", { src: "/console/icon.svg", alt: "", width: "22", height: "22" }), "Wieldy");
  side = h("header.side", h("div.side-top", brand, menu), h("div", { id: "side-parts", class: "side-parts" }, nav, end));
  show(document.body, h("a.skip", { href: "#page" }, t("app.skip")), h("div.frame", side, h("div", banner, main)), announcer);
}

function markNav(page) {
  for (const link of nav.querySelectorAll("a")) {
    if (page && link.dataset.nav === sectionOf(page)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  side.classList.remove("open");
  side.querySelector(".menu").setAttribute("aria-expanded", "false");
}

function connectionMark() {
  const dot = h("span.dot");
  const text = h("span");
  const mark = () => {
    const up = isUp();
    dot.className = `dot ${up === null ? "" : up ? "up" : "down"}`;
    show(text, up === null ? "" : t(up ? "connection.live" : "connection.lost"));
  };
  mark();
  markConnection = mark;
  return h("span.connection", dot, text);
}

let markConnection = () => {};

function showConnection({ up, crowded }) {
  const wasDown = !banner.hidden && !banner.classList.contains("back");
  markConnection();
  if (!up) {
    banner.classList.remove("back");
    show(banner, t(crowded ? "connection.crowded" : "connection.down"));
    banner.hidden = false;
  } else if (wasDown) {
    banner.classList.add("back");
    show(banner, t("connection.back"));
    setTimeout(() => {
      if (isUp()) banner.hidden = true;
    }, 4000);
  }
}

async function signOut() {
  await submit("/sign-out", {}).catch(() => null);
  tellSignIn();
  location.assign("/sign-in");
}

function enterSignIn() {
  if (me === null && document.querySelector(".bare")) return;
  leavePage();
  me = null;
  document.title = `${t("sign_in.title")} · Wieldy`;
  showSignIn(show(document.body), () => {
    tellSignIn();
    start();
  });
  document.body.append(announcer);
}

function followLinks(event) {
  const link = event.target instanceof Element && event.target.closest("a[href]");
  if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const address = link.getAttribute("href");
  if (address === "#page") {
    event.preventDefault();
    main.focus();
  } else if (address.startsWith("/") && !address.startsWith("/api/") && !link.hasAttribute("download") && link.target !== "_blank") {
    event.preventDefault();
    go(address);
  }
}

async function start() {
  document.documentElement.lang = languageTag();
  if (location.pathname === "/sign-in") return enterSignIn();
  try {
    me = await get("/me");
  } catch (problem) {
    if (problem.status !== 401) {
      show(document.body, h("main.bare.card", h("h1", "Wieldy"), problemBox(problem)));
      setTimeout(start, 2000);
    }
    return;
  }
  makeFrame();
  // A page that lists something before events come could miss what happens in between.
  if (me.roles.length) {
    await startLive();
    startCount();
  }
  await showPage({ quiet: true });
}

function startCount() {
  startWaitingCount(nav, (count) => {
    waiting = count;
    nameWindow();
  }, go);
}

onSignedOut(enterSignIn);
onEvent(["signed-out"], enterSignIn);
onEvent(["connection"], showConnection);
// A link that is opened on this page changes only the fragment of the address.
addEventListener("hashchange", () => location.pathname === "/sign-in" && location.hash && location.reload());
addEventListener("popstate", () => me && showPage());
addEventListener("wieldy-language", () => {
  if (!me) return enterSignIn();
  makeFrame();
  showPage({ quiet: true });
  startCount();
});
document.addEventListener("click", followLinks);
startKeys({ go });
start();

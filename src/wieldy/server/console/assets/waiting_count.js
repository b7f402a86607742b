// How many calls wait, in the navigation and in the title of the window.

import { get } from "./api.js";
import { h } from "./dom.js";
import { isLeader, onEvent } from "./live.js";
import { tellWaiting } from "./notices.js";
import { t } from "./words.js";

const known = new Set();
let stop = null;
let mark = null;

export function startWaitingCount(nav, onCount, go) {
  stop?.();
  mark = h("span.count", { hidden: true });
  nav.querySelector('[data-nav="inbox"]')?.append(mark);
  const say = () => {
    mark.textContent = known.size > 99 ? "99+" : String(known.size);
    mark.hidden = known.size === 0;
    mark.title = t("inbox.count", { count: known.size });
    onCount(known.size);
  };
  const load = async () => {
    const page = await get("/pending", { limit: 100 }).catch(() => null);
    if (!page) return;
    known.clear();
    page.pending.forEach((each) => known.add(each.call_id));
    say();
  };
  stop = onEvent(["pending", "call", "reset"], (call, name) => {
    if (name === "reset") return load();
    if (name === "pending") {
      const isNew = !known.has(call.call_id);
      known.add(call.call_id);
      // One tab of the browser makes the sound.
      if (isNew && isLeader()) tellWaiting(call, (id) => go(`/inbox?call=${encodeURIComponent(id)}`));
    } else {
      known.delete(call.call_id);
    }
    return say();
  });
  return load();
}

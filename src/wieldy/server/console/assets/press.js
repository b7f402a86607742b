// What comes from outside waits while somebody presses something. Otherwise a part of the page could be made
// anew under the pointer, and the browser sends no click to what is gone.

// Whoever presses longer, or whose release the browser does not tell, is not waited for.
const LONGEST = 5000;

let waiting = null;
let timer;

/** Do something now, or once what is pressed has had its click. What comes first is done first. */
export function afterPress(work) {
  if (waiting) waiting.push(work);
  else work();
}

/** A promise for the same moment. */
export const released = () => waiting && new Promise((done) => waiting.push(done));

function begin() {
  waiting ??= [];
  clearTimeout(timer);
  timer = setTimeout(end, LONGEST);
}

function end() {
  clearTimeout(timer);
  const works = waiting || [];
  waiting = null;
  works.forEach((work) => work());
}

// The click comes right after the release, before any timer.
const release = () => waiting && setTimeout(end);
const ifSpace = (work) => (event) => event.key === " " && work();

for (const [name, listener] of Object.entries({
  pointerdown: begin,
  pointerup: release,
  pointercancel: release,
  dragend: release,
  blur: release,
  keydown: ifSpace(begin),
  keyup: ifSpace(release),
})) {
  addEventListener(name, (event) => (name !== "blur" || event.target === window) && listener(event), { capture: true });
}

// Elements without HTML text: every value from outside becomes a text node.

const PROPERTIES = new Set(["value", "checked", "selected", "indeterminate", "open"]);
const SAFE_ADDRESS = /^(?:\/(?!\/)|#|\?|blob:|data:image\/(?:png|jpeg|gif|webp);base64,)/;

/**
 * Make an element: h("p.faint", { title: "…" }, "text"). The attributes may be left out.
 *
 * `class` is a text or a list of texts, and `on` has listeners by the name of their event. What is null,
 * undefined or false is left out. Children are elements, texts, numbers or lists of them.
 */
export function h(tag, options, ...children) {
  const [kind, ...classes] = tag.split(".");
  const element = document.createElement(kind);
  const given = options?.constructor === Object;
  if (!given) children.unshift(options);
  for (const [name, value] of Object.entries(given ? options : {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === "class") {
      element.className = Array.isArray(value) ? value.filter(Boolean).join(" ") : value;
    } else if (PROPERTIES.has(name)) {
      element[name] = value;
    } else {
      setAttribute(element, name, value);
    }
  }
  element.classList.add(...classes);
  return append(element, children);
}

function setAttribute(element, name, value) {
  if (/^on/i.test(name) || /^(?:style|srcdoc|formaction|action)$/i.test(name)) {
    throw new Error(`The attribute ${name} is not used here.`);
  }
  if (/^(?:href|src)$/i.test(name) && !SAFE_ADDRESS.test(value)) {
    throw new Error("An address from outside is shown as text.");
  }
  element.setAttribute(name, value === true ? "" : String(value));
}

function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export function show(element, ...children) {
  element.replaceChildren();
  return append(element, children);
}

// Characters that are not seen, that turn the text around them, or that hide others. A joiner in an emoji and
// a single variation selector are left as they are.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\ufffb\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]|(?<![\p{L}\p{M}])\u200c|(?<![\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f\p{M}])\u200d|(?<=^|[\ufe00-\ufe0f\s])[\ufe00-\ufe0f]|\p{Surrogate}/gu;

/** A text in which characters that hide or turn others are written as their numbers. */
export function escapeText(text) {
  const lines = String(text).replaceAll("\r\n", "\n");
  return lines.replace(HIDDEN, (each) => `⟨U+${each.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** JSON text in which such characters are escaped, so that it can be edited. */
export function escapeHidden(json) {
  return json.replace(HIDDEN, (each) => (/\s/.test(each) && each < " " ? each : [...Array(each.length).keys()].map((at) => `\\u${each.charCodeAt(at).toString(16).padStart(4, "0")}`).join("")));
}

export const hasHidden = (text) => text.search(HIDDEN) >= 0;

/** A text from outside: isolated from the text around it, and with nothing hidden in it. */
export function outside(text, options = {}) {
  if (text === null || text === undefined) return null;
  const { longest = 300, ...attributes } = options;
  const whole = String(text);
  return h("bdi", attributes, escapeText(cutText(whole, longest)) + (whole.length > longest ? "…" : ""));
}

/** A text from outside that people wrote to be read, such as a reason or an error. */
export const longText = (text) => outside(text, { longest: 2000 });

/** The beginning of a text from outside, for where only a text can be. */
export const shortText = (text, longest = 100) => escapeText(cutText(String(text), longest));

/** The beginning of a text, without half of a character at its end. */
export function cutText(text, longest) {
  const beginning = text.slice(0, longest);
  return text.length > longest && /[\ud800-\udbff]$/.test(beginning) ? beginning.slice(0, -1) : beginning;
}

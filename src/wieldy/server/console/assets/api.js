// Requests to /api. What is not a success becomes an ApiProblem.

import { released } from "./press.js";

const exact = typeof JSON.rawJSON === "function";
// Numbers that JavaScript may not hold exactly; only then is each number looked at.
const LONG_NUMBER = /\d[\d.]{15,}|\d[eE][+-]?\d/;

export class ApiProblem extends Error {
  constructor(status, { code = "unknown", message = "", hint = "", details = {} } = {}) {
    super(message);
    Object.assign(this, { status, code, hint, details });
  }
}

const away = new Set();

/** Call a function whenever the server says that nobody is signed in. */
export function onSignedOut(listener) {
  away.add(listener);
}

export const get = (path, params, options) => send("GET", path, { params, ...options });
export const post = (path, body = {}, options) => send("POST", path, { body, ...options });
export const put = (path, body = {}, options) => send("PUT", path, { body, ...options });
export const del = (path, options) => send("DELETE", path, { body: {}, ...options });

/** An id as a part of a path that no proxy changes: a tilde and two digits stand for a character. */
export function part(id) {
  const text = encodeURIComponent(id).replaceAll("~", "~7E");
  return /^\.*$/.test(text) ? text.replaceAll(".", "~2E") || "~" : text.replace(/%(?=[0-7])/g, "~");
}

export function partId(text) {
  return text === "~" ? "" : decodeURIComponent(text).replace(/~([0-7][\dA-F])/gi, (_, digits) => String.fromCharCode(parseInt(digits, 16)));
}

/**
 * Whether somebody may see what is for this role. Those who approve see what callers see, and where no token is
 * needed anybody sees everything.
 */
export function may(me, role) {
  if (!role || me.reads_all) return true;
  return role === "call" ? me.roles.length > 0 : me.roles.includes(role);
}

export const hasRole = (me, role) => me.roles.includes(role) || me.roles.includes("administer");

export function pathWith(path, query = {}) {
  const pairs = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return pairs.length ? `${path}?${new URLSearchParams(pairs)}` : path;
}

export const address = (path, params) => `/api${pathWith(path, params)}`;

export const submit = (path, body) => send("POST", path, { body, prefix: "" });

async function send(method, path, { params, body, signal, prefix = "/api" } = {}) {
  const request = { method, signal, credentials: "same-origin", headers: { Accept: "application/json" } };
  if (body !== undefined) {
    request.headers["Content-Type"] = "application/json";
    request.body = writeJson(body);
  }
  let response, text;
  try {
    response = await fetch(prefix ? address(path, params) : path, request);
    text = await response.text();
  } catch (error) {
    await released();
    if (error.name === "AbortError") throw error;
    throw new ApiProblem(0, { code: "unreachable", message: "The server can't be reached." });
  }
  await released();
  const answer = readAnswer(text);
  if (response.ok) return answer;
  const problem = new ApiProblem(response.status, (answer && answer.error) || { message: response.statusText });
  if (response.status === 401 && prefix) away.forEach((listener) => listener(problem));
  throw problem;
}

function readAnswer(text) {
  try {
    return text === "" ? null : readJson(text);
  } catch {
    return null;
  }
}

/** JSON as a value. A number that JavaScript can't hold exactly keeps its digits. */
export function readJson(text) {
  if (!exact || !LONG_NUMBER.test(text)) return JSON.parse(text);
  try {
    return JSON.parse(text, keepDigits);
  } catch (error) {
    if (error instanceof RangeError) return JSON.parse(text);
    throw error;
  }
}

function keepDigits(key, value, context) {
  if (typeof value !== "number" || !context || context.source === undefined) return value;
  return isExact(value, context.source) ? value : JSON.rawJSON(context.source);
}

function isExact(value, source) {
  if (!Number.isFinite(value)) return false;
  if (/^-?\d+$/.test(source)) return Number.isSafeInteger(value);
  // Zeros before the first digit, and the exponent, are no digits that could be lost.
  return source.replace(/[eE].*$/, "").replace(/\D/g, "").replace(/^0+/, "").length <= 17;
}

export const isDigits = (value) => exact && JSON.isRawJSON(value);

export const writeJson = (value, space) => JSON.stringify(value, null, space);

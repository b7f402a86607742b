// The stream of events. One tab reads it for all tabs of this browser, and another takes over when that one
// is closed. It comes back by itself where it was, so that nothing is missed.

import { address, onSignedOut } from "./api.js";
import { afterPress } from "./press.js";

const listeners = new Map();
const channel = new BroadcastChannel("wieldy-events");
let place = null;
let up = null;
let crowded = false;
let wanted = false;
let leads = false;
let behind = false;
let begun = () => {};
const PATIENCE = 1500;

/** Call a function with the data and the name of these events, until the function it gives is called. */
export function onEvent(names, listener) {
  for (const name of names) {
    if (!listeners.has(name)) listeners.set(name, new Set());
    listeners.get(name).add(listener);
  }
  return () => names.forEach((name) => listeners.get(name).delete(listener));
}

/** Whether events come now; null before that is known. */
export const isUp = () => up;

export const isLeader = () => leads;

/**
 * Begin to listen. Where locks are not available each tab has a stream of its own. It gives a promise
 * that ends when events come, or after a moment: what is listed before that may be behind, and the event
 * `reset` then says to list it again.
 */
export function startLive() {
  if (wanted) return Promise.resolve();
  wanted = true;
  channel.onmessage = ({ data }) => {
    if (data.ask) {
      if (up !== null) channel.postMessage({ name: "connection", data: { up, crowded }, place });
    } else {
      afterPress(() => take(data));
    }
  };
  channel.postMessage({ ask: true });
  if (navigator.locks) navigator.locks.request("wieldy-events", readForever);
  else readForever();
  return new Promise((done) => {
    const late = setTimeout(() => {
      behind = true;
      done();
    }, PATIENCE);
    begun = () => {
      clearTimeout(late);
      done();
    };
  });
}

export function tellSignIn() {
  channel.postMessage({ name: "signed-in" });
}

onSignedOut(() => {
  wanted = false;
});

function take({ name, data, place: reached }) {
  if (reached) place = reached;
  if (name === "signed-in") return location.reload();
  if (name === "connection") {
    if (data.up) begun();
    if (data.up === up && data.crowded === crowded) return;
    ({ up, crowded } = data);
  }
  const isFirst = name === "connection" && up && behind;
  if (isFirst) behind = false;
  for (const listener of [...(listeners.get(name) || [])]) {
    try {
      listener(data, name);
    } catch (error) {
      console.error(error);
    }
  }
  if (isFirst) take({ name: "reset", data: {} });
}

function tell(name, data) {
  afterPress(() => take({ name, data }));
  channel.postMessage({ name, data, place });
}

async function readForever() {
  let failures = 0;
  let full = false;
  leads = true;
  while (wanted) {
    try {
      // A stream ends by itself after some minutes.
      await readStream(() => (failures = 0));
    } catch (error) {
      failures += 1;
      full = error.cause === 429;
    }
    if (!wanted) return;
    if (failures) tell("connection", { up: false, crowded: full });
    // Without events, lists are read again and again.
    if (failures && full) tell("reset", {});
    await pause(failures ? Math.min(500 * 2 ** (failures - 1), 10_000) : 100);
  }
}

function pause(milliseconds) {
  return new Promise((done) => {
    const end = () => {
      clearTimeout(timer);
      removeEventListener("online", end);
      done();
    };
    const timer = setTimeout(end, milliseconds);
    addEventListener("online", end);
  });
}

// A comment comes every 15 seconds; after this time without any the connection is dead.
const SILENCE = 40_000;

async function readStream(reached) {
  const headers = { Accept: "text/event-stream" };
  if (place) headers["Last-Event-ID"] = place;
  const stop = new AbortController();
  let timer = setTimeout(() => stop.abort(), SILENCE);
  try {
    const response = await fetch(address("/events"), { headers, signal: stop.signal, cache: "no-store" });
    if (response.status === 400 && place) {
      place = null;
      behind = true;
    }
    if (response.status === 401) return endLive();
    if (response.status === 409) return waitForStore();
    if (!response.ok) throw new Error("events", { cause: response.status });
    const text = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const read = eventReader();
    for (let piece = await text.read(); !piece.done; piece = await text.read()) {
      clearTimeout(timer);
      timer = setTimeout(() => stop.abort(), SILENCE);
      reached();
      tell("connection", { up: true, crowded: false });
      for (const event of read(piece.value)) handle(event);
    }
  } finally {
    clearTimeout(timer);
  }
}

function endLive() {
  wanted = false;
  tell("signed-out", {});
}

function waitForStore() {
  // A server without a store has no events.
  wanted = false;
  begun();
}

function handle({ name, data, id }) {
  if (id) place = id;
  if (name === "hello") return;
  try {
    tell(name, JSON.parse(data));
  } catch (error) {
    console.error(error);
  }
}

function eventReader() {
  let rest = "";
  let event = { name: "message", data: [], id: null };
  return (text) => {
    const events = [];
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const [, field, value] = /^([^:]*):? ?(.*)$/.exec(line) || [];
      if (field === "event") event.name = value;
      else if (field === "data") event.data.push(value);
      else if (field === "id") event.id = value;
      if (line !== "") continue;
      if (event.data.length) events.push({ ...event, data: event.data.join("\n") });
      event = { name: "message", data: [], id: null };
    }
    return events;
  };
}

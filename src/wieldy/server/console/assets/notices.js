// A sound or a notification when a call waits. Both are off until somebody wishes them.

import { escapeText, shortText } from "./dom.js";
import { t } from "./words.js";

const WISHES = ["sound", "desktop"];

export function wishesOf() {
  return Object.fromEntries(WISHES.map((name) => [name, localStorage.getItem(`wieldy.notify.${name}`) === "on"]));
}

export function setWish(name, on) {
  if (on) localStorage.setItem(`wieldy.notify.${name}`, "on");
  else localStorage.removeItem(`wieldy.notify.${name}`);
}

export async function canNotify() {
  if (!("Notification" in window)) return false;
  return (await Notification.requestPermission()) === "granted";
}

export function playSound() {
  try {
    const context = new AudioContext();
    for (const [at, pitch] of [[0, 660], [0.16, 880]]) {
      const tone = context.createOscillator();
      const volume = context.createGain();
      tone.frequency.value = pitch;
      volume.gain.setValueAtTime(0.08, context.currentTime + at);
      volume.gain.exponentialRampToValueAtTime(0.0001, context.currentTime + at + 0.15);
      tone.connect(volume).connect(context.destination);
      tone.start(context.currentTime + at);
      tone.stop(context.currentTime + at + 0.16);
    }
    setTimeout(() => context.close(), 1000);
  } catch {
    // A browser without sound still shows the call.
  }
}

/** Tell that a call waits, as the person wishes; one tab of the browser does it. */
export function tellWaiting(call, onOpen) {
  const wishes = wishesOf();
  if (wishes.sound) playSound();
  if (!wishes.desktop || !("Notification" in window) || Notification.permission !== "granted") return;
  const who = escapeText(call.caller || call.agent || t("who.somebody")).slice(0, 100);
  const notice = new Notification(t("notify.title", { tool: shortText(call.tool) }), { body: `${t("inbox.asked_by")} ${who}`, tag: call.call_id });
  notice.onclick = () => {
    window.focus();
    onOpen(call.call_id);
    notice.close();
  };
}

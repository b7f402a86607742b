// Pictures from outside: what their bytes are, whatever they say they are, and how large they get.
import { h } from "./dom.js";
import { t } from "./words.js";

// A picture of more pixels than this takes the browser's memory when it is unpacked.
const MOST_PIXELS = 40_000_000;
const KINDS = [
  ["image/png", [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a], sizeOfPng],
  ["image/jpeg", [0xff, 0xd8, 0xff], sizeOfJpeg],
  ["image/gif", [0x47, 0x49, 0x46, 0x38], sizeOfGif],
  ["image/webp", [0x52, 0x49, 0x46, 0x46], sizeOfWebp],
];

/** The bytes of base64 text, or null if it is none. */
export function readBase64(text) {
  try {
    const raw = atob(String(text));
    return Uint8Array.from(raw, (letter) => letter.charCodeAt(0));
  } catch {
    return null;
  }
}

/** {type, width, height} of a picture by its bytes; null if it is no picture that is shown. */
export function sniffPicture(bytes) {
  for (const [type, start, measure] of KINDS) {
    if (start.every((byte, place) => bytes[place] === byte)) {
      const size = measure(new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength));
      return size && size[0] > 0 && size[1] > 0 ? { type, width: size[0], height: size[1] } : null;
    }
  }
  return null;
}

function sizeOfPng(view) {
  return view.byteLength < 24 ? null : [view.getUint32(16), view.getUint32(20)];
}

function sizeOfGif(view) {
  return view.byteLength < 10 ? null : [view.getUint16(6, true), view.getUint16(8, true)];
}

function sizeOfJpeg(view) {
  let place = 2;
  while (place + 9 < view.byteLength) {
    if (view.getUint8(place) !== 0xff) return null;
    const marker = view.getUint8(place + 1);
    // A start of frame has the size; 0xc4, 0xc8 and 0xcc are tables.
    if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) {
      return [view.getUint16(place + 7), view.getUint16(place + 5)];
    }
    place += marker === 0xff ? 1 : 2 + view.getUint16(place + 2);
  }
  return null;
}

function sizeOfWebp(view) {
  if (view.byteLength < 30 || view.getUint32(8) !== 0x57454250) return null;
  const kind = view.getUint32(12);
  if (kind === 0x56503858) return [1 + read24(view, 24), 1 + read24(view, 27)];
  if (kind === 0x56503820) {
    return [view.getUint16(26, true) & 0x3fff, view.getUint16(28, true) & 0x3fff];
  }
  if (kind === 0x5650384c) {
    const bits = view.getUint32(21, true);
    return [1 + (bits & 0x3fff), 1 + ((bits >>> 14) & 0x3fff)];
  }
  return null;
}

function read24(view, place) {
  return view.getUint16(place, true) | (view.getUint8(place + 2) << 16);
}

/** A picture, or words that say why it is not shown. `keep` gets a function that frees it. */
export function pictureView(bytes, keep) {
  const facts = bytes === null ? null : sniffPicture(bytes);
  if (facts === null) return h("p", { class: "note" }, t("picture.unknown"));
  if (facts.width * facts.height > MOST_PIXELS) return h("p", { class: "note" }, t("picture.huge", facts));
  const address = URL.createObjectURL(new Blob([bytes], { type: facts.type }));
  keep(() => URL.revokeObjectURL(address));
  const figure = h("figure", { class: "picture" });
  const broken = () => figure.replaceChildren(h("p", { class: "note" }, t("picture.broken")));
  figure.append(
    h("img", { src: address, alt: t("picture.alt", facts), on: { error: broken } }),
    h("figcaption", {}, t("picture.facts", facts)),
  );
  return figure;
}

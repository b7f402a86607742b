// The blocks of a result: texts, JSON, pictures, files and links. What is long is read on demand.
import { address, ApiProblem, part, readJson } from "./api.js";
import { h, outside, shortText } from "./dom.js";
import { jsonView } from "./json_view.js";
import { folded, linkTo } from "./page_parts.js";
import { amount, button, codeText } from "./parts.js";
import { pictureView, refusePicture } from "./pictures.js";
import { t } from "./words.js";

const MOST_BLOCKS = 50;

export function resultView(call) {
  const views = call.blocks.slice(0, MOST_BLOCKS).map(blockView);
  const left = call.blocks.length - MOST_BLOCKS;
  if (left > 0) {
    const rest = () => h("div", call.blocks.slice(MOST_BLOCKS).map(blockView));
    views.push(folded(t("more.items", { count: left }), rest));
  }
  if (call.artifact) views.push(spilledView(call.artifact));
  return views;
}

export function isCut(answer, name) {
  return answer.cut.some((each) => each.part === name);
}

function blockView(block) {
  return h("div.block", block.uri === null ? null : addressView(block), contentView(block));
}

function contentView(block) {
  if (block.type === "json") return jsonView(block.value, { depth: 2 });
  if (block.type === "image") return imageView(block);
  if (block.text === null) return block.cut ? fileView(block) : null;
  return h("div", codeText(block.text, { label: t("label.result") }), block.cut ? wholeView(block.url) : null);
}

export function wholeView(url) {
  return h("div", folded(t("call.whole"), async () => textView(await readBytes(url))), saveLink(url));
}

function textView(bytes) {
  const text = new TextDecoder().decode(bytes);
  if (/^[[{]/.test(text)) {
    try {
      return jsonView(readJson(text), { depth: 1 });
    } catch {
      // It only begins as JSON does.
    }
  }
  return codeText(text, { label: t("label.result") });
}

async function readBytes(url) {
  const response = await fetch(url, { credentials: "same-origin" });
  if (!response.ok) throw new ApiProblem(response.status, { message: response.statusText });
  return new Uint8Array(await response.arrayBuffer());
}

function imageView(block) {
  return h("div", refusePicture(block) || readPicture(block), fileView(block));
}

function readPicture(block) {
  if (block.data !== null) return pictureView(readBase64(block.data), block);
  return block.url && folded(t("picture.show"), async () => pictureView(await readBytes(block.url), block));
}

function readBase64(text) {
  try {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}

/** An address from outside is text; only our own artifacts are links. */
function addressView({ uri, name, artifact }) {
  const named = name && name !== uri ? [outside(name), " "] : null;
  return h("p", named, artifact ? artifactLink(artifact) : h("code", outside(uri)));
}

export const artifactFile = ({ id, version, session }) => address(`/artifact-files/${part(id)}`, { version, session });

function artifactLink({ id, version, session }) {
  return linkTo("artifacts", id, id, { session, new: version });
}

/** Bytes that are not shown can be saved, under a type that no browser opens. */
function fileView({ url, mime_type: type }) {
  if (url === null) return null;
  const known = type === null ? null : [h("code", outside(type, { longest: 100 })), " "];
  return h("p", known, saveLink(url));
}

export const saveLink = (url) => h("a", { href: url, download: "" }, t("file.save"));

function spilledView(place) {
  return h("div", h("p", t("call.spilled"), " ", artifactLink(place)), wholeView(artifactFile(place)));
}

/** Which parts of an answer were cut, and a way to read them whole. */
export function cutNote(answer, whole) {
  if (!answer.cut.length) return null;
  const parts = answer.cut.slice(0, 20).map(({ part: name, characters }) =>
    h("li", t("call.cut", { part: shortText(name), characters: amount(characters) })),
  );
  return h("div.note", h("ul", parts), button(t("call.whole"), whole));
}

// Pictures from outside. The server tells by their bytes what they are and how large they get.
import { h, show } from "./dom.js";
import { note } from "./parts.js";
import { t } from "./words.js";

// A picture of more pixels than this takes the browser's memory when it is unpacked.
const MOST_PIXELS = 40_000_000;

export function refusePicture({ mime_type: type, width, height }) {
  if (type === null || width === null) return note(t("picture.unknown"));
  return width * height > MOST_PIXELS ? note(t("picture.huge", { width, height })) : null;
}

export function pictureView(bytes, { mime_type: type, width, height }) {
  const address = URL.createObjectURL(new Blob([bytes], { type }));
  const figure = h("figure.picture");
  // A picture that is shown does not need its address any more.
  const free = () => URL.revokeObjectURL(address);
  const broken = () => {
    free();
    show(figure, note(t("picture.broken")));
  };
  const image = h("img", { src: address, alt: t("picture.alt", { width, height }), on: { load: free, error: broken } });
  return show(figure, image, h("figcaption.faint.small", `${type}, ${width} × ${height}`));
}

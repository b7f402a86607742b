// The inbox: calls that wait for a person.

import { h, show } from "./dom.js";
import { t } from "./words.js";

export default {
  path: "/inbox",
  nav: "inbox",
  title: "inbox.title",
  role: null,
  async show(root) {
    show(root, h("div", { class: "page-head" }, h("h1", {}, t("inbox.title"))));
  },
};

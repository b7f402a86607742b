// Rules and modes: what decides on calls.

import { h, show } from "./dom.js";
import { t } from "./words.js";

export default {
  path: "/rules",
  nav: "rules",
  title: "rules.title",
  role: null,
  async show(root) {
    show(root, h("div", { class: "page-head" }, h("h1", {}, t("rules.title"))));
  },
};

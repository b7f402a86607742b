// All pages, in the order of the navigation. The first one whose path fits is shown.

import inbox from "./inbox.js";
import rules from "./rules.js";

export const PAGES = [inbox, rules];

// All pages, in the order of the navigation. The first one whose path fits is shown.

import inbox from "./inbox.js";
import * as artifacts from "./page_artifacts.js";
import call from "./page_call.js";
import calls from "./page_calls.js";
import * as runs from "./page_runs.js";
import servers from "./page_servers.js";
import * as tools from "./page_tools.js";
import plots from "./plots.js";
import rules from "./rules.js";

// One server is shown in the list of all.
const server = { ...servers, path: "/servers/:name", title: "servers" };

export const PAGES = [inbox, calls, call, plots, tools.list, tools.one, servers, server, artifacts.list, artifacts.one, runs.list, runs.one, rules];

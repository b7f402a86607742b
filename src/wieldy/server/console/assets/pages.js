// All pages, in the order of the navigation. The first one whose path fits is shown.

import inbox from "./inbox.js";
import artifact from "./page_artifact.js";
import artifacts from "./page_artifacts.js";
import call from "./page_call.js";
import calls from "./page_calls.js";
import agentRun from "./page_run.js";
import runs from "./page_runs.js";
import servers from "./page_servers.js";
import tool from "./page_tool.js";
import tools from "./page_tools.js";
import plots from "./plots.js";
import rules from "./rules.js";

// One server is shown in the list of all.
const server = { ...servers, path: "/servers/:name", nav: null, under: "servers" };

export const PAGES = [inbox, calls, call, plots, tools, tool, servers, server, artifacts, artifact, runs, agentRun, rules];

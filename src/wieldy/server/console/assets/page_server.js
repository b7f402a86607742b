// One server is shown in the list of all.
import page from "./page_servers.js";

export default { ...page, path: "/servers/:name", nav: null, under: "servers" };

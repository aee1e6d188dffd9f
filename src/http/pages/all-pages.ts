/** Every page but those of errors and of signing in. A new page is its own file here, its template in `views/pages/`, and one line below. */
export { auditPage } from "./audit.ts";
export { cidPage } from "./cid.ts";
export { mcpPage } from "./mcp.ts";
export { metaPage } from "./meta.ts";
export { secretsPage } from "./secrets.ts";
export { serverPage, serversPage } from "./servers.ts";
export { variablePage, variablesPage } from "./variables.ts";

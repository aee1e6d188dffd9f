/**
 * How each server is started, and requests whose answers are the same each time: most are refused, since no key here is
 * one. Without `args`, a server gets none.
 *
 * @typedef {readonly [method: string, params: Record<string, unknown>]} Asked
 * @typedef {{ args?: readonly string[], env?: Readonly<Record<string, string>>, asks: readonly Asked[],
 *   isBeyondLimits?: boolean, tellsTime?: boolean }} Server
 */

/** @param {string} name @param {Record<string, unknown>} args @returns {Asked} */
const call = (name, args = {}) => ["tools/call", { name, arguments: args }];
/** An address where nothing listens. */
const NOWHERE = "http://127.0.0.1:9";
const OPENAPI = {
  openapi: "3.0.0",
  info: { title: "One path", version: "1" },
  paths: { "/x": { get: { operationId: "getX", responses: { 200: { description: "fine" } } } } },
};
const HTTP_ALONE = ["--stdio"];

/**
 * @param {string} folder one that a server may read, with the file a.txt
 * @returns {Readonly<Record<string, Server>>}
 */
export function servers(folder) {
  return {
    "@agent-infra/mcp-server-filesystem": {
      args: ["--allowed-directories", folder],
      asks: [call("read_file", { path: `${folder}/a.txt` })],
    },
    "@amap/amap-maps-mcp-server": { env: { AMAP_MAPS_API_KEY: "none" }, asks: [call("maps_geo", { address: 1 })] },
    "@brave/brave-search-mcp-server": { env: { BRAVE_API_KEY: "none" }, asks: [call("brave_web_search")] },
    "@currents/mcp": {
      env: { CURRENTS_API_KEY: "none" },
      asks: [call("currents-get-runs", { projectId: 1 })],
      tellsTime: true,
    },
    "@cyanheads/git-mcp-server": { asks: [call("git_log", { path: folder, maxCount: "many" })] },
    "@delorenj/mcp-server-trello": {
      env: { TRELLO_API_KEY: "none", TRELLO_TOKEN: "none" },
      asks: [call("get_cards_by_list_id", { listId: 1 })],
    },
    "@drawio/mcp": { asks: [call("open_drawio_xml", { content: 1 })] },
    "@eslint/mcp": { asks: [call("lint-files", { filePaths: "none" })] },
    "@hubspot/mcp-server": {
      env: { PRIVATE_APP_ACCESS_TOKEN: "none" },
      asks: [call("hubspot-list-objects", { objectType: 1 })],
    },
    "@ivotoby/openapi-mcp-server": {
      args: ["--api-base-url", NOWHERE, "--spec-inline", JSON.stringify(OPENAPI)],
      asks: [call("get-x")],
    },
    "@jpisnice/shadcn-ui-mcp-server": { asks: [] },
    "@kimtaeyoon83/mcp-server-youtube-transcript": { asks: [call("get_transcript", { url: 1 })] },
    "@mapbox/mcp-server": {
      env: { MAPBOX_ACCESS_TOKEN: "pk.eyJ1Ijoibm9uZSJ9.none" },
      asks: [call("union_tool", { polygons: 1 })],
    },
    "@modelcontextprotocol/server-brave-search": {
      env: { BRAVE_API_KEY: "none" },
      asks: [call("brave_web_search", { query: 1 })],
    },
    "@modelcontextprotocol/server-budget-allocator": {
      args: HTTP_ALONE,
      asks: [call("get-budget-data"), ["resources/read", { uri: "ui://budget-allocator/mcp-app.html" }]],
    },
    "@modelcontextprotocol/server-cohort-heatmap": {
      args: HTTP_ALONE,
      asks: [["resources/read", { uri: "ui://get-cohort-data/mcp-app.html" }]],
    },
    "@modelcontextprotocol/server-customer-segmentation": {
      args: HTTP_ALONE,
      asks: [call("get-customer-data", { segment: 1 })],
    },
    "@modelcontextprotocol/server-everything": {
      args: ["stdio"],
      asks: [
        call("echo", { message: "hi" }),
        call("get-annotated-message", { messageType: "error", includeImage: true }),
        call("get-structured-content", { location: "New York" }),
        ["resources/read", { uri: "demo://resource/static/document/features.md" }],
        ["prompts/get", { name: "args-prompt", arguments: { city: "Paris", state: "Texas" } }],
      ],
    },
    "@modelcontextprotocol/server-filesystem": {
      args: [folder],
      asks: [call("read_text_file", { path: `${folder}/a.txt` }), call("list_directory", { path: folder })],
    },
    "@modelcontextprotocol/server-github": {
      env: { GITHUB_PERSONAL_ACCESS_TOKEN: "none" },
      asks: [call("get_issue", { owner: 1 })],
    },
    "@modelcontextprotocol/server-gitlab": {
      env: { GITLAB_PERSONAL_ACCESS_TOKEN: "none" },
      asks: [call("create_issue", { title: 1 })],
    },
    "@modelcontextprotocol/server-google-maps": { env: { GOOGLE_MAPS_API_KEY: "none" }, asks: [call("maps_none")] },
    "@modelcontextprotocol/server-map": {
      args: HTTP_ALONE,
      asks: [call("show-map", { north: "up" }), ["resources/read", { uri: "ui://cesium-map/mcp-app.html" }]],
    },
    "@modelcontextprotocol/server-memory": { asks: [call("search_nodes", { query: "none" })] },
    "@modelcontextprotocol/server-postgres": {
      args: ["postgresql://127.0.0.1:9/none"],
      asks: [call("query", { sql: "SELECT 1" })],
    },
    "@modelcontextprotocol/server-scenario-modeler": { args: HTTP_ALONE, asks: [call("get-scenario-data")] },
    "@modelcontextprotocol/server-sequential-thinking": { asks: [call("sequentialthinking", { thought: "one" })] },
    "@modelcontextprotocol/server-slack": {
      env: { SLACK_BOT_TOKEN: "none", SLACK_TEAM_ID: "none" },
      asks: [call("slack_post_message")],
    },
    "@modelcontextprotocol/server-system-monitor": {
      args: HTTP_ALONE,
      asks: [["resources/read", { uri: "ui://system-monitor/mcp-app.html" }]],
    },
    "@notionhq/notion-mcp-server": { env: { NOTION_TOKEN: "none" }, asks: [] },
    "@openbnb/mcp-server-airbnb": {
      args: ["--ignore-robots-txt"],
      asks: [call("airbnb_search", { location: 1 })],
      tellsTime: true,
    },
    "@perplexity-ai/mcp-server": {
      env: { PERPLEXITY_API_KEY: "none" },
      asks: [call("perplexity_ask", { messages: 1 })],
    },
    "@playwright/mcp": { asks: [call("browser_resize", { width: "wide" })] },
    "@roychri/mcp-server-asana": { env: { ASANA_ACCESS_TOKEN: "none" }, asks: [call("none")] },
    "@shortcut/mcp": { env: { SHORTCUT_API_TOKEN: "none" }, asks: [call("stories-get-by-id")] },
    "@softeria/ms-365-mcp-server": { asks: [call("login", { force: "no" })], isBeyondLimits: true },
    "@tacticlaunch/mcp-linear": { env: { LINEAR_API_TOKEN: "none" }, asks: [call("linear_createIssue")] },
    "@upstash/context7-mcp": { asks: [call("query-docs")] },
    "@wonderwhy-er/desktop-commander": { asks: [call("read_file", { path: 1 })] },
    "@zereight/mcp-gitlab": {
      env: { GITLAB_PERSONAL_ACCESS_TOKEN: "none", GITLAB_API_URL: NOWHERE },
      asks: [call("create_issue", { title: 1 })],
    },
    "airtable-mcp-server": { env: { AIRTABLE_API_KEY: "pat1.none" }, asks: [call("list_tables", { baseId: 1 })] },
    "argocd-mcp": {
      args: ["stdio"],
      env: { ARGOCD_BASE_URL: NOWHERE, ARGOCD_API_TOKEN: "none" },
      asks: [call("get_application", { applicationName: 1 })],
    },
    "chrome-devtools-mcp": { asks: [call("click", { uid: 1 })] },
    "exa-mcp-server": { env: { EXA_API_KEY: "none" }, asks: [call("web_search_exa", { query: 1 })] },
    "figma-developer-mcp": {
      args: ["--stdio", "--figma-api-key=none", `--image-dir=${folder}`],
      asks: [call("get_figma_data", { fileKey: 1 })],
    },
    "firecrawl-mcp": { env: { FIRECRAWL_API_KEY: "none" }, asks: [call("firecrawl_scrape", { url: 1 })] },
    "howtocook-mcp": { asks: [call("mcp_howtocook_recommendMeals", { peopleCount: "many" })] },
    "mcp-fetch-server": { asks: [call("fetch_html", { url: 1 })] },
    "mcp-graphql": { env: { ENDPOINT: NOWHERE }, asks: [call("query-graphql", { query: 1 })] },
    "mcp-server-code-runner": { asks: [call("run-code", { code: "1", languageId: "none" })] },
    "mcp-server-kubernetes": { asks: [call("none")] },
    "mcp-server-sqlite-npx": { args: [`${folder}/none.db`], asks: [call("list_tables")] },
    "mongodb-mcp-server": {
      env: { MDB_MCP_TELEMETRY: "disabled" },
      asks: [call("aggregate", { connectionId: 1 })],
    },
    "n8n-mcp": {
      env: { MCP_MODE: "stdio", DISABLE_CONSOLE_OUTPUT: "true", N8N_MCP_TELEMETRY_DISABLED: "true" },
      asks: [call("get_node", { nodeType: 1 })],
    },
    "next-devtools-mcp": { env: { NEXT_TELEMETRY_DISABLED: "1" }, asks: [] },
    "reddit-mcp-buddy": { asks: [call("search_reddit", { query: 1 })] },
    "resend-mcp": { env: { RESEND_API_KEY: "re_none" }, asks: [call("connect-to-editor", { resource_type: 1 })] },
    "tavily-mcp": { env: { TAVILY_API_KEY: "none" }, asks: [call("tavily_search", { query: 1 })] },
    "time-mcp": { asks: [call("days_in_month", { date: "2026-02-01" })] },
    "todoist-mcp": { env: { API_KEY: "none" }, asks: [call("create_comments", { items: 1 })] },
  };
}

/**
 * How each server is started, and requests whose answers are the same each time: most are refused, since no key here is
 * one. Without `args`, a server gets none.
 *
 * @typedef {readonly [method: string, params: Record<string, unknown>]} Asked
 * @typedef {{ args?: readonly string[], env?: Readonly<Record<string, string>>, asks: readonly Asked[] }} Server
 */

/** @param {string} name @param {Record<string, unknown>} args @returns {Asked} */
const call = (name, args = {}) => ["tools/call", { name, arguments: args }];
const HTTP_ALONE = ["--stdio"];

/**
 * @param {string} folder one that a server may read, with the file a.txt
 * @returns {Readonly<Record<string, Server>>}
 */
export function servers(folder) {
  return {
    "@brave/brave-search-mcp-server": { env: { BRAVE_API_KEY: "none" }, asks: [call("brave_web_search")] },
    "@cyanheads/git-mcp-server": { asks: [call("git_log", { path: folder, maxCount: "many" })] },
    "@eslint/mcp": { asks: [call("lint-files", { filePaths: "none" })] },
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
    "@playwright/mcp": { asks: [call("browser_resize", { width: "wide" })] },
    "@upstash/context7-mcp": { asks: [call("query-docs")] },
    "@wonderwhy-er/desktop-commander": { asks: [call("read_file", { path: 1 })] },
    "airtable-mcp-server": { env: { AIRTABLE_API_KEY: "pat1.none" }, asks: [call("list_tables", { baseId: 1 })] },
    "chrome-devtools-mcp": { asks: [call("click", { uid: 1 })] },
    "exa-mcp-server": { env: { EXA_API_KEY: "none" }, asks: [call("web_search_exa", { query: 1 })] },
    "figma-developer-mcp": {
      args: ["--stdio", "--figma-api-key=none", `--image-dir=${folder}`],
      asks: [call("get_figma_data", { fileKey: 1 })],
    },
    "firecrawl-mcp": { env: { FIRECRAWL_API_KEY: "none" }, asks: [call("firecrawl_scrape", { url: 1 })] },
    "mcp-server-code-runner": { asks: [call("run-code", { code: "1", languageId: "none" })] },
    "mcp-server-kubernetes": { asks: [call("none")] },
    "mcp-server-sqlite-npx": { args: [`${folder}/none.db`], asks: [call("list_tables")] },
    "tavily-mcp": { env: { TAVILY_API_KEY: "none" }, asks: [call("tavily_search", { query: 1 })] },
  };
}

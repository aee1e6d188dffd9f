/**
 * Requests of the JSON API, of pages and of MCP whose texts are as hard to read as their limits allow. Each is a list of
 * steps; what a page shows is saved first. `Berth-Allow-Breaking` and `If-Match: *` let the same save be repeated.
 * `${cid}` in a path stands for the version that was saved first, and `${last}` for the last one.
 *
 * @typedef {{ path: string, method?: string, type?: string, body?: string, headers?: Record<string, string> }} Step
 */

const many = (count, of) => Array.from({ length: count }, (_, index) => of(index));
const members = (count, value) => Object.fromEntries(many(count, (at) => [`k${(at * 7_919) % count}`, value(at)]));
const MEGABYTE = 1024 * 1024;
/** Fills a JSON list of these items up to a length. */
const filled = (units, item) =>
  `[${Array(Math.floor((units - 2) / (item.length + 1)))
    .fill(item)
    .join()}]`;

const JSON_ONLY = { Accept: "application/json" };
const get = (path, headers = {}) => ({ path, headers: { Accept: "text/html", ...headers } });
const put = (path, body, type = "text/plain") => ({
  path,
  method: "PUT",
  type,
  body: typeof body === "string" ? body : JSON.stringify(body),
  headers: { "If-Match": "*", "Berth-Allow-Breaking": "true" },
});
const post = (path, body, type = "application/json", headers = {}) => ({
  ...put(path, body, type),
  method: "POST",
  headers,
});
const review = (kind, name, text) => post(`/api/${kind}/${name}/review`, text, "text/plain");
const rpc = (method, params, server = "hostile") =>
  post(`/mcp/${server}`, { jsonrpc: "2.0", id: 1, method, params }, "application/json", {
    Accept: "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-06-18",
  });

const ranges = (at) => `>=1.${at}.0 `.repeat(20) + "||1";
const sha = (at) => `sha512-${String(at).padStart(86, "a")}==`;
const locked = (at, more = {}) => ({ name: `expresx${at}`, version: "1.2.3", integrity: sha(at), ...more });
const set = (count, { needs = () => ({}), line = () => ({}) } = {}) => ({
  dependencies: Object.fromEntries(many(count, (at) => [`expresx${at}`, ranges(at)])),
  packages: Object.fromEntries(many(count, (at) => [`node_modules/expresx${at}`, locked(at, needs(at))])),
  lines: Object.fromEntries(many(count, (at) => [`node_modules/expresx${at}`, line(at)])),
});
const packages = {
  dependencies: { dependencies: members(75_000, () => "1") },
  // The last one is refused, so that no npm is started.
  ranges: {
    dependencies: {
      ...Object.fromEntries(many(999, (at) => [`expresx${at}`, ranges(at).padEnd(250)])),
      last: "git+https://a.example",
    },
  },
  set: set(1_000, { line: () => ({ dependencies: members(20, () => "1"), hasInstallScript: true }) }),
  needs: set(2, { needs: () => ({ dependencies: many(60_000, (at) => `n${at}`) }) }),
  lines: set(2, { line: () => ({ dependencies: members(35_000, () => "1") }) }),
  deep: `{"dependencies":${'{"a":'.repeat(60_000)}1${"}".repeat(60_000)}}`,
};

const prompts = (count, text) => ({ p: { messages: many(count, () => ({ role: "user", content: text })) } });
const entries = {
  fields: members(24_000, () => 1),
  limits: { limits: members(24_000, () => 1) },
  network: { network: many(24_000, (at) => `h${at}.example.com:443`) },
  networkRead: { network: many(5_000, (at) => `h${at}.example.com:443`) },
  secrets: { secrets: many(24_000, (at) => `-${at}`) },
  variables: { variables: many(24_000, (at) => `v${at}`) },
  env: { env: Object.fromEntries(many(128, (at) => [`E${at}`, many(350, (name) => `\${V${at}_${name}}`).join("")])) },
  tools: { tools: members(900, () => ({ description: "d".repeat(900), inputSchema: { type: "object" } })) },
  schemas: {
    tools: members(15, () => ({ inputSchema: { type: "object", properties: members(1_600, () => true) } })),
  },
  options: { options: members(12_000, () => ({})) },
  prompts: { prompts: prompts(2_000, "{{a}}".repeat(90)) },
  templates: {
    resources: members(900, (at) => ({
      uriTemplate: `r://${at}/${many(40, (name) => `{a${name}}`).join("/")}`,
      text: "x",
    })),
  },
  longTemplate: { resources: { r: { uriTemplate: `r://${many(100_000, (at) => `{a${at}}`).join("/")}`, text: "x" } } },
  longUri: { resources: { r: { uri: `http://${"a:".repeat(450_000)}`, text: "x" } } },
  description: { description: "\u0001".repeat(170_000) },
};

/** Contents that pages of a server show, and that clients receive. */
const shown = (name) => [
  ...["connect", "tools", "code", "settings", "releases", "calls"].map((tab) => get(`/mcp/meta/${name}?tab=${tab}`)),
  get("/mcp?q=zzz"),
  get(`/api/entries/${name}`, JSON_ONLY),
  get(`/api/definitions/${name}`, JSON_ONLY),
  rpc("tools/list", {}, name),
  rpc("resources/list", {}, name),
  rpc("resources/templates/list", {}, name),
  rpc("prompts/list", {}, name),
  rpc("tools/list", {}, ""),
  rpc("resources/read", { uri: `r://0/${"a/".repeat(40)}` }, name),
  rpc("resources/read", { uri: `nothing://${"a/".repeat(4_000)}` }, ""),
  rpc("prompts/get", { name: "p", arguments: { a: "\u0001".repeat(50_000) } }, name),
];

const lines = (count, of) => many(count, of).join("\n");
const variables = {
  lists: filled(MEGABYTE, "[]"),
  numbers: filled(MEGABYTE, "1"),
  deep: `${"[".repeat(MEGABYTE / 2)}${"]".repeat(MEGABYTE / 2)}`,
  newlines: "\n".repeat(MEGABYTE),
  quotes: '"'.repeat(MEGABYTE),
  controls: "\u0001".repeat(MEGABYTE),
  tags: "<a&".repeat(MEGABYTE / 3),
  cids: "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy ".repeat(MEGABYTE / 60),
};

const functions = (count, of) => lines(count, of);
const definitions = {
  manyFunctions: functions(
    1_000,
    (at) => `/** Tool ${at}. */\nexport function f${at}(a: number): number { return a; }`,
  ),
  manyProblems: functions(8_000, (at) => `export function f${at}(a: () => void): number { return a; }`),
  longComment: `/** ${"* a ".repeat(250_000)} */\nexport function f(): number { return 1; }\n`,
  longLine: `export function f(): string { return "${"é".repeat(500_000)}"; }\n`,
  script: `#!/bin/sh\n${lines(40_000, (at) => `# @param p${at} a`)}\necho 1\n`,
};
const draft = (count, text) => ({
  entry: "a.ts",
  files: {
    "a.ts": "export function f(): number { return 1; }\n",
    ...Object.fromEntries(many(count, (at) => [`f${at}.txt`, text])),
  },
});

const mcps = {
  manyEntries: Object.fromEntries(many(11_000, (at) => [`s${at}`, { definition: "x", description: "d".repeat(250) }])),
  longNames: Object.fromEntries(many(11_000, (at) => [`${"n".repeat(330)}${at}`, 1])),
  deep: `{"a":${"[".repeat(2_000_000)}${"]".repeat(2_000_000)}}`,
  bigEntries: Object.fromEntries(many(10, (at) => [`s${at}`, { options: members(12_000, () => ({})) }])),
  duplicates: `{${Array(300_000).fill('"a":{}').join()}}`,
  notJson: `{${Array(300_000).fill('"a":{}').join()}`,
};

const long = "a".repeat(14_000);
const pairs = (count, of) => many(count, of).join("&");
const template = "r://x/{a}/{b}/{c}";

/** The same of a harmless server: what is done for the first time takes longer, whatever is in it. */
export const warmUp = [put("/api/entries/calm", { description: "calm" }), ...shown("calm")];

/** @type {Record<string, Step[]>} */
export const requests = {
  ...each("packages reviewed", packages, (text) => [review("variables", "packages", textOf(text))]),
  ...each("entry reviewed", entries, (text) => [review("entries", "calm", textOf(text))]),
  ...each("entry saved and shown", entries, (text) => [put("/api/entries/attacked", text), ...shown("attacked")]),
  ...each("mcps reviewed", mcps, (text) => [review("variables", "mcps", textOf(text))]),
  ...each("variable saved, its pages", variables, (text, name) => [
    { ...put(`/api/variables/${name}`, text), headers: { "If-None-Match": "*" } },
    put(`/api/variables/${name}`, text),
    get(`/api/variables/${name}`, JSON_ONLY),
    get(`/variables/${name}`),
    get("/cid/${cid}"),
    put(`/api/variables/${name}`, text.replaceAll(/[1\n]/g, "2\n").slice(0, MEGABYTE)),
    get(`/variables/${name}?version=\${cid}`),
    get(`/variables/${name}?from=\${cid}&to=\${last}`),
    get(`/api/variables/${name}/diff?from=\${cid}`),
  ]),
  ...each("definition saved and shown", definitions, (text, name) => [
    { ...put(`/api/definitions/${name}`, text), headers: { "If-None-Match": "*" } },
    put(`/api/definitions/${name}`, text.replaceAll("number", "string")),
    ...shown(name),
  ]),
  "definition of many files": [
    post("/api/definitions/attacked/review", draft(250, "\n".repeat(15_000))),
    post("/api/definitions/attacked/review", draft(3, "é".repeat(500_000))),
  ],
  "draft of many values": [post("/api/definitions/attacked/review", `{"files":${filled(4_000_000, "[]")}}`)],
  "short bodies": [
    post("/api/packages/review", { add: many(6_000, (at) => `pkg${at}@1`), remove: [], update: [] }),
    post("/api/packages/review", { add: [...many(240, (at) => `p${at}@${ranges(at)}`), "last@git+x:y"] }),
    post("/api/packages/review", filled(64_000, "[]")),
    post("/api/tokens", filled(64_000, "[]")),
    post("/api/tokens", { name: "n", permissions: many(10_000, () => "*") }),
    put("/api/secrets/S", filled(64_000, "[]"), "application/json"),
    put("/api/secrets/S", "\u0001".repeat(64_000)),
    {
      ...put("/api/state/calm/value?key=k", filled(64_000, "[]"), "application/json"),
      headers: { "If-None-Match": "*" },
    },
    get("/state/calm?key=k"),
    get("/api/state/calm/value?key=k", JSON_ONLY),
    get("/api/state/calm", JSON_ONLY),
    post("/api/servers/calm/approve", filled(64_000, "[]")),
    post(
      "/sign-in",
      pairs(2_000, (at) => `a${at}=1`),
      "application/x-www-form-urlencoded",
    ),
  ],
  "headers and queries": [
    get(`/mcp?q=${long}`),
    get(`/mcp?${pairs(2_500, (at) => `a${at}`)}`),
    get(`/mcp?${"a[".repeat(5_000)}`),
    get(`/audit?q=${long}&since=${long}`),
    get(`/${"%41".repeat(4_500)}`),
    get(`/${"../".repeat(4_500)}`),
    get(`/mcp/meta/${"%2F".repeat(4_500)}`),
    get("/mcp", { Cookie: many(2_500, (at) => `a${at}=b`).join("; ") }),
    get("/mcp", { Accept: Array(3_000).fill("a/b").join() }),
    get("/mcp", { "Accept-Language": Array(3_000).fill("en").join() }),
    get("/mcp", { "If-None-Match": Array(3_000).fill('"a"').join() }),
    get("/mcp", { Authorization: `Bearer ${"a.".repeat(7_000)}` }),
    get("/mcp", { "Accept-Encoding": Array(3_000).fill("br").join() }),
    get("/mcp", { Forwarded: 'for="[::1]";'.repeat(1_000), "X-Forwarded-For": "::1,".repeat(3_000) }),
  ],
  "names and uris of MCP": [
    put("/api/entries/uris", {
      resources: Object.fromEntries(many(300, (at) => [`r${at}`, { uriTemplate: `${template}${at}`, text: "x" }])),
    }),
    rpc("tools/list", {}, "uris"),
    rpc("resources/read", { uri: `r://x/${"a/".repeat(30_000)}` }, "uris"),
    rpc("resources/read", { uri: `r://x/${"%".repeat(60_000)}` }, "uris"),
    rpc("resources/read", { uri: `r://x/${"a".repeat(3_900_000)}` }, "uris"),
    rpc("resources/read", { uri: `server://${"a/".repeat(1_900_000)}` }, "uris"),
    rpc("resources/read", { uri: `variable://${"%41".repeat(1_300_000)}` }, "uris"),
    rpc("tools/call", { name: "a.".repeat(30_000), arguments: {} }),
    rpc("tools/call", { name: "a.".repeat(1_900_000), arguments: {} }, ""),
    rpc("prompts/get", { name: "x", arguments: members(8_000, () => "a") }),
    rpc("completion/complete", {
      ref: { type: "ref/resource", uri: template.repeat(3_000) },
      argument: { name: "a", value: "b" },
    }),
    rpc("tools/list", { cursor: "a".repeat(3_900_000) }),
    rpc("a".repeat(3_900_000), {}),
    rpc("tools/list", { _meta: members(90_000, () => 1) }),
    post("/mcp/hostile", filled(3_900_000, "{}")),
    post("/mcp/hostile", filled(64_000, "[]")),
    post("/mcp/hostile", filled(60_000, '{"jsonrpc":"2.0","method":"ping","id":1}')),
    post("/servers/hostile/f", filled(3_900_000, "[]")),
    get("/audit", {}),
    get(`/audit?principal=${"a".repeat(4_000)}&server=${"b".repeat(4_000)}`),
  ],
};

function each(title, texts, steps) {
  return Object.fromEntries(Object.entries(texts).map(([name, text]) => [`${title}: ${name}`, steps(text, name)]));
}

function textOf(text) {
  return typeof text === "string" ? text : JSON.stringify(text);
}

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { renderDiff, editedText, type ConfigFile } from "../../../src/config-files/config-file.ts";
import { json, jsonc } from "../../../src/config-files/json-file.ts";
import { clients, findClient, type ClientKind } from "../../../src/features/clients/clients.ts";
import { toml } from "../../../src/features/clients/toml-file.ts";
import { rows } from "../../support/rows.ts";

const FORMATS = { json, jsonc, toml };
const SERVER = { name: "echo", url: "http://127.0.0.1:7420/mcp/echo", needsToken: true };

const cursor = findClient("cursor")!;
const codex = findClient("codex")!;
const vsCode = findClient("vs-code")!;

function fileOf(text: string | undefined, { format }: ClientKind): ConfigFile {
  return { path: "/x/file", target: "/x/file", text, format: FORMATS[format] };
}

const added = (text: string | undefined, client: ClientKind): string =>
  editedText(fileOf(text, client), client.parts(SERVER), "add");
const removed = (text: string, client: ClientKind): string =>
  editedText(fileOf(text, client), client.parts(SERVER), "remove");

const JSON_FILES = {
  "of other servers": '{\n  "mcpServers": {\n    "a": { "url": "http://a" }\n  }\n}\n',
  "that another program has indented by tabs": '{\n\t"theme": "dark",\n\t"mcpServers": {\n\t\t"a": {}\n\t}\n}',
  "with nothing of servers": '{ "theme": "dark" }\n',
  "on one line": '{"a":{"b":[1,2]},"mcpServers":{"a":{"url":"x"}}}',
  "of Windows": '{\r\n    "mcpServers": {\r\n        "a": {}\r\n    },\r\n    "z": 1\r\n}\r\n',
  "with a byte-order mark": '\ufeff{\n  "theme": "dark"\n}\n',
};
const JSONC_FILES = {
  "with comments on all sides":
    '// first\n{\n  // before\n  "mcpServers": {\n    "a": { "url": "x" } // behind, with a comma\n    // last\n  }, /* after */\n  "z": 1 // end\n}\n// over\n',
  "with trailing commas": '{\n  "mcpServers": {\n    "a": {},\n  },\n}\n',
};
const TOML_FILES = {
  "of other servers": '# mine\nmodel = "x" # why\n\n[mcp_servers.a]\nurl = "b"\n\n[mcp_servers.a.env]\nK = "v"\n',
  "whose last line has no end": "a = 1",
  "of Windows": 'a = 1\r\n\r\n[b]\r\nc = "d"\r\n',
  "that ends in empty lines": "a = 1\n\n\n",
  "with comments at its end": "[b]\nc = 1\n# the end\n",
};

describe("a client's own file (C6)", () => {
  for (const [name, client, files] of [
    ["JSON", findClient("claude-code")!, JSON_FILES],
    ["JSON with comments", cursor, { ...JSON_FILES, ...JSONC_FILES }],
    ["TOML", codex, TOML_FILES],
  ] as const) {
    for (const [what, text] of Object.entries(files)) {
      it(`${name} ${what} is as before, byte for byte, when a server was added and taken back`, () => {
        const after = added(text, client);
        assert.notEqual(after, text);
        assert.equal(added(after, client), after);
        assert.equal(removed(after, client), text);
      });
    }
  }

  it("keeps each comment beside what it is about", () => {
    const after = added(JSONC_FILES["with comments on all sides"], cursor);
    assert.match(after, /"url": "x" \}, \/\/ behind, with a comma\n {4}\/\/ last\n {4}"echo": \{\n {6}"url"/);
  });

  it("has a server in place of its earlier one, and what others say of it below stays", () => {
    const text =
      '[mcp_servers.echo]\nurl = "http://127.0.0.1:7420/mcp/echo"\n\n[mcp_servers.echo.tools.say]\nok = true\n';
    const after = added(text, codex);
    assert.match(
      after,
      /^\[mcp_servers\.echo\]\nurl = ".*"\nbearer_token_env_var = "BERTH_TOKEN"\n\n\[mcp_servers\.echo\.tools/,
    );
    assert.equal(removed(`model = "x"\n\n${after}`, codex), 'model = "x"\n');
  });

  it("is taken back wherever it stands by then", () => {
    const after = added('{\n  "mcpServers": {}\n}\n', cursor);
    const later = after
      .replace('"echo": {', '"first": {},\n    "echo": {')
      .replace(/\n {4}\}\n/, '\n    },\n    "last": {}\n');
    assert.equal(removed(later, cursor), '{\n  "mcpServers": {\n    "first": {},\n    "last": {}\n  }\n}\n');
  });

  it("goes, or its object does, when nothing else was in it", () => {
    for (const client of clients) assert.equal(removed(added(undefined, client), client), "", client.id);
    assert.equal(removed(added('{\n  "a": 1,\n  "mcpServers": {}\n}\n', cursor), cursor), '{\n  "a": 1\n}\n');
  });

  it("gets the input that VS Code asks for beside others, once, and loses that alone", () => {
    const text = '{\n  "inputs": [{ "id": "other", "type": "promptString" }],\n  "servers": {\n    "a": {}\n  }\n}\n';
    const after = added(text, vsCode);
    const { inputs, servers } = JSON.parse(after) as { inputs: { id: string }[]; servers: object };
    assert.deepEqual(rows(inputs, "id"), ["other", "echo-token"]);
    assert.deepEqual(Object.keys(servers), ["a", "echo"]);
    assert.equal(removed(after, vsCode), text);
  });

  for (const [what, client, text, place] of [
    ["that is no JSON", cursor, '{\n  "a": 1\n  "b": 2\n}', /The client's file was not changed: \/x\/file:3:3: /],
    ["with comments where its client takes none", findClient("claude-code")!, "{\n  // why\n}", /file:2:3: /],
    ["that is no object", cursor, "[]", /file:1:1: an object is expected here/],
    ["whose servers are no object", cursor, '{ "mcpServers": [] }', /file:1:17: "mcpServers" is not an object/],
    [
      "with two objects of servers",
      cursor,
      '{ "mcpServers": {},\n"mcpServers": {} }',
      /file:2:1: "mcpServers" appears twice/,
    ],
    ["that is no TOML", codex, "a = 1\nb = [", /file:2:6: /],
    [
      "with a table on one line",
      codex,
      'a = 1\nmcp_servers = { a = { url = "b" } }\n',
      /file:2:1: mcp_servers\.echo is not written as a table/,
    ],
  ] as const) {
    it(`${what} is refused with its line and column`, () => {
      assert.throws(() => added(text, client), place);
    });
  }

  it("shows no value of its other entries, which may hold tokens", () => {
    const text =
      '{\n  "mcpServers": {\n    "a": { "headers": { "Authorization": "Bearer s3cret" } }\n  },\n  "apiKey": "s3cret"\n}\n';
    const file = fileOf(text, cursor);
    const parts = cursor.parts(SERVER);
    const shown = renderDiff(file, editedText(file, parts, "add"), parts);
    assert.match(shown, /^\+ {4}"echo": \{$/m);
    assert.match(shown, /Bearer \$\{env:BERTH_TOKEN\}/);
    assert.ok(!shown.includes("s3cret"), shown);
    const own = fileOf('[mcp_servers.a]\nbearer = "s3cret"\n', codex);
    assert.ok(!renderDiff(own, editedText(own, codex.parts(SERVER), "add"), codex.parts(SERVER)).includes("s3cret"));
  });

  it("rejects a name with a meaning in JavaScript, and changes no prototype", () => {
    for (const name of ["__proto__", '"constructor"', "prototype"]) {
      assert.throws(() => added(`[a.${name}]\npolluted = true\n`, codex), /this name is reserved/);
    }
    assert.equal(Object.hasOwn(Object.prototype, "polluted"), false);
  });

  it("may be as long as that of a client that keeps its history there", () => {
    const projects = Array.from({ length: 5_000 }, (_, index) => [
      `/p${index}`,
      { history: ["a", "b", "c"], allowed: [] },
    ]);
    const text = JSON.stringify({ projects: Object.fromEntries(projects), mcpServers: { a: {} } }, null, 2);
    const claudeCode = findClient("claude-code")!;
    const file = fileOf(text, claudeCode);
    const parts = claudeCode.parts(SERVER);
    const before = process.cpuUsage();
    const after = editedText(file, parts, "add");
    assert.match(renderDiff(file, after, parts), /^\+ {4}"echo": \{$/m);
    const { user } = process.cpuUsage(before);
    assert.ok(user < 5_000_000, `${user / 1_000} ms of processor time`);
  });

  it("stands where each system has it", () => {
    const at = (id: string, platform: NodeJS.Platform, env: NodeJS.ProcessEnv = {}): string =>
      findClient(id)!.userFile({ HOME: "/home/ada", ...env }, platform);
    assert.equal(at("vscode", "linux"), "/home/ada/.config/Code/User/mcp.json");
    assert.equal(at("vs-code", "darwin"), "/home/ada/Library/Application Support/Code/User/mcp.json");
    assert.match(
      at("claude-desktop", "win32", { APPDATA: "/roaming" }),
      /^\/roaming.Claude.claude_desktop_config\.json$/,
    );
    assert.equal(at("codex", "linux", { CODEX_HOME: "/codex" }), "/codex/config.toml");
    assert.equal(at("claude-code", "linux"), "/home/ada/.claude.json");
    assert.equal(at("opencode", "linux", { XDG_CONFIG_HOME: "/config" }), "/config/opencode/opencode.json");
    assert.equal(at("gemini", "linux"), "/home/ada/.gemini/settings.json");
  });
});

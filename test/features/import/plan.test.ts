import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { planImport, type ImportPlan, type PlanOptions } from "../../../src/features/import/plan.ts";
import { BerthError } from "../../../src/lib/errors.ts";

const PLACE = { folder: "/project", home: "/home/ada" };
const plan = (text: string | object, options: PlanOptions = PLACE, file = "mcp.json"): ImportPlan =>
  planImport(file, typeof text === "string" ? text : JSON.stringify(text), options);
const entriesIn = ({ servers }: ImportPlan): Record<string, object> =>
  Object.fromEntries(servers.map(({ name, entry }) => [name, entry]));
const one = (server: object, options?: PlanOptions): object | undefined =>
  entriesIn(plan({ mcpServers: { one: server } }, options))["one"];

describe("the plan of an import", () => {
  it("reads every client's list: JSON with comments, TOML, YAML, and fragments", () => {
    const npx = { command: "npx", args: ["-y", "pkg@1.0.0", "--a b"] };
    const upstream = { upstream: "mcp+npx://pkg@1.0.0?arg=--a%20b" };
    for (const [file, text] of [
      ["mcp.json", { mcpServers: { s: npx } }],
      ["mcp.json", { servers: { s: { type: "stdio", ...npx } }, inputs: [] }],
      ["settings.json", { mcp: { servers: { s: npx } } }],
      ["opencode.json", { mcp: { s: { type: "local", command: ["npx", "-y", "pkg@1.0.0", "--a b"], enabled: true } } }],
      ["settings.json", { context_servers: { s: { source: "custom", command: { path: "npx", args: npx.args } } } }],
      ["settings.json", { "amp.mcpServers": { s: npx } }],
      ["config.json", { mcpServers: [{ name: "s", ...npx }] }],
      [".claude.json", { projects: { "/project": { mcpServers: { s: npx } } } }],
      ["standard input", { s: npx }],
      ["standard input", `"s": ${JSON.stringify(npx)}`],
      [
        "standard input",
        `// mine\n{"mcpServers": {"s": {"command": "npx", /* first */ "args": ["pkg@1.0.0", "--a b",],},},}`,
      ],
      ["config.toml", '[mcp_servers.s]\ncommand = "npx"\nargs = ["-y", "pkg@1.0.0", "--a b"]\n'],
      ["standard input", '[mcp_servers.s]\ncommand = "npx"\nargs = ["pkg@1.0.0", "--a b"]\n'],
      ["config.yaml", "extensions:\n  s:\n    type: stdio\n    cmd: npx\n    args: [pkg@1.0.0, --a b]\n"],
      ["standard input", "mcpServers:\n  - name: s\n    command: npx\n    args: [pkg@1.0.0, --a b]\n"],
    ] as const) {
      assert.deepEqual(entriesIn(plan(text, PLACE, file)), { s: upstream }, JSON.stringify([file, text]));
    }
  });

  it("writes packages and URLs as launcher URIs, and other programs as commands", () => {
    const cases: [server: object, entry: object][] = [
      [{ command: "uvx", args: ["--from", "pkg==1.2", "tool", "x"] }, { upstream: "mcp+uvx://pkg@1.2/tool?arg=x" }],
      [{ command: "cmd", args: ["/c", "npx", "-y", "pkg"] }, { upstream: "mcp+npx://pkg" }],
      [
        { command: "npx", args: ["pkg", "./data"], env: { A: "1" } },
        { upstream: "mcp+npx://pkg?arg=./data&env.A=1&cwd=/project" },
      ],
      [
        { command: "npx", args: ["-y", "github:a/b"] },
        { command: "npx", args: ["-y", "github:a/b"] },
      ],
      [
        { command: ".venv/bin/python", args: ["-m", "x"] },
        { command: "/project/.venv/bin/python", args: ["-m", "x"], cwd: "/project" },
      ],
      [
        { command: "~/bin/x", cwd: "${workspaceFolder}/src" },
        { command: "/home/ada/bin/x", cwd: "/project/src" },
      ],
      [
        { type: "sse", url: "https://a.example/mcp?x=1&y=${env:Y}" },
        { upstream: "mcp+https://a.example/mcp?query.x=1&query.y=${Y}" },
      ],
      [
        { serverUrl: "https://a.example/", headers: { "X-A": "b" } },
        { upstream: "mcp+https://a.example/?header.X-A=b" },
      ],
      [
        { url: "https://a.example", bearer_token_env_var: "T" },
        { upstream: "mcp+https://a.example?header.Authorization=Bearer%20${T}" },
      ],
      [
        { url: "https://a.example", disabled: true },
        { enabled: false, upstream: "mcp+https://a.example" },
      ],
      [
        { command: "x", env: { A: "${env:A}", B: "${B:-c}", C: "{env:C}", D: "a$${x", E: "${1}" } },
        {
          command: "x",
          cwd: "/project",
          env: { A: "${A}", B: "${B:-c}", C: "${C}", D: "a$${x", E: "$${1}" },
        },
      ],
    ];
    for (const [server, entry] of cases) assert.deepEqual(one(server), entry, JSON.stringify(server));
  });

  it("moves credentials to secrets, by their names and by their forms", () => {
    const token = "ghp_0123456789abcdefghijABCDEFGHIJ";
    const cases: [server: object, secrets: Record<string, string>][] = [
      [{ command: "npx", args: ["p"], env: { API_KEY: "hunter2hunter2" } }, { API_KEY: "hunter2hunter2" }],
      [{ command: "npx", args: ["p"], env: { PLAIN: `x ${token}` } }, { PLAIN: token }],
      [{ command: "npx", args: ["p", "--access-token", "hunter22"] }, { ONE_ACCESS_TOKEN: "hunter22" }],
      [{ command: "npx", args: ["p", "--password=hunter22"] }, { ONE_PASSWORD: "hunter22" }],
      [{ command: "npx", args: ["p", "postgres://me:pw@host/db"] }, { ONE_URL: "postgres://me:pw@host/db" }],
      [{ command: "docker", args: ["run", "-e", "TOKEN=hunter22", "img"] }, { TOKEN: "hunter22" }],
      [{ url: "https://a.example", headers: { Authorization: "Bearer hunter22" } }, { ONE_TOKEN: "hunter22" }],
      [{ url: "https://a.example", headers: { "X-Api-Key": "hunter22" } }, { ONE_X_API_KEY: "hunter22" }],
      [{ url: "https://a.example?api_key=hunter22" }, { ONE_API_KEY: "hunter22" }],
      [{ url: "https://me:hunter22@a.example" }, { ONE_AUTHORIZATION: Buffer.from("me:hunter22").toString("base64") }],
      [{ command: "x", env: { A: "${TOKEN:-hunter22}" } }, { TOKEN: "hunter22" }],
    ];
    for (const [server, secrets] of cases) {
      const made = plan({ mcpServers: { one: server } });
      assert.deepEqual(Object.fromEntries(made.secrets), secrets, JSON.stringify(made));
      assert.deepEqual(made.servers[0]!.entry["secrets"], Object.keys(secrets));
      for (const value of Object.values(secrets)) assert.ok(!JSON.stringify(made.servers).includes(value), value);
    }
    const hidden = "hunter2hunter2hunter2";
    for (const text of [
      `--env=API_KEY=${hidden}`,
      `-e=API_KEY=${hidden}`,
      `--header=X-Api-Key: ${hidden}`,
      `--header=Authorization: Bearer ${hidden}`,
      JSON.stringify({ apiKey: hidden }),
      JSON.stringify({ headers: { Authorization: `Bearer ${hidden}`, "X-Token": hidden } }),
      `Server=h;User Id=u;Password=${hidden};`,
    ]) {
      for (const server of [
        { command: "x", args: ["run", text, "img"] },
        { command: "x", env: { SETTINGS: text } },
      ]) {
        const made = plan({ mcpServers: { one: server } });
        assert.equal(made.secrets.size, 1, text);
        assert.ok(!JSON.stringify(made.servers).includes(hidden), JSON.stringify(made.servers));
      }
    }
    const docker = one({ command: "docker", args: ["run", "-e", "TOKEN=hunter22", "img"] });
    assert.deepEqual(docker, {
      command: "docker",
      args: ["run", "-e", "TOKEN", "img"],
      env: { TOKEN: "${TOKEN}" },
      secrets: ["TOKEN"],
    });
    const none = { MAX_TOKENS: "512", KEY_FILE: "./k.pem", USE_AUTH: "true", A: "3f0c", API_KEY: "" };
    assert.equal(plan({ mcpServers: { one: { command: "x", env: none } } }).secrets.size, 0);
  });

  it("uses one secret for one value, and another name for another value", () => {
    const server = (key: string): object => ({ command: "npx", args: ["p"], env: { API_KEY: key } });
    const servers = { a: server("value-one"), b: server("value-one"), c: server("value-two") };
    const stored = new Map<string, string | true>([["C_API_KEY", true]]);
    const made = plan({ mcpServers: servers }, { ...PLACE, stored });
    assert.deepEqual(Object.fromEntries(made.secrets), { API_KEY: "value-one", C_API_KEY_2: "value-two" });
  });

  it("names secrets that people have to set: inputs and placeholders", () => {
    const text = {
      inputs: [{ id: "api-key", description: "The key", password: true }],
      servers: {
        a: { command: "x", env: { A: "${input:api-key}" } },
        b: { url: "https://b.example", headers: { Authorization: "Bearer <YOUR_TOKEN>" } },
      },
    };
    const made = plan(text);
    assert.deepEqual(Object.fromEntries(made.unset), { API_KEY: "The key", B_TOKEN: "a placeholder in the file" });
    assert.equal(made.secrets.size, 0);
  });

  it("gives no server a secret that exists already", () => {
    const inputs = [{ id: "prod-token" }];
    const servers = {
      evil: { url: "https://evil.example", headers: { A: "${input:prod-token}", "X-Key": "<YOUR_KEY>" } },
    };
    const stored = new Map([
      ["PROD_TOKEN", true as const],
      ["EVIL_X_KEY", true as const],
    ]);
    const { entry } = plan({ inputs, servers }, { ...PLACE, stored }).servers[0]!;
    assert.deepEqual(entry["secrets"], ["EVIL_PROD_TOKEN", "EVIL_EVIL_X_KEY"].sort());
  });

  it("reads an envFile of the project, and no other file", () => {
    const readFile = (path: string) => (path === "/project/.env.local" ? "A=1\nTOKEN=hunter22\n" : undefined);
    const server = { command: "x", envFile: "${workspaceFolder}/.env.local", env: { A: "2" } };
    assert.deepEqual(one(server, { ...PLACE, readFile }), {
      command: "x",
      cwd: "/project",
      env: { A: "2", TOKEN: "${TOKEN}" },
      secrets: ["TOKEN"],
    });
    for (const envFile of ["../.env", "/etc/passwd", "missing", "~/.ssh/id"]) {
      const { refused } = plan({ mcpServers: { one: { command: "x", envFile } } }, { ...PLACE, readFile });
      assert.match(refused[0]!.reason, /outside|does not exist/, envFile);
    }
  });

  it("says why a server cannot be imported, and imports the others", () => {
    const cases: [server: unknown, reason: RegExp][] = [
      [{}, /neither a command nor a URL/],
      ["x", /not an object/],
      [{ type: "builtin" }, /part of the client itself/],
      [{ settings: {} }, /extension of the client/],
      [{ command: "x", args: [{}] }, /not a string/],
      [{ url: "ws://a.example" }, /WebSocket/],
      [{ url: "file:///etc/passwd" }, /not an http/],
      [{ url: "https://${HOST}/mcp" }, /HOST is where Berth takes none/],
      [{ url: "https://a.example/s/0a1b2c3d4e5f60718293a4b5c6d7e8f9/mcp" }, /path of its URL has a credential/],
      [{ command: "x", env: { PASSWORD: "abc" } }, /PASSWORD cannot be a secret: it has fewer than 6/],
      [{ command: "x", args: ["${command:pick}"] }, /only its client can resolve/],
      [{ command: "x", env: { "A B": "1" } }, /not one of a variable/],
      [{ command: "a\u001bb" }, /control character/],
      [{ command: "x", args: ["a\u202eb"] }, /control character/],
      [{ command: "x", env: { "A\u0000": "1" } }, /control character/],
      [{ command: "x", args: ["a".repeat(70_000)] }, /too long/],
    ];
    for (const [server, reason] of cases) {
      const made = plan({ mcpServers: { bad: server, good: { command: "y" } } });
      assert.match(made.refused[0]?.reason ?? "", reason, JSON.stringify(server));
      assert.deepEqual([made.refused.length, made.servers.map(({ name }) => name)], [1, ["good"]]);
    }
    const unknown = plan({ mcpServers: { a: { command: "${workspaceFolder}/x" }, b: { command: "./y" } } }, {});
    assert.equal(unknown.refused.length, 2);
  });

  it("loses no server to a name that is taken or invalid", () => {
    const mcpServers = {
      "My Server!": { command: "x" },
      "My-Server": { command: "y" },
      old: { command: "z" },
      "": { command: "w" },
    };
    const taken = (name: string) => name === "old";
    const { servers, refused } = plan({ mcpServers }, { ...PLACE, taken });
    assert.deepEqual(
      servers.map(({ name, notes }) => [name, notes]),
      [["My-Server", ['it is called "My Server!" there']]],
    );
    assert.equal(refused.length, 3);
    assert.match(refused[1]!.reason, /there is a server "old" already; .*--rename "old=old-2"/);
    const renamed = new Map([
      ["old", "new-old"],
      ["", "empty"],
      ["My-Server", "mine"],
    ]);
    assert.equal(plan({ mcpServers }, { ...PLACE, taken, renamed }).servers.length, 4);
  });

  it("refuses hostile files, and quotes nothing of them", () => {
    const deep = 100_000;
    const cases: [file: string, text: string, message: RegExp][] = [
      ["a.json", "[".repeat(deep), /nested more than 64/],
      ["a.json", '{"a":'.repeat(deep), /nested more than 64/],
      ["a.toml", `a = ${"[".repeat(deep)}`, /nested more than 64/],
      ["a.yaml", "[".repeat(deep), /nested more than 64/],
      ["a.yaml", "- ".repeat(deep), /nested more than 64/],
      ["a.yaml", Array.from({ length: 600 }, (_, depth) => `${" ".repeat(depth)}a:`).join("\n"), /nested more than 64/],
      ["a.json", '{"mcpServers": {"a": 1, "a": 2}}', /a\.json:1:\d+: this name occurs twice/],
      ["a.toml", "[a]\nx = 1\n[a]\n", /a\.toml:3:\d+: .*occurs twice/],
      ["a.yaml", "a: 1\na: 2\n", /a\.yaml:2:1: this name occurs twice/],
      ["a.json", '{"mcpServers": {"__proto__": {"command": "x"}}}', /reserved/],
      ["a.json", '{"mcpServers": {"a": {"env": {"constructor": "x"}}}}', /reserved/],
      ["a.toml", '[mcp_servers.__proto__]\ncommand = "x"', /reserved/],
      ["a.toml", '["__proto__"]\ncommand = "x"', /reserved/],
      ["a.yaml", "__proto__:\n  command: x\n", /reserved/],
      ["a.yaml", "a: &a [x]\nb: [*a, *a]\n", /without an alias/],
      ["a.yaml", "a: !!binary hunter2\n", /not valid YAML|tags are not supported/],
      ["a.yaml", "a: !secret hunter2\n", /not valid YAML|tags are not supported/],
      ["a.toml", "[mcp_servers.a]\ncommand = 2020-01-01\n", /date or time/],
      ["a.json", `{"x": "${"y".repeat(17 * 1024 * 1024)}"}`, /longer than 16 MiB/],
      ["a.yaml", "x: y\n".repeat(300_000), /longer than 1 MiB/],
      [
        "a.json",
        `{"mcpServers": {${Array.from({ length: 501 }, (_, n) => `"s${n}": {"url": ""}`).join()}}}`,
        /more than 500 servers/,
      ],
      ["a.json", "[]", /not a configuration/],
      ["a.json", '{"hello": 1}', /lists no MCP servers/],
      ["a.json", '{"TOKEN": hunter2}', /a\.json:1:\d+: this is not valid JSON/],
      ["a.toml", "TOKEN = hunter2", /not valid TOML/],
    ];
    for (const [file, text, message] of cases) {
      assert.throws(
        () => plan(text, PLACE, file),
        (error) => {
          assert.ok(error instanceof BerthError && error.code === "import_refused", `${file}: ${text.slice(0, 80)}`);
          assert.match(error.message, message);
          assert.doesNotMatch(error.message, /hunter2/);
          return true;
        },
        text.slice(0, 80),
      );
    }
    assert.equal(({} as { command?: string }).command, undefined);
  });
});

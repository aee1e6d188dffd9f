import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { berth as berthProcess, cli, exits } from "../../support/commands.ts";
import { berthInProcess as berth } from "../../support/in-process.ts";
import { processesWith } from "../../support/processes.ts";
import { rows } from "../../support/rows.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { until } from "../../support/until.ts";
import { everything, fixtures, hostile, notes } from "../../support/upstreams.ts";

test("berth inspect prints what a server offers as the seed shows it (J2)", async () => {
  const { code, stdout, stderr } = await berth(["inspect", `${notes}?arg=x`, "--format", "json"]);
  assert.deepEqual([code, stderr], [0, ""]);
  const shown = JSON.parse(stdout) as Record<string, { name?: string; uri?: string }[]>;
  assert.deepEqual([shown["server"], shown["transport"]], [`${fixtures}/notes.py`, "stdio"]);
  assert.deepEqual(shown["tools"]![1], {
    name: "search",
    description: "Says what it was given.",
    inputSchema: {
      type: "object",
      properties: {
        gene: { type: "string", description: "Gene symbol" },
        disease: { type: "string" },
        limit: { type: "integer" },
        tags: { type: "array", items: { type: "string" } },
        tool: { type: "string" },
      },
      required: ["gene"],
    },
  });
  assert.deepEqual(shown["resources"], [{ uri: "note://1", name: "The first note", mimeType: "text/plain" }]);
  assert.deepEqual(
    [shown["prompts"]!.length, shown["resourceTemplates"]!.length, shown["problems"]!.length],
    [1, 1, 2],
  );
});

test("berth inspect is readable by default: signatures, first lines, problems (J2)", async () => {
  const { stdout } = await exits(0, berth(["inspect", notes]));
  assert.match(stdout, /notes 1\.0\.0, MCP 2026-07-28 over stdio\n\nTools \(5\)\n {2}list_notes\(limit\?: integer/);
  assert.match(stdout, /\n {6}All notes\.\n/);
  assert.match(stdout, /\n {2}review\(what\)\n/);
  assert.match(stdout, /warning: The tool "broken" is left out/);
  assert.ok(!stdout.includes("\u001b"));
});

test("berth mcp explore, tools and schema say it for programs (J2)", async () => {
  const explored = await berth(["mcp", "explore", everything]);
  const all = JSON.parse(explored.stdout) as { tools: { name: string }[]; prompts: object[]; resources: object[] };
  assert.deepEqual([all.tools.length, all.resources.length, all.prompts.length], [13, 7, 4]);
  const listed = await berth(["mcp", "tools", everything]);
  assert.deepEqual(listed.records, all.tools);
  const schema = await berth(["mcp", "schema", everything, "echo"]);
  const { inputSchema } = JSON.parse(schema.stdout) as { inputSchema: { required: string[] } };
  assert.deepEqual(inputSchema.required, ["message"]);
  const schemas = await berth(["mcp", "schema", everything]);
  assert.deepEqual(Object.keys(JSON.parse(schemas.stdout) as object), rows(all.tools, "name"));
});

test("calls a tool of an npm package by its name (J3)", async () => {
  const files = "mcp+npx://@modelcontextprotocol/server-filesystem@2026.8.31";
  const read = await berth(["cat", `${files}?arg=${fixtures}&tool=read_text_file&path=${fixtures}/notes.py&head=1`]);
  assert.equal(read.code, 0, read.stderr);
  assert.match(read.records[0].text, /^"""An MCP server of Python's standard library alone/);
});

test("berth cat writes a tool's text as a record in the form of the seed (J3)", async () => {
  const { code, records, stderr } = await berth(["cat", `${everything}&tool=get-sum&a=1&b=2`]);
  assert.deepEqual([code, stderr], [0, ""]);
  assert.deepEqual(records, [
    { type: "tool_result", tool: "get-sum", text: "The sum of 1 and 2 is 3.", mimeType: "text/plain" },
  ]);
});

test("structured lists are a record an element; other content keeps its kind (J3)", async () => {
  const listed = await berth(["cat", `${notes}?tool=list_notes&limit=2&done=false`]);
  assert.deepEqual(
    listed.records.map(({ tool, data }) => [tool, data.id]),
    [
      ["list_notes", 1],
      ["list_notes", 2],
    ],
  );
  const image = (await berth(["cat", `${everything}&tool=get-tiny-image`])).records;
  assert.deepEqual(
    image.map(({ mimeType, blob }) => [mimeType, typeof blob]),
    [
      ["text/plain", "undefined"],
      ["image/png", "string"],
      ["text/plain", "undefined"],
    ],
  );
  const links = (await berth(["cat", `${everything}&tool=get-resource-links&count=2`])).records;
  assert.deepEqual(
    links.map(({ link }) => typeof link),
    ["undefined", "string", "string"],
  );
  const where = (await berth(["cat", `${notes}?tool=where`])).records;
  assert.deepEqual(where[0].data.arguments, []);
});

test("berth cat reads resources, prompts and lists, and gives the whole with --raw (J3)", async () => {
  assert.deepEqual((await berth(["cat", `${notes}?resource=note://1`])).records, [
    { type: "resource", uri: "note://1", text: "Buy milk.", mimeType: "text/plain" },
  ]);
  assert.deepEqual((await berth(["cat", `${notes}?prompt=review&what=this%20code`])).records, [
    { type: "prompt_message", prompt: "review", role: "user", text: "Review this code.", mimeType: "text/plain" },
  ]);
  const tools = (await berth(["cat", `${notes}?list=tools`])).records;
  assert.deepEqual(tools.map(({ type, name }) => `${type} ${name}`)[0], "tool list_notes");
  const [raw] = (await berth(["cat", "--raw", `${notes}?tool=list_notes&limit=1`])).records;
  assert.deepEqual(raw.structuredContent, { notes: [{ id: 1, title: "Note 1", done: false }] });
});

test("--format chooses one JSON value or plain text (J3)", async () => {
  const json = await berth(["cat", "--format", "json", `${notes}?tool=list_notes&limit=2`]);
  assert.equal((JSON.parse(json.stdout) as object[]).length, 2);
  const text = await berth(["cat", "--format", "text", `${notes}?tool=loose`]);
  assert.equal(text.stdout, "BRAF V600E is a common mutation.\n");
});

test("berth head and tail give the first and the last records, ten by default (J3)", async () => {
  const ids = async (...args: string[]): Promise<number[]> =>
    (await berth([...args, `${notes}?tool=list_notes`])).records.map(({ data }) => data.id);
  const all = Array.from({ length: 25 }, (_, index) => index + 1);
  for (const [command, first, end] of [
    ["head", 0, 10],
    ["head -n 2", 0, 2],
    ["tail", 15, 25],
    ["tail -n 3", 22, 25],
    ["tail -n 0", 0, 0],
    ["tail -n 100", 0, 25],
  ] as const)
    assert.deepEqual(await ids(...command.split(" ")), all.slice(first, end), command);
});

test("berth put calls once a record, in order, reports each and goes on after a bad one (J3)", async () => {
  const input = '{"gene":"BRAF"}\n\nnonsense\n{"gene":"TP53","limit":3}';
  const ran = await exits(2, berth(["put", `${notes}?tool=search&disease=melanoma`], { input }));
  assert.deepEqual(
    ran.records.map(({ record, tool, text }) => [record, tool, JSON.parse(text)]),
    [
      [1, "search", { gene: "BRAF", disease: "melanoma" }],
      [3, "search", { gene: "TP53", disease: "melanoma", limit: 3 }],
    ],
  );
  assert.deepEqual(ran.errors, [{ code: "bad_record", message: "Record 2 is not a JSON object.", record: 2 }]);
});

test("berth put keeps the order with many calls at once, and tells each tool's error (J3)", async () => {
  const numbers = Array.from({ length: 60 }, (_, index) => index);
  const input = numbers.map((a) => JSON.stringify({ a, b: 1 })).join("\n");
  const ran = await exits(0, berth(["put", "--concurrency", "8", `${everything}&tool=get-sum`], { input }));
  assert.deepEqual(
    ran.records.map(({ record, text }) => `${record} ${text}`),
    numbers.map((a) => `${a + 1} The sum of ${a} and 1 is ${a + 1}.`),
  );
  const failing = await berth(["put", "--fail-fast", `${notes}?tool=fail`], { input });
  assert.deepEqual([failing.code, failing.errors.length], [5, 1]);
  assert.deepEqual(failing.errors[0], { code: "tool_error", message: "It did not work.", tool: "fail", record: 1 });
});

test("whoever reads may leave early: the command ends well and leaves nothing running (J3)", async () => {
  const mark = randomUUID();
  const reference = `${notes}?tool=search&env.MARK=${mark}`;
  const pipeline = `yes '{"gene":"BRAF"}' | "$0" "$1" put "$2" | head -n 2; echo "\${PIPESTATUS[@]}"`;
  const child = spawn("bash", ["-c", pipeline, process.execPath, cli, reference]);
  const lines = (await text(child.stdout)).trim().split("\n");
  assert.equal(lines.length, 3);
  assert.match(lines[2]!, /^\d+ 0 0$/);
  assert.deepEqual(processesWith(mark), []);
});

test("each kind of failure is one JSON object on stderr, with an exit code of its own (J3)", async () => {
  const cases: [string[], number, string, RegExp][] = [
    [["cat"], 2, "usage", /missing required argument/],
    [["cat", "--nonsense", notes], 2, "usage", /unknown option/],
    [["cat", notes], 2, "usage", /does not say what to do/],
    [["cat", `${notes}?tool=none`], 2, "usage", /no tool "none"; there are list_notes, search/],
    [["cat", `${notes}?tool=search&limit=x`], 2, "usage", /limit must be a whole number, not "x"/],
    [["cat", "--timeout", "soon", `${notes}?tool=loose`], 2, "usage", /--timeout takes seconds/],
    [["head", "-n", "-1", `${notes}?tool=loose`], 2, "usage", /-n must be a whole number/],
    [["cat", "mcp+pip://x"], 2, "launcher_invalid", /no launcher "pip"/],
    [["cat", "mcp+python://./gone.py?tool=x"], 2, "launcher_invalid", /no file .*gone\.py/],
    [["inspect", "@nobody"], 2, "profile_not_found", /"@nobody"/],
    [["inspect", hostile("dies at start")], 3, "upstream_not_started", /ended with exit code 7/],
    [["inspect", "mcp+npx://@berth-test/there-is-no-such-package@1.0.0"], 3, "upstream_not_started", /exit code 1/],
    [["cat", `${hostile("misbehaves in calls")}&tool=die`], 4, "upstream_ended", /SIGKILL/],
    [["cat", `${notes}?tool=fail`], 5, "tool_error", /It did not work/],
    [["cat", "--timeout", "0.3", `${hostile("misbehaves in calls")}&tool=hang`], 6, "upstream_timeout", /too long/],
    [
      ["inspect", "--start-timeout", "0.5", hostile("never answers")],
      6,
      "upstream_timeout",
      /did not complete the handshake/,
    ],
  ];
  for (const [args, code, error, message] of cases) {
    const ran = await berth(args);
    assert.equal(ran.code, code, `${args.join(" ")}: ${ran.stderr}`);
    assert.equal(ran.errors[0].code, error, args.join(" "));
    assert.match(ran.errors[0].message, message);
    assert.deepEqual([ran.stderr.trim().split("\n").length, ran.stdout], [1, ""]);
    if (message.source.includes("exit code 7")) assert.match(ran.errors[0].stderr, /^Error: no API key/);
  }
});

test("an npm package whose installation was cut off says which folder to remove (J3)", async (t) => {
  const cache = temporaryFolder(t);
  const folder = createHash("sha512").update("@upstash/context7-mcp@4.1.1").digest("hex").slice(0, 16);
  const modules = join(cache, "_npx", folder, "node_modules");
  mkdirSync(join(modules, "@upstash/context7-mcp"), { recursive: true });
  const packages = { "node_modules/@upstash/context7-mcp": { version: "4.1.1" } };
  writeFileSync(join(modules, ".package-lock.json"), JSON.stringify({ name: "x", lockfileVersion: 3, packages }));
  const { errors } = await berth(["inspect", "mcp+npx://@upstash/context7-mcp@4.1.1"], {
    env: { npm_config_cache: cache },
  });
  assert.equal(errors[0].code, "upstream_not_started");
  assert.match(errors[0].message, new RegExp(`was interrupted.* remove the folder _npx/${folder} from npm's cache`));
});

test("Ctrl-C ends the command and the server that it started (J3)", async () => {
  const mark = randomUUID();
  const reference = `${hostile("misbehaves in calls")}&env.MARK=${mark}&tool=hang`;
  const ran = await berthProcess(["cat", reference], {
    during: (child) => void until(() => processesWith(mark).length >= 2).then(() => child.kill("SIGINT")),
  });
  assert.deepEqual([ran.code, ran.stdout], [130, ""]);
  assert.deepEqual(processesWith(mark), []);
});

test("a server that was started before its command turned out to be wrong is ended, and --help starts none (J3)", async (t) => {
  const mark = randomUUID();
  const file = join(temporaryFolder(t), "started");
  const uri = hostile("leaves a child", `&arg=${file}&env.MARK=${mark}`);
  for (const [args, message] of [
    [["cat", uri, "--no-such-option"], /unknown option/],
    [["cat", uri, "--timeout", "soon"], /--timeout takes seconds/],
    [["put", uri], /put calls a tool/],
  ] as const) {
    const { errors } = await exits(2, berthProcess(args, { env: { BERTH_UPSTREAM_END_MS: "100" } }));
    assert.match(errors[0].message, message);
    await until(() => processesWith(mark).length === 0);
  }
  rmSync(file, { force: true });
  assert.match((await berthProcess(["cat", uri, "--help"])).stdout, /Usage: berth cat/);
  assert.ok(!existsSync(file));
});

test("on a terminal there are colours and the seconds of a start; in a pipe there are none (J3)", async () => {
  const env = { NO_COLOR: undefined, FORCE_COLOR: undefined, TERM: "xterm" };
  const shown = await berth(["inspect", notes], { env, isTerminal: true });
  assert.ok(shown.stdout.includes("\u001b[36msearch\u001b[39m(gene"));
  const python = "import pty, sys; pty.spawn(sys.argv[1:])";
  const args = ["inspect", "--start-timeout", "2.5", hostile("never answers")];
  const child = spawn("python3", ["-c", python, process.execPath, cli, ...args], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  assert.match(await text(child.stdout), /starting … [12] s \(/);
});

test("-v says on stderr what was reached and what it notifies, and --help shows examples (J3)", async () => {
  const ran = await berth(["cat", "-v", `${everything}&tool=echo&message=hi`]);
  const said = ran.stderr
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, Record<string, unknown>>);
  assert.equal(said[0]!["reached"]!["protocolVersion"], "2025-11-25");
  assert.ok(said.some((line) => line["notification"]?.["method"] === "notifications/tools/list_changed"));
  const commands = [["inspect"], ["cat"], ["head"], ["tail"], ["put"], ["mcp", "explore"], ["mcp", "schema"]];
  for (const command of commands) {
    const { stdout } = await exits(0, berth([...command, "--help"]));
    assert.match(stdout, /Examples:\n.*berth /);
  }
});

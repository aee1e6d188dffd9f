import assert from "node:assert/strict";
import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { exits, type Ran } from "../../../support/commands.ts";
import { berthInProcess as berth, type InProcessOptions } from "../../../support/in-process.ts";
import { rows } from "../../../support/rows.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";
import { everything, fixtures } from "../../../support/upstreams.ts";

/** A profile of the first version of biomcp.py, created once for all tests, since it takes a start of both. */
const bioHome = temporaryFolder();
let bio: Promise<Ran> | undefined;

const BIOMCP = `mcp+python://${join(fixtures, "biomcp.py")}?env.BIOMCP_VERSION=\${BIOMCP_VERSION}`;

test("berth profile create --from makes a full profile: start, contract, a file for each tool (J7, J8)", async (t) => {
  const home = homeOf(t);
  const created = await home.run(["create", "everything", "--from", everything]);
  assert.deepEqual([created.code, created.stdout], [0, ""]);
  assert.equal(created.stderr, `Profile saved to ${home.folder("everything")}\n`);

  const files = await readdir(home.folder("everything"));
  assert.equal(files.length, 15);
  const meta = await home.read("everything", "_meta");
  assert.deepEqual([meta["uri"], meta["schema_validation"]], [everything, "warn"]);
  assert.match(String(meta["schema_hash"]), /^bagu/);
  const tool = await home.read("everything", "get-sum");
  assert.deepEqual(
    [tool["tool"], tool["parameters"]],
    [
      "get-sum",
      {
        a: { type: "number", description: "First number", required: true },
        b: { type: "number", description: "Second number", required: true },
      },
    ],
  );

  const again = await home.run(["create", "everything", "--from", everything]);
  assert.deepEqual([again.code, again.errors[0].code], [2, "profile_exists"]);
  assert.equal((await home.run(["create", "everything", "--from", everything, "--replace"])).code, 0);
  const hash = (await berth(["mcp", "hash", everything])).records[0];
  assert.deepEqual([hash.schema_hash, hash.contract_cid], [meta["schema_hash"], meta["contract_cid"]]);
});

test("a profile designed by a model is taken in every shape of the seed, with what it learned (J8)", async (t) => {
  const home = homeOf(t);
  const launcher = { command: "python3", args: [join(fixtures, "biomcp.py")], transport: "stdio" };
  const search = {
    description: "General biomedical search. Returns text summaries.",
    parameters: { gene: { type: "string", required: true, description: "Gene symbol (e.g., BRAF)" } },
    output_format: "text/plain",
    notes: "Returns prose description, not structured JSON.",
  };
  const designed = {
    server: "biomcp",
    description: "BioMCP: Biomedical data",
    launcher,
    tools: { search, trial_search: { examples: [{ input: { phase: "3" }, output_sample: "Phase 3" }] } },
    schema_hash: "a3f5b8c2",
    created: "2025-11-12",
    tested_with: { search: ["BRAF", "gene=BRAF&disease=melanoma"], trial_search: ["BRAF+PHASE3"] },
  };
  assert.equal((await home.run(["create", "biomcp"], { input: JSON.stringify(designed) })).code, 0);
  const { schema_hash: hash, created, description, command } = await home.read("biomcp", "_meta");
  assert.deepEqual([created, description, command], ["2025-11-12", "BioMCP: Biomedical data", "python3"]);
  assert.match(String(hash), /^bagu/, "the hash is the server's, whatever was written");
  assert.deepEqual(await home.read("biomcp", "search"), {
    tool: "search",
    tested_with: ["BRAF", "gene=BRAF&disease=melanoma"],
    ...search,
  });
  const called = await berth(["cat", "@biomcp/search?gene=BRAF"], home);
  assert.deepEqual([called.stderr, called.records[0].text], ["", "BRAF V600E is a common mutation, page 1."]);

  const enhanced = { server: "biomcp", ...launcher, schema_validation: "error", tools: { search: { tool: "search" } } };
  assert.equal((await home.run(["create", "enhanced"], { input: JSON.stringify(enhanced) })).code, 0);
  assert.equal((await home.read("enhanced", "_meta"))["schema_validation"], "error");

  await exits(0, home.run(["create", "minimal", "--offline"], { input: JSON.stringify(launcher) }));
  assert.deepEqual(await readdir(home.folder("minimal")), ["_meta.json"]);
  const naked = await berth(["cat", "@minimal?tool=search&gene=BRAF"], home);
  assert.deepEqual([naked.stderr, naked.records.length], ["", 1]);
});

test("what cannot become a profile is refused, with everything that is wrong, and nothing is saved (J7)", async (t) => {
  const home = homeOf(t);
  const cases: [string, string, RegExp][] = [
    ["bad", "{", /not JSON/],
    ["bad", "[]", /must be a JSON object/],
    ["bad", '{"tools":[]}', /\/tools must be an object/],
    [
      "bad",
      '{"command":"x","url":"http://127.0.0.1:1","schema_validation":"maybe"}',
      /exactly one of.*command and url/,
    ],
    ["bad", '{"uri":"mcp+pip://x"}', /no launcher "pip"/],
    ["../bad", "{}", /cannot be the name of a profile/],
    ["bad", JSON.stringify({ uri: BIOMCP, tools: { find: {} } }), /no tool "find"; it has search, trial_search/],
    ["bad", JSON.stringify({ uri: `${BIOMCP}&tool=search` }), /says how to reach the server/],
  ];
  for (const [name, input, message] of cases) {
    const { code, errors } = await home.run(["create", name], { input });
    assert.equal(code, 2, input);
    assert.match(errors[0].message, message);
  }
  const noServer = await home.run(["create", "bad", "--from", "mcp+node://./gone.mjs"]);
  assert.deepEqual([noServer.code, noServer.errors[0].code], [2, "launcher_invalid"]);
  assert.deepEqual(await readdir(home.root), []);
});

test("a script's profile means the same from every folder, and a project's stays in the project (J4, J7)", async (t) => {
  const home = homeOf(t);
  const cwd = fixtures;
  assert.equal((await home.run(["create", "notes", "--from", "mcp+python://./notes.py"], { cwd })).code, 0);
  assert.equal((await berth(["cat", "@notes/search?gene=TP53"], { ...home, cwd: "/" })).code, 0);

  const project = home.root;
  await writeFile(join(project, "own.py"), await readFile(join(fixtures, "biomcp.py")));
  const own = ["create", "notes", "--project", "--from", "mcp+python://./own.py"];
  assert.equal((await home.run(own, { cwd: project })).code, 0);
  const listed = await home.run(["list"], { cwd: project });
  assert.equal(listed.stdout, "@notes  (project)\n");
  const called = await berth(["cat", "@notes/search?gene=TP53"], { ...home, cwd: project });
  assert.match(called.records[0].text, /^TP53 V600E/);
  assert.match((await home.run(["list"], { cwd: "/" })).stdout, /^@notes {2}\(user\)\n$/);
});

test("what a repository's profiles say cannot steer the terminal (J4)", async (t) => {
  const home = homeOf(t);
  const steering = "\u001b]0;x\u0007\u009b31m\u202e";
  const project = join(home.root, "project");
  const folder = join(project, ".berth", "profiles", "mcp", "notes");
  await mkdir(folder, { recursive: true });
  const hash = { contract_cid: steering, schema_hash: steering };
  const meta = { uri: `mcp+python://${join(fixtures, "biomcp.py")}`, description: steering, ...hash };
  await writeFile(join(folder, "_meta.json"), JSON.stringify(meta));
  await writeFile(join(folder, "_contract.json"), "{}");
  for (const args of [
    ["profile", "list"],
    ["profile", "info", "@notes"],
    ["profile", "diff", "@notes"],
    ["profile", "diff", "@notes", "--format", "json"],
    ["cat", "@notes?list=tools"],
  ]) {
    const { stdout, stderr } = await berth(args, { ...home, cwd: project });
    // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
    assert.doesNotMatch(stdout + stderr, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/, args.join(" "));
    assert.notEqual(stdout + stderr, "", args.join(" "));
  }
});

test("@server/tool?query, @server?tool=, @server?list=tools and inspect reach the profile's server (J4)", async (t) => {
  const home = homeOf(t);
  await home.save("bio", { uri: BIOMCP, description: "Genes" }, { find: { tool: "search", arguments: { page: 3 } } });
  const cat = (reference: string): Promise<Ran> => berth(["cat", reference], home);
  const found = await cat("@bio/find?gene=BRAF");
  assert.deepEqual(found.records, [
    { type: "tool_result", tool: "search", text: "BRAF V600E is a common mutation, page 3.", mimeType: "text/plain" },
  ]);
  assert.match((await cat("@bio/find?gene=BRAF&page=4")).records[0].text, /page 4/);
  assert.match((await cat("@bio?tool=search&gene=BRAF")).records[0].text, /page 1/);
  assert.equal((await cat("@bio?list=tools")).records.map(({ name }) => name).join(), "search,trial_search");
  const put = await exits(0, berth(["put", "@bio/find"], { ...home, input: '{"gene":"A"}\n{"gene":"B"}\n' }));
  assert.equal(put.records.length, 2);
  assert.match((await berth(["inspect", "@bio"], home)).stdout, /^@bio\n {2}biomcp 1\.0\.0/);
  const info = JSON.parse((await home.run(["info", "@bio"])).stdout) as Record<string, unknown>;
  assert.deepEqual([info["origin"], info["description"]], ["user", "Genes"]);
  const both = await cat("@bio/find?tool=search");
  assert.deepEqual([both.code, both.errors[0].code], [2, "launcher_invalid"]);
  const unknown = await cat("@bia/find");
  assert.match(unknown.errors[0].message, /"@bia"; there are @bio/);
});

test("${VAR} in a profile is the environment's, and what is not set is named before anything starts (J4)", async (t) => {
  const home = homeOf(t);
  await home.save("bio", { command: "${PYTHON:-python3}", args: ["${FIXTURES}/biomcp.py"] }, {});
  const unset = await berth(["cat", "@bio?list=tools"], home);
  assert.deepEqual([unset.code, unset.errors[0].code], [2, "profile_invalid"]);
  assert.match(unset.errors[0].message, /_meta\.json \/args\/0: the variable FIXTURES is not set/);
  const env = { ...home.env, FIXTURES: fixtures };
  assert.equal((await berth(["cat", "@bio?list=tools"], { env })).records.length, 2);
});

test("use warns of a changed contract as the seed says it, and goes on (J6)", async (t) => {
  const home = await changed(t);
  const { stderr, code, records } = await berth(["cat", "@bio/search?gene=BRAF"], home);
  const [said, failed] = stderr.split('{"error"');
  assert.match(
    said!.replaceAll(/bagu\w+/g, "CID"),
    new RegExp(
      [
        "^Warning: MCP server schema has changed since profile was created.",
        "",
        "Changes detected:",
        '  - Tool .search.: "gene" is now called "query": [^\n]* \\(breaking\\)',
        '  - Tool .search.: "disease" is removed: [^\n]* \\(breaking\\)',
        '  - Tool .search.: "filters" is new, and may be left out. \\(not breaking\\)',
        "",
        "Profile hash: CID",
        "Current hash: CID",
        "",
        "Options:",
        "  1. Update profile: berth profile update @bio",
        "  2. Explore changes: berth mcp explore @bio",
        '  3. Ignore \\(may cause errors\\): berth cat "@bio/search\\?gene=BRAF" --ignore-schema\n$',
      ].join("\n"),
    ),
  );
  assert.ok(failed, "the call itself was made, and failed");
  assert.deepEqual([code, records.length], [5, 0]);
});

test("error refuses before the call, ignore and --ignore-schema say nothing (J6)", async (t) => {
  const home = await changed(t);
  await home.edit("bio", "_meta", { schema_validation: "error" });
  const refused = await berth(["cat", "@bio/search?query=BRAF"], home);
  const [error] = refused.errors;
  assert.deepEqual([refused.code, refused.records.length, error.code], [2, 0, "contract_changed"]);
  assert.deepEqual(rows(error.changes, "effect"), ["breaking", "breaking", "compatible"]);
  const ignoring = await berth(["cat", "@bio/search?query=BRAF", "--ignore-schema"], home);
  assert.deepEqual([ignoring.code, ignoring.stderr, ignoring.records.length], [0, "", 1]);
  await home.edit("bio", "_meta", { schema_validation: "ignore" });
  assert.equal((await berth(["cat", "@bio/search?query=BRAF"], home)).stderr, "");
});

test("what is compatible, and tools that a profile does not name, are no drift (J6)", async (t) => {
  const home = await changed(t);
  await rm(join(home.folder("bio"), "search.json"));
  const used = await berth(["cat", "@bio/trial_search?phase=3"], home);
  assert.deepEqual([used.code, used.stderr], [0, ""]);
  assert.equal((await home.run(["validate", "@bio"])).stdout.split("\n")[0], "@bio: valid");
});

test("validate exits with 1 when calls may fail, diff with 0; both tell the changes as text and JSON (J7)", async (t) => {
  const home = await changed(t);
  const validated = await home.run(["validate", "@bio"]);
  assert.deepEqual([validated.code, validated.stderr], [1, ""]);
  assert.match(
    validated.stdout,
    /^@bio: changed\nChanges detected:\n {2}- Tool 'search': "gene" is now called "query"/,
  );
  const diff = await exits(0, home.run(["diff", "bio", "--format", "json"]));
  const { status, changes, expectedHash, currentHash } = JSON.parse(diff.stdout) as Record<string, unknown>;
  assert.deepEqual([status, (changes as object[]).length, expectedHash === currentHash], ["changed", 3, false]);

  const before = await home.run(["validate", "@bio"], { env: { ...home.env, BIOMCP_VERSION: "1" } });
  assert.deepEqual([before.code, before.stdout.split("\n").slice(0, 2)], [0, ["@bio: valid", "No changes."]]);
  assert.equal((await home.run(["validate", "@gone"])).code, 2);
});

test("a profile that a person wrote is compared by the parameters that it names (J6)", async (t) => {
  const home = homeOf(t);
  const parameters = { gene: { type: "string", required: true } };
  await home.save("bio", { uri: BIOMCP }, { search: { parameters } });
  assert.equal((await home.run(["validate", "@bio"])).stdout.split("\n")[0], "@bio: compatible");
  const later = { ...home.env, BIOMCP_VERSION: "2" };
  const drifted = await home.run(["validate", "@bio"], { env: later });
  assert.deepEqual([drifted.code, drifted.stdout.split("\n")[0]], [1, "@bio: changed"]);
  assert.match(drifted.stdout, /"gene" is now called "query"/);

  await home.save("hand", { uri: BIOMCP }, { search: {} });
  assert.match((await home.run(["validate", "@hand"])).stdout, /^@hand: unknown\nThe profile has no schema hash/);
  await home.save("hash", { uri: BIOMCP, schema_hash: "a3f5b8c2" }, {});
  const byHash = await home.run(["validate", "@hash"]);
  assert.deepEqual([byHash.code, byHash.stdout.split("\n")[0]], [1, "@hash: changed"]);
});

test("a contract that is not the one a profile was made against is told, and not believed (J7)", async (t) => {
  const home = await changed(t);
  const path = join(home.folder("bio"), "_contract.json");
  await writeFile(path, (await readFile(path, "utf8")).replaceAll("gene", "query"));
  const { stderr, code } = await home.run(["validate", "@bio"]);
  assert.match(
    stderr,
    /^Warning: @bio: _contract\.json: This contract has the CID \w+, but the profile was made against/,
  );
  assert.equal(code, 1, "what the tools' files say still tells of the change");
});

test("update shows what it does, follows renames, tries the examples, and saves (J7)", async (t) => {
  const home = await changed(t);
  await home.edit("bio", "search", {
    notes: "Prose.",
    arguments: { gene: "TP53" },
    examples: [{ input: { gene: "BRAF" }, output_sample: "BRAF V600E…" }],
    tested_with: ["gene=EGFR&page=2", "EGFR"],
  });
  await home.edit("bio", "_meta", { custom: "kept" });
  const { stdout } = await exits(0, home.run(["update", "@bio", "--yes"]));
  const meta = await home.read("bio", "_meta");
  assert.deepEqual(stdout.split("\n"), [
    "Connecting to bio MCP server...",
    "Fetching current tool schemas...",
    "",
    "Changes detected:",
    `  - Tool 'search': "gene" is now called "query": calls that use its old name are refused or ignored. (breaking)`,
    `  - Tool 'search': "disease" is removed: calls that pass it no longer fit the schema, and may be refused. (breaking)`,
    `  - Tool 'search': "filters" is new, and may be left out. (not breaking)`,
    "",
    "Update strategy:",
    `  1. Update "search" to use 'query' instead of 'gene'`,
    `  2. Add 'filters' to "search" as optional`,
    `  3. Remove 'disease' from "search"`,
    "  4. Recalculate schema hash",
    "",
    'Running: berth cat "@bio/search?query=BRAF"',
    "✓ Success",
    `Updated profile saved to ${home.folder("bio")}`,
    `New schema hash: ${String(meta["schema_hash"])}`,
    "Profile updated successfully.",
    "",
  ]);
  const search = await home.read("bio", "search");
  assert.deepEqual(search["arguments"], { query: "TP53" });
  assert.deepEqual(search["examples"], [{ input: { query: "BRAF" }, output_sample: "BRAF V600E…" }]);
  assert.deepEqual([search["tested_with"], search["notes"]], [["query=EGFR&page=2", "EGFR"], "Prose."]);
  assert.deepEqual(Object.keys(search["parameters"] as object), ["query", "filters", "page"]);
  assert.equal(meta["custom"], "kept");
  assert.equal((await home.run(["validate", "@bio"])).code, 0);
  assert.match((await home.run(["update", "@bio"])).stdout, /No changes\. The profile is up to date\.\n$/);
});

test("an example that fails saves nothing, unless nobody wants to know (J7)", async (t) => {
  const home = await changed(t);
  await home.edit("bio", "search", { examples: [{ input: { gene: "BRAF", disease: "melanoma" } }] });
  const before = await home.all("bio");
  const { code, stdout, errors } = await home.run(["update", "@bio", "--yes"]);
  assert.deepEqual([code, errors[0].code, errors[0].tools], [5, "tool_error", ["search"]]);
  assert.match(stdout, /\nRunning: berth cat "@bio\/search\?query=BRAF&disease=melanoma"\n✗ query is required/);
  assert.deepEqual(await home.all("bio"), before);
  assert.equal((await home.run(["update", "@bio", "--yes", "--no-test"])).code, 0);
  assert.equal((await home.run(["validate", "@bio"])).code, 0);
});

test("update asks a person on a terminal; without one it wants --yes (J7)", async (t) => {
  const home = await changed(t);
  const before = await home.all("bio");
  const silent = await home.run(["update", "@bio"]);
  assert.deepEqual([silent.code, silent.errors[0].code], [2, "usage"]);
  const refused = await atTerminal(["profile", "update", "@bio"], home, "n\r");
  assert.match(refused, /Update the profile\? \(Y\/n\)[^]*Nothing was saved\./);
  assert.deepEqual(await home.all("bio"), before);
  const agreed = await atTerminal(["profile", "update", "@bio"], home, "\r");
  assert.match(agreed, /Profile updated successfully\./);
  assert.equal((await home.run(["validate", "@bio"])).code, 0);
});

test("what a server offers to a person at a terminal alone is no drift (J5, J6)", async (t) => {
  const home = homeOf(t);
  const piped = await berth(["mcp", "hash", everything]);
  const shown = await atTerminal(["mcp", "hash", everything], home);
  assert.ok(shown.includes(piped.records[0].schema_hash), shown);

  await atTerminal(["profile", "create", "everything", "--from", everything], home);
  const used = await berth(["cat", "@everything/echo?message=hi"], home);
  assert.deepEqual([used.code, used.stderr], [0, ""]);
  const atHome = await atTerminal(["cat", "@everything/echo?message=hi"], home);
  assert.ok(atHome.includes("Echo: hi") && !atHome.includes("Warning"), atHome);
});

test("a profile that comes with Berth is updated as the user's own (J7)", async (t) => {
  const home = await changed(t);
  const bundled = join(home.root, "bundled");
  await mkdir(join(bundled, "profiles", "mcp"), { recursive: true });
  const moved = join(bundled, "profiles", "mcp", "bio");
  await mkdir(moved);
  for (const [file, text] of Object.entries(await home.all("bio"))) await writeFile(join(moved, file), text);
  await rm(home.folder("bio"), { recursive: true });
  const env = { ...home.env, BERTH_HOME: bundled };
  assert.equal((await home.run(["list"], { env })).stdout, "@bio  (bundled)\n");
  assert.equal((await home.run(["update", "@bio", "--yes"], { env })).code, 0);
  assert.equal((await home.run(["list"], { env })).stdout, "@bio  (user)\n");
});

/** A user's folder of profiles, removed after the test. */
function homeOf(t: TestContext) {
  const root = temporaryFolder(t);
  const env: Record<string, string> = { XDG_DATA_HOME: root, BIOMCP_VERSION: "1" };
  const folder = (name: string): string => join(root, "berth", "profiles", "mcp", name);
  const path = (name: string, file: string): string => join(folder(name), `${file}.json`);
  const write = (name: string, file: string, value: object): Promise<void> =>
    writeFile(path(name, file), JSON.stringify(value));
  const read = async (name: string, file: string): Promise<Record<string, unknown>> =>
    JSON.parse(await readFile(path(name, file), "utf8")) as Record<string, unknown>;
  return {
    root,
    env,
    run: (args: readonly string[], options?: InProcessOptions) => berth(["profile", ...args], { env, ...options }),
    folder,
    read,
    async all(name: string): Promise<Record<string, string>> {
      const files = await readdir(folder(name));
      const texts = await Promise.all(files.map((file) => readFile(join(folder(name), file), "utf8")));
      return Object.fromEntries(files.map((file, index) => [file, texts[index]!]));
    },
    edit: async (name: string, file: string, fields: object) =>
      write(name, file, { ...(await read(name, file)), ...fields }),
    async save(name: string, meta: object, tools: Readonly<Record<string, object>>) {
      await mkdir(folder(name), { recursive: true });
      await write(name, "_meta", meta);
      for (const [tool, value] of Object.entries(tools)) await write(name, tool, value);
    },
  };
}

/** A home with a profile `@bio` whose server has changed since. */
async function changed(t: TestContext) {
  const home = homeOf(t);
  const env = { XDG_DATA_HOME: bioHome, BIOMCP_VERSION: "1" };
  assert.equal((await (bio ??= berth(["profile", "create", "bio", "--from", BIOMCP], { env }))).code, 0);
  await cp(bioHome, home.root, { recursive: true });
  Object.assign(home.env, { BIOMCP_VERSION: "2" });
  return home;
}

async function atTerminal(args: readonly string[], { env }: InProcessOptions, input = ""): Promise<string> {
  return (await berth(args, { ...(env && { env }), input, isTerminal: true })).stdout;
}

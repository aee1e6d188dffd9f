import assert from "node:assert/strict";
import { mkdir, readdir, readFile, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import type { Contract } from "../../../src/contract/contract.ts";
import { draftProfile, parametersOf, schemaOf } from "../../../src/features/profiles/design.ts";
import { profileLaunch, substitute } from "../../../src/features/profiles/launch.ts";
import {
  listProfiles,
  PROFILE_FILE_BYTES_MAX,
  profileFolders,
  readProfile,
} from "../../../src/features/profiles/locate.ts";
import { saveProfile } from "../../../src/features/profiles/save.ts";
import { BerthError } from "../../../src/lib/errors.ts";
import { contractHash, contractHashInTurns, knownParameters } from "../../../src/upstream/calls/contract-hash.ts";
import { rows } from "../../support/rows.ts";
import { temporaryFolder } from "../../support/suite.ts";
import { turnsIn } from "../../support/turns-in.ts";

test("profiles of the project go before the user's, and those before bundled ones (J4)", async (t) => {
  const root = temporaryFolder(t);
  const env = { HOME: join(root, "home"), BERTH_HOME: join(root, "bundled") };
  const folders = profileFolders(env, join(root, "project"));
  const places = folders.map(({ folder }) => folder);
  for (const [index, folder] of places.entries()) await put(folder, "search", { command: `v${index}` });
  await put(places[1]!, "mine", { command: "mine" });
  await put(places[2]!, "theirs", { url: "http://127.0.0.1:1/mcp" });

  assert.equal((await readProfile("search", folders)).meta.command, "v0");
  const listed = (await listProfiles(folders)).map(({ name, origin }) => [name, origin]);
  assert.deepEqual(listed, [
    ["mine", "user"],
    ["search", "project"],
    ["theirs", "bundled"],
  ]);
  await rm(join(places[0]!, "search"), { recursive: true });
  assert.equal((await readProfile("search", folders)).meta.command, "v1");
});

test("a minimal profile says only how its server is started, and a full one has a file for each tool (J4)", async (t) => {
  const folder = temporaryFolder(t);
  await put(folder, "biomcp", { command: "uv", args: ["run", "biomcp"], transport: "stdio" });
  const folders = [{ origin: "user" as const, folder }];
  assert.equal((await readProfile("biomcp", folders)).tools.size, 0);

  await writeFile(join(folder, "biomcp", "search.json"), JSON.stringify({ tool: "search", notes: "prose" }));
  const { tools } = await readProfile("biomcp", folders);
  assert.deepEqual([...tools], [["search", { tool: "search", notes: "prose" }]]);
});

test("everything that is wrong with a profile is told with its file and place (J4)", async (t) => {
  const folder = temporaryFolder(t);
  await put(folder, "bad", { command: 1, url: "http://x", schema_validation: "maybe" });
  await writeFile(join(folder, "bad", "search.json"), "{");
  await writeFile(join(folder, "bad", "find.json"), JSON.stringify({ examples: "none" }));
  const error = await rejected(readProfile("bad", [{ origin: "user", folder }]));
  assert.equal(error.code, "profile_invalid");
  const problems = error.data!["problems"] as { file: string; pointer?: string; code: string }[];
  assert.deepEqual(
    problems.map(({ file, pointer, code }) => [file, pointer, code]),
    [
      ["_meta.json", "/command", "wrong-type"],
      ["_meta.json", "/schema_validation", "wrong-type"],
      ["_meta.json", undefined, "no-launcher"],
      ["find.json", "/examples", "wrong-type"],
      ["search.json", undefined, "invalid-json"],
    ],
  );
});

test("a file of a profile that is no plain file, or too large, is refused before it is read (J4)", async (t) => {
  const folder = temporaryFolder(t);
  const folders = [{ origin: "project" as const, folder }];
  await put(folder, "endless", {});
  await rm(join(folder, "endless", "_meta.json"));
  await symlink("/dev/zero", join(folder, "endless", "_meta.json"));
  assert.match((await rejected(readProfile("endless", folders))).message, /not a plain file/);
  await put(folder, "sparse", { command: "x" });
  await writeFile(join(folder, "sparse", "tool.json"), "");
  await truncate(join(folder, "sparse", "tool.json"), 2 ** 40);
  const message = new RegExp(`more than ${PROFILE_FILE_BYTES_MAX} bytes`);
  assert.match((await rejected(readProfile("sparse", folders))).message, message);
});

test("a project's profile that hides another one says so, and no other does (J4)", async (t) => {
  const root = temporaryFolder(t);
  const folders = profileFolders(
    { HOME: join(root, "home"), BERTH_HOME: join(root, "bundled") },
    join(root, "project"),
  );
  const [project, user, bundled] = folders.map(({ folder }) => folder) as [string, string, string];
  for (const folder of [project, user, bundled]) await put(folder, "search", { command: "x" });
  await put(project, "own", { command: "x" });
  await put(user, "mine", { command: "x" });
  await put(bundled, "mine", { command: "x" });
  const [problem] = (await readProfile("search", folders)).problems;
  assert.equal(problem?.code, "hides-profile");
  assert.ok(problem.message.includes(join(user, "search")), problem.message);
  for (const name of ["own", "mine"]) assert.deepEqual((await readProfile(name, folders)).problems, []);
});

test("a project's profile gets no setting of Berth, however it names one (J4)", async () => {
  const env = { BERTH_TOKEN: "the token", BERTH_DATABASE: "the database", KEY: "key" };
  const launched = (origin: "project" | "user", meta: Record<string, unknown>) =>
    profileLaunch({ name: "x", folder: "/x", origin, meta, tools: new Map(), problems: [] } as never, env);
  for (const meta of [
    { url: "http://127.0.0.1/${BERTH_TOKEN}" },
    { url: "http://127.0.0.1/", headers: { "X-Key": "${KEY}", "X-T": "a ${BERTH_TOKEN}" } },
    { uri: "mcp+http://127.0.0.1/?header.X=${BERTH_TOKEN}" },
    { uri: "mcp+http://127.0.0.1/?query.x=%24%7BBERTH_TOKEN%7D" },
    { uri: "mcp+npx://x?env.X=${BERTH_DATABASE}" },
    { command: "x", args: ["${BERTH_TOKEN}"] },
    { command: "x", env: { X: "${BERTH_DATABASE}" } },
    { command: "${BERTH_TOKEN}" },
    { command: "x", cwd: "${BERTH_TOKEN}" },
  ]) {
    assert.throws(() => launched("project", meta), /BERTH_(?:TOKEN|DATABASE)/, JSON.stringify(meta));
    launched("user", meta);
  }
  assert.doesNotMatch(
    JSON.stringify(launched("project", { command: "x", args: ["${BERTH_TOKEN:-none}"] })),
    /the token/,
  );
  launched("project", { url: "http://127.0.0.1/${KEY}" });
});

test("a profile's URL is one of http or https, without a password (J4)", () => {
  for (const url of ["::", "file:///etc/passwd", "data:text/plain,x", "http://user:secret@host/", "http://${HOST}/"]) {
    const profile = { name: "x", folder: "/x", origin: "user", meta: { url }, tools: new Map(), problems: [] } as const;
    assert.throws(
      () => profileLaunch(profile, { HOST: "a b" }),
      ({ code, message }: BerthError) => code === "profile_invalid" && !message.includes("secret"),
      url,
    );
  }
});

test("a name leads to no file outside of the folders of profiles (J4)", async (t) => {
  const folder = temporaryFolder(t);
  await put(folder, "secret", { command: "x" });
  for (const name of ["../secret", "a/../secret", "..", ".", "", "a\0b", "/etc"]) {
    const error = await rejected(readProfile(name, [{ origin: "user", folder: join(folder, "profiles") }]));
    assert.equal(error.code, "profile_not_found", name);
  }
});

test("an unknown profile is answered with those that there are (J4)", async (t) => {
  const folder = temporaryFolder(t);
  await put(folder, "biomcp", { command: "uv" });
  const error = await rejected(readProfile("biomcq", [{ origin: "user", folder }]));
  assert.match(error.message, /No such profile: "@biomcq"; there are @biomcp/);
});

test("fills in ${VAR} and ${VAR:-default}, and leaves $${ and a shell's own variables (J4)", () => {
  const value = { args: ["${A}-${B:-two}-${EMPTY:-three}"], env: { KEY: "$${A}" }, deep: [{ text: "${GONE}/${A}" }] };
  const { value: filled, unset } = substitute(value, { A: "one", EMPTY: "" });
  assert.deepEqual(filled, { args: ["one-two-three"], env: { KEY: "${A}" }, deep: [{ text: "${GONE}/one" }] });
  const shell = "${1:-x} ${#list} ${list[@]}";
  assert.deepEqual(substitute(shell, {}), { value: shell, unset: [] });
  assert.deepEqual(unset, [{ variable: "GONE", pointer: "/deep/0/text" }]);
});

test("a profile is saved whole: what fails leaves the old files, and nothing beside them (J7)", async (t) => {
  const parent = temporaryFolder(t);
  const folder = join(parent, "search");
  const files = await draftProfile({ command: "uv" }, CONTRACT, new Date(0));
  await saveProfile(folder, files);
  const before = await readdir(folder);
  assert.deepEqual(before.sort(), ["_contract.json", "_meta.json", "find.json"]);

  assert.equal((await rejected(saveProfile(folder, files))).code, "profile_exists");
  const bad = { ...files, tools: { "../evil": {} } };
  assert.equal((await rejected(saveProfile(folder, bad, { replace: true }))).code, "profile_invalid");
  assert.deepEqual(await readdir(parent), ["search"]);
  assert.equal(JSON.parse(await readFile(join(folder, "_meta.json"), "utf8")).command, "uv");

  await saveProfile(folder, { ...files, tools: {} }, { replace: true });
  assert.deepEqual((await readdir(folder)).sort(), ["_contract.json", "_meta.json"]);
  assert.deepEqual(await readdir(parent), ["search"]);
});

test("what a crash leaves of a save is no profile (J7)", async (t) => {
  const folder = temporaryFolder(t);
  const files = await draftProfile({ command: "uv" }, CONTRACT, new Date(0));
  const saving = saveProfile(join(folder, "search"), files);
  const seen = new Set<string>();
  const progress = { isSaved: false };
  const saved = saving.then(() => (progress.isSaved = true));
  while (!progress.isSaved) for (const name of await readdir(folder)) seen.add(name);
  await saved;
  assert.ok(seen.size > 0);
  for (const name of seen) assert.ok(name === "search" || name.startsWith("."), name);
  for (const name of seen) await put(folder, name, { command: "uv" });
  assert.deepEqual(rows(await listProfiles([{ origin: "user", folder }]), "name"), ["search"]);
});

test("the contract hash is of names, required parameters and types, in any order (J5)", () => {
  const base = contractHash(contractOf({ gene: { type: "string" }, page: { type: "number" } }, ["gene"]));
  const same = (schema: Contract): void => assert.equal(contractHash(schema), base);
  const other = (schema: Contract): void => assert.notEqual(contractHash(schema), base);
  same(contractOf({ page: { type: "number" }, gene: { type: "string", description: "A gene" } }, ["gene"]));
  same(contractOf({ gene: { type: "string" }, page: { type: "number", default: 1 } }, ["gene", "page"]));
  other(contractOf({ gene: { type: "string" }, page: { type: "number" } }, ["gene", "page"]));
  other(contractOf({ gene: { type: "string" }, page: { type: "string" } }, ["gene"]));
  other(contractOf({ query: { type: "string" }, page: { type: "number" } }, ["query"]));
});

test("what is added as optional leaves the hash of those who knew the contract before (J5)", () => {
  const before = contractOf({ gene: { type: "string" } }, ["gene"]);
  const known = knownParameters(before);
  const hash = contractHash(before, known);
  const more = contractOf({ gene: { type: "string" }, filters: { type: "object" } }, ["gene"]);
  assert.equal(contractHash({ tools: [...more.tools, { name: "trials", inputSchema: {} }] }, known), hash);
  const required = contractOf({ gene: { type: "string" }, filters: {} }, ["gene", "filters"]);
  assert.notEqual(contractHash(required, known), hash);
});

test("a type is found behind references, choices, constants and enums (J5)", () => {
  const typed = (schema: object, defs: object = {}): string =>
    contractHash({ tools: [{ name: "f", inputSchema: { properties: { a: schema }, $defs: defs } }] });
  assert.equal(typed({ $ref: "#/$defs/T" }, { T: { type: "string" } }), typed({ type: "string" }));
  assert.equal(typed({ anyOf: [{ type: "string" }, { type: "null" }] }), typed({ type: ["null", "string"] }));
  assert.equal(typed({ enum: ["a", "b"] }), typed({ type: "string" }));
  assert.equal(typed({ $ref: "#/$defs/T" }, { T: { $ref: "#/$defs/T" } }), typed({}));
});

test("the hash of a contract that refers to itself by many ways takes as long as any other (J5)", () => {
  const $ref = "#/properties/a";
  const refers = (ways: number): object => ({ anyOf: Array.from({ length: ways }, () => ({ $ref })) });
  const hash = (a: object): string => contractHash({ tools: [{ name: "f", inputSchema: { properties: { a } } }] });
  assert.equal(hash(refers(50)), hash({}));
  const many = Object.fromEntries(Array.from({ length: 3_000 }, (_, at) => [`p${at}`, { $ref }]));
  const before = process.cpuUsage();
  contractHash({ tools: [{ name: "f", inputSchema: { properties: { a: refers(3_000), ...many } } }] });
  const { user, system } = process.cpuUsage(before);
  assert.ok(user + system < 2_000_000, `${user + system} µs`);
});

test("the hash of a long contract is taken in turns with other work (J5)", async () => {
  const names = Array.from({ length: 60 }, (_, at) => `p${at}`);
  const properties = Object.fromEntries(names.map((name) => [name, { type: ["null", "string"] }]));
  const tools = Array.from({ length: 500 }, (_, at) => ({ name: `t${at}`, inputSchema: { properties } }));
  let hash = "";
  const turns = await turnsIn(async () => (hash = await contractHashInTurns({ tools })));
  assert.equal(hash, contractHash({ tools }));
  assert.ok(turns > 3, `${turns} turns`);
});

test("the hash is what following every way gives (J5)", () => {
  const everyWay = (schema: unknown, defs: Record<string, unknown>, depth = 0): string[] => {
    if (depth > 32) return ["any"];
    const { type, $ref: reference, anyOf } = schema as { type?: string; $ref?: string; anyOf?: unknown[] };
    if (type !== undefined) return [type];
    if (reference !== undefined) return everyWay(defs[reference.slice("#/$defs/".length)], defs, depth + 1);
    return anyOf ? anyOf.flatMap((choice) => everyWay(choice, defs, depth + 1)) : ["any"];
  };
  const ref = (name: string): object => ({ $ref: `#/$defs/${name}` });
  const chain = Object.fromEntries(
    Array.from({ length: 40 }, (_, at) => [`C${at}`, { anyOf: [{ type: `t${at}` }, ref(`C${at + 1}`)] }]),
  );
  for (const defs of [
    { A: { anyOf: [{ type: "string" }, ref("B")] }, B: { anyOf: [ref("A"), { type: "number" }] } },
    { A: { anyOf: [{ type: "string" }, ref("B"), ref("B")] }, B: ref("C"), C: { anyOf: [{ type: "null" }, {}] } },
    { A: { anyOf: [{ type: "string" }, ref("A")] } },
    { A: ref("C0"), ...chain, C40: { type: "last" } },
    { A: ref("C9"), ...chain, C40: { type: "last" } },
  ] as Record<string, unknown>[]) {
    const hash = (a: object): string =>
      contractHash({ tools: [{ name: "f", inputSchema: { properties: { a }, $defs: defs } }] });
    assert.equal(hash(ref("A")), hash({ type: everyWay(ref("A"), defs) }), JSON.stringify(defs));
  }
});

test("a drafted profile has each tool's parameters, and they give the schema back (J8)", () => {
  const properties = { gene: { type: "string" }, page: { type: "number" } };
  const schema = { type: "object", properties, required: ["gene"] };
  const parameters = parametersOf(schema);
  assert.deepEqual(parameters, { gene: { type: "string", required: true }, page: { type: "number" } });
  assert.deepEqual(schemaOf(parameters), schema);
});

const CONTRACT = contractOf({ gene: { type: "string" } }, ["gene"]);

function contractOf(properties: object, required: string[]): Contract {
  const inputSchema = { type: "object", properties, required };
  return { tools: [{ name: "find", inputSchema }], resources: [], resourceTemplates: [], prompts: [] };
}

async function put(folder: string, name: string, meta: unknown): Promise<void> {
  await mkdir(join(folder, name), { recursive: true });
  await writeFile(join(folder, name, "_meta.json"), JSON.stringify(meta));
}

async function rejected(promise: Promise<unknown>): Promise<BerthError> {
  const error = await promise.then(
    () => assert.fail("it did not reject"),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof BerthError, String(error));
  return error;
}

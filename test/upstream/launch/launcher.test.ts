import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import type { BerthError } from "../../../src/lib/errors.ts";
import { buildAddress, buildCommand, type LaunchCommand } from "../../../src/upstream/launch/command.ts";
import {
  fillTemplate,
  templateVariables,
  type ProgramLaunch,
  type RemoteLaunch,
} from "../../../src/upstream/launch/launch.ts";
import { parseLauncher } from "../../../src/upstream/launch/launcher-uri.ts";
import * as fc from "../../support/fast-check.ts";
import { rows } from "../../support/rows.ts";
import { stopwatch } from "../../support/stopwatch.ts";
import { temporaryFolder } from "../../support/suite.ts";
import { launchOf } from "../../support/upstreams.ts";

/** The code and column of each problem. */
function problemsOf(uri: string): string {
  return rows(parseLauncher(uri).problems ?? [], "code", "column").join(", ");
}

/** The program and its arguments, with stand-ins for all launchers on PATH. */
async function commandFor(t: TestContext, uri: string, programs: readonly string[], env: Record<string, string> = {}) {
  const folder = temporaryFolder(t);
  for (const name of programs) await writeFile(join(folder, name), "#!/bin/sh\n", { mode: 0o755 });
  const command: LaunchCommand = buildCommand(launchOf(uri) as ProgramLaunch, {
    env: { PATH: folder, ...env },
    folder,
  });
  return { ...command, file: command.file.replace(`${folder}/`, ""), folder };
}

test("a URI as long as it may be is read at once, whatever it repeats", () => {
  const tookMs = stopwatch();
  const long = (text: string): string => text.repeat(Math.floor(65_000 / text.length));
  for (const [uri, problem] of [
    [`mcp+https://h/?header.X=${long("${")}`],
    [`mcp+node://${long("a%2")}`, "bad-percent-encoding"],
    [`mcp+node://${long("a")}`],
    [`mcp+https://h/?${long("&")}`, "empty-pair"],
    [`mcp+https://h/?${long("a=&")}`, "too-many"],
    [`mcp+https://h/?${long("header.a=&")}`, "duplicate-key"],
  ] as const) {
    const { problems = [] } = parseLauncher(uri);
    assert.equal(problems.at(-1)?.code, problem, uri.slice(0, 40));
    assert.ok(problems.length <= 50);
    for (const { frame } of problems) assert.ok(frame!.length < 1_000);
  }
  const text = long("${");
  const filled = fillTemplate({ text }, () => "x");
  assert.deepEqual(filled, { text, unset: [] });
  assert.deepEqual(fillTemplate({ text: long("${a:-") }, () => undefined).unset, []);
  for (const closed of ["${".concat(long(":")), long("${a:-"), long("${a:")]) templateVariables(`${closed}}`);
  assert.ok(tookMs() < 2_000, `${tookMs()} ms`);
});

test("every launcher URI of the seeds is read (J1)", () => {
  const none = { texts: [], json: {} };
  const one = (name: string, value: string) => ({ texts: [{ name, values: [value] }], json: {} });
  const program = { target: "biomcp-python", program: "biomcp", name: "biomcp-python/biomcp" };
  const biomcp = { launcher: "uvx", args: ["run"], ...program };
  const context7 = { launcher: "npx", target: "@upstash/context7-mcp@latest", args: [] };
  const python = { launcher: "python", target: "./my_server.py" };
  const node = { launcher: "node", target: "./server.js" };
  for (const [uri, launch, name, given] of [
    ["mcp+uvx://biomcp-python/biomcp?command=run&tool=search&gene=BRAF", biomcp, "search", one("gene", "BRAF")],
    ["mcp+uvx://biomcp-python/biomcp?command=run", biomcp, undefined, none],
    ["mcp+npx://@upstash/context7-mcp@latest?tool=search&library=x", context7, "search", one("library", "x")],
    ["mcp+python://./my_server.py?tool=fetch_data", python, "fetch_data", none],
    ["mcp+node://./server.js?tool=analyze", node, "analyze", none],
  ] as const) {
    const parsed = parseLauncher(uri);
    assert.ok(parsed.launch, JSON.stringify(parsed.problems));
    assert.deepEqual({ ...parsed.launch, ...launch }, parsed.launch);
    assert.deepEqual(parsed.operation, { ...(name && { target: { kind: "tool", name } }), arguments: given });
  }
});

test("versions, programs, several arguments, environment and folder are read (J1)", () => {
  const uri =
    "mcp+npx://@scope/pkg@^1.2.3/tool-bin?command=serve&arg=--flag=1&arg=two+words&arg=%26%3B%20%24(rm)&env.KEY=${KEY}&env.MODE=x%3Dy&cwd=./data";
  const launch = launchOf(uri) as ProgramLaunch;
  assert.deepEqual(
    [launch.target, launch.program, launch.args, launch.cwd],
    ["@scope/pkg@^1.2.3", "tool-bin", ["serve", "--flag=1", "two words", "&; $(rm)"], "./data"],
  );
  assert.deepEqual(Object.keys(launch.env), ["KEY", "MODE"]);
  assert.deepEqual(rows(Object.values(launch.env), "text"), ["${KEY}", "x=y"]);
});

test("reads the era of every launcher, and an argument of that name as args.era (J1)", () => {
  for (const start of ["npx://p", "uvx://p", "python://./a.py", "node://./a.js", "http://h/", "https://h/"]) {
    assert.equal(launchOf(`mcp+${start}?era=modern`).era, "modern", start);
    assert.equal(launchOf(`mcp+${start}?era=legacy`).era, "legacy", start);
    const parsed = parseLauncher(`mcp+${start}?tool=t&args.era=modern`);
    assert.ok(parsed.launch);
    assert.equal(parsed.launch.era, undefined, start);
    assert.deepEqual(parsed.operation.arguments.texts, [{ name: "era", values: ["modern"] }], start);
    assert.equal(problemsOf(`mcp+${start}?era=new`), `bad-era ${start.length + 10}`, start);
  }
});

test("an argument whose name the URI uses itself is given as args.NAME or in args={…} (J1)", () => {
  const parsed = parseLauncher('mcp+node://./a.js?tool=t&args.tool=hammer&args={"list":[1],"command":"x"}&q=1');
  assert.ok(parsed.launch);
  const { texts, json } = parsed.operation.arguments;
  assert.deepEqual(parsed.operation.target, { kind: "tool", name: "t" });
  assert.deepEqual(rows(texts, "name", "values"), ["tool hammer", "q 1"]);
  assert.deepEqual(json, { list: [1], command: "x" });
});

test("each thing that can be wrong is told with its place, marked below the URI (J1)", () => {
  const cases: [string, string][] = [
    ["npx://pkg", "not-a-launcher 1"],
    ["mcp://pkg", "not-a-launcher 1"],
    ["mcp+npm://pkg", "unknown-launcher 5"],
    ["mcp+NPX://pkg", "unknown-launcher 5"],
    ["mcp+npx://", "missing-package 11"],
    ["mcp+npx://?tool=x", "missing-package 11"],
    ["mcp+npx://@scope", "missing-package 11"],
    ["mcp+npx://@scope/", "missing-package 11"],
    ["mcp+npx://-y", "bad-package 11"],
    ["mcp+npx://--package=evil", "bad-package 11"],
    ["mcp+npx://../evil", "bad-package 11"],
    ["mcp+npx://pkg@git+ssh:x", "bad-version 15"],
    ["mcp+npx://pkg.tgz", "bad-package 11"],
    ["mcp+npx://pkg.TAR.GZ@1.0.0", "bad-package 11"],
    ["mcp+npx://@scope/pkg@evil.tar", "bad-version 22"],
    ["mcp+uvx://evil.whl", "bad-package 11"],
    ["mcp+uvx://pkg@1.0.zip", "bad-version 15"],
    ["mcp+npx://pkg@", "bad-version 15"],
    ["mcp+npx://pkg/-x", "bad-program 15"],
    ["mcp+npx://pkg/a/b", "bad-package 11"],
    ["mcp+uvx://", "missing-package 11"],
    ["mcp+uvx://--with", "bad-package 11"],
    ["mcp+python://", "missing-script 14"],
    ["mcp+node://?tool=x", "missing-script 12"],
    ["mcp+https://", "missing-host 13"],
    ["mcp+https://user:word@host/", "credentials 13"],
    ["mcp+https://ho st/", "bad-url 13"],
    ["mcp+npx://pkg#x", "fragment 14"],
    ["mcp+npx://pkg?tool=%zz", "bad-percent-encoding 20"],
    ["mcp+npx://pkg?tool=%ff", "bad-percent-encoding 20"],
    ["mcp+npx://pkg?arg=%00", "bad-character 19"],
    ["mcp+npx://pkg?tool=a\u0007b", "bad-character 21"],
    ["mcp+npx://pkg?tool", "missing-value 15"],
    ["mcp+npx://pkg?tool=", "missing-value 20"],
    ["mcp+npx://pkg?=x", "missing-key 15"],
    ["mcp+npx://pkg?a=1&&b=2", "empty-pair 19"],
    ["mcp+npx://pkg?tool=a&tool=b", "duplicate-key 22"],
    ["mcp+npx://pkg?command=a&command=b", "duplicate-key 25"],
    ["mcp+npx://pkg?cwd=a&cwd=b", "duplicate-key 21"],
    ["mcp+npx://pkg?env.A=1&env.A=2", "duplicate-key 23"],
    ["mcp+npx://pkg?env.A-B=1", "bad-name 15"],
    ["mcp+npx://pkg?env.A=${B C}", "bad-variable 21"],
    ["mcp+npx://pkg?env.A=${B C:-x}", "bad-variable 21"],
    ["mcp+npx://pkg?env.A=${:-x}", "bad-variable 21"],
    ["mcp+npx://pkg?era=modern&era=legacy", "duplicate-key 26"],
    ["mcp+npx://pkg?header.A=1", "misplaced-key 15"],
    ["mcp+https://host/?command=x", "misplaced-key 19"],
    ["mcp+https://host/?header.Mcp-Session-Id=x", "bad-header 19"],
    ["mcp+https://host/?header.A=1&header.a=2", "duplicate-key 30"],
    ["mcp+npx://pkg?tool=a&resource=b", "two-targets 22"],
    ["mcp+npx://pkg?list=servers", "bad-list 20"],
    ["mcp+npx://pkg?args=[1]", "bad-arguments 20"],
    ["mcp+npx://pkg?args={", "bad-arguments 20"],
    ['mcp+npx://pkg?args={"a":1}&a=2', "duplicate-key 28"],
    ["mcp+npx://pkg?tool=%zz&tool&list=x", "bad-percent-encoding 20, missing-value 24, bad-list 34"],
  ];
  for (const [uri, expected] of cases) assert.equal(problemsOf(uri), expected, uri);
  const [problem] = parseLauncher("mcp+npx://pkg?tool=%zz").problems!;
  assert.equal(problem!.frame, `mcp+npx://pkg?tool=%zz\n${" ".repeat(19)}^`);
});

test("whatever is written as a launcher URI is read or refused, and never throws (J1)", () => {
  const piece = fc.oneof(
    fc.constantFrom("mcp+npx://", "mcp+https://", ..."@ / ? & = % args= args. env. { ${ }".split(" ")),
    fc.string({ maxLength: 8 }),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      const { launch, problems } = parseLauncher(pieces.join(""));
      assert.ok(launch ? problems === undefined : problems.length > 0);
    }),
    { numRuns: fc.runs(2000) },
  );
});

test("npx is told the package in a way that takes no argument for its own (J1)", async (t) => {
  const plain = await commandFor(t, "mcp+npx://@s/p@1?arg=-v&arg=--package=evil", ["npx"]);
  assert.deepEqual(
    [plain.file, plain.args],
    ["npx", ["--yes", "--prefer-offline", "--", "@s/p@1", "-v", "--package=evil"]],
  );
  const named = await commandFor(t, "mcp+npx://@s/p@1/other?arg=-v", ["npx"]);
  assert.deepEqual(named.args, ["--yes", "--prefer-offline", "--package=@s/p@1", "--", "other", "-v"]);
});

test("uvx gets package, program and arguments; uv stands in where there is no uvx (J1)", async (t) => {
  const uri = "mcp+uvx://biomcp-python@0.4.1/biomcp?command=run&arg=--mode=stdio";
  const expected = ["--from", "biomcp-python==0.4.1", "biomcp", "run", "--mode=stdio"];
  const uvx = await commandFor(t, uri, ["uvx", "uv"]);
  assert.deepEqual([uvx.file, uvx.args], ["uvx", expected]);
  const uv = await commandFor(t, uri, ["uv"]);
  assert.deepEqual([uv.file, uv.args], ["uv", ["tool", "run", ...expected]]);
  assert.deepEqual((await commandFor(t, "mcp+uvx://ruff@latest", ["uvx"])).args, ["--from", "ruff@latest", "ruff"]);
});

test("a launcher that is not installed is named, with what to do (J1)", async (t) => {
  await assert.rejects(commandFor(t, "mcp+uvx://biomcp-python", ["npx"]), {
    code: "upstream_not_started",
    message: /the program uvx was not found\. Install uv/,
  });
  await assert.rejects(commandFor(t, "mcp+npx://p", []), { message: /the program npx was not found/ });
});

test("a child gets a minimal environment, and what the URI gives it (J1)", async (t) => {
  const uri = "mcp+npx://p?env.TOKEN=${SECRET}&env.LITERAL=$${SECRET}";
  const npm = { npm_config_cafile: "/ca", npm_config_fetch_retries: "9" };
  const env = { HOME: "/home/me", SECRET: "hidden-value", ...npm, UV_INDEX: "u" };
  const { env: given, secrets } = await commandFor(t, uri, ["npx"], env);
  const wanted = { HOME: "/home/me", ...npm, TOKEN: "hidden-value", LITERAL: "${SECRET}" };
  assert.deepEqual({ ...given, ...wanted }, given);
  assert.deepEqual([given["SECRET"], given["UV_INDEX"]], [undefined, undefined]);
  assert.ok(secrets.includes("hidden-value"));
});

test("uses the default of a variable that is unset or empty, which is no secret (J1)", async (t) => {
  const uri =
    "mcp+npx://p?env.A=${UNSET:-by-default}&env.B=${EMPTY:-a:-b}&env.C=${TOKEN:-x}&env.D=${UNSET:-}&env.E=$${A:-b}";
  const { env, secrets } = await commandFor(t, uri, ["npx"], { EMPTY: "", TOKEN: "hidden-value" });
  const values = "ABCDE".split("").map((name) => env[name]);
  assert.deepEqual(values, ["by-default", "a:-b", "hidden-value", "", "${A:-b}"]);
  assert.deepEqual(new Set(secrets), new Set(["hidden-value"]));
  const remote = launchOf("mcp+https://h/?header.X=${UNSET:-one}&query.y=${UNSET:-two}") as RemoteLaunch;
  const { url, headers } = buildAddress(remote, { env: {}, folder: "/" });
  assert.deepEqual([headers, url.search], [{ X: "one" }, "?y=two"]);
});

test("what is missing on this machine is told at once, each with its place (J1)", async (t) => {
  const uri = "mcp+python://./nowhere.py?cwd=gone&env.A=${NOT_SET}&env.B=${NOR_THIS}";
  const error = (await commandFor(t, uri, ["python3"]).catch((reason: unknown) => reason)) as BerthError;
  assert.equal(error.code, "launcher_invalid");
  const problems = error.data!["problems"] as { code: string; column: number }[];
  const codes = ["unset-variable", "unset-variable", "missing-folder", "missing-script"];
  assert.deepEqual(rows(problems, "code"), codes);
  const places = problems.map(({ column }) => uri.slice(column - 1, column + 8));
  assert.deepEqual(places, ["${NOT_SET", "${NOR_THI", "cwd=gone&", "./nowhere"]);
});

test("a remote server's headers and query come from the URI, and the rest are arguments (J1)", () => {
  const uri = "mcp+https://example.org/a/mcp?header.Authorization=Bearer%20${TOKEN}&query.key=k%261&tool=t&q=x";
  const surroundings = { env: { TOKEN: "abcdefgh" }, folder: "/" };
  const { url, headers, secrets } = buildAddress(launchOf(uri) as RemoteLaunch, surroundings);
  assert.deepEqual([url.href, headers], ["https://example.org/a/mcp?key=k%261", { Authorization: "Bearer abcdefgh" }]);
  assert.deepEqual(secrets, ["Bearer abcdefgh", "abcdefgh"]);
  const broken = launchOf("mcp+https://h/?header.X=${TOKEN}") as RemoteLaunch;
  assert.throws(() => buildAddress(broken, { env: { TOKEN: "a\r\nEvil: 1" }, folder: "/" }), {
    code: "launcher_invalid",
  });
});

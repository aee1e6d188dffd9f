import assert from "node:assert/strict";
import { chmodSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { readNamedEntry } from "../../../src/entry/mcps.ts";
import { buildCommand } from "../../../src/upstream/launch/command.ts";
import type { ProgramLaunch } from "../../../src/upstream/launch/launch.ts";
import { apiOf } from "../../support/api.ts";
import { call } from "../../support/berth.ts";
import { isAlive } from "../../support/processes.ts";
import { berthInSuite } from "../../support/suite.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { bearer, makeToken } from "../../support/tokens.ts";
import { until } from "../../support/until.ts";
import { launchOf } from "../../support/upstreams.ts";

/** An MCP server whose tool `tell` returns its arguments, folder and environment. */
const SERVER = `
const { createInterface } = require("node:readline");
const tool = { name: "tell", inputSchema: { type: "object" } };
const results = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "t", version: "1" } }),
  "tools/list": () => ({ tools: [tool] }),
  "tools/call": () => ({ content: [{ type: "text", text: JSON.stringify({ args: process.argv.slice(2), cwd: process.cwd(), file: process.argv0, env: process.env }) }] }),
};
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const result = results[method]?.(params);
  console.log(JSON.stringify(result ? { jsonrpc: "2.0", id, result } : { jsonrpc: "2.0", id, error: { code: -32601, message: method } }));
});
`;
/** A stand-in for docker: runs the command in the background as its "container", which outlives it. */
const DOCKER = `#!/bin/bash
folder=$(dirname "$0")
case "$1" in
  run)
    case " $* " in *" --name taken "*) echo "the name is in use" >&2; exit 125 ;; esac
    name=$(printf '%064x' $$)
    env -i sleep 1000 < /dev/null > /dev/null 2>&1 & disown
    echo $! > "$folder/$name"
    echo "$name" > "$(printf '%s\\n' "$@" | sed -n 's/^--cidfile=//p')"
    exec "${process.execPath}" "$folder/server.cjs" "$@" ;;
  rm) echo "$3" >> "$folder/removed"; kill "$(cat "$folder/$3")" ;;
esac
`;

process.env["TELLING_VALUE"] = "of the environment";
const folder = temporaryFolder();
const script = join(folder, "server.cjs");
writeFileSync(script, SERVER);
mkdirSync(join(folder, "bin"));
symlinkSync(process.execPath, join(folder, "bin/python"));
writeFileSync(join(folder, "docker"), DOCKER, { mode: 0o755 });

describe("an entry with a command", () => {
  const berth = berthInSuite({
    env: { BERTH_UPSTREAM_PROGRAMS: "on", BERTH_ACCESS: "open" },
    mcps: { fixed: { command: process.execPath, args: [script, "from mcps.json"] } },
  });
  // oxlint-disable-next-line typescript/no-explicit-any -- the server of this test returns any shape
  const tell = async (server: string): Promise<any> =>
    JSON.parse((await call(`${berth.url}/mcp/${server}`, "tell")).content[0].text);
  const put = (server: string, entry: object, headers = {}) =>
    apiOf(berth).put(`/entries/${server}`, JSON.stringify(entry), headers);

  it("serves the tools of the program (C2)", async () => {
    assert.deepEqual((await tell("fixed")).args, ["from mcps.json"]);
  });

  it("starts the program with its arguments, folder and variables as written, without a shell", async () => {
    const args = [script, "$HOME", "a b", "; touch x", "--to=${TELLING_VALUE}", "$${X}", "%41", "", "ü&=?#"];
    const env = { PLAIN: "a b&c=d", FROM: "${TELLING_VALUE}", OR: "${NOT_SET_ANYWHERE:-default}", LITERAL: "$${X}" };
    const saved = await put("written", { command: process.execPath, args, env, cwd: folder });
    assert.equal(saved.status, 201, JSON.stringify(saved.body));
    const state = await tell("written");
    const expected = args
      .slice(1)
      .map((arg) => arg.replace("${TELLING_VALUE}", "of the environment").replace("$$", "$"));
    assert.deepEqual([state.args, state.cwd], [expected, folder]);
    assert.deepEqual(
      Object.keys(env).map((name) => state.env[name]),
      ["a b&c=d", "of the environment", "default", "${X}"],
    );
    assert.ok(!existsSync(join(folder, "x")));
  });

  it("starts the interpreter of a virtual environment by its own path", async () => {
    const python = join(folder, "bin/python");
    assert.equal((await put("venv", { command: python, args: [script] })).status, 201);
    assert.equal((await tell("venv")).file, python);
  });

  it("ends the container of docker run with the server", async () => {
    // The arguments after the image belong to its program: they name no container.
    const entry = { command: join(folder, "docker"), args: ["run", "-i", "--rm", "image", "--name", "database"] };
    assert.equal((await put("contained", entry)).status, 201);
    const { args } = await tell("contained");
    const [, idFile] = /^--cidfile=(.+)$/.exec(args[1]) ?? [];
    assert.deepEqual([args[0], ...args.slice(2)], entry.args);
    const id = readFileSync(idFile!, "utf8").trim();
    const container = Number(readFileSync(join(folder, id), "utf8"));
    await apiOf(berth).remove("/entries/contained");
    await until(() => existsSync(join(folder, "removed")) && !isAlive(container));
    assert.ok(!existsSync(idFile!));
    const other = { command: join(folder, "docker"), args: ["run", "-i", "--name", "taken", "image"] };
    assert.equal((await put("conflicting", other)).status, 422);
    assert.doesNotMatch(readFileSync(join(folder, "removed"), "utf8"), /taken|database/);
  });

  it("reports a missing program, and a file that is not executable", async () => {
    const failure = async (command: string): Promise<string> => {
      const { status, body } = await put("missing", { command });
      assert.equal(status, 422);
      return JSON.stringify(body);
    };
    assert.match(
      await failure("no-such-program"),
      /the program no-such-program was not found. Install it, or put it on PATH/,
    );
    assert.match(await failure(script), /server.cjs is not an executable file/);
    assert.match(await failure(folder), /is not an executable file/);
  });

  it("reports each fault with its place", () => {
    const problems = (entry: object): string =>
      readNamedEntry("x", entry as never)
        .problems.map(({ pointer, code }) => `${pointer!.slice(2)} ${code}`)
        .join(", ");
    assert.equal(problems({ command: "x", args: ["a", 1] }), "/args/1 wrong-type");
    assert.equal(
      problems({ command: "x", args: ["a\0b"], env: { A: null } }),
      "/env/A wrong-type, /command bad-character",
    );
    assert.match(problems({ command: "" }), /^\/command wrong-value/);
    for (const entry of [
      { command: "\ud800" },
      { command: "x", args: ["\ud800"] },
      { command: "x", env: { A: "\udfff" } },
    ])
      assert.equal(problems(entry), "/command bad-character");
    assert.equal(problems({ command: "x", upstream: "mcp+npx://x" }), " two-kinds");
    assert.match(problems({ args: ["x"] }), /wrong-value/);
    assert.match(problems({ command: "x", env: { "A=B": "x" } }), /^\/command bad-name/);
    assert.match(problems({ command: "x", env: JSON.parse('{"__proto__": "x"}') }), /^$/);
    assert.match(problems({ command: "x", network: ["a"] }), /not-for-upstreams/);
  });
});

describe("without the right to start programs", () => {
  const berth = berthInSuite({
    env: { BERTH_ACCESS: "required" },
    mcps: { own: { command: process.execPath, args: [script] } },
  });

  it("a command and its arguments, folder and variables cannot be changed", async () => {
    const { token } = await makeToken(berth, { name: "author", can: ["edit", "read", "call"] });
    for (const change of [
      { command: "/bin/sh" },
      { args: ["-e", "1"] },
      { env: { NODE_OPTIONS: "--import=/x" } },
      { cwd: "/" },
    ]) {
      const entry = { command: process.execPath, args: [script], ...change };
      const { status } = await apiOf(berth).put("/entries/own", JSON.stringify(entry), bearer(token));
      assert.equal(status, 403, JSON.stringify(change));
    }
  });
});

describe("the program of a command", () => {
  const start = (uri: string, env: Record<string, string>) =>
    buildCommand(launchOf(uri) as ProgramLaunch, { env, folder: "/" });

  it("resolves in absolute folders of PATH only", (t) => {
    const own = temporaryFolder(t);
    for (const name of ["shadow", "plain"]) writeFileSync(join(own, name), "#!/bin/sh\n");
    chmodSync(join(own, "shadow"), 0o755);
    for (const PATH of ["", ".", "bin:.", ":"]) {
      assert.throws(() => start("mcp+exec://shadow", { PATH }), /the program shadow was not found/);
    }
    assert.equal(start("mcp+exec://shadow", { PATH: `.:${own}` }).file, join(own, "shadow"));
    assert.throws(() => start("mcp+exec://plain", { PATH: own }), /the program plain was not found/);
  });

  it("resolves in its folder", (t) => {
    const own = temporaryFolder(t);
    symlinkSync(process.execPath, join(own, "python"));
    assert.equal(start(`mcp+exec://./python?cwd=${own}`, {}).file, join(own, "python"));
  });

  it("gets no option from the value of a variable", () => {
    const uri = `mcp+exec://${process.execPath}?arg=%24%7BX%7D&arg=--y%3D%24%7BX%7D`;
    assert.deepEqual(start(uri, { X: "x" }).args, ["x", "--y=x"]);
    assert.throws(() => start(uri, { X: "--import=/x" }), /The argument \$\{X\} would become an option/);
  });

  it("writes the id of its container for docker run", (t) => {
    const PATH = temporaryFolder(t);
    writeFileSync(join(PATH, "docker"), "", { mode: 0o755 });
    const remove = (written: string[]) => {
      const query = written.map((arg) => `arg=${encodeURIComponent(arg)}`).join("&");
      const { args, container } = start(`mcp+exec://docker?${query}`, { PATH });
      assert.deepEqual(
        args.filter((arg) => !container || arg !== `--cidfile=${container.idFile}`),
        written,
      );
      return container?.remove;
    };
    assert.deepEqual(remove(["run", "--name", "mine", "-i", "x"]), ["rm", "--force"]);
    assert.deepEqual(remove(["-D", "--context", "c", "container", "run", "x"]), [
      "-D",
      "--context",
      "c",
      "container",
      "rm",
      "--force",
    ]);
    for (const other of [
      ["exec", "-i", "x", "run"],
      ["compose", "run", "x"],
      ["--context", "run"],
    ])
      assert.equal(remove(other), undefined);
  });
});

import assert from "node:assert/strict";
import { execFileSync, type ExecFileSyncOptions } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { packageRoot } from "../../src/config.ts";
import { compilerCommand, openCompiler } from "../../src/discover/compiler.ts";
import { isServiceFault, type Compiled, type DefinitionSource } from "../../src/discover/discovery.ts";
import { clock } from "../../src/lib/clock.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import type { Confinement } from "../../src/processes/own-program.ts";
import { residentMb, processTree } from "../../src/processes/process-tree.ts";
import { spawnDirectly, type Spawn } from "../../src/processes/spawn/spawn.ts";
import { viewOf } from "../support/confined-view.ts";
import { GUESTS } from "../support/guests.ts";
import { commandOf } from "../support/processes.ts";
import { rows } from "../support/rows.ts";
import { closeAfter, temporaryFolder } from "../support/suite.ts";

// These tests are about the compiler's own process.
process.env["BERTH_TEST_OWN_COMPILER"] = "1";

const limits = { ...defaultLimits, compileMs: 600_000, compileMemoryMb: 384 };
const isRoot = process.getuid?.() === 0;
const isLinux = process.platform === "linux";

const source = (text: string, more: Record<string, string> = {}): DefinitionSource => ({
  language: "typescript",
  server: "m",
  entry: "m.ts",
  files: { "m.ts": text, ...more },
});

const folder = temporaryFolder();
const secret = "c9f1e0-a-secret-that-nobody-is-told";
const secretFile = join(folder, "secret.key");
writeFileSync(secretFile, `{"version":3, ${secret}`);

/** Without the sandbox in the extended suite. */
const mode: Confinement = isLinux ? GUESTS : "trusted";

describe(`what a definition can have the compiler read, ${mode}`, () => {
  const compiler = openCompiler(limits, { mode });
  after(() => compiler.close());

  const compile = async (text: string, more?: Record<string, string>): Promise<Compiled> => {
    const compiled = await compiler.compile(source(text, more));
    assert.ok(!JSON.stringify(compiled).includes(secret), "nothing of the host's file is in the answer");
    return compiled;
  };

  test("no comment leads to a file outside of the definition", async () => {
    const url = pathToFileURL(secretFile).href;
    const targets = [url, secretFile, "./secret.key", "../../../../../../../../../../etc/passwd", "file:///dev/zero"];
    const comments = targets.flatMap((target) => [
      `//# sourceMappingURL=${target}`,
      `//@ sourceMappingURL=${target}`,
      `/*# sourceMappingURL=${target} */`,
      `/*@ sourceMappingURL=${target}\n*/`,
      `const a = 1; //# sourceMappingURL=${target}\n//# sourceMappingURL=${target}`,
      `const text = \`\${1 /*# sourceMappingURL=${target} */}\``,
    ]);
    const inline = `{"version":3,"sources":["${url}"],"names":[],"mappings":"AAAA" ${secret.slice(0, 4)}`;
    comments.push(
      `//# sourceMappingURL=data:application/json,${encodeURIComponent(inline)}`,
      `//# sourceMappingURL=data:application/json;base64,${Buffer.from(inline).toString("base64")}`,
    );
    for (const comment of comments) {
      const beside = `export function x(): string { return "" }\n${comment}\n`;
      const { problems, tools, bundle } = await compile(beside);
      assert.deepEqual(problems, [], comment);
      assert.equal(tools.length, 1);
      assert.ok(bundle);
      const nested = await compile('export { x } from "./nested.js";', {
        "nested.js": beside.replace(": string", ""),
      });
      assert.deepEqual(nested.problems, [], comment);
    }
  });

  test("all that the compiler loads only for some definitions is there", async () => {
    const tags = '@inputSchema {"type": "object", "properties": {"to": {"type": "string", "format": "email"}}}';
    const { problems, tools, skills } = await compile(
      `/**\n * Sends.\n * ${tags}\n */\nexport function send(args: { to: string }): string { return args.to }`,
      { "m.skills/send/SKILL.md": "---\nname: send\ndescription: Sends.\n---\n" },
    );
    assert.deepEqual(problems, []);
    assert.equal(skills?.length, 1);
    assert.equal(tools.length, 1);
  });

  test("a program that speaks of source maps means what it meant", async () => {
    const text = [
      'const one = "//# sourceMappingURL=file:///a";',
      "const two = `/*# sourceMappingURL=${one} */`;",
      "const three = /\\/\\/# sourceMappingURL=(.*)/.exec(one)![1];",
      "class Four { #sourceMappingURL = 4; get() { return this.#sourceMappingURL; } }",
      'import data from "./data.json";',
      "export function x(): string { return JSON.stringify([one, two, three, new Four().get(), data]); }",
    ].join("\n");
    const { problems, bundle } = await compile(text, {
      "data.json": '{"//# sourceMappingURL=": "//@ sourceMappingURL"}',
    });
    assert.deepEqual(problems, []);
    const file = join(folder, `${mode}.mjs`);
    writeFileSync(file, bundle!);
    const { x } = (await import(pathToFileURL(file).href)) as { x: () => string };
    assert.deepEqual(JSON.parse(x()), [
      "//# sourceMappingURL=file:///a",
      "/*# sourceMappingURL=//# sourceMappingURL=file:///a */",
      "file:///a",
      4,
      { "//# sourceMappingURL=": "//@ sourceMappingURL" },
    ]);
    const raw = await compile(
      "const a = 1;\nexport function x(): string { return String.raw`${a}//# sourceMappingURL=${a}` }",
    );
    assert.equal(raw.bundle, undefined);
    assert.deepEqual(rows(raw.problems, "severity", "line", "column"), ["error 2 52"]);
  });

  test("no import, reference or tag leads to a file outside of the definition", async () => {
    const url = pathToFileURL(secretFile).href;
    const refused = [
      `import x from ${JSON.stringify(secretFile)} with { type: "text" };`,
      `import x from ${JSON.stringify(secretFile)} with { type: "json" };`,
      `import x from ${JSON.stringify(url)};`,
      `import x from "../secret.key";`,
      `import x from "./../../../../../../../../../../../../${secretFile}";`,
      `import x from "/etc/passwd";`,
      `const x = require(${JSON.stringify(secretFile)});`,
      `const x = require.resolve(${JSON.stringify(secretFile)});`,
      `const x = await import(${JSON.stringify(url)});`,
      `const x = await import(\`${folder}/\${"secret.key"}\`);`,
      `import x from "data:text/plain,${secretFile}";`,
      `import x from "esbuild/../../secret.key";`,
      `import x from "esbuild/../../../../../../../../../../${secretFile}";`,
    ];
    for (const line of refused) {
      const { bundle, problems } = await compile(`${line}\nexport function f(): string { return String(x); }`);
      assert.equal(bundle, undefined, line);
      const hasError = problems.some(({ severity }) => severity === "error");
      assert.ok(hasError, line);
    }
    const ignored = [
      `/// <reference path="${secretFile}" />`,
      `/// <reference path="/etc/passwd" />`,
      `/// <reference types="${secretFile}" />`,
      `/// <reference types="node" />`,
      `/// <reference lib="../../../../../..${secretFile}" />`,
      `/// <amd-dependency path="${secretFile}" />`,
      `/** @jsxImportSource ${secretFile} */\n/** @jsxRuntime automatic */`,
      `/** @typedef {import("${secretFile}")} X */`,
    ];
    for (const line of ignored) {
      const { tools, problems } = await compile(`${line}\nexport function f(): string { return import.meta.url; }`);
      assert.deepEqual([tools.length, problems], [1, []], line);
    }
  });
});

const sound = source("export function f(): string { return ''; }");

/** A warm compiler that can be stopped, with the id of its first process. */
async function held(
  context: { after(close: () => Promise<void>): void },
  given: Partial<typeof limits> = {},
): Promise<{ compile: () => Promise<Compiled>; tell: (signal: NodeJS.Signals, program?: string) => number[] }> {
  let pid = 0;
  const start: Spawn = async (request) => {
    const started = await spawnDirectly(request);
    pid = started.pid;
    return started;
  };
  const compiler = closeAfter(context, openCompiler({ ...limits, ...given }, { start }));
  assert.deepEqual((await compiler.compile(sound)).problems, []);
  return {
    compile: () => compiler.compile(sound),
    tell: (signal, program = "") => {
      const told = processTree(pid).filter((each) => commandOf(each).includes(program));
      assert.ok(pid > 0 && told.length > 0);
      for (const each of told) process.kill(each, signal);
      return told;
    },
  };
}

/** Does nothing where the process has ended. */
function resume(pid: number): void {
  try {
    process.kill(pid, "SIGCONT");
  } catch (error) {
    assert.equal((error as NodeJS.ErrnoException).code, "ESRCH");
  }
}

describe("the limits of the compiler", { skip: !isLinux && "only Linux tells what processes use" }, () => {
  test("compileMs counts CPU time: a compiler that makes no progress is not blamed on the source", async (context) => {
    const { compile, tell } = await held(context, { compileMs: 4_000 });
    tell("SIGSTOP");
    const compiling = compile();
    await nextTurn();
    clock.leap(60_000);
    tell("SIGCONT");
    assert.deepEqual((await compiling).problems, []);
  });

  test("compileElapsedMs: a machine that does not let it work is told as that", async (context) => {
    const { compile, tell } = await held(context);
    tell("SIGSTOP");
    const compiling = compile();
    await nextTurn();
    clock.leap(120_000);
    const { problems } = await compiling;
    assert.deepEqual(problems.map(isServiceFault), [true]);
    assert.match(problems[0]!.message, /got only \d+ ms of CPU time in 120000 ms/);
  });

  test("a compiler or bundler that is ended from outside is the machine's fault, and the next one works", async (context) => {
    for (const program of ["child.js", "--service"]) {
      const { compile, tell } = await held(context);
      const stopped = tell("SIGSTOP");
      const compiling = compile();
      tell("SIGKILL", program);
      for (const pid of stopped) resume(pid);
      const { problems } = await compiling;
      assert.ok(problems.every(isServiceFault), JSON.stringify(problems));
      for (const { message } of problems) assert.match(message, /from outside/);
      // A compiler that notices the end of its bundler first starts another one.
      if (program === "child.js") assert.equal(problems.length, 1);
      assert.deepEqual((await compile()).problems, []);
    }
  });

  test("a compiler that cannot be started is the machine's fault", async (context) => {
    const start: Spawn = (request) => spawnDirectly({ ...request, file: join(folder, "nothing") });
    const compiler = closeAfter(context, openCompiler(limits, { start }));
    const { problems } = await compiler.compile(sound);
    assert.deepEqual(problems.map(isServiceFault), [true]);
    assert.match(problems[0]!.message, /it did not start: E(NOENT|ACCES)/);
  });

  test(`compileMemoryMb: a source that has the bundler take gigabytes is ended, ${mode}`, async (context) => {
    const compiler = closeAfter(context, openCompiler(limits, { mode }));
    const doubled = Array.from({ length: 28 }, (_, index) => `a${index + 1} = a${index} + a${index}`).join(", ");
    let peakMb = 0;
    const looking = setInterval(() => {
      for (const pid of processTree(process.pid)) peakMb = Math.max(peakMb, residentMb([pid]));
    }, 20);
    context.after(() => clearInterval(looking));
    const { problems } = await compiler.compile(
      source(`enum E { a0 = "${"x".repeat(100)}", ${doubled} }\nexport function f(): string { return ""; }`),
    );
    assert.equal(problems.map(({ code }) => code).join(), "compiler-memory");
    assert.match(problems[0]!.message, /more than 384 MB .*BERTH_COMPILE_MEMORY_MB/);
    if (mode === "sandboxed") assert.ok(peakMb < 384 + 960, `${peakMb} MB`);
    assert.deepEqual((await compiler.compile(sound)).problems, []);
  });
});

describe("what the compiler sees", { skip: !isLinux && "the sandbox needs Linux" }, () => {
  test("its own code and the packages that it bundles, and nothing else: no file, no variable, no network", async (context) => {
    const { packages, others, environment } = await viewOf(context, await compilerCommand(384, "sandboxed"));
    assert.deepEqual(environment, ["GOMAXPROCS", "GOMEMLIMIT", "PWD"]);
    const own = ["package.json", "reference_templates/berth.d.ts"].map((file) => join(packageRoot, file));
    assert.deepEqual(others, ["/sbx/node", ...own].sort());
    for (const name of ["typescript", "esbuild"]) assert.ok(packages.has(name), name);
    for (const name of ["express", "better-sqlite3", "jose", "undici"]) assert.ok(!packages.has(name), name);
  });

  /** Compiles in another process, twice in each mode, and prints the problems, or else that there is a bundle. */
  const script = `
    const { openCompiler } = await import(process.argv[1]);
    const told = [], found = [];
    const files = { "a.ts": 'import { sep } from "path"; export function f(): string { return sep; }' };
    const source = { language: "typescript", server: "a", entry: "a.ts", files };
    for (const mode of process.argv[2].split(" ")) {
      const compiler = openCompiler(${JSON.stringify(limits)}, { mode, onTrusted: (reason) => told.push(reason) });
      for (let time = 0; time < 2; time++) {
        const { problems, bundle } = await compiler.compile(source);
        found.push(problems.map(({ code }) => code).join() || (bundle.includes("function f") ? "a bundle" : "nothing"));
      }
      await compiler.close();
    }
    console.log(JSON.stringify({ told, found }));`;
  const elsewhere = (modes: string, options: ExecFileSyncOptions = {}, root = packageRoot, prefix: string[] = []) => {
    const node = [process.execPath, "--input-type=module", "-e", script, join(root, "dist/src/discover/compiler.js")];
    const [file, ...args] = [...prefix, ...node, modes];
    const printed = execFileSync(file, args, { cwd: "/", ...options, encoding: "utf8" });
    return JSON.parse(printed) as { told: string[]; found: string[] };
  };
  const works = { told: [], found: ["a bundle", "a bundle"] };

  test(
    "works for an ordinary user, and from a folder that only root may enter",
    { skip: !isRoot && "only root can become another" },
    () => {
      const closed = mkdtempSync(join(folder, "closed-"));
      const home = join(closed, "berth");
      for (const path of ["dist/src", "package.json", "reference_templates"])
        cpSync(join(packageRoot, path), join(home, path), { recursive: true });
      mkdirSync(join(home, "node_modules/@humanwhocodes"), { recursive: true });
      const ofAjv = [
        "ajv",
        "ajv-formats",
        "fast-deep-equal",
        "fast-uri",
        "json-schema-traverse",
        "require-from-string",
      ];
      for (const name of ["@humanwhocodes/momoa", ...ofAjv, "esbuild", "re2js", "typescript"])
        symlinkSync(join(packageRoot, "node_modules", name), join(home, "node_modules", name));
      chmodSync(closed, 0o700);
      assert.deepEqual(elsewhere("sandboxed", {}, home), works);
      assert.deepEqual(elsewhere("sandboxed", { uid: 65_534, gid: 65_534 }), works);
    },
  );

  test("works where the system limits Berth more than the sandbox would", () => {
    const limited = ["prlimit", "--data=700000000", "--nofile=200"];
    assert.deepEqual(elsewhere("sandboxed", {}, packageRoot, limited), works);
  });

  test("works without a sandbox where there is none and reports why, unless the sandbox is required", () => {
    const prlimit = 'while [ "$1" != "${1#--}" ]; do shift; done; exec "$@"';
    const run = (programs: Record<string, string>) => {
      const path = mkdtempSync(join(folder, "path-"));
      for (const [name, body] of Object.entries(programs))
        writeFileSync(join(path, name), `#!/bin/sh\n${body}\n`, { mode: 0o755 });
      return elsewhere("auto sandboxed", { env: { PATH: path } });
    };
    const unavailable = ["compiler-unavailable", "compiler-unavailable"];
    const cases: [programs: Record<string, string>, why: RegExp][] = [
      [{}, /^bwrap is not installed/],
      [
        { prlimit, bwrap: "echo 'bwrap: No permissions' >&2; exit 1" },
        /^the compiler does not start in the sandbox here \(bwrap: No permissions\)/,
      ],
    ];
    for (const [programs, why] of cases) {
      const { told, found } = run(programs);
      assert.deepEqual([told.length, found], [1, [...works.found, ...unavailable]]);
      assert.match(told[0]!, why);
    }
    // A passing shortage is no reason to do without the sandbox.
    const short = run({ prlimit, bwrap: "echo 'bwrap: Resource temporarily unavailable' >&2; exit 1" });
    assert.deepEqual(short, { told: [], found: [...unavailable, ...unavailable] });
  });
});

/**
 * The modules of Node that a definition's own file and an npm package's file may import: one table, the same whichever
 * Node compiles, so that the same sources give the same bundle. It is there for clear answers, at publish time, and is no
 * boundary: code that wants more finds `process.getBuiltinModule`, and then stands before the sandbox and Node's
 * permission model.
 *
 * A definition's import of a refused module fails where its author sees it. Packages name such modules for a path that
 * is rarely taken (a mail program, a debugger, an older system), and would otherwise not load at all: they get a stub,
 * which only fails when it is called.
 */
export type BuiltinImporter = "definition" | "package";

export type BuiltinAnswer =
  | { readonly kind: "external" }
  /** `why` is a whole sentence that says what to use instead. */
  | { readonly kind: "refused"; readonly why: string }
  /** `code` is the text of a CommonJS module. */
  | { readonly kind: "stub"; readonly code: string };

/** `node:fs` and `fs` → `fs`; undefined for what Node does not bring along. */
export function builtinName(specifier: string): string | undefined {
  if (specifier.startsWith("node:")) return specifier.slice("node:".length);
  const isKnown = external.has(specifier) || inner.has(specifier) || Object.hasOwn(refused, specifier);
  return isKnown && !onlyWithPrefix.has(specifier) ? specifier : undefined;
}

/** Decides on an import; `builtin` is a name as `builtinName` returns it. */
export function builtinFor(builtin: string, importer: BuiltinImporter): BuiltinAnswer {
  if (external.has(builtin)) return { kind: "external" };
  if (inner.has(builtin)) {
    if (importer === "package") return { kind: "external" };
    const documented = builtin.split("_")[1]!;
    return { kind: "refused", why: `It is an inner part of Node: import "node:${documented}".` };
  }
  const known = Object.hasOwn(refused, builtin) ? refused[builtin]! : undefined;
  if (importer === "definition") return { kind: "refused", why: known?.why ?? otherwise };
  return { kind: "stub", code: known ? stubOf(builtin, known) : unknownModule(builtin) };
}

/** Node's modules that compute, or work in the room that a guest has for itself: its folder, its process. */
const external: ReadonlySet<string> = new Set(
  (
    "assert assert/strict async_hooks buffer console constants crypto dgram diagnostics_channel dns dns/promises " +
    "domain events fs fs/promises http http2 https module net os path path/posix path/win32 perf_hooks process " +
    "punycode querystring readline readline/promises stream stream/consumers stream/promises stream/web " +
    "string_decoder sys timers timers/promises tls tty url util util/types v8 vm zlib"
  ).split(" "),
);

/** The modules that definitions and packages alike may import, in the order of the alphabet. */
export const importableBuiltins: readonly string[] = [...external];

/** Undocumented, and named by old packages. */
const inner: ReadonlySet<string> = new Set(
  (
    "_http_agent _http_client _http_common _http_incoming _http_outgoing _http_server _stream_duplex " +
    "_stream_passthrough _stream_readable _stream_transform _stream_writable _tls_common _tls_wrap"
  ).split(" "),
);

/** Without `node:`, these are packages of the registry. */
const onlyWithPrefix: ReadonlySet<string> = new Set(["sea", "sqlite", "test", "test/reporters"]);

interface RefusedBuiltin {
  readonly why: string;
  /** They throw when called. */
  readonly functions?: readonly string[];
  /** They throw when constructed; classes of packages can extend them. */
  readonly classes?: readonly string[];
  /** Whatever asks, and starts nothing: names with their JavaScript. */
  readonly harmless?: Readonly<Record<string, string>>;
}

const processes = "A definition cannot start processes: write a shell definition (.sh) to run commands.";
const threads =
  "A definition has one process and one thread: do the work in the function, which holds up no other server.";
const debugging = "Nothing outside can look into a guest: log with console or the context, and debug in `berth dev`.";
const tests = "A guest runs no tests: test the definition's functions where you write them.";

const nothing = "() => undefined";

const inspector: RefusedBuiltin = {
  why: debugging,
  functions: ["open", "waitForDebugger"],
  classes: ["Session"],
  harmless: { close: nothing, url: nothing, console: "globalThis.console", Network: "{}" },
};

/**
 * The names are those of Node 20 and 24 together, written down here, since a list taken from the Node that compiles
 * would give another bundle on each.
 */
const refused: Readonly<Record<string, RefusedBuiltin>> = {
  child_process: {
    why: processes,
    functions: ["_forkChild", "exec", "execFile", "execFileSync", "execSync", "fork", "spawn", "spawnSync"],
    classes: ["ChildProcess"],
  },
  cluster: {
    why: threads,
    functions: ["fork", "setupMaster", "setupPrimary"],
    classes: ["Worker"],
    harmless: {
      isMaster: "true",
      isPrimary: "true",
      isWorker: "false",
      workers: "{}",
      settings: "{}",
      SCHED_NONE: "1",
      SCHED_RR: "2",
      schedulingPolicy: "2",
      disconnect: "(done) => { if (done) queueMicrotask(done); }",
      // There are no workers of which an event could tell.
      ...Object.fromEntries(
        ["addListener", "off", "on", "once", "removeAllListeners", "removeListener"].map((name) => [
          name,
          "function () { return this; }",
        ]),
      ),
      emit: "() => false",
      listenerCount: "() => 0",
    },
  },
  inspector,
  "inspector/promises": inspector,
  repl: {
    why: debugging,
    functions: ["start", "writer"],
    classes: ["REPLServer", "Recoverable"],
    harmless: { REPL_MODE_SLOPPY: 'Symbol("repl-sloppy")', REPL_MODE_STRICT: 'Symbol("repl-strict")' },
  },
  sea: {
    why: "A guest is no single executable: import data as a .json file of the definition's own.",
    functions: ["getAsset", "getAssetAsBlob", "getAssetKeys", "getRawAsset"],
    harmless: { isSea: "() => false" },
  },
  sqlite: {
    why: "A database lasts no longer than the guest: keep values in variables, or use SQLite as WebAssembly (sql.js).",
    functions: ["backup"],
    classes: ["DatabaseSync", "Session", "SQLTagStore", "StatementSync"],
    harmless: { constants: "{}" },
  },
  test: {
    why: tests,
    functions: "after afterEach before beforeEach describe it only run skip suite test todo".split(" "),
    harmless: { assert: "{}", mock: "{}", snapshot: "{}" },
  },
  "test/reporters": { why: tests, functions: ["dot", "junit", "lcov", "spec", "tap"] },
  trace_events: {
    why: debugging,
    functions: ["createTracing"],
    harmless: { getEnabledCategories: nothing },
  },
  wasi: {
    why: "WASI reaches for files and arguments: call WebAssembly.instantiate with imports of your own.",
    classes: ["WASI"],
  },
  worker_threads: {
    why: threads,
    functions: ["moveMessagePortToContext", "postMessageToThread", "receiveMessageOnPort"],
    classes: ["Worker"],
    harmless: {
      isMainThread: "true",
      isInternalThread: "false",
      parentPort: "null",
      resourceLimits: "{}",
      threadId: "0",
      threadName: '""',
      workerData: "null",
      locks: "globalThis.navigator?.locks",
      SHARE_ENV: 'Symbol.for("nodejs.worker_threads.SHARE_ENV")',
      BroadcastChannel: "globalThis.BroadcastChannel",
      MessageChannel: "globalThis.MessageChannel",
      MessagePort: "globalThis.MessagePort",
      getEnvironmentData: "(key) => environmentData.get(key)",
      setEnvironmentData: "(key, value) => { environmentData.set(key, value); }",
      isMarkedAsUntransferable: "() => false",
      markAsUncloneable: nothing,
      markAsUntransferable: nothing,
    },
  },
};

const otherwise = "It is not among the modules of Node that a definition may use.";

/**
 * The exports are own, enumerable properties of a plain object without `__esModule`, so that all three of `require`,
 * `import { exec } from` and `import process from` find them when esbuild has turned one into the other.
 */
function stubOf(builtin: string, { why, functions = [], classes = [], harmless = {} }: RefusedBuiltin): string {
  const lines = [
    '"use strict";',
    "const refuse = (what) => {",
    `  throw Object.assign(new Error(what + ${JSON.stringify(` is refused. ${why}`)}), { code: "ERR_ACCESS_DENIED" });`,
    "};",
    ...(builtin === "worker_threads" ? ["const environmentData = new Map();"] : []),
    "module.exports = {",
    ...functions.map((name) => `  ${name}() { refuse("${builtin}.${name}()"); },`),
    ...classes.map((name) => `  ${name}: class ${name} { constructor() { refuse("new ${builtin}.${name}()"); } },`),
    ...Object.entries(harmless).map(([name, code]) => `  ${name}: ${code},`),
    "};",
    // `node:test` is a function itself.
    ...(builtin === "test" ? ["module.exports = Object.assign(module.exports.test, module.exports);"] : []),
  ];
  return `${lines.join("\n")}\n`;
}

/** It fails as in a Node that does not have it: packages try, and do without. */
function unknownModule(builtin: string): string {
  const message = JSON.stringify(`Cannot find module 'node:${builtin}': no guest has it`);
  return `throw Object.assign(new Error(${message}), { code: "MODULE_NOT_FOUND" });\n`;
}

/**
 * The beginning of a bundle with packages of a set: the `require` through which CommonJS packages reach Node's modules,
 * also with names that they compute. Anything but `names` is not found, which packages expect of what is not installed.
 * It is one line, without a line's end.
 */
export function requireBanner(names: readonly string[] = [...external, ...inner]): string {
  return (
    'import { createRequire as __createRequire } from "node:module"; const require = ((load, names) => { ' +
    'const known = (name) => { const bare = String(name).replace(/^node:/, ""); if (names.has(bare)) return `node:${bare}`; ' +
    "throw Object.assign(new Error(`Cannot find module '${name}': a bundle holds all its own modules, and of Node's those that a guest may use`), " +
    '{ code: "MODULE_NOT_FOUND" }); }; const require = (name) => load(known(name)); ' +
    "require.resolve = Object.assign((name) => known(name), { paths: () => [] }); " +
    "require.cache = Object.create(null); require.extensions = Object.create(null); require.main = undefined; return require; })" +
    `(__createRequire("file:///"), new Set(${JSON.stringify([...names].sort())})); `
  );
}

/**
 * The bundle's name in programs that ask for it, as values for esbuild's `define`. There is no such file: where a
 * guest has its bundle is its own. The names are the same on every machine, and packages that build paths of them load.
 */
export const bundleNames: Readonly<Record<string, string>> = {
  __dirname: '"/bundle"',
  __filename: '"/bundle/index.mjs"',
  "import.meta.dirname": '"/bundle"',
  "import.meta.filename": '"/bundle/index.mjs"',
  "import.meta.url": '"file:///bundle/index.mjs"',
};

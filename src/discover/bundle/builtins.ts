/**
 * The modules of Node.js that a definition's own files and files of npm packages may import: one table for all versions
 * of Node.js, so that the same sources give the same bundle. It exists for clear errors at publish time and is not a
 * security boundary: code can call `process.getBuiltinModule`, and is then confined by the sandbox and Node.js's
 * permission model.
 *
 * A definition's import of a refused module fails at publish time. Packages import such modules for rarely used code
 * paths (a mail program, a debugger, an older system) and would otherwise not load at all: they get a stub that only
 * fails when it is called.
 */
export type BuiltinImporter = "definition" | "package";

export type BuiltinAnswer =
  | { readonly kind: "external" }
  /** `why` is a complete sentence that says what to use instead. */
  | { readonly kind: "refused"; readonly why: string }
  /** `code` is the source of a CommonJS module. */
  | { readonly kind: "stub"; readonly code: string };

/** `node:fs` and `fs` → `fs`; undefined if it is not a built-in module of Node.js. */
export function builtinName(specifier: string): string | undefined {
  if (specifier.startsWith("node:")) return specifier.slice("node:".length);
  const isBuiltin = external.has(specifier) || internal.has(specifier) || Object.hasOwn(refused, specifier);
  return isBuiltin && !onlyWithPrefix.has(specifier) ? specifier : undefined;
}

/** Decides on an import; `builtin` is a name as `builtinName` returns it. */
export function builtinFor(builtin: string, importer: BuiltinImporter): BuiltinAnswer {
  if (external.has(builtin)) return { kind: "external" };
  if (internal.has(builtin)) {
    if (importer === "package") return { kind: "external" };
    const documented = builtin.split("_")[1]!;
    return { kind: "refused", why: `It is internal to Node.js: import "node:${documented}".` };
  }
  const refusal = Object.hasOwn(refused, builtin) ? refused[builtin]! : undefined;
  if (importer === "definition") return { kind: "refused", why: refusal?.why ?? notAvailable };
  return { kind: "stub", code: refusal ? createStub(builtin, refusal) : unknownModule(builtin) };
}

/** Node.js modules that only compute, or only affect the guest's own folder and process. */
const external: ReadonlySet<string> = new Set(
  (
    "assert assert/strict async_hooks buffer console constants crypto dgram diagnostics_channel dns dns/promises " +
    "domain events fs fs/promises http http2 https module net os path path/posix path/win32 perf_hooks process " +
    "punycode querystring readline readline/promises stream stream/consumers stream/promises stream/web " +
    "string_decoder sys timers timers/promises tls tty url util util/types v8 vm zlib"
  ).split(" "),
);

/** The modules that both definitions and packages may import, sorted alphabetically. */
export const importableBuiltins: readonly string[] = [...external];

/** Undocumented, but imported by old packages. */
const internal: ReadonlySet<string> = new Set(
  (
    "_http_agent _http_client _http_common _http_incoming _http_outgoing _http_server _stream_duplex " +
    "_stream_passthrough _stream_readable _stream_transform _stream_writable _tls_common _tls_wrap"
  ).split(" "),
);

/** Without `node:`, these are names of npm packages. */
const onlyWithPrefix: ReadonlySet<string> = new Set(["sea", "sqlite", "test", "test/reporters"]);

interface RefusedBuiltin {
  readonly why: string;
  /** They throw when called. */
  readonly functions?: readonly string[];
  /** They throw when constructed; classes of packages can extend them. */
  readonly classes?: readonly string[];
  /** Exports that only return information: names with their JavaScript. */
  readonly harmless?: Readonly<Record<string, string>>;
}

const processes = "A definition cannot start processes: write a shell definition (.sh) to run commands.";
const threads =
  "A definition has one process and one thread: do the work in the function, which blocks no other server.";
const debugging =
  "A guest cannot be inspected from outside: log with console or the context, and debug in `berth dev`.";
const tests = "Tests do not run in a guest: test the definition's functions where you write them.";

const noop = "() => undefined";

const inspector: RefusedBuiltin = {
  why: debugging,
  functions: ["open", "waitForDebugger"],
  classes: ["Session"],
  harmless: { close: noop, url: noop, console: "globalThis.console", Network: "{}" },
};

/** Names of Node.js 20 and 24: a list from the running Node.js would give a different bundle with each version. */
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
      // Without workers there are no events to report.
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
    why: "A guest is not a single executable: import data as a .json file of the definition.",
    functions: ["getAsset", "getAssetAsBlob", "getAssetKeys", "getRawAsset"],
    harmless: { isSea: "() => false" },
  },
  sqlite: {
    why: "A database is lost when the guest ends: store values in variables, or use SQLite as WebAssembly (sql.js).",
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
    harmless: { getEnabledCategories: noop },
  },
  wasi: {
    why: "WASI needs files and arguments: call WebAssembly.instantiate with your own imports.",
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
      markAsUncloneable: noop,
      markAsUntransferable: noop,
    },
  },
};

const notAvailable = "It is not one of the Node.js modules that a definition may use.";

/**
 * Exports are own, enumerable properties of a plain object without `__esModule`, so that `require`, `import { exec }
 * from` and `import process from` all find them after esbuild has converted one into another.
 */
function createStub(builtin: string, { why, functions = [], classes = [], harmless = {} }: RefusedBuiltin): string {
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

/** Fails as in a Node.js without this module: packages catch the error and continue. */
function unknownModule(builtin: string): string {
  const message = JSON.stringify(`Cannot find module 'node:${builtin}': it is not available in guests`);
  return `throw Object.assign(new Error(${message}), { code: "MODULE_NOT_FOUND" });\n`;
}

/**
 * The beginning of a bundle with packages of a set: the `require` with which CommonJS packages load modules of Node.js,
 * including by computed names. Names outside of `names` are not found, as packages expect of a module that is not
 * installed. It is a single line without a line break at its end.
 */
export function requireBanner(names: readonly string[] = [...external, ...internal]): string {
  return (
    'import { createRequire as __createRequire } from "node:module"; const require = ((load, names) => { ' +
    'const known = (name) => { const bare = String(name).replace(/^node:/, ""); if (names.has(bare)) return `node:${bare}`; ' +
    "throw Object.assign(new Error(`Cannot find module '${name}': a bundle contains all its own modules, and can load only the Node.js modules that guests may use`), " +
    '{ code: "MODULE_NOT_FOUND" }); }; const require = (name) => load(known(name)); ' +
    "require.resolve = Object.assign((name) => known(name), { paths: () => [] }); " +
    "require.cache = Object.create(null); require.extensions = Object.create(null); require.main = undefined; return require; })" +
    `(__createRequire("file:///"), new Set(${JSON.stringify([...names].sort())})); `
  );
}

/**
 * The bundle's file name as its code sees it, as values for esbuild's `define`. No such file exists: where a guest
 * stores its bundle is internal. The names are the same on every machine, and packages that build paths from them can
 * load.
 */
export const bundleNames: Readonly<Record<string, string>> = {
  __dirname: '"/bundle"',
  __filename: '"/bundle/index.mjs"',
  "import.meta.dirname": '"/bundle"',
  "import.meta.filename": '"/bundle/index.mjs"',
  "import.meta.url": '"file:///bundle/index.mjs"',
};

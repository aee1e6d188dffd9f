/** Packages that compile, fetch, or find native code for others. */
const ADDON_TOOLS: ReadonlySet<string> = new Set([
  "@mapbox/node-pre-gyp",
  "bindings",
  "cmake-js",
  "nan",
  "napi-build-utils",
  "node-addon-api",
  "node-gyp",
  "node-gyp-build",
  "node-gyp-build-optional-packages",
  "node-pre-gyp",
  "pkg-prebuilds",
  "prebuild-install",
]);

/** Well-known packages of native code, and what does the same without. */
const INSTEAD: ReadonlyMap<string, string> = new Map([
  ["argon2", "use hash-wasm"],
  ["bcrypt", "use bcryptjs"],
  ["better-sqlite3", "use sql.js, or Berth's own variables and content"],
  ["canvas", "use pureimage, or pdf-lib for documents"],
  ["cpu-features", "leave it out: it is optional where it is used"],
  ["deasync", "use await"],
  ["duckdb", "use @duckdb/duckdb-wasm"],
  ["ibm_db", "use the database's HTTP interface"],
  ["isolated-vm", "have each definition run for itself, which Berth does"],
  ["keytar", "use the secrets of the entry"],
  ["leveldown", "use memory-level"],
  ["node-pty", "use a shell definition"],
  ["node-sass", "use sass"],
  ["oracledb", "use it in its Thin mode, which needs no native code"],
  ["re2", "use re2js"],
  ["sharp", "use jimp, or @jsquash/jpeg and its neighbours"],
  ["sqlite3", "use sql.js"],
  ["zeromq", "use jszmq"],
]);

/**
 * Says what to use instead of a package with an install script; undefined where nothing says that it has native code.
 * `needs` are the names of its dependencies: a lock says no more of what the script does.
 */
export function nativeAdvice(name: string, needs: readonly string[]): string | undefined {
  const known = INSTEAD.get(name);
  if (known !== undefined) return known;
  const tool = needs.find((each) => ADDON_TOOLS.has(each));
  return tool === undefined ? undefined : `use a package that is plain JavaScript or WebAssembly (it needs ${tool})`;
}

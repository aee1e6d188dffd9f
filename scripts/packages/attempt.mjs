import { existsSync, readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { findPackageImports } from "../../dist/src/discover/files/imports.js";
import { openExecutor } from "../../dist/src/executor/open-executor.js";
import { rawBlock } from "../../dist/src/lib/cid.js";
import { defaultLimits } from "../../dist/src/limits/limits.js";
import { Fetches } from "../../dist/src/network/fetches.js";
import { SocketRelay } from "../../dist/src/network/socket-relay.js";
import { packagesInReach } from "../../dist/src/packages/package-set.js";
import { spawnDirectly } from "../../dist/src/processes/spawn/spawn.js";
import { makeTemporary } from "../../dist/src/processes/work-folders.js";

/**
 * One package from its definition in `calls/` to the result of a call.
 *
 * @typedef {{ stage: "bundle" | "types" | "load" | "call" | "result", why: string }} Failure
 * @typedef {{ name: string, version: string, bundleBytes: number, compileMs: number, callMs: number, value: unknown,
 *   failures: Failure[] }} Attempt
 * @typedef {Awaited<ReturnType<typeof import("./set.mjs").openSet>>} OpenSet
 * @typedef {import("../../src/discover/discovery.ts").DefinitionSource} DefinitionSource
 * @typedef {import("../../src/discover/discovery.ts").Compiled} Compiled
 * @typedef {import("../../src/executor/executor.ts").Executor} Executor
 */

/** Longer than any of them needs, on a machine that is busy. */
const CALL_MS = 60_000;

/** The definition that uses a package. @param {string} name @param {OpenSet["set"]} set @returns {DefinitionSource} */
export function definitionOf(name, set) {
  const entry = `${name.replace(/^@/, "").replace("/", "__")}.ts`;
  const file = new URL(`calls/${entry}`, import.meta.url);
  if (!existsSync(file)) throw new Error(`No definition uses ${name}: write scripts/packages/calls/${entry}`);
  const source = { language: "typescript", server: "packages", entry, files: { [entry]: readFileSync(file, "utf8") } };
  const packages = packagesInReach(set, findPackageImports(source));
  return packages ? { ...source, packages } : source;
}

/** An executor whose guests reach what they are given. @param {"sandboxed" | "trusted"} mode @returns {Promise<Executor>} */
export async function openGuests(mode) {
  const limits = defaultLimits;
  const network = new SocketRelay({ start: spawnDirectly, makeFolder: makeTemporary, limits });
  const executor = await openExecutor({ mode, limits, network });
  const close = executor.close.bind(executor);
  executor.close = async () => {
    await close();
    await network.close();
  };
  return executor;
}

/**
 * @param {string} name
 * @param {unknown} expected
 * @param {OpenSet & { compiler: import("../../src/discover/compiler.ts").Compiler, executor: Executor,
 *   servers: ReturnType<typeof import("./network.mjs").openServers> }} means
 * @returns {Promise<Attempt>}
 */
export async function attempt(name, expected, { set, tarball, compiler, executor, servers }) {
  const startedAt = performance.now();
  const compiled = await compiler.compile(definitionOf(name, set), { tarballs: tarball });
  const compileMs = performance.now() - startedAt;
  const failures = mistakesIn(compiled);
  const port = await servers.portFor(name);
  const calledAt = performance.now();
  const { value, failure } = failures.some(({ stage }) => stage === "bundle")
    ? {}
    : await resultOf(compiled, expected, executor, port);
  return {
    name,
    version: set.packages[`node_modules/${name}`]?.version ?? "",
    bundleBytes: Buffer.byteLength(compiled.bundle ?? ""),
    compileMs,
    callMs: performance.now() - calledAt,
    value,
    failures: failure ? [...failures, failure] : failures,
  };
}

/** Whatever the compiler says of a definition is a failure here. @param {Compiled} compiled @returns {Failure[]} */
export function mistakesIn({ bundle, problems, tools }) {
  const why = problems
    .map(({ line, message }) => (line === undefined ? message : `line ${line}: ${message}`))
    .join(" ");
  if (bundle === undefined || problems.some(({ severity }) => severity === "error"))
    return [{ stage: "bundle", why: why || "there is no bundle" }];
  if (why !== "") return [{ stage: "types", why }];
  return tools.length === 1 ? [] : [{ stage: "types", why: `it has ${tools.length} tools` }];
}

/**
 * Loads the bundle as a save does, and calls its one function; of a package that needs a server, with where it is.
 *
 * @param {Compiled} compiled
 * @param {unknown} expected
 * @param {Executor} executor
 * @param {number} [port] of 127.0.0.1, all that the guest may reach
 * @returns {Promise<{ value?: unknown, failure?: Failure }>}
 */
export async function resultOf({ bundle, tools: [tool] }, expected, executor, port) {
  const code = { tenant: "default", bundle: rawBlock(Buffer.from(bundle)).cid, code: async () => bundle };
  const program = port === undefined ? code : { ...code, ...networkTo(port) };
  const args = port === undefined ? {} : { at: `127.0.0.1:${port}` };
  const loaded = await executor.load(program);
  if (loaded.kind !== "loaded") {
    const why = "error" in loaded ? `${loaded.error.message} ${loaded.error.stack ?? ""}` : loaded.kind;
    return { failure: { stage: "load", why } };
  }
  const outcome = await executor.call(program, { shape: tool.call, args, deadlineMs: CALL_MS });
  if (!outcome.ok) return { failure: { stage: "call", why: `${outcome.error.message} ${outcome.error.stack ?? ""}` } };
  const value = outcome.value.kind === "json" ? outcome.value.value : outcome.value.text;
  if (isDeepStrictEqual(value, expected)) return { value };
  return { value, failure: { stage: "result", why: `it returned ${JSON.stringify(value)}` } };
}

/** As an entry's `"network": ["127.0.0.1:<port>"]` gives it. @param {number} port */
function networkTo(port) {
  const hosts = [{ kind: "host", name: "127.0.0.1", port }];
  const rules = { privateToo: true, privateHosts: [], server: "packages" };
  const fetches = new Fetches(hosts, defaultLimits, rules);
  return {
    realm: String(port),
    network: { server: "packages", grant: () => ({ ...rules, tenant: "default", hosts }) },
    port: { request: (op, params, call) => fetches.request(op, params, call) },
  };
}

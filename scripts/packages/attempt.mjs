import { existsSync, readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { packageImports } from "../../dist/src/discover/imports.js";
import { rawBlock } from "../../dist/src/lib/cid.js";
import { packagesInReach } from "../../dist/src/packages/package-set.js";

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
  const packages = packagesInReach(set, packageImports(source));
  return packages ? { ...source, packages } : source;
}

/**
 * @param {string} name
 * @param {unknown} expected
 * @param {OpenSet & { compiler: import("../../src/discover/compiler.ts").Compiler, executor: Executor }} means
 * @returns {Promise<Attempt>}
 */
export async function attempt(name, expected, { set, tarball, compiler, executor }) {
  const startedAt = performance.now();
  const compiled = await compiler.compile(definitionOf(name, set), tarball);
  const compileMs = performance.now() - startedAt;
  const failures = mistakesIn(compiled);
  const calledAt = performance.now();
  const { value, failure } = failures.some(({ stage }) => stage === "bundle")
    ? {}
    : await resultOf(compiled, expected, executor);
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
 * Loads the bundle as a save does, and calls its one function.
 *
 * @param {Compiled} compiled
 * @param {unknown} expected
 * @param {Executor} executor
 * @returns {Promise<{ value?: unknown, failure?: Failure }>}
 */
export async function resultOf({ bundle, tools: [tool] }, expected, executor) {
  const program = { tenant: "default", bundle: rawBlock(Buffer.from(bundle)).cid, code: async () => bundle };
  const loaded = await executor.load(program);
  if (loaded.kind !== "loaded") {
    const why = "error" in loaded ? `${loaded.error.message} ${loaded.error.stack ?? ""}` : loaded.kind;
    return { failure: { stage: "load", why } };
  }
  const outcome = await executor.call(program, { shape: tool.call, args: {}, deadlineMs: CALL_MS });
  if (!outcome.ok) return { failure: { stage: "call", why: `${outcome.error.message} ${outcome.error.stack ?? ""}` } };
  const value = outcome.value.kind === "json" ? outcome.value.value : outcome.value.text;
  if (isDeepStrictEqual(value, expected)) return { value };
  return { value, failure: { stage: "result", why: `it returned ${JSON.stringify(value)}` } };
}

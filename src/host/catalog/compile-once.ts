import { isServiceFault, emptyDiscovery, type DefinitionSource } from "../../discover/discovery.ts";
import { findPackageImports } from "../../discover/files/imports.ts";
import type { ServerEntry } from "../../entry/entry.ts";
import { findCurrentClaim, tryReadCompiled, type ClaimLookup } from "../../image/claimed.ts";
import { derivedEntries, derivedKeys, packCompiled, readCompiled, type CompiledResult } from "../../image/compiled.ts";
import { loadStoredDefinition } from "../../image/definition.ts";
import { BoundedMap } from "../../lib/bounded-map.ts";
import { matches, type Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import type { Problem } from "../../lib/problem.ts";
import {
  packagesInReach,
  PACKAGES,
  readPackageSet,
  type PackagesInReach,
  type PackageSet,
} from "../../packages/package-set.ts";
import { interpreterProblem } from "../../processes/interpreter.ts";
import type { Store } from "../../store/store.ts";
import { unlessDamaged } from "../../store/unless-damaged.ts";
import type { CodeCache } from "./cached-code.ts";
import type { CompileFor } from "./compile-queue.ts";

export interface CompileOnce {
  (definition: Cid, source: DefinitionSource): Promise<CompiledResult>;
  /** A definition with the packages that it imports. Rejects like `loadStoredDefinition`. */
  source(server: string, definition: Cid): Promise<DefinitionSource>;
  /** The packages that all sources loaded so far import. */
  packages(): PackagesInReach | undefined;
  /** The compiled code of a definition. If the stored copy is damaged, compiles again. */
  code(server: string, definition: Cid, bundle: Cid): Promise<Uint8Array>;
  /** Retains the stored result as long as the tenant exists. A missing one is compiled again when needed. */
  retain(compiled: Pick<CompiledDefinition, "found" | "compiled">): Promise<void>;
}

const RETRY_AFTER_S = 5;

/** Compiles definitions, and stores the results. */
export interface CompileDependencies {
  readonly store: Store;
  readonly compile: CompileFor;
  /** The key of a compiler's result for a definition. Default compiler: that of `compile`. */
  readonly compileKey: (
    definition: Cid,
    source: Pick<DefinitionSource, "language" | "server" | "packages">,
    compiler?: Cid,
  ) => string;
  /** The packages that definitions may import. Default: the tenant's current packages. */
  readonly packageSet?: PackageSet | undefined;
  /** Looks up results that were not compiled here. Default: the current claims of the tenant's boot image. */
  readonly claimed?: ClaimLookup;
  /** Without it, code is read from the store for each guest process. */
  readonly codeCache?: CodeCache | undefined;
}

/**
 * Discovers and bundles each source once, on first use. Results are retained as long as the tenant exists, and take
 * precedence over the claims of an image. Throws `compiler_failed`, and stores nothing, if the source is not at fault.
 */
export function createCompileOnce(
  tenant: string,
  { store, compile, compileKey, claimed = findCurrentClaim, packageSet, codeCache }: CompileDependencies,
): CompileOnce {
  const readTarball = (cid: Cid): Promise<Uint8Array | undefined> => unlessDamaged(store.content(tenant, cid));
  const importedSpecifiers = new Set<string>();
  let set = packageSet;
  const compileAndStore = async (key: string, definition: Cid, source: DefinitionSource): Promise<CompiledResult> => {
    const result = await compile(source, tenant, undefined, readTarball);
    const failure = result.problems.find(isServiceFault);
    if (failure)
      throw new BerthError("compiler_failed", failure.message, { data: { retryAfterSeconds: RETRY_AFTER_S } });
    const packed = packCompiled(result, source.files);
    await store.putDerived(tenant, derivedEntries(key, definition, packed));
    return readCompiled(packed.result.bytes);
  };

  const source = async (server: string, definition: Cid): Promise<DefinitionSource> => {
    const loaded = await loadStoredDefinition(store, tenant, definition, server);
    const specifiers = findPackageImports(loaded);
    if (specifiers.length === 0) return loaded;
    set ??= await loadPackageSet(store, tenant);
    for (const specifier of specifiers) importedSpecifiers.add(specifier);
    const packages = packagesInReach(set, specifiers);
    return packages ? { ...loaded, packages } : loaded;
  };
  const packages = (): PackagesInReach | undefined => packagesInReach(set, importedSpecifiers);

  const compileOnce = async (definition: Cid, source: DefinitionSource): Promise<CompiledResult> => {
    const key = compileKey(definition, source);
    const stored = await unlessDamaged(store.derived(key));
    const compiled = stored && tryReadCompiled(stored);
    if (compiled && (await retain(tenant, derivedKeys(key, compiled)))) return compiled;
    return (await claimed(store, tenant, key)) ?? compileAndStore(key, definition, source);
  };

  /** Also true if the store fails: the result still exists, and a deleted one is compiled again. */
  const retain = (tenant: string, keys: readonly string[]): Promise<boolean> =>
    store.holdDerived(tenant, keys).catch((error: unknown) => {
      if (error instanceof BerthError && error.code === "store_failed") return true;
      throw error;
    });

  const code = (server: string, definition: Cid, bundle: Cid): Promise<Uint8Array> =>
    codeCache
      ? codeCache.read(tenant, bundle, () => readCode(server, definition, bundle))
      : readCode(server, definition, bundle);

  const readCode = async (server: string, definition: Cid, bundle: Cid): Promise<Uint8Array> => {
    const read = async (): Promise<Uint8Array | undefined> => {
      const bytes = await unlessDamaged(store.derived(bundle));
      if (bytes && matches(bundle, bytes)) return bytes;
      // The bundle of a claim is content of the tenant.
      return unlessDamaged(store.content(tenant, bundle));
    };
    let bytes = await read();
    if (!bytes) {
      const current = await source(server, definition);
      await compileAndStore(compileKey(definition, current), definition, current);
      bytes = await read();
    }
    if (!bytes) throw new BerthError("content_missing", bundle);
    return bytes;
  };
  const retainCompiled: CompileOnce["retain"] = async ({ found, compiled }) => {
    if (compiled !== null) await retain(tenant, derivedKeys(compiled, found));
  };
  return Object.assign(compileOnce, { source, packages, code, retain: retainCompiled });
}

export interface CompiledDefinition {
  readonly found: CompiledResult;
  readonly language: DefinitionSource["language"];
  readonly bundle: Cid | null;
  /** The key of the compiler's result. */
  readonly compiled: string | null;
}

/** Compiles a server's definition. Rejects with `server_refused` if there is neither code nor an offer in the entry. */
export async function compileDefinition(
  server: string,
  { definition, entry }: { definition: Cid | undefined; entry: ServerEntry },
  compileOnce: CompileOnce,
  { compileKey, writable }: CompileDependencies & { readonly writable: boolean },
): Promise<CompiledDefinition> {
  if (definition === undefined) {
    const offers = [...entry.resources, ...Object.keys(entry.prompts), ...Object.keys(entry.transforms)];
    if (offers.length === 0) {
      throw refused(server, [problem("missing-definition", "This server has no definition")]);
    }
    const found = { ...emptyDiscovery, problems: [], bundle: null };
    return { found, language: "typescript", bundle: null, compiled: null };
  }
  const source = await compileOnce.source(server, definition);
  const { language } = source;
  if (language === "shell" && !writable) {
    throw refused(server, [problem("shell-refused", "A read-only boot runs no shell definitions")]);
  }
  const found = await compileOnce(definition, source);
  const wrong = language === "shell" ? interpreterProblem(source.entry, source.files[source.entry]!) : undefined;
  if (!found.bundle || wrong) throw refused(server, wrong ? [wrong, ...found.problems] : found.problems);
  return { found, language, bundle: found.bundle, compiled: compileKey(definition, source) };
}

/** Uses the first error that affects the whole server, if any, because an error of one tool rarely prevents serving. */
export function refused(server: string, problems: readonly Problem[]): BerthError {
  const errors = problems.filter(({ severity }) => severity === "error");
  const first = errors.find(({ tool }) => tool === undefined) ?? errors[0] ?? problems[0];
  return new BerthError("server_refused", `"${server}": ${first?.message ?? "it has no code"}`, { data: { problems } });
}

function problem(code: string, message: string): Problem {
  return { code, message, severity: "error" };
}

const packageSets = new BoundedMap<Cid, PackageSet | undefined>(64);

/** The packages in a tenant's variable `packages`; undefined if it is missing or unreadable. */
export async function loadPackageSet(store: Store, tenant: string): Promise<PackageSet | undefined> {
  const record = await store.name(tenant, "variable", PACKAGES);
  if (!record) return undefined;
  if (!packageSets.has(record.cid)) {
    const bytes = await unlessDamaged(store.content(tenant, record.cid));
    if (!bytes) return undefined;
    packageSets.set(record.cid, readPackageSet(new TextDecoder().decode(bytes)));
  }
  return packageSets.get(record.cid);
}

import { isServiceFault, nothingFound, type DefinitionSource } from "../../discover/discovery.ts";
import type { ServerEntry } from "../../entry/entry.ts";
import { claimedNow, compiledHere, type ClaimLookup } from "../../image/claimed.ts";
import { derivedEntries, derivedKeys, packCompiled, readCompiled, type CompiledResult } from "../../image/compiled.ts";
import { loadDefinition } from "../../image/definition.ts";
import { matches, type Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import type { Problem } from "../../lib/problem.ts";
import { ifSound } from "../../store/if-sound.ts";
import type { Store } from "../../store/store.ts";
import type { CompileFor } from "./compile-in-turn.ts";

export interface CompileOnce {
  (definition: Cid, source: DefinitionSource): Promise<CompiledResult>;
  /** The compiled code of a definition in UTF-8. A copy damaged on disk is compiled again from the definition. */
  code(server: string, definition: Cid, bundle: Cid): Promise<Uint8Array>;
  /** Keeps the stored result as long as the tenant. One that is gone is made again when its code is needed. */
  hold(compiled: Pick<CompiledDefinition, "found" | "compiled">): Promise<void>;
}

const RETRY_AFTER_S = 5;

/** Compiles definitions, and stores the results. */
export interface CompilingParts {
  readonly store: Store;
  readonly compile: CompileFor;
  /** The key of what a compiler makes of a definition; that of `compile` by default. */
  readonly compileKey: (
    definition: Cid,
    source: { language: DefinitionSource["language"]; server: string },
    compiler?: Cid,
  ) => string;
  /** Looks up what was not compiled here. Default: the current claims of the tenant's boot image. */
  readonly claimed?: ClaimLookup;
}

/**
 * Discovers and bundles each source once, for the first caller that needs it (invariant 2). Results stay as long as the
 * tenant that uses them. Results compiled here take precedence over an image's claims. Throws `compiler_failed`, and
 * stores nothing, when the source is not at fault.
 */
export function compilingOnce(
  tenant: string,
  { store, compile, compileKey, claimed = claimedNow }: CompilingParts,
): CompileOnce {
  const compileAnew = async (key: string, source: DefinitionSource): Promise<CompiledResult> => {
    const result = await compile(source, tenant);
    const failure = result.problems.find(isServiceFault);
    if (failure)
      throw new BerthError("compiler_failed", failure.message, { data: { retryAfterSeconds: RETRY_AFTER_S } });
    const packed = packCompiled(result);
    await store.putDerived(tenant, derivedEntries(key, packed));
    return readCompiled(packed.result.bytes);
  };

  const compileOnce = async (definition: Cid, source: DefinitionSource): Promise<CompiledResult> => {
    const key = compileKey(definition, source);
    const known = await ifSound(store.derived(key));
    const compiled = known && compiledHere(known);
    if (compiled && (await isHeld(tenant, derivedKeys(key, compiled)))) return compiled;
    return (await claimed(store, tenant, key)) ?? compileAnew(key, source);
  };

  /** True if the store fails, too: the result is still there, and is made again once it is not. */
  const isHeld = (tenant: string, keys: readonly string[]): Promise<boolean> =>
    store.holdDerived(tenant, keys).catch((error: unknown) => {
      if (error instanceof BerthError && error.code === "store_failed") return true;
      throw error;
    });

  const code = async (server: string, definition: Cid, bundle: Cid): Promise<Uint8Array> => {
    const read = async (): Promise<Uint8Array | undefined> => {
      const bytes = await ifSound(store.derived(bundle));
      if (bytes && matches(bundle, bytes)) return bytes;
      // A claimed bundle is content of the tenant.
      return ifSound(store.content(tenant, bundle));
    };
    let bytes = await read();
    if (!bytes) {
      const source = await loadDefinition((cid) => store.content(tenant, cid), definition, server);
      await compileAnew(compileKey(definition, source), source);
      bytes = await read();
    }
    if (!bytes) throw new BerthError("content_missing", bundle);
    return bytes;
  };
  const hold: CompileOnce["hold"] = async ({ found, compiled }) => {
    if (compiled !== null) await isHeld(tenant, derivedKeys(compiled, found));
  };
  return Object.assign(compileOnce, { code, hold });
}

/** The compiled definition of a server. */
export interface CompiledDefinition {
  readonly found: CompiledResult;
  readonly language: DefinitionSource["language"];
  readonly bundle: Cid | null;
  /** The key of the compiler's result. */
  readonly compiled: string | null;
}

/** A server without a definition has no code; one whose entry offers nothing either is refused. */
export async function compiledDefinition(
  tenant: string,
  server: string,
  { definition, entry }: { definition: Cid | undefined; entry: ServerEntry },
  compileOnce: CompileOnce,
  { store, compileKey, writable }: CompilingParts & { readonly writable: boolean },
): Promise<CompiledDefinition> {
  if (definition === undefined) {
    const offers = [...entry.resources, ...Object.keys(entry.prompts), ...Object.keys(entry.transforms)];
    if (offers.length === 0) {
      throw refused(server, [problem("missing-definition", "No definition is named for this server")]);
    }
    const found = { ...nothingFound, problems: [], bundle: null };
    return { found, language: "typescript", bundle: null, compiled: null };
  }
  const source = await loadDefinition((cid) => store.content(tenant, cid), definition, server);
  const { language } = source;
  if (language === "shell" && !writable) {
    throw refused(server, [problem("shell-refused", "A read-only boot runs no shell definitions")]);
  }
  const found = await compileOnce(definition, source);
  if (!found.bundle) throw refused(server, found.problems);
  return { found, language, bundle: found.bundle, compiled: compileKey(definition, source) };
}

/** Reports the first error of the whole server: an error of one tool seldom stops it. */
export function refused(server: string, problems: readonly Problem[]): BerthError {
  const errors = problems.filter(({ severity }) => severity === "error");
  const first = errors.find(({ tool }) => tool === undefined) ?? errors[0] ?? problems[0];
  return new BerthError("server_refused", `"${server}": ${first?.message ?? "it has no code"}`, { data: { problems } });
}

function problem(code: string, message: string): Problem {
  return { code, message, severity: "error" };
}

import { matches, type Cid } from "../../lib/cid.ts";
import { isServiceFault, type DefinitionSource } from "../../discover/discovery.ts";
import { BerthError } from "../../lib/errors.ts";
import { claimedNow, compiledHere, type ClaimLookup } from "../../image/claimed.ts";
import { derivedEntries, derivedKeys, packCompiled, readCompiled, type CompiledResult } from "../../image/compiled.ts";
import { loadDefinition } from "../../image/definition.ts";
import { ifSound } from "../../store/if-sound.ts";
import type { HostDependencies } from "../host.ts";

export interface CompileOnce {
  (definition: Cid, source: DefinitionSource): Promise<CompiledResult>;
  /** The compiled code of a definition in UTF-8. A copy damaged on disk is compiled again from the definition. */
  code(server: string, definition: Cid, bundle: Cid): Promise<Uint8Array>;
}

const RETRY_AFTER_S = 5;

/** Compiles definitions, and stores the results. */
export interface CompilingParts extends Pick<HostDependencies, "store" | "compile" | "compileKey"> {
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
  return Object.assign(compileOnce, { code });
}

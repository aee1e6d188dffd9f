import { matches, type Cid } from "../lib/cid.ts";
import { isServiceFault, type DefinitionSource } from "../discover/discovery.ts";
import { BerthError } from "../lib/errors.ts";
import { claimedNow, compiledHere, type ClaimLookup } from "../image/claimed.ts";
import { derivedEntries, derivedKeys, packCompiled, readCompiled, type CompiledResult } from "../image/compiled.ts";
import { loadDefinition } from "../image/definition.ts";
import { ifSound } from "../store/if-sound.ts";
import type { HostDependencies } from "./host.ts";

export interface CompileOnce {
  (definition: Cid, source: DefinitionSource): Promise<CompiledResult>;
  /** The text in UTF-8 that was made of a definition. What went bad on the disk is made again: it follows from the definition. */
  code(server: string, definition: Cid, bundle: Cid): Promise<Uint8Array>;
}

const RETRY_AFTER_S = 5;

/** Where something is compiled, or was. */
export interface CompilingParts extends Pick<HostDependencies, "store" | "compile" | "compileKey"> {
  /** Asked for what was not compiled here. Default: what the tenant's boot image claims now. */
  readonly claimed?: ClaimLookup;
}

/**
 * Discovery and bundling are done once for a source, by whoever needs them first (invariant 2). What the tenant uses stays
 * as long as the tenant does. What was compiled here goes before what an image claims. Throws `compiler_failed` where that says nothing of the source: that is not kept.
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

  /** What cannot be claimed now is there still, and made again when it no longer is. */
  const isHeld = (tenant: string, keys: readonly string[]): Promise<boolean> =>
    store.holdDerived(tenant, keys).catch((error: unknown) => {
      if (error instanceof BerthError && error.code === "store_failed") return true;
      throw error;
    });

  const code = async (server: string, definition: Cid, bundle: Cid): Promise<Uint8Array> => {
    const read = async (): Promise<Uint8Array | undefined> => {
      const bytes = await ifSound(store.derived(bundle));
      if (bytes && matches(bundle, bytes)) return bytes;
      // That of a claim is content of the tenant.
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

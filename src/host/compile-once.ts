import type { Cid } from "../cid.ts";
import { isServiceFault, type DefinitionSource } from "../discover/discovery.ts";
import { BerthError } from "../errors.ts";
import { derivedEntries, derivedKeys, packCompiled, readCompiled, type CompiledResult } from "../image/compiled.ts";
import type { HostDependencies } from "./host.ts";

export type CompileOnce = (definition: Cid, source: DefinitionSource) => Promise<CompiledResult>;

const RETRY_AFTER_S = 5;

/**
 * Discovery and bundling are done once for a source, by whoever needs them first (invariant 2). What the tenant uses stays
 * as long as the tenant does. Throws `compiler_failed` where that says nothing of the source: that is not kept.
 */
export function compilingOnce(
  tenant: string,
  { store, compile, compileKey }: Pick<HostDependencies, "store" | "compile" | "compileKey">,
): CompileOnce {
  return async (definition, source) => {
    const key = compileKey(definition, source);
    const known = await store.derived(key);
    const compiled = known && readCompiled(known);
    if (compiled && (await store.holdDerived(tenant, derivedKeys(key, compiled)))) return compiled;
    const result = await compile(source, tenant);
    const failure = result.problems.find(isServiceFault);
    if (failure)
      throw new BerthError("compiler_failed", failure.message, { data: { retryAfterSeconds: RETRY_AFTER_S } });
    const packed = packCompiled(result);
    await store.putDerived(tenant, derivedEntries(key, packed));
    return readCompiled(packed.result.bytes);
  };
}

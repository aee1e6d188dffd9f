import type { Cid } from "../cid.ts";
import type { DefinitionSource } from "../discover/discovery.ts";
import { derivedEntries, packCompiled, readCompiled, type CompiledResult } from "../image/compiled.ts";
import type { HostDependencies } from "./host.ts";

export type CompileOnce = (definition: Cid, source: DefinitionSource) => Promise<CompiledResult>;

/** Discovery and bundling are done once for a source, by whoever needs them first (invariant 2). */
export function compilingOnce({
  store,
  compile,
  compileKey,
}: Pick<HostDependencies, "store" | "compile" | "compileKey">): CompileOnce {
  return async (definition, source) => {
    const key = compileKey(definition, source);
    const known = await store.derived(key);
    if (known) return readCompiled(known);
    const packed = packCompiled(await compile(source));
    await store.putDerived(derivedEntries(key, packed));
    return readCompiled(packed.result.bytes);
  };
}

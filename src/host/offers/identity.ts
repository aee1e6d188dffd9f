import type { ToolContract } from "../../contract/contract.ts";
import { canonicalJson } from "../../lib/canonical-json.ts";
import { jsonCid, jsonBlock } from "../../lib/cid.ts";
import type { Catalog, ToolIdentity } from "./catalog.ts";

/**
 * The identities of a release's tools, each made on first request. `implementationOf` describes what implements a tool
 * as a structure: equal structures, equal behaviour.
 */
export function identitiesOf(
  tools: readonly ToolContract[],
  implementationOf: (tool: string) => unknown,
): Catalog["identity"] {
  // As texts, which take a tenth of the memory: the catalog of all servers keeps those of every server. A closure here
  // would keep what they are made of.
  const implementations: string[] = [];
  for (const { name } of tools) implementations.push(canonicalJson(implementationOf(name)));
  const known: ToolIdentity[] = [];
  let places: ReadonlyMap<string, number> | undefined;
  return (tool) => {
    places ??= new Map(tools.map(({ name }, place) => [name, place]));
    const place = places.get(tool);
    if (place === undefined) return undefined;
    return (known[place] ??= {
      contract: jsonBlock(tools[place]).cid,
      implementation: jsonCid(Buffer.from(implementations[place]!)),
    });
  };
}

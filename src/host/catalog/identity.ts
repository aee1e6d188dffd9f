import type { ToolContract } from "../../contract/contract.ts";
import { jsonBlock } from "../../lib/cid.ts";
import type { Catalog, ToolIdentity } from "./catalog.ts";

/**
 * The identities of a release's tools, each made on first request. `implementationOf` describes what implements a tool
 * as a structure: equal structures, equal behaviour.
 */
export function identitiesOf(
  tools: readonly ToolContract[],
  implementationOf: (tool: string) => unknown,
): Catalog["identity"] {
  const contracts = new Map(tools.map((contract) => [contract.name, contract]));
  const known = new Map<string, ToolIdentity>();
  return (tool) => {
    const contract = contracts.get(tool);
    let identity = known.get(tool);
    if (!contract || identity) return identity;
    identity = { contract: jsonBlock(contract).cid, implementation: jsonBlock(implementationOf(tool)).cid };
    known.set(tool, identity);
    return identity;
  };
}

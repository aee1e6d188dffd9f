import type { ContractChange } from "../../contract/change.ts";
import { compareContracts } from "../../contract/compare.ts";
import type { Contract } from "../../contract/contract.ts";
import { jsonBlock, type Cid } from "../../lib/cid.ts";
import { contractHash, knownParameters } from "../../upstream/calls/contract-hash.ts";
import { schemaOf } from "./design.ts";
import type { Profile } from "./profile.ts";

/** The effect of a server's current contract on a profile. */
export interface ProfileCheck {
  /**
   * `changed`: a call that the profile describes may fail. `review`: only a person can assess the change. `compatible`:
   * no caller will notice. `unknown`: the profile does not name the contract it was created for.
   */
  readonly status: "valid" | "compatible" | "review" | "changed" | "unknown";
  /**
   * The hash of the contract that the profile was created for, and that of the current contract, reduced to what the
   * profile knows.
   */
  readonly expectedHash?: Cid;
  readonly currentHash: Cid;
  readonly expectedContract?: Cid;
  readonly currentContract: Cid;
  readonly changes: readonly ContractChange[];
}

export function checkProfile(profile: Profile, current: Contract): ProfileCheck {
  const before = profile.contract ?? writtenContract(profile);
  const currentContract = jsonBlock(current).cid;
  if (!before) return byHash(profile.meta.schema_hash, contractHash(current), currentContract);
  const known = knownParameters(before);
  const changes = compareContracts(before, current).filter((change) => matters(change, profile, before));
  return {
    status: statusOf(changes),
    expectedHash: profile.meta.schema_hash ?? contractHash(before, known),
    currentHash: contractHash(current, known),
    ...(profile.meta.contract_cid !== undefined && { expectedContract: profile.meta.contract_cid }),
    currentContract,
    changes,
  };
}

/** Only the hash is known: it shows whether the contract differs, but not how. */
function byHash(expectedHash: Cid | undefined, currentHash: Cid, currentContract: Cid): ProfileCheck {
  const current = { currentHash, currentContract };
  if (expectedHash === undefined) return { status: "unknown", ...current, changes: [] };
  if (expectedHash === currentHash) return { status: "valid", expectedHash, ...current, changes: [] };
  const message = "The schema hash has changed; the profile does not hold enough to tell what is different.";
  const change: ContractChange = { subject: "server", name: "", effect: "breaking", message };
  return { status: "changed", expectedHash, ...current, changes: [change] };
}

/** A handwritten profile states only the parameters of its tools. */
function writtenContract({ tools }: Profile): Contract | undefined {
  const described = [...tools].filter(([, { parameters }]) => parameters !== undefined);
  if (described.length === 0) return undefined;
  return {
    tools: described.map(([name, { tool = name, parameters = {} }]) => ({
      name: tool,
      inputSchema: schemaOf(parameters),
    })),
    resources: [],
    resourceTemplates: [],
    prompts: [],
  };
}

/**
 * A curated profile relies on the tools that it names; a handwritten one states nothing else. Resources are content,
 * like files: they come and go while the contract stays the same.
 */
function matters(change: ContractChange, { contract, tools }: Profile, before: Contract): boolean {
  const { subject, name, pointer } = change;
  if (subject === "resource") return false;
  if (!contract)
    return subject === "tool" && (pointer === undefined ? change.effect === "breaking" : WRITTEN.test(pointer));
  if (subject !== "tool" || !before.tools.some((tool) => tool.name === name)) return true;
  return tools.size === 0 || [...tools].some(([own, { tool = own }]) => tool === name);
}

/** The facts that handwritten parameters state: which ones exist, and their types. */
const WRITTEN = /^\/inputSchema\/properties\/[^/]+(?:\/type)?$/;

function statusOf(changes: readonly ContractChange[]): ProfileCheck["status"] {
  if (changes.some(({ effect }) => effect === "breaking")) return "changed";
  if (changes.some(({ effect }) => effect === "review")) return "review";
  return changes.length === 0 ? "valid" : "compatible";
}

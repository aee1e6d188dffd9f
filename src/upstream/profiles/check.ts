import { jsonBlock, type Cid } from "../../cid.ts";
import type { ContractChange } from "../../contract/change.ts";
import { compareContracts } from "../../contract/compare.ts";
import type { Contract } from "../../contract/contract.ts";
import { contractHash, knownOf } from "../contract-hash.ts";
import { schemaOf } from "./design.ts";
import type { Profile } from "./profile.ts";

/** What a server's contract of today means for a profile (seed 000, "Schema Validation on Use"; J6). */
export interface ProfileCheck {
  /**
   * `changed`: a call that the profile describes may fail. `review`: only a person can tell what the change means.
   * `compatible`: no caller will notice. `unknown`: the profile does not say what it was made against.
   */
  readonly status: "valid" | "compatible" | "review" | "changed" | "unknown";
  /** Of the contract that the profile was made against, and of the server's own as far as the profile knows it. */
  readonly expectedHash?: Cid;
  readonly currentHash: Cid;
  readonly expectedContract?: Cid;
  readonly currentContract: Cid;
  readonly changes: readonly ContractChange[];
}

export function checkProfile(profile: Profile, current: Contract): ProfileCheck {
  const before = profile.contract ?? writtenContract(profile);
  const currentContract = jsonBlock(current).cid;
  if (!before) {
    return { status: "unknown", currentHash: contractHash(current), currentContract, changes: [] };
  }
  const known = knownOf(before);
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

/** A profile that somebody wrote by hand says what it knows of the tools' parameters, and nothing else. */
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

/** A curated profile relies on the tools that it names; of one written by hand nothing else is known. */
function matters({ subject, name }: ContractChange, { contract, tools }: Profile, before: Contract): boolean {
  const used = new Set([...tools].map(([own, { tool = own }]) => tool));
  if (subject !== "tool") return contract !== undefined;
  if (before.tools.some((tool) => tool.name === name)) return used.size === 0 || used.has(name);
  return contract !== undefined;
}

function statusOf(changes: readonly ContractChange[]): ProfileCheck["status"] {
  if (changes.some(({ effect }) => effect === "breaking")) return "changed";
  if (changes.some(({ effect }) => effect === "review")) return "review";
  return changes.length === 0 ? "valid" : "compatible";
}

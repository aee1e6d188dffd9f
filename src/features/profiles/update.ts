import type { ContractChange } from "../../contract/change.ts";
import type { Contract, ToolContract } from "../../contract/contract.ts";
import type { JsonObject } from "../../lib/json.ts";
import { parametersOf, pinned } from "./design.ts";
import type { Profile, ProfileTool } from "./profile.ts";
import type { ProfileFiles } from "./save.ts";

export interface ProfileUpdate {
  readonly files: ProfileFiles;
  /** The changes made to the files, one sentence each. */
  readonly steps: readonly string[];
}

/**
 * Updates a profile to its server's current contract: follows renamed tools and parameters, also in arguments, examples
 * and tested queries; people's own text is preserved. Tools that the profile does not name are not added.
 */
export async function updateProfile(
  { meta, tools }: Profile,
  current: Contract,
  changes: readonly ContractChange[],
  now: Date,
): Promise<ProfileUpdate> {
  const steps: string[] = [];
  const updated: [string, ProfileTool][] = [];
  for (const [name, tool] of tools) {
    const own = tool.tool ?? name;
    const renamed = changes.find(
      (change) => isAboutTool(change, own) && change.pointer === undefined && change.renamedTo,
    );
    const contract = current.tools.find((each) => each.name === (renamed?.renamedTo ?? own));
    if (!contract) {
      steps.push(`Remove the tool "${name}": the server no longer has it`);
      continue;
    }
    if (renamed) steps.push(`Let the tool "${name}" call "${contract.name}" instead of "${own}"`);
    updated.push([name, followed(name, tool, contract, renamesOf(changes, own), steps)]);
  }
  steps.push("Recalculate schema hash");
  return {
    files: {
      meta: { ...meta, ...(await pinned(current, now)) },
      tools: Object.fromEntries(updated),
      contract: current,
    },
    steps,
  };
}

function isAboutTool({ subject, name }: ContractChange, tool: string): boolean {
  return subject === "tool" && name === tool;
}

const PARAMETER = /^\/inputSchema\/properties\/([^/]+)$/;

/** Old → new names of a tool's parameters. */
function renamesOf(changes: readonly ContractChange[], tool: string): Map<string, string> {
  const renames = new Map<string, string>();
  for (const change of changes) {
    const parameter = PARAMETER.exec(change.pointer ?? "")?.[1];
    if (!isAboutTool(change, tool) || parameter === undefined || change.renamedTo === undefined) continue;
    renames.set(parameter.replaceAll("~1", "/").replaceAll("~0", "~"), change.renamedTo);
  }
  return renames;
}

function followed(
  name: string,
  tool: ProfileTool,
  contract: ToolContract,
  renames: ReadonlyMap<string, string>,
  steps: string[],
): ProfileTool {
  for (const [from, to] of renames) steps.push(`Update "${name}" to use '${to}' instead of '${from}'`);
  const before = tool.parameters ?? {};
  const after = parametersOf(contract.inputSchema);
  for (const parameter of Object.keys(after)) {
    const isNew = tool.parameters && !Object.hasOwn(before, parameter) && ![...renames.values()].includes(parameter);
    if (isNew)
      steps.push(
        `Add '${parameter}' to "${name}" as ${after[parameter]!["required"] === true ? "required" : "optional"}`,
      );
  }
  for (const parameter of Object.keys(before)) {
    if (!Object.hasOwn(after, parameter) && !renames.has(parameter)) steps.push(`Remove '${parameter}' from "${name}"`);
  }
  const { arguments: args, examples, tested_with: tested } = tool;
  return {
    ...tool,
    tool: contract.name,
    ...(tool.parameters && { parameters: after }),
    ...(args && { arguments: renamedKeys(args, renames) }),
    ...(examples && {
      examples: examples.map((example) => Object.assign({}, example, { input: renamedKeys(example.input, renames) })),
    }),
    ...(tested && { tested_with: tested.map((query) => renamedQuery(query, renames)) }),
  };
}

function renamedKeys(args: JsonObject, renames: ReadonlyMap<string, string>): JsonObject {
  return Object.fromEntries(Object.entries(args).map(([name, value]) => [renames.get(name) ?? name, value]));
}

function renamedQuery(query: string, renames: ReadonlyMap<string, string>): string {
  return query
    .split("&")
    .map((pair) => {
      const [name = "", ...value] = pair.split("=");
      return [renames.get(name) ?? name, ...value].join("=");
    })
    .join("&");
}

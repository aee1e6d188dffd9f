import type { JsonObject } from "../../json.ts";
import { convertArguments } from "../../upstream/arguments.ts";
import { readOperation } from "../../upstream/operation.ts";
import type { ProfileTool } from "../../upstream/profiles/profile.ts";
import { splitQuery, UriProblems } from "../../upstream/uri-text.ts";
import { findTool } from "./perform.ts";
import type { RecordOutput } from "./output.ts";
import type { Reached } from "./reach.ts";

/** Calls each tool as its first example, or first tested query, says. False when one of them fails. */
export async function tryExamples(
  { upstream, signal }: Reached,
  tools: Readonly<Record<string, ProfileTool>>,
  output: RecordOutput,
): Promise<boolean> {
  let allWell = true;
  for (const [name, tool] of Object.entries(tools)) {
    const own = tool.tool ?? name;
    const args = tool.examples?.[0]?.input ?? (await queried(tool.tested_with?.[0], own));
    if (!args) continue;
    const result = await upstream.callTool(own, { ...tool.arguments, ...args }, { signal });
    allWell &&= !result.isError;
    await output.text(`${result.isError ? "✗" : "✓"} ${name} ${JSON.stringify(args)}\n`);
  }
  return allWell;

  async function queried(query: string | undefined, own: string): Promise<JsonObject | undefined> {
    if (query === undefined || !query.includes("=")) return undefined;
    const problems = new UriProblems(query);
    const operation = readOperation(splitQuery({ text: query, offset: 0 }, problems), problems);
    if (!operation || problems.list.length > 0) return undefined;
    return convertArguments(operation.arguments, (await findTool(upstream, own, { signal })).inputSchema).arguments;
  }
}

import { BerthError } from "../../errors.ts";
import type { JsonObject } from "../../json.ts";
import { printable } from "../../printable.ts";
import { invalidLauncher } from "../../upstream/command.ts";
import type { ListedTool } from "../../upstream/lists.ts";
import { readOperation } from "../../upstream/operation.ts";
import type { ProfileTool } from "../../upstream/profiles/profile.ts";
import { isReservedKey } from "../../upstream/query-keys.ts";
import { splitQuery, UriProblems } from "../../upstream/uri-text.ts";
import { callTool } from "./call-tool.ts";
import { CommandFailure } from "./failure.ts";
import type { RecordOutput } from "./output.ts";
import { argumentsFor, findTool } from "./perform.ts";
import type { Reached } from "./reach.ts";

/**
 * Calls each tool as its first example, or else its first tested query, says, and tells of it as the seed does
 * (seed 000, "User Experience"). Gives the names of the tools that failed.
 */
export async function tryExamples(
  reached: Reached,
  profile: string,
  tools: Readonly<Record<string, ProfileTool>>,
  output: RecordOutput,
): Promise<string[]> {
  const failed: string[] = [];
  for (const [name, tool] of Object.entries(tools)) {
    const example = tool.examples?.[0]?.input;
    // Tested queries that are no query, such as "BRAF+melanoma", are for people.
    const query = example ? asQuery(example) : tool.tested_with?.find((tested) => tested.includes("="));
    if (query === undefined) continue;
    await output.text(`Running: berth cat "@${profile}/${name}${query && `?${query}`}"\n`);
    const failure = await failureOf(reached, tool.tool ?? name, tool, example ?? query);
    if (failure !== undefined) failed.push(name);
    await output.text(failure === undefined ? "✓ Success\n" : `✗ ${printable(failure)}\n`);
  }
  return failed;
}

function asQuery(args: JsonObject): string {
  const texts = Object.entries(args).flatMap(([name, value]) => {
    const isPlain = (typeof value === "string" || typeof value === "number") && !isReservedKey(name);
    return isPlain ? [[name, String(value)] as const] : [];
  });
  const pairs = texts.length === Object.keys(args).length ? texts : [["args", JSON.stringify(args)] as const];
  return pairs.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join("&");
}

/** Why the call fails; undefined when it does not. */
async function failureOf(
  reached: Reached,
  name: string,
  { arguments: defaults, options }: ProfileTool,
  given: JsonObject | string,
): Promise<string | undefined> {
  try {
    const { upstream, signal } = reached;
    const reference = options ? { ...reached.reference, options } : reached.reference;
    const tool = await findTool(upstream, name, { signal });
    const args = typeof given === "string" ? argumentsOf(given, tool) : given;
    await callTool({ ...reached, reference }, tool, { ...defaults, ...args }, { signal });
    return undefined;
  } catch (error) {
    const isAnswer = error instanceof CommandFailure || (error instanceof BerthError && isRefusal(error));
    if (isAnswer) return error.message;
    throw error;
  }
}

/** What the call itself was wrong in, rather than the connection. */
function isRefusal({ code }: BerthError): boolean {
  return code === "upstream_refused" || code === "launcher_invalid";
}

function argumentsOf(query: string, tool: ListedTool): JsonObject {
  const problems = new UriProblems(query);
  const operation = readOperation(splitQuery({ text: query, offset: 0 }, problems), problems);
  if (!operation || problems.list.length > 0) throw invalidLauncher(problems.list);
  return argumentsFor(tool, operation.arguments);
}

import { BerthError } from "../../lib/errors.ts";
import { printable } from "../../lib/printable.ts";
import { exampleArguments, firstExample, type Example } from "../../upstream/profiles/example.ts";
import type { ProfileTool } from "../../upstream/profiles/profile.ts";
import { callTool } from "./call-tool.ts";
import { CommandFailure } from "./failure.ts";
import type { RecordOutput } from "./output.ts";
import { findTool } from "./perform.ts";
import type { Reached } from "./reach.ts";

/**
 * Calls each tool with its first example, and reports as the seed does (seed 000, "User Experience"). Returns the names
 * of the tools that failed.
 */
export async function tryExamples(
  reached: Reached,
  profile: string,
  tools: Readonly<Record<string, ProfileTool>>,
  output: RecordOutput,
): Promise<string[]> {
  const failed: string[] = [];
  for (const [name, tool] of Object.entries(tools)) {
    const example = firstExample(tool);
    if (!example) continue;
    const { query } = example;
    await output.text(`Running: berth cat "@${profile}/${name}${query && `?${query}`}"\n`);
    const failure = await failureOf(reached, name, tool, example);
    if (failure !== undefined) failed.push(name);
    await output.text(failure === undefined ? "✓ Success\n" : `✗ ${printable(failure)}\n`);
  }
  return failed;
}

/** Why the call fails; undefined when it does not. */
async function failureOf(
  reached: Reached,
  name: string,
  tool: ProfileTool,
  example: Example,
): Promise<string | undefined> {
  const { upstream, signal } = reached;
  const { options } = tool;
  const reference = options ? { ...reached.reference, options } : reached.reference;
  try {
    const listed = await findTool(upstream, tool.tool ?? name, { signal });
    const args = exampleArguments(example, tool, listed.inputSchema);
    if (typeof args === "string") return args;
    await callTool({ ...reached, reference }, listed, args, { signal });
    return undefined;
  } catch (error) {
    // A fault of the call itself, rather than of the connection.
    const isAnswer = error instanceof BerthError && error.code === "upstream_refused";
    if (isAnswer || error instanceof CommandFailure) return error.message;
    throw error;
  }
}

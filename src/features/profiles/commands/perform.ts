import type { Json, JsonObject } from "../../../lib/json.ts";
import type { UpstreamConnection } from "../../../upstream/calls/connection.ts";
import type { UriArguments, Operation, UpstreamListName } from "../../../upstream/launch/operation.ts";
import { convertArguments } from "../../../upstream/launch/uri-arguments.ts";
import type { ListedTool, UpstreamListed } from "../../../upstream/messages/lists.ts";
import type { Progress, UpstreamCallOptions } from "../../../upstream/messages/request.ts";
import { listRecords, promptRecords, resourceRecords } from "../../../upstream/messages/result-records.ts";
import { type CalledOutcome, callTool } from "./call-tool.ts";
import { usageFailure } from "./failure.ts";
import type { Reached } from "./reach.ts";

/** Calls the tool, reads the resource, gets the prompt, or lists. A tool that fails is a `CommandFailure`. */
export async function perform(reached: Reached): Promise<CalledOutcome> {
  const { upstream, operation, signal, progress } = reached;
  const { target, arguments: given } = operation;
  if (!target) {
    throw usageFailure(
      "The reference does not say what to do: add tool=…, resource=…, prompt=… or list=tools|resources|templates|prompts.",
    );
  }
  if (target.kind !== "tool" && target.kind !== "prompt") refuseArguments(operation, `${target.kind}=`);
  const options = { signal, onProgress: (step: Progress) => progress(progressText(target.name, step)) };
  switch (target.kind) {
    case "tool": {
      const tool = await findTool(upstream, target.name, { signal });
      return callTool(reached, tool, argumentsFor(tool, given), options);
    }
    case "resource": {
      const result = await upstream.readResource(target.name, options);
      return { whole: result as unknown as Json, records: resourceRecords(result) };
    }
    case "prompt": {
      const result = await upstream.getPrompt(target.name, textArguments(given), options);
      return { whole: result as unknown as Json, records: promptRecords(target.name, result) };
    }
    case "list": {
      const [type, listed] = await list(upstream, target.name, signal);
      return { whole: listed.items as unknown as Json, records: listRecords(type, listed.items) };
    }
  }
}

/** The tool as listed. */
export async function findTool(
  upstream: UpstreamConnection,
  name: string,
  options: UpstreamCallOptions,
): Promise<ListedTool> {
  const { items } = await upstream.listTools(options);
  const tool = items.find((one) => one.name === name);
  if (tool) return tool;
  const names = items.map((one) => one.name);
  throw usageFailure(`There is no tool "${name}"; there are ${names.join(", ") || "none"}.`, { tools: names });
}

export function argumentsFor({ inputSchema }: ListedTool, given: UriArguments): JsonObject {
  const { arguments: converted, problems } = convertArguments(given, inputSchema);
  if (problems.length === 0) return converted;
  throw usageFailure(problems.map(({ message }) => message).join(" "), { problems });
}

async function list(
  upstream: UpstreamConnection,
  name: UpstreamListName,
  signal: AbortSignal,
): Promise<[string, UpstreamListed<object>]> {
  switch (name) {
    case "tools":
      return ["tool", await upstream.listTools({ signal })];
    case "resources":
      return ["resource", await upstream.listResources({ signal })];
    case "templates":
      return ["resource_template", await upstream.listResourceTemplates({ signal })];
    case "prompts":
      return ["prompt", await upstream.listPrompts({ signal })];
  }
}

/** The arguments of a prompt are strings. */
function textArguments({ texts, json }: UriArguments): Record<string, string> {
  const all: [string, unknown][] = [
    ...Object.entries(json),
    ...texts.map(({ name, values }): [string, unknown] => [name, values.length === 1 ? values[0] : values]),
  ];
  for (const [name, value] of all) {
    if (typeof value !== "string") throw usageFailure(`The prompt's argument ${name} must be a single string.`);
  }
  return Object.fromEntries(all) as Record<string, string>;
}

function refuseArguments({ arguments: { texts, json } }: Operation, target: string): void {
  const names = [...texts.map(({ name }) => name), ...Object.keys(json)];
  if (names.length > 0) throw usageFailure(`${target} takes no arguments (${names.join(", ")}).`);
}

function progressText(name: string, { progress, total, message }: Progress): string {
  return `${name} ${progress}${total === undefined ? "" : `/${total}`}${message === undefined ? "" : ` ${message}`}`;
}

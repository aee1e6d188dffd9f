import type { Method } from "../protocol.ts";
import { complete } from "./completion.ts";
import { listMethod, type ListedLimits } from "./lists.ts";
import { getPrompt } from "./prompts.ts";
import { readResource } from "./resources.ts";
import { callTool } from "./tools.ts";

/** The methods that both eras have. */
export function sharedMethods(limits: ListedLimits): readonly (readonly [string, Method])[] {
  return [
    ["tools/list", listMethod("tools", limits)],
    ["tools/call", callTool],
    ["resources/list", listMethod("resources", limits)],
    ["resources/templates/list", listMethod("resourceTemplates", limits)],
    ["resources/read", readResource],
    ["prompts/list", listMethod("prompts", limits)],
    ["prompts/get", getPrompt],
    ["completion/complete", complete],
  ];
}

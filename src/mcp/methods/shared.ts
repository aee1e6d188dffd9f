import type { Method } from "../protocol.ts";
import { complete } from "./completion.ts";
import { listMethod } from "./lists.ts";
import { getPrompt } from "./prompts.ts";
import { readResource } from "./resources.ts";
import { callTool } from "./tools.ts";

/** The methods that both eras have. */
export const sharedMethods: readonly (readonly [string, Method])[] = [
  ["tools/list", listMethod("tools")],
  ["tools/call", callTool],
  ["resources/list", listMethod("resources")],
  ["resources/templates/list", listMethod("resourceTemplates")],
  ["resources/read", readResource],
  ["prompts/list", listMethod("prompts")],
  ["prompts/get", getPrompt],
  ["completion/complete", complete],
];

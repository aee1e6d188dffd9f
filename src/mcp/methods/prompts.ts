import { BerthError } from "../../lib/errors.ts";
import { isObject, type JsonObject } from "../../lib/json.ts";
import type { Text } from "../../lib/long-text.ts";
import type { MethodCall } from "../protocol.ts";
import { inRounds } from "./rounds.ts";

/** `prompts/get`. */
export function getPrompt(call: MethodCall): Promise<Text> {
  const { catalog, codec, params } = call;
  const { name, arguments: args = {} } = params;
  if (typeof name !== "string") throw new BerthError("invalid_params", '"name" must be a text');
  if (!isObject(args)) throw new BerthError("invalid_params", '"arguments" must be an object');
  const prompt = catalog.prompt(name);
  if (!prompt) throw new BerthError("invalid_params", `Unknown prompt: ${name}`);
  return inRounds(
    call,
    (options) => prompt.get(args as JsonObject, options),
    (result) => codec.promptResult(catalog, result),
  );
}

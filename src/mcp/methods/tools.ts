import { BerthError } from "../../lib/errors.ts";
import { isObject, type JsonObject, type JsonText } from "../../lib/json.ts";
import type { Text } from "../../lib/long-text.ts";
import type { MethodCall } from "../protocol.ts";
import { inRounds } from "./rounds.ts";

/** `tools/call`. An unknown tool is a protocol error; any failure inside a tool is a result. */
export function callTool(call: MethodCall): Promise<Text> {
  const { catalog, codec, params } = call;
  const { name, arguments: args = {} } = params;
  if (typeof name !== "string") throw new BerthError("invalid_params", '"name" must be a text');
  if (!isObject(args)) throw new BerthError("invalid_params", '"arguments" must be an object');
  const tool = catalog.tool(name);
  if (!tool) throw new BerthError("invalid_params", `Unknown tool: ${name}`);
  return inRounds(
    call,
    (options) => tool.call(args as JsonObject | JsonText, options),
    (result) => codec.callResult(catalog, tool.contract, result),
  );
}

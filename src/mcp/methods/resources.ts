import { BerthError } from "../../lib/errors.ts";
import type { Text } from "../../lib/long-text.ts";
import type { MethodCall } from "../protocol.ts";
import { inRounds } from "./rounds.ts";

/** `resources/read`. 2026-07-28 requires -32602 for an unknown URI, with the URI in `data`. */
export async function readResource(call: MethodCall): Promise<Text> {
  const { catalog, codec, params } = call;
  const { uri } = params;
  if (typeof uri !== "string") throw new BerthError("invalid_params", '"uri" must be a text');
  const resource = await catalog.resource(uri);
  if (!resource) throw new BerthError("resource_not_found", uri, { data: { uri } });
  return inRounds(
    call,
    (options) => resource.read(options),
    (result) => codec.readResult(catalog, result),
  );
}

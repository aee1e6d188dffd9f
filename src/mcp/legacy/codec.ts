import { BerthError } from "../../errors.ts";
import type { Catalog, ToolContract } from "../../host/catalog.ts";
import type { JsonSchema } from "../../json.ts";
import type { Codec, Method } from "../protocol.ts";
import { isLegacy, LEGACY_VERSIONS } from "../revisions.ts";
import { sharedMethods } from "../methods/shared.ts";

/** The codec of 2024-11-05 to 2025-11-25: a handshake, and structured content that must be an object. */
export function createLegacyCodec({ berthVersion }: { berthVersion: string }): Codec {
  return {
    era: "legacy",
    listPage: (_catalog, list, { items, ...rest }) =>
      JSON.stringify({ [list]: list === "tools" ? (items as ToolContract[]).map(withObjectOutput) : items, ...rest }),
    callResult(_catalog, tool, result) {
      if (result.structuredContent === undefined || !isWrapped(tool)) return JSON.stringify(result);
      return JSON.stringify({ ...result, structuredContent: { result: result.structuredContent } });
    },
    readResult: (_catalog, result) => JSON.stringify(result),
    promptResult: (_catalog, result) => JSON.stringify(result),
    result: (_catalog, result) => JSON.stringify(result),
    answersOf: () => undefined,
    ask: () => Promise.reject(new BerthError("missing_capability")),
    methods: new Map<string, Method>([
      ...sharedMethods,
      ["initialize", ({ catalog, params }) => JSON.stringify(initialization(catalog, params, berthVersion))],
      ["ping", () => "{}"],
    ]),
  };
}

/** 2025-11-25 `basic/lifecycle`: the requested version when it is known here, else the latest of the era. */
function initialization(catalog: Catalog, params: Record<string, unknown>, berthVersion: string): object {
  const requested = params["protocolVersion"];
  if (typeof requested !== "string") throw new BerthError("invalid_params", '"protocolVersion" must be a text');
  const { description } = catalog.contract;
  return {
    protocolVersion: isLegacy(requested) ? requested : LEGACY_VERSIONS[0],
    capabilities: { tools: {}, resources: {}, prompts: {}, completions: {} },
    serverInfo: { name: catalog.server, version: `${berthVersion}+${catalog.release}` },
    ...(description !== undefined && { instructions: description }),
  };
}

/** Before 2026-07-28 an output schema describes an object, so any other value travels as `{result}`. */
function isWrapped(tool: ToolContract): boolean {
  return tool.outputSchema !== undefined && tool.outputSchema["type"] !== "object";
}

function withObjectOutput(tool: ToolContract): ToolContract {
  if (!tool.outputSchema || !isWrapped(tool)) return tool;
  const { $defs, ...result } = tool.outputSchema;
  const outputSchema: JsonSchema = {
    type: "object",
    properties: { result },
    required: ["result"],
    ...($defs !== undefined && { $defs }),
  };
  return { ...tool, outputSchema };
}

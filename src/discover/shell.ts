import type { DefinitionSource, Discovery } from "./discovery.ts";

/** One tool named as the server. */
export function discoverShell(source: DefinitionSource): Discovery {
  return {
    tools: [
      {
        name: source.server,
        inputSchema: { type: "object", properties: { args: { type: "string" } }, additionalProperties: false },
        outputSchema: null,
        annotations: {},
        call: { export: "", style: "positional", params: ["args"] },
        file: source.entry,
        line: 1,
        column: 1,
      },
    ],
    problems: [],
  };
}

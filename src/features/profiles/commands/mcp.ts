import { jsonBlock } from "../../../lib/cid.ts";
import type { JsonObject } from "../../../lib/json.ts";
import { printableJson } from "../../../lib/printable.ts";
import { contractHash } from "../../../upstream/calls/contract-hash.ts";
import { observe } from "../../../upstream/calls/observe.ts";
import type { ListedTool } from "../../../upstream/messages/lists.ts";
import { hostedCapabilities } from "../../../upstream/transport/questions.ts";
import { oneOf, type RecordOptions } from "./options.ts";
import { RecordOutput, recordFormats } from "./output.ts";
import { findTool } from "./perform.ts";
import { reach } from "./reach.ts";
import { TextList } from "./text-list.ts";

export { explore } from "./inspect.ts";

/** `berth mcp tools <reference>`: one tool per line (J2). */
export function tools(reference: string, options: RecordOptions): Promise<number> {
  return reach(reference, options, async ({ upstream, signal }) => {
    const format = oneOf("--format", options.format ?? "ndjson", recordFormats);
    const { items } = await upstream.listTools({ signal });
    const output = new RecordOutput(format);
    const list = new TextList();
    for (const tool of items) {
      if (format === "text") await output.text(`${list.tool(tool)}\n`);
      else await output.write(tool as unknown as JsonObject);
    }
    if (format !== "text") await output.end();
    return 0;
  });
}

/** `berth mcp schema <reference> [tool]`: the schemas of one tool, or of all tools by name (J2). */
export function schema(reference: string, name: string | undefined, options: RecordOptions): Promise<number> {
  return reach(reference, options, async ({ upstream, operation: { target }, signal }) => {
    const wanted = name ?? (target?.kind === "tool" ? target.name : undefined);
    const output = new RecordOutput("text");
    const found =
      wanted === undefined
        ? Object.fromEntries((await upstream.listTools({ signal })).items.map((tool) => [tool.name, schemasOf(tool)]))
        : schemasOf(await findTool(upstream, wanted, { signal }));
    await output.text(`${printableJson(JSON.stringify(found, undefined, 2))}\n`);
    return 0;
  });
}

export interface HashOptions extends RecordOptions {
  /** Hashes what the server offers when hosted. */
  readonly hosted?: boolean;
}

/** `berth mcp hash <reference>`: the hashes that show if a server is unchanged, and for which callers (J5). */
export function hash(reference: string, options: HashOptions): Promise<number> {
  return reach(reference, options, async ({ upstream }) => {
    const { contract } = await observe(upstream, []);
    await new RecordOutput("ndjson").write({
      schema_hash: contractHash(contract),
      contract_cid: jsonBlock(contract).cid,
      client_capabilities: options.hosted ? hostedCapabilities : {},
    });
    return 0;
  });
}

function schemasOf({ inputSchema, outputSchema }: ListedTool): object {
  return { inputSchema, ...(outputSchema !== undefined && { outputSchema }) };
}

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { jsonBlock, rawBlock } from "../../dist/src/lib/cid.js";
import { openStore } from "../../dist/src/store/open-store.js";

/** The definitions served meanwhile: guests that answer, stream, fail, crash and eat memory, a script, an upstream. */
export const definitions = {
  "steady.ts": `/** Gives its argument back. */
export function echo(text: string): string { return text; }
/** Takes a while. */
export async function slow(ms: number): Promise<string> {
  await new Promise((resolve) => setTimeout(resolve, ms));
  return "done";
}
/** Gives much. */
export function big(): string { return "x".repeat(200_000); }
/** Counts. */
export async function* count(to: number): AsyncGenerator<number, string> {
  for (let n = 0; n < to; n++) yield n;
  return "counted";
}
/** Fails. */
export function fail(): never { throw new Error("as it should"); }
`,
  "fragile.ts": `/** Ends its process. */
export function crash(): never { process.exit(3); }
/** Eats memory until it is ended. */
export function eat(): number { const held: number[][] = []; for (;;) held.push(new Array(100_000).fill(1)); }
/** Answers. */
export function fine(): string { return "fine"; }
`,
  "words.sh": `#!/bin/sh
# @param text What to count.
printf '%s' "$text" | wc -w
`,
  "edited.ts": `/** Says which. */\nexport function which(): string { return "0"; }\n`,
};

export const OTHER_TENANT = "acme";

const installed = fileURLToPath(new URL("../../test/upstreams/node_modules/", import.meta.url));
const script = join(installed, "@modelcontextprotocol", "server-everything", "dist", "index.js");
export const everything = `mcp+node://${script}?command=stdio`;

/** A second tenant with the same TypeScript servers, and the same upstream. @param {{ dataDir: string, database?: string }} where */
export async function addTenant(where) {
  const store = await openStore(where);
  try {
    await store.tenants.create(OTHER_TENANT, { by: "soak" });
    const [put, set] = [[], []];
    for (const [file, text] of Object.entries(definitions)) {
      if (!file.endsWith(".ts")) continue;
      const definition = rawBlock(text);
      const record = jsonBlock({ definition: definition.cid, enabled: true });
      put.push(definition, record);
      set.push({ kind: "server", name: file.replace(/\.ts$/, ""), cid: record.cid });
    }
    const mcps = rawBlock(JSON.stringify({ every: { upstream: everything } }));
    put.push(mcps);
    set.push({ kind: "variable", name: "mcps", cid: mcps.cid });
    await store.change(OTHER_TENANT, { by: "soak", put, set });
  } finally {
    await store.close();
  }
}

import { renderSignature } from "../../src/contract/signature.ts";
import type { Discovery } from "../../src/discover/discovery.ts";
import { discover } from "../../src/discover/typescript/discover.ts";

/** The discovery of a definition with this text, and with further files that it may import. */
export function found(text: string, more: Record<string, string> = {}): Discovery {
  return discover({ language: "typescript", server: "demo", entry: "demo.ts", files: { "demo.ts": text, ...more } });
}

/** The signature of each tool, without the result. */
export function signatures({ tools }: Discovery): string[] {
  return tools.map((tool) => renderSignature({ ...tool, outputSchema: null }));
}

/** Each problem as its severity and message. */
export function said({ problems }: Discovery): string[] {
  return problems.map(({ severity, message }) => `${severity}: ${message}`);
}

/** The exports of a bundle. */
// oxlint-disable-next-line typescript/no-explicit-any -- a bundle exports anything, and tests look into it freely
export async function importBundle(bundle: string): Promise<Record<string, any>> {
  return (await import(`data:text/javascript;base64,${Buffer.from(bundle).toString("base64")}`)) as Record<
    string,
    unknown
  >;
}

import { pathToFileURL } from "node:url";
import { resolveClient } from "./real-client.ts";

/** A file of the `dist` of `@modelcontextprotocol/sdk` 1.32. */
export async function loadOlder<T>(path: string): Promise<T> {
  const file = resolveClient(`@modelcontextprotocol/sdk/${path}`);
  return (await import(pathToFileURL(file).href)) as T;
}

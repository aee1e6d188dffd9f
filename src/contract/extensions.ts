import { isObject, type JsonObject } from "../lib/json.ts";

export const EXTENSION_UI = "io.modelcontextprotocol/ui";
export const EXTENSION_TASKS = "io.modelcontextprotocol/tasks";
export const EXTENSION_SKILLS = "io.modelcontextprotocol/skills";

/** Protocol extensions that need only what Berth relays anyway: `_meta` and resources. */
const RELAYED: readonly string[] = [EXTENSION_UI, EXTENSION_SKILLS];

/** The extensions of a modern upstream that Berth announces to clients. */
export function offeredExtensions(capabilities: JsonObject): JsonObject | undefined {
  const relayed = relayedExtensions(capabilities);
  const { extensions } = capabilities;
  if (!isObject(extensions) || !isObject(extensions[EXTENSION_TASKS])) return relayed;
  return { ...relayed, [EXTENSION_TASKS]: {} };
}

/** The extensions of one side that Berth announces to the other (2026-07-28 `capabilities.extensions`). */
export function relayedExtensions({ extensions }: JsonObject): JsonObject | undefined {
  if (!isObject(extensions)) return undefined;
  const relayed = RELAYED.filter((name) => isObject(extensions[name]));
  if (relayed.length === 0) return undefined;
  return Object.fromEntries(relayed.map((name) => [name, extensions[name]])) as JsonObject;
}

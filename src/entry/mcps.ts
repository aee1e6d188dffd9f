import { parseObjectYielding, type ObjectBounds } from "../lib/json-spans.ts";
import { isObject, type Json, type JsonObject } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import { addProblem, inside, type ConfigPlace } from "./config-place.ts";
import { entryBounds } from "./entry-bounds.ts";
import { readEntry, type EntryReading, type ReadEntry } from "./entry.ts";
import { SCHEMA_KEY, serverNameProblem } from "./fields.ts";
import { collectSchemaFaults } from "./tool-fields.ts";

/** The variable `mcps`: a JSON object of entries by server name. */
export interface ParsedMcps {
  readonly entries: JsonObject;
  readonly problems: Problem[];
  /** Names of entries that have too many values or too much text: their value is null. */
  readonly tooLong: Set<string>;
  /** The reason if no entry could be read: then it is not known what servers may do. */
  readonly unreadable?: Problem;
}

/** Limits for reading a configuration. */
export function mcpsReadBounds(): ObjectBounds {
  const { mcpsEntries, entryValues, variableBytes } = entryBounds;
  return { members: mcpsEntries + 1, values: entryValues, units: variableBytes, allValues: Infinity };
}

/** Limits for reading the text of one entry. */
export function entryReadBounds(): ObjectBounds {
  const { entryValues } = entryBounds;
  return { members: entryValues, values: entryValues, units: Infinity, allValues: entryValues };
}

/** Reads the raw entries, and yields to the event loop. A value that cannot be read gives one problem (T1.4). */
export async function parseMcps(text: string): Promise<ParsedMcps> {
  const { mcpsEntries } = entryBounds;
  const place: ConfigPlace = { pointer: "", problems: [] };
  const { problems } = place;
  const unreadable = (): ParsedMcps => unreadableMcps(problems);
  try {
    const { value, tooMuch } = await parseObjectYielding(text, mcpsReadBounds());
    const entries = readEntries(value, place);
    if (!isObject(value)) return unreadable();
    if (tooMuch === "all" || Object.keys(entries).length > mcpsEntries) {
      const hint = "remove servers, or move some of them to another tenant";
      const message = `The variable mcps has more than ${mcpsEntries} entries; ${hint}`;
      addProblem(place, "too-many-entries", message);
      return unreadable();
    }
    return { entries, problems, tooLong: new Set(tooMuch ?? []) };
  } catch (error) {
    addProblem(place, "invalid-json", `The variable mcps is not JSON: ${(error as Error).message}`);
    return unreadable();
  }
}

export function unreadableMcps(problems: Problem[]): ParsedMcps {
  return { entries: {}, problems, tooLong: new Set(), unreadable: problems[0]! };
}

function readEntries(value: unknown, place: ConfigPlace): JsonObject {
  if (!isObject(value)) {
    addProblem(place, "wrong-type", "The variable mcps must be an object of server names");
    return {};
  }
  if (!Object.hasOwn(value, SCHEMA_KEY)) return value as JsonObject;
  const { [SCHEMA_KEY]: schema, ...entries } = value as JsonObject;
  if (schema !== undefined && typeof schema !== "string") {
    addProblem(inside(place, SCHEMA_KEY), "wrong-type", `"${SCHEMA_KEY}" must be a string`);
  }
  return entries;
}

/** Reads one entry of the variable, and checks its name. */
export function readNamedEntry(server: string, raw: Json, options: EntryReading = {}): ReadEntry {
  const fault = serverNameProblem(server);
  if (fault === undefined) return readEntry(server, raw, options);
  const problems: Problem[] = [];
  addProblem(inside({ pointer: "", problems }, server), "bad-name", fault);
  return { ...readEntry(server, {}), problems, refused: true };
}

/** Like `readNamedEntry`, with its schemas checked by `check`, which may take its time. */
export async function readCheckedEntry(
  server: string,
  raw: Json,
  check: Parameters<typeof collectSchemaFaults>[1],
  options: Pick<EntryReading, "isEarlier"> = {},
): Promise<ReadEntry> {
  const tools = isObject(raw) && isObject(raw["tools"]) ? Object.values(raw["tools"]) : [];
  return readNamedEntry(server, raw, { ...options, faultOf: await collectSchemaFaults(tools, check) });
}

import { parseInTurns, type ObjectBounds } from "../lib/json-spans.ts";
import { isObject, type Json, type JsonObject } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import { complain, inside, type ConfigPlace } from "./config-place.ts";
import { entryBounds } from "./entry-bounds.ts";
import { readEntry, type EntryReading, type ReadEntry } from "./entry.ts";
import { SCHEMA_KEY, serverNameProblem } from "./fields.ts";
import { knownFaults } from "./tool-fields.ts";

/** The variable `mcps`: a JSON object of entries by server name. */
export interface ParsedMcps {
  readonly entries: JsonObject;
  readonly problems: Problem[];
  /** Names of entries that have too many values, or are too long: their value is null. */
  readonly tooLong: Set<string>;
  /** The reason if no entry could be read: what servers may do is not known then. */
  readonly unreadable?: Problem;
}

/** How much of a configuration is read. */
export function readableMcps(): ObjectBounds {
  const { mcpsEntries, entryValues, variableBytes } = entryBounds;
  return { members: mcpsEntries + 1, values: entryValues, units: variableBytes, allValues: Infinity };
}

/** How much of the text of one entry is read. */
export function readableEntry(): ObjectBounds {
  const { entryValues } = entryBounds;
  return { members: entryValues, values: entryValues, units: Infinity, allValues: entryValues };
}

/**
 * Reads the raw entries while other calls have turns. A value that is not a JSON object, or has too many members, gives
 * no entries and one problem (T1.4).
 */
export async function parseMcps(text: string): Promise<ParsedMcps> {
  const { mcpsEntries } = entryBounds;
  const place: ConfigPlace = { pointer: "", problems: [] };
  const { problems } = place;
  const nothing = (): ParsedMcps => unreadableMcps(problems);
  try {
    const { value, tooMuch } = await parseInTurns(text, readableMcps());
    const entries = entriesIn(value, place);
    if (!isObject(value)) return nothing();
    if (tooMuch === "all" || Object.keys(entries).length > mcpsEntries) {
      const remedy = "remove servers, or move some of them to another tenant";
      const message = `The variable mcps has more than ${mcpsEntries} entries; ${remedy}`;
      complain(place, "too-many-entries", message);
      return nothing();
    }
    return { entries, problems, tooLong: new Set(tooMuch ?? []) };
  } catch (error) {
    complain(place, "invalid-json", `The variable mcps is not JSON: ${(error as Error).message}`);
    return nothing();
  }
}

export function unreadableMcps(problems: Problem[]): ParsedMcps {
  return { entries: {}, problems, tooLong: new Set(), unreadable: problems[0]! };
}

function entriesIn(value: unknown, place: ConfigPlace): JsonObject {
  if (!isObject(value)) {
    complain(place, "wrong-type", "The variable mcps must be an object of server names");
    return {};
  }
  if (!Object.hasOwn(value, SCHEMA_KEY)) return value as JsonObject;
  const { [SCHEMA_KEY]: schema, ...entries } = value as JsonObject;
  if (schema !== undefined && typeof schema !== "string") {
    complain(inside(place, SCHEMA_KEY), "wrong-type", `"${SCHEMA_KEY}" must be a string`);
  }
  return entries;
}

/** Reads one entry of the variable under its name. */
export function readNamedEntry(server: string, raw: Json, options: EntryReading = {}): ReadEntry {
  const wrong = serverNameProblem(server);
  if (wrong === undefined) return readEntry(server, raw, options);
  const problems: Problem[] = [];
  complain(inside({ pointer: "", problems }, server), "bad-name", wrong);
  return { ...readEntry(server, {}), problems, refused: true };
}

/** Like `readNamedEntry`, with its schemas checked by `look`, where there is time for it. */
export async function readCheckedEntry(
  server: string,
  raw: Json,
  look: Parameters<typeof knownFaults>[1],
  options: Pick<EntryReading, "isEarlier"> = {},
): Promise<ReadEntry> {
  const tools = isObject(raw) && isObject(raw["tools"]) ? Object.values(raw["tools"]) : [];
  return readNamedEntry(server, raw, { ...options, faultOf: await knownFaults(tools, look) });
}

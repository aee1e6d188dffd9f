import { isCid, type Cid } from "../lib/cid.ts";
import { ENTRY_NESTING_MAX, isDeeper, isObject, valuesIn, type Json, type JsonObject } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import { parseServer } from "../upstream/launch/launcher-uri.ts";
import { complain, inside, readFields, type ConfigPlace } from "./config-place.ts";
import { entryBounds } from "./entry-bounds.ts";
import {
  entryFieldList,
  entryFields,
  entryTypes,
  type EntryField,
  type EntryFieldName,
  type ReadFields,
} from "./entry-fields.ts";
import { hasFeature } from "./features.ts";
import { readHold, type HoldPolicy } from "./hold-fields.ts";
import { readPrompt, type ConfiguredPrompt } from "./prompt-fields.ts";
import { readResource, type ConfiguredResource } from "./resource-fields.ts";
import { readTool, type ConfiguredTool, type ToolReading } from "./tool-fields.ts";

/** The most `config_cid`s to follow in a row, as images of earlier versions have them. */
export const CONFIG_CIDS_MAX = 4;

/** The CID of the content where the entry stands, if it says nothing else. */
export function referredIn(raw: unknown): Cid | undefined {
  return isObject(raw) && typeof raw["config_cid"] === "string" ? raw["config_cid"] : undefined;
}

/**
 * One server's entry in the variable `mcps` (seed 003, "Configuration Options"), read and checked without the
 * definition: a tool that is named here may not exist.
 */
export interface ServerEntry extends ReadFields {
  readonly definition?: Cid;
  /** The launcher URI of an upstream. */
  readonly upstream?: string;
  /** How often an upstream runs where several processes serve together; undefined for a definition. */
  readonly runs?: EntryRuns;
  /** CID of the contract that the image has locked for the upstream. */
  readonly contractCid?: Cid;
  /** The reaction to an upstream that differs from what was approved (J6). */
  readonly hold: HoldPolicy;
  readonly description?: string;
  /** By name. */
  readonly tools: Readonly<Record<string, ConfiguredTool>>;
  readonly resources: readonly ConfiguredResource[];
  /** By name. */
  readonly prompts: Readonly<Record<string, ConfiguredPrompt>>;
  /** True when tools of the definition that `tools` does not name are offered, too. */
  readonly autoDiscover: boolean;
  readonly enabled: boolean;
  readonly transforms: Readonly<Partial<Record<Hook, Cid>>>;
  /** The `options` in the context of a tool's functions, by the tool's name. */
  readonly options: Readonly<Record<string, JsonObject>>;
  /** Items that are configured wrongly, and are not offered in any other form either. */
  readonly leftOut: LeftOut;
  /** The entry as written, which a release keeps. */
  readonly raw: JsonObject;
}

/** `once` for all of them, or `everywhere`: once for each. */
export type EntryRuns = "once" | "everywhere";

export type Hook = "tools" | "resources" | "prompts";

export interface EntryReading extends ToolReading {
  /** True for the entry of an earlier release: what could be saved then is still served. */
  readonly isEarlier?: boolean;
  /** True when it has more, or is too long, and was not read. */
  readonly isTooLong?: boolean;
  /** Set when it stands elsewhere and was not read: the most bytes that all such entries may have together. */
  readonly roomBytes?: number | undefined;
}

export interface LeftOut {
  readonly tools: readonly string[];
  readonly prompts: readonly string[];
  /** URIs and templates. */
  readonly resources: readonly string[];
}

export interface ReadEntry {
  readonly entry: ServerEntry;
  readonly problems: readonly Problem[];
  /**
   * True when an error is about the whole entry: its meaning for the server is not known, so the server is not served.
   */
  readonly refused: boolean;
}

/**
 * Reads an entry. A wrong tool, resource or prompt is left out; any other error refuses the entry. Problems point into
 * `mcps`. Schemas are checked only with `faultOf`.
 */
export function readEntry(server: string, given: Json, options: EntryReading = {}): ReadEntry {
  const problems: Problem[] = [];
  const place = inside({ pointer: "", problems }, server);
  const raw = options.isEarlier ? given : withinBounds(given, place, options);
  const fields = readFields(raw, entryTypes, "An entry", place);
  for (const name of Object.keys(fields) as EntryFieldName[]) {
    const { cid, only, schema, feature }: EntryField = entryFields[name];
    const value = fields[name]!;
    const at = inside(place, name);
    if (cid && !isCid(value as string)) complain(at, "wrong-type", notCid(name, value as string));
    if (feature !== undefined && !hasFeature(feature)) {
      complain(at, "missing-feature", `"${name}" needs the feature "${feature}", which this Berth does not have`);
    }
    const allowed = schema?.["enum"];
    if (Array.isArray(allowed) && !allowed.includes(value)) {
      complain(at, "wrong-value", `"${name}" must be ${alternatives(allowed)}`);
    }
    if (only && (only[0] === "upstreams") === (fields.upstream === undefined)) {
      const other = only[0] === "upstreams" ? "definitions" : "upstreams";
      complain(at, `not-for-${other}`, `"${name}" is for ${only[0]}; ${only[1]}`);
    }
  }
  if (fields.config_cid !== undefined) {
    const others = Object.keys(fields).length > 1 ? "; an entry with it has no other field" : "";
    const message = `"config_cid" does not lead to a JSON object within ${CONFIG_CIDS_MAX} steps${others}`;
    complain(inside(place, "config_cid"), "missing-content", message);
  }
  const hold = readHold(fields, place);
  if (fields.upstream !== undefined) {
    for (const { code, message, column = 1 } of parseServer(fields.upstream).problems ?? []) {
      complain(inside(place, "upstream"), code, `${message} (At character ${column} of the launcher URI.)`);
    }
  }
  if (fields.definition !== undefined && fields.upstream !== undefined) {
    complain(place, "two-kinds", "A server has either a definition or an upstream; this one has both");
  }
  const read: Record<string, unknown> = {};
  for (const { name, as, read: readField, absent } of readers) {
    const value = fields[name];
    read[as] = value === undefined ? absent : readField(value as never, inside(place, name), read as never);
  }
  const refused = problems.some(({ severity }) => severity === "error");

  const leftOut = { tools: [] as string[], prompts: [] as string[], resources: [] as string[] };
  const toolOptions = readOptions(fields.options ?? {}, inside(place, "options"), leftOut.tools);
  const tools = readNamed(fields.tools, inside(place, "tools"), leftOut.tools, (name, tool, at) =>
    readTool(name, tool, { ...at, tool: name }, options),
  );
  const prompts = readNamed(fields.prompts, inside(place, "prompts"), leftOut.prompts, readPrompt);
  const resources = readResources(fields.resources ?? {}, inside(place, "resources"), leftOut.resources);
  const { definition, upstream, description, runs } = fields;
  const entry: ServerEntry = {
    // A literal that begins with a spread gets a hidden class of its own: half a kilobyte for each server.
    hold,
    ...(read as unknown as ReadFields),
    ...(definition !== undefined && { definition }),
    ...(upstream !== undefined && { upstream, runs: runsOf(upstream, runs) }),
    ...(fields.contract_cid !== undefined && { contractCid: fields.contract_cid }),
    ...(description !== undefined && { description }),
    tools,
    resources,
    prompts,
    autoDiscover: fields.auto_discover ?? Object.keys(fields.tools ?? {}).length === 0,
    enabled: (fields.enabled ?? true) && (fields.mcp_enabled ?? true),
    transforms: {
      ...(fields.tools_transform_cid !== undefined && { tools: fields.tools_transform_cid }),
      ...(fields.resources_transform_cid !== undefined && { resources: fields.resources_transform_cid }),
      ...(fields.prompts_transform_cid !== undefined && { prompts: fields.prompts_transform_cid }),
    },
    options: toolOptions,
    leftOut,
    raw: isObject(given) ? given : {},
  };
  return { entry, problems, refused };
}

const nowhere: ConfigPlace = { pointer: "", problems: [] };
const readers = entryFieldList.flatMap(([name, { as = name, read }]) =>
  read ? [{ name, as, read, absent: read(undefined as never, nowhere, {} as never) }] : [],
);

/** Where a file could not be read, its name takes the place of its CID. */
function notCid(field: string, text: string): string {
  const isFile = /\.(?:ts|sh)$/.test(text) && text.length <= FILE_UNITS_MAX;
  return `"${field}" must be a CID${isFile ? `, and "${text}" is a file, which was not found where the servers are listed` : ""}`;
}

const FILE_UNITS_MAX = 200;

/**
 * The most resources, prompts and tools, each, that an entry may have. Lists, pages and changes of them are made in one
 * piece.
 */
export const ENTRY_ITEMS_MAX = 1_000;

/** Keeps the fields that are neither too deep nor have too many items; none if the entry is too long. */
function withinBounds(raw: Json, place: ConfigPlace, reading: EntryReading): Json {
  const { isTooLong = false, roomBytes } = reading;
  const { entryValues } = entryBounds;
  if (roomBytes !== undefined) {
    const message = `What entries say elsewhere, by "config_cid", has at most ${roomBytes} bytes together`;
    complain(place, "too-many-bytes", `${message}, once for each of them; shorten it, or take servers out`);
    return {};
  }
  const tooLong = (): Json => {
    const message = `An entry has at most ${entryValues} values, members and items`;
    complain(place, "too-many-values", `${message}; shorten it, or split the server`);
    return {};
  };
  if (isTooLong) return tooLong();
  if (!isObject(raw)) return raw;
  const values = valuesIn(raw, Number.MAX_VALUE, ENTRY_NESTING_MAX);
  const isDeep = values === Infinity;
  let fields: JsonObject = raw;
  for (const name of isDeep ? Object.keys(raw) : ITEMS) {
    const value = Object.hasOwn(raw, name) ? raw[name]! : null;
    if (isDeep && isDeeper(value, ENTRY_NESTING_MAX - 1)) {
      const message = `An entry nests at most ${ENTRY_NESTING_MAX} levels deep, and this is one more; flatten it`;
      complain(deepPlace(value, inside(place, name), ENTRY_NESTING_MAX - 1), "too-deep", message);
    } else if (ITEMS.has(name) && isObject(value) && Object.keys(value).length > ENTRY_ITEMS_MAX) {
      const count = `These are ${Object.keys(value).length} ${name}`;
      const remedy = "write a template, or split the server";
      complain(
        inside(place, name),
        "too-many-items",
        `${count}, and an entry has at most ${ENTRY_ITEMS_MAX}; ${remedy}`,
      );
    } else continue;
    const { [name]: _, ...others } = fields;
    fields = others;
  }
  return (fields === raw ? values : valuesIn(fields, entryValues)) > entryValues ? tooLong() : fields;
}

const ITEMS: ReadonlySet<string> = new Set(["tools", "resources", "prompts"]);

/** The place of the first value that is nested deeper. */
function deepPlace(value: unknown, place: ConfigPlace, levels: number): ConfigPlace {
  if (levels === 0 || typeof value !== "object" || value === null) return place;
  const [key, inner] = Object.entries(value).find(([, each]) => isDeeper(each, levels - 1))!;
  return deepPlace(inner, inside(place, key), levels - 1);
}

/** `"once" or "everywhere"` */
function alternatives(values: readonly Json[]): string {
  return values
    .map((value) => JSON.stringify(value))
    .join(", ")
    .replace(/, (?=[^,]*$)/, " or ");
}

/** A program may keep something in its memory or its files; a remote server is one already. */
function runsOf(upstream: string, runs: string | undefined): EntryRuns {
  if (runs === "once" || runs === "everywhere") return runs;
  return /^mcp\+https?:/.test(upstream) ? "everywhere" : "once";
}

/** The entry of a server that `mcps` does not name: it is discovered (seed 003, resolved question 4). */
export const unnamedEntry: ServerEntry = readEntry("", {}).entry;

/** Returns the correct items by name; names of wrong ones go to `leftOut`. */
function readNamed<Item>(
  raw: JsonObject | undefined,
  place: ConfigPlace,
  leftOut: string[],
  read: (name: string, raw: Json, place: ConfigPlace) => Item | undefined,
): Record<string, Item> {
  const items: [string, Item][] = [];
  for (const [name, value] of Object.entries(raw ?? {})) {
    const item = read(name, value, inside(place, name));
    if (item === undefined) leftOut.push(name);
    else items.push([name, item]);
  }
  return Object.fromEntries(items);
}

function readResources(raw: JsonObject, place: ConfigPlace, leftOut: string[]): ConfiguredResource[] {
  const resources = new Map<string, ConfiguredResource>();
  for (const [key, value] of Object.entries(raw)) {
    const at = inside(place, key);
    const resource = readResource(key, value, at);
    if (!resource) leftOut.push(...urisIn(value));
    else if (resources.has(resource.uri)) complain(at, "duplicate-uri", `"${resource.uri}" appears twice`);
    else resources.set(resource.uri, resource);
  }
  return [...resources.values()];
}

function urisIn(raw: Json): string[] {
  if (!isObject(raw)) return [];
  return [raw["uri"], raw["uriTemplate"]].filter((uri) => typeof uri === "string");
}

/** A tool whose options are wrong is left out: they may be what restricts it. */
function readOptions(raw: JsonObject, place: ConfigPlace, leftOut: string[]): Record<string, JsonObject> {
  const options: [string, JsonObject][] = [];
  for (const [tool, value] of Object.entries(raw)) {
    if (isObject(value)) options.push([tool, value]);
    else {
      leftOut.push(tool);
      complain({ ...inside(place, tool), tool }, "wrong-type", "The options of a tool must be an object");
    }
  }
  return Object.fromEntries(options);
}

import { isCid, type Cid } from "../lib/cid.ts";
import { ENTRY_NESTING_MAX, isDeeper, isObject, countValues, type Json, type JsonObject } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import { parseServer } from "../upstream/launch/launcher-uri.ts";
import { readCommand } from "./command-fields.ts";
import { addProblem, inside, readFields, type ConfigPlace } from "./config-place.ts";
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
import { readPrompt, type ConfiguredPrompt } from "./prompt-fields.ts";
import { readResource, type ConfiguredResource } from "./resource-fields.ts";
import { readTool, type ConfiguredTool, type ToolReading } from "./tool-fields.ts";
import { readHold, type WithholdPolicy } from "./withhold-fields.ts";

/** The longest chain of `config_cid`s, which images of earlier versions contain. */
export const CONFIG_CIDS_MAX = 4;

/** The CID of the content that contains the entry, if the entry is only a reference to it. */
export function readConfigCid(raw: unknown): Cid | undefined {
  return isObject(raw) && typeof raw["config_cid"] === "string" ? raw["config_cid"] : undefined;
}

/** One server's entry in the variable `mcps`, read without the definition: a tool named here may not exist. */
export interface ServerEntry extends ReadFields {
  readonly definition?: Cid;
  /** The launcher URI of an upstream. */
  readonly upstream?: string;
  /** How often an upstream runs if several processes serve together; undefined for a definition. */
  readonly runs?: EntryRuns;
  /** CID of the contract that the image has locked for the upstream. */
  readonly contractCid?: Cid;
  /** The handling of an upstream that differs from its approved version (J6). */
  readonly hold: WithholdPolicy;
  readonly description?: string;
  /** By name. */
  readonly tools: Readonly<Record<string, ConfiguredTool>>;
  readonly resources: readonly ConfiguredResource[];
  /** By name. */
  readonly prompts: Readonly<Record<string, ConfiguredPrompt>>;
  /** True if tools of the definition that `tools` does not name are offered as well. */
  readonly autoDiscover: boolean;
  readonly enabled: boolean;
  readonly transforms: Readonly<Partial<Record<Hook, Cid>>>;
  /** The `options` in the context of a tool's functions, by the tool's name. */
  readonly options: Readonly<Record<string, JsonObject>>;
  /** Items with an invalid configuration, which are not offered in any other form either. */
  readonly leftOut: LeftOut;
  /** The entry as written, which is part of a release. */
  readonly raw: JsonObject;
}

/** `once` for all processes, or `everywhere`: once in each. */
export type EntryRuns = "once" | "everywhere";

export type Hook = "tools" | "resources" | "prompts";

export interface EntryReading extends ToolReading {
  /** True for the entry of an earlier release: what could be saved then is still served. */
  readonly isEarlier?: boolean;
  /** True if it has too many values or too much text, and was not read. */
  readonly isTooLong?: boolean;
  /** Set if the entry is stored elsewhere and was not read: the limit in bytes of all such entries together. */
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
  /** True if an error concerns the whole entry: its meaning for the server is unknown, so the server is not served. */
  readonly refused: boolean;
}

/** Reads an entry. Leaves out invalid items; other errors refuse the entry. Checks schemas only with `faultOf`. */
export function readEntry(server: string, rawEntry: Json, options: EntryReading = {}): ReadEntry {
  const problems: Problem[] = [];
  const place = inside({ pointer: "", problems }, server);
  const raw = options.isEarlier ? rawEntry : withinBounds(rawEntry, place, options);
  const fields = withCommand(readFields(raw, entryTypes, "An entry", place), place);
  for (const name of Object.keys(fields) as EntryFieldName[]) {
    const { cid, only, schema, feature }: EntryField = entryFields[name];
    const value = fields[name]!;
    const at = inside(place, name);
    if (cid && !isCid(value as string)) addProblem(at, "wrong-type", explainNotCid(name, value as string));
    if (feature !== undefined && !hasFeature(feature)) {
      addProblem(at, "missing-feature", `"${name}" needs the feature "${feature}", which this Berth does not have`);
    }
    const allowed = schema?.["enum"];
    if (Array.isArray(allowed) && !allowed.includes(value)) {
      addProblem(at, "wrong-value", `"${name}" must be ${alternatives(allowed)}`);
    }
    if (only && (only[0] === "upstreams") === (fields.upstream === undefined)) {
      const other = only[0] === "upstreams" ? "definitions" : "upstreams";
      addProblem(at, `not-for-${other}`, `"${name}" is for ${only[0]}; ${only[1]}`);
    }
  }
  if (fields.config_cid !== undefined) {
    const others = Object.keys(fields).length > 1 ? "; an entry with it has no other field" : "";
    const message = `"config_cid" does not lead to a JSON object within ${CONFIG_CIDS_MAX} steps${others}`;
    addProblem(inside(place, "config_cid"), "missing-content", message);
  }
  const hold = readHold(fields, place);
  if (fields.upstream !== undefined) {
    for (const { code, message, column = 1 } of parseServer(fields.upstream).problems ?? []) {
      const at = inside(place, fields.command === undefined ? "upstream" : "command");
      addProblem(at, code, `${message} (At character ${column} of the launcher URI.)`);
    }
  }
  if (fields.definition !== undefined && fields.upstream !== undefined) {
    addProblem(place, "two-kinds", "A server has either a definition or an upstream; this one has both");
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
    // An object literal that begins with a spread gets its own hidden class: half a kilobyte per server.
    hold,
    ...(read as unknown as ReadFields),
    ...(definition !== undefined && { definition }),
    ...(upstream !== undefined && { upstream, runs: resolveRuns(upstream, runs) }),
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
    raw: isObject(rawEntry) ? rawEntry : {},
  };
  return { entry, problems, refused };
}

type EntryValues = ReturnType<typeof readFields<typeof entryTypes>>;

/** With the launcher URI of `command` as `upstream`. */
function withCommand({ env, ...fields }: EntryValues, place: ConfigPlace): EntryValues {
  const { command, upstream } = fields;
  if (command === undefined) {
    if (fields.args ?? fields.cwd) addProblem(place, "wrong-value", '"args" and "cwd" need "command"');
    return { ...fields, ...(env && { env }) };
  }
  if (upstream !== undefined) addProblem(place, "two-kinds", 'An entry has "upstream" or "command"; this one has both');
  return { ...fields, upstream: upstream ?? readCommand({ ...fields, command, ...(env && { env }) }, place) };
}

const nowhere: ConfigPlace = { pointer: "", problems: [] };
const readers = entryFieldList.flatMap(([name, { as = name, read }]) =>
  read ? [{ name, as, read, absent: read(undefined as never, nowhere, {} as never) }] : [],
);

/** If a file could not be read, the field has its name instead of its CID. */
function explainNotCid(field: string, text: string): string {
  const isFile = /\.(?:ts|sh)$/.test(text) && text.length <= FILE_UNITS_MAX;
  return `"${field}" must be a CID${isFile ? `, and the file "${text}" was not found next to the list of servers` : ""}`;
}

const FILE_UNITS_MAX = 200;

/** Limit of resources, of prompts and of tools of an entry, whose lists and pages are built in one piece. */
export const ENTRY_ITEMS_MAX = 1_000;

/** Returns the fields that are neither too deep nor have too many items; none if the entry is too long. */
function withinBounds(raw: Json, place: ConfigPlace, reading: EntryReading): Json {
  const { isTooLong = false, roomBytes } = reading;
  const { entryValues } = entryBounds;
  if (roomBytes !== undefined) {
    const message = `Entries stored by "config_cid" may have at most ${roomBytes} bytes together`;
    addProblem(place, "too-many-bytes", `${message}, counted once for each entry; shorten them, or remove servers`);
    return {};
  }
  const tooLong = (): Json => {
    const message = `An entry has at most ${entryValues} values, members and items`;
    addProblem(place, "too-many-values", `${message}; shorten it, or split the server`);
    return {};
  };
  if (isTooLong) return tooLong();
  if (!isObject(raw)) return raw;
  const values = countValues(raw, Number.MAX_VALUE, ENTRY_NESTING_MAX);
  const isDeep = values === Infinity;
  let fields: JsonObject = raw;
  for (const name of isDeep ? Object.keys(raw) : ITEMS) {
    const value = Object.hasOwn(raw, name) ? raw[name]! : null;
    if (isDeep && isDeeper(value, ENTRY_NESTING_MAX - 1)) {
      const message = `An entry may nest at most ${ENTRY_NESTING_MAX} levels deep; flatten it`;
      addProblem(deepPlace(value, inside(place, name), ENTRY_NESTING_MAX - 1), "too-deep", message);
    } else if (ITEMS.has(name) && isObject(value) && Object.keys(value).length > ENTRY_ITEMS_MAX) {
      const count = `There are ${Object.keys(value).length} ${name}`;
      const hint = "write a template, or split the server";
      addProblem(
        inside(place, name),
        "too-many-items",
        `${count}; an entry may have at most ${ENTRY_ITEMS_MAX}; ${hint}`,
      );
    } else continue;
    const { [name]: _, ...others } = fields;
    fields = others;
  }
  return (fields === raw ? values : countValues(fields, entryValues)) > entryValues ? tooLong() : fields;
}

const ITEMS: ReadonlySet<string> = new Set(["tools", "resources", "prompts"]);

/** The place of the first value that is nested too deeply. */
function deepPlace(value: unknown, place: ConfigPlace, levels: number): ConfigPlace {
  if (levels === 0 || typeof value !== "object" || value === null) return place;
  const [key, inner] = Object.entries(value).find(([, item]) => isDeeper(item, levels - 1))!;
  return deepPlace(inner, inside(place, key), levels - 1);
}

/** `"once" or "everywhere"` */
function alternatives(values: readonly Json[]): string {
  return values
    .map((value) => JSON.stringify(value))
    .join(", ")
    .replace(/, (?=[^,]*$)/, " or ");
}

/** A program may have state in its memory or its files; a remote server already runs once. */
function resolveRuns(upstream: string, runs: string | undefined): EntryRuns {
  if (runs === "once" || runs === "everywhere") return runs;
  return /^mcp\+https?:/.test(upstream) ? "everywhere" : "once";
}

/** The entry of a server that `mcps` does not name. */
export const unnamedEntry: ServerEntry = readEntry("", {}).entry;

/** Returns the valid items by name; the names of invalid ones go to `leftOut`. */
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
    else if (resources.has(resource.uri)) addProblem(at, "duplicate-uri", `"${resource.uri}" appears twice`);
    else resources.set(resource.uri, resource);
  }
  return [...resources.values()];
}

function urisIn(raw: Json): string[] {
  if (!isObject(raw)) return [];
  return [raw["uri"], raw["uriTemplate"]].filter((uri) => typeof uri === "string");
}

/** A tool with invalid options is left out: the options may be what restricts it. */
function readOptions(raw: JsonObject, place: ConfigPlace, leftOut: string[]): Record<string, JsonObject> {
  const options: [string, JsonObject][] = [];
  for (const [tool, value] of Object.entries(raw)) {
    if (isObject(value)) options.push([tool, value]);
    else {
      leftOut.push(tool);
      addProblem({ ...inside(place, tool), tool }, "wrong-type", "The options of a tool must be an object");
    }
  }
  return Object.fromEntries(options);
}

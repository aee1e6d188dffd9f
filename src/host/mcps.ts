import { isCid, type Cid } from "../cid.ts";
import { isObject, type JsonObject, type JsonSchema } from "../json.ts";
import type { Problem } from "../problem.ts";

/** One server's entry in the `mcps` variable (seed 003, "Configuration Options"), checked. */
export interface ServerEntry {
  readonly definition?: Cid;
  readonly description?: string;
  readonly tools?: Readonly<Record<string, ConfiguredTool>>;
  readonly autoDiscover: boolean;
  readonly enabled: boolean;
}

export interface ConfiguredTool {
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema?: JsonSchema;
  readonly outputSchema?: JsonSchema;
}

/** What stands for a server that `mcps` does not name: it is discovered (seed 003, resolved question 4). */
export const unnamedEntry: ServerEntry = { autoDiscover: true, enabled: true };

/**
 * The raw entries of the variable. A value that is not a JSON object gives no entries and one problem, so that the
 * servers that need no entry still serve (T1.4).
 */
export function parseMcps(text: string): { entries: JsonObject; problems: Problem[] } {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return {
      entries: {},
      problems: [problem("invalid-json", `The variable mcps is not JSON: ${(error as Error).message}`)],
    };
  }
  if (isObject(value)) return { entries: value as JsonObject, problems: [] };
  return { entries: {}, problems: [problem("wrong-type", "The variable mcps must be an object of server names")] };
}

/** One entry, read. Its problems name the field by JSON pointer; an entry with an error is not served. */
export function readEntry(server: string, raw: unknown): { entry: ServerEntry; problems: Problem[] } {
  const problems: Problem[] = [];
  const at = `/${server.replaceAll("~", "~0").replaceAll("/", "~1")}`;
  if (!isObject(raw)) {
    return { entry: unnamedEntry, problems: [problem("wrong-type", "An entry must be an object", at)] };
  }

  const field = <T>(name: string, isRight: (value: unknown) => value is T, what: string): T | undefined => {
    const value = raw[name];
    if (value === undefined || isRight(value)) return value;
    problems.push(problem("wrong-type", `"${name}" must be ${what}`, `${at}/${name}`));
    return undefined;
  };

  if (raw["config_cid"] !== undefined) {
    problems.push(
      problem("missing-content", '"config_cid" names no content that is a JSON object', `${at}/config_cid`),
    );
  }
  const definition = field("definition", isCidText, "the CID of a definition");
  const description = field("description", isString, "a text");
  const tools = field("tools", isObjectOfObjects, "an object of tools") as ServerEntry["tools"];
  const hasTools = tools !== undefined && Object.keys(tools).length > 0;
  const entry: ServerEntry = {
    ...(definition !== undefined && { definition }),
    ...(description !== undefined && { description }),
    ...(hasTools && { tools }),
    autoDiscover: field("auto_discover", isBoolean, "true or false") ?? !hasTools,
    enabled:
      (field("enabled", isBoolean, "true or false") ?? true) &&
      (field("mcp_enabled", isBoolean, "true or false") ?? true),
  };
  return { entry, problems };
}

function problem(code: string, message: string, pointer?: string): Problem {
  return { code, message, severity: "error", ...(pointer !== undefined && { pointer }) };
}

const isString = (value: unknown): value is string => typeof value === "string";
const isBoolean = (value: unknown): value is boolean => typeof value === "boolean";
const isCidText = (value: unknown): value is Cid => typeof value === "string" && isCid(value);
const isObjectOfObjects = (value: unknown): value is Record<string, Record<string, unknown>> =>
  isObject(value) && Object.values(value).every(isObject);

import { parse, type ValueNode } from "@humanwhocodes/momoa";
import { getStaticTOMLValue, ParseError, parseTOML } from "toml-eslint-parser";
import { isAlias, isCollection, isNode, LineCounter, parseDocument, visit } from "yaml";
import { findReservedName, RESERVED_NAMES } from "../../config-files/toml-names.ts";
import { positionAt } from "../../lib/code-frame.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject, type Json } from "../../lib/json.ts";

/** Claude Code stores the history of all projects in the file with its servers. */
const JSON_UNITS_MAX = 16 * 1024 * 1024;
/** Nothing else than settings is in these, and their parsers are slower. */
const OTHER_UNITS_MAX = 1024 * 1024;
const DEPTH_MAX = 64;
const VALUES_MAX = 500_000;

type Format = "json" | "yaml" | "toml";

/**
 * The value of a client's configuration file: JSON, with comments and trailing commas, YAML or TOML. Throws
 * `import_refused` with a position, and quotes nothing from the file.
 */
export function parseConfig(file: string, source: string): Json {
  const text = source.replace(/^\ufeff/, "");
  const format = detectFormat(file, text);
  const max = format === "json" ? JSON_UNITS_MAX : OTHER_UNITS_MAX;
  if (text.length > max) throw invalid(file, `it is longer than ${max / 1024 / 1024} MiB`);
  try {
    const read = { json: readJson, yaml: readYaml, toml: readToml }[format];
    return plain(file, read(file, text));
  } catch (error) {
    if (error instanceof RangeError) throw invalid(file, `it is nested more than ${DEPTH_MAX} levels deep`);
    throw error;
  }
}

function detectFormat(file: string, text: string): Format {
  const [, ending = ""] = /\.(json[c5]?|ya?ml|toml)$/i.exec(file) ?? [];
  if (/^json/i.test(ending)) return "json";
  if (/^y/i.test(ending)) return "yaml";
  if (ending !== "") return "toml";
  if (/^\s*(?:[{"]|\/\/|\/\*)/.test(text)) return "json";
  return /^[ \t]*(?:\[[\w."'-]+\][ \t]*(?:#.*)?$|[\w."-]+[ \t]*=)/m.test(text) ? "toml" : "yaml";
}

function readJson(file: string, text: string): unknown {
  // The part of a documentation that people copy often lacks the braces around it.
  const whole = /^\s*"/.test(text) ? `{${text}\n}` : text;
  checkDepth(file, whole);
  let body: ValueNode;
  try {
    body = parse(whole.trim() === "" ? "{}" : whole, { mode: "jsonc", ranges: true, allowTrailingCommas: true }).body;
  } catch (error) {
    if (error instanceof RangeError) throw error;
    throw faultAt(file, whole, (error as { offset?: number }).offset ?? 0, "this is not valid JSON");
  }
  return jsonValue(file, whole, body);
}

/** The parser is recursive. */
function checkDepth(file: string, text: string): void {
  let depth = 0;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|\/\/.*|\/\*[^]*?\*\/|[[\]{}]/g)) {
    if (token === "{" || token === "[") depth++;
    else if (token === "}" || token === "]") depth--;
    if (depth > DEPTH_MAX) throw invalid(file, `it is nested more than ${DEPTH_MAX} levels deep`);
  }
}

function jsonValue(file: string, text: string, node: ValueNode): unknown {
  if (node.type === "Array") return node.elements.map(({ value }) => jsonValue(file, text, value));
  if (node.type !== "Object") return "value" in node ? node.value : null;
  const members = new Map<string, unknown>();
  for (const { name: key, value } of node.members) {
    const name = key.type === "String" ? key.value : key.name;
    const offset = key.range?.[0] ?? 0;
    if (members.has(name)) throw faultAt(file, text, offset, "this name occurs twice in the same object");
    if (RESERVED_NAMES.has(name)) throw faultAt(file, text, offset, "this name is reserved");
    members.set(name, jsonValue(file, text, value));
  }
  return Object.fromEntries(members);
}

function readYaml(file: string, text: string): unknown {
  checkDepth(file, text);
  // Nested lists on one line, and deep indentation: the parser would need all memory.
  const deep = new RegExp(`^[ \\t?:-]{${DEPTH_MAX * 4},}`, "m").exec(text);
  if (deep) throw faultAt(file, text, deep.index, `this is nested more than ${DEPTH_MAX} levels deep`);
  const lineCounter = new LineCounter();
  const document = parseDocument(text, { prettyErrors: false, lineCounter, schema: "core", uniqueKeys: true });
  const [error] = [...document.errors, ...document.warnings];
  if (error) {
    const reason = error.code === "DUPLICATE_KEY" ? "this name occurs twice" : "this is not valid YAML";
    throw faultAt(file, text, error.pos[0], reason);
  }
  visit(document, (_key, node) => {
    if (!isNode(node)) return;
    const offset = node.range?.[0] ?? 0;
    if (isAlias(node) || node.anchor !== undefined)
      throw faultAt(file, text, offset, "write this out, without an alias");
    if (node.tag !== undefined && !(isCollection(node) && /^tag:yaml\.org,2002:(?:map|seq)$/.test(node.tag))) {
      // Scalars of the core schema have no tag unless it is written.
      throw faultAt(file, text, offset, "tags are not supported here");
    }
  });
  return document.toJS({ maxAliasCount: 0 });
}

function readToml(file: string, text: string): unknown {
  checkDepth(file, text);
  try {
    const program = parseTOML(text);
    const reserved = findReservedName(program);
    if (reserved) throw faultAt(file, text, reserved.range[0], "this name is reserved");
    return getStaticTOMLValue(program);
  } catch (error) {
    if (!(error instanceof ParseError)) throw error;
    throw faultAt(file, text, error.index, "this is not valid TOML, or a name occurs twice");
  }
}

/** The value as JSON. Refuses what JSON cannot contain, such as dates of TOML. */
function plain(file: string, value: unknown): Json {
  let count = 0;
  const copy = (each: unknown, depth: number): Json => {
    if (depth > DEPTH_MAX) throw invalid(file, `it is nested more than ${DEPTH_MAX} levels deep`);
    if (++count > VALUES_MAX) throw invalid(file, `it has more than ${VALUES_MAX} values`);
    if (each === null || typeof each === "string" || typeof each === "boolean") return each;
    if (typeof each === "number" || typeof each === "bigint") return Number(each);
    if (Array.isArray(each)) return each.map((item) => copy(item, depth + 1));
    if (!isObject(each) || each instanceof Date) throw invalid(file, "it has a date or time; write it as a string");
    if (Object.getPrototypeOf(each) !== Object.prototype && Object.getPrototypeOf(each) !== null) {
      throw invalid(file, "it has a name that is reserved");
    }
    const members = Object.entries(each).map(([name, item]): [string, Json] => {
      if (RESERVED_NAMES.has(name)) throw invalid(file, `the name ${name} is reserved`);
      return [name, copy(item, depth + 1)];
    });
    return Object.fromEntries(members);
  };
  return copy(value, 0);
}

export function invalid(file: string, reason: string): BerthError {
  return new BerthError("import_refused", `${file}: ${reason}`);
}

function faultAt(file: string, text: string, offset: number, reason: string): BerthError {
  const { line, column } = positionAt(text, offset);
  return invalid(`${file}:${line}:${column}`, reason);
}

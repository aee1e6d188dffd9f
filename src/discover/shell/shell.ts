import { ICONS_MAX, type Icon } from "../../contract/icons.ts";
import { codeFrame } from "../../lib/code-frame.ts";
import { type Json, type JsonSchema, tryParseJson } from "../../lib/json.ts";
import type { Problem } from "../../lib/problem.ts";
import { scriptText } from "../../lib/script-text.ts";
import { readIcon } from "../assets/icon-files.ts";
import {
  emptyDiscovery,
  type DefinitionSource,
  type DiscoveredTool,
  type Discovery,
  type RequestedGrant,
} from "../discovery.ts";
import { distinctRequests, isGrantTag, readRequest } from "../tags/requested-grants.ts";
import { readAnnotations, constrain, isReadAt, suggestTag } from "../tags/tags.ts";

/**
 * A shell definition is one tool, named after its server. Its header comment describes it, with the tags of TypeScript
 * definitions:
 *
 *     #!/bin/sh
 *     # Finds lines that contain a text. The first paragraph is the tool's description.
 *     #
 *     # @param {string} text - A required parameter; without {type} it is a string.
 *     # @minLength 1
 *     # @param {integer} [count=10] - An optional parameter. What follows a @param, such as
 *     #   this line or a constraint tag, belongs to it.
 *     # @maximum 100
 *     # @param {"asc" | "desc"} [order=asc] - One of several values.
 *     # @param {string[]} [file] - A list; the script receives one element per line.
 *     # @title Find lines
 *     # @readOnly
 *     # @secret API_TOKEN - A requested grant, which the entry may give.
 *     # @network api.example.org
 *
 * Types are string, number, integer, boolean, literals, unions of these (`|`), and lists (`[]`). The constraint tags and
 * @readOnly, @destructive, @idempotent, @openWorld are those of TypeScript definitions. A script without any @param takes
 * one optional text, `args`, unless its header has @noArgs. Each argument is passed as an environment variable of its
 * name and as `$1`, `$2`, … in the order of the parameters; the script's output is the result.
 */
export function discoverShell({ files, entry, server }: DefinitionSource): Discovery {
  const lines = scriptText(files[entry] ?? "").split("\n");
  const problems: Problem[] = [];
  const report = (severity: Problem["severity"], code: string, message: string, at: Span): void => {
    const frame = codeFrame(lines[at.line - 1] ?? "", at.line, at.column, at.length);
    const { line, column } = at;
    problems.push({ severity, code, message: `${server}: ${message}`, tool: server, file: entry, line, column, frame });
  };

  if (!/^[A-Za-z0-9_.-]{1,128}$/.test(server)) {
    const message = "a tool cannot have this name; rename the server";
    report("error", "invalid-tool-name", message, { line: 1, column: 1, length: 1 });
  }
  const header = readHeader(lines);
  const params = readParams(header, report);
  const tool: DiscoveredTool = {
    name: server,
    ...readTitle(header),
    ...readIcons(header, entry, files, report),
    ...(header?.summary ? { description: header.summary } : {}),
    inputSchema: inputSchema(params),
    outputSchema: null,
    annotations: readAnnotations({ tags: header?.tags ?? [] }),
    call: { export: "", style: "positional", params: params.map(({ name }) => name) },
    file: entry,
    line: 1,
    column: 1,
  };
  const tools = problems.some(({ severity }) => severity === "error") ? [] : [tool];
  const requested = readRequests(header, entry, report);
  return { ...emptyDiscovery, tools, problems, ...(requested.length > 0 && { requested }) };
}

interface Span {
  readonly line: number;
  readonly column: number;
  readonly length: number;
}

type Report = (severity: Problem["severity"], code: string, message: string, at: Span) => void;

const argsParam: ShellParam = {
  name: "args",
  schema: { type: "string" },
  isOptional: true,
  description: "Text for the script.",
};

function readParams(header: Header | undefined, report: Report): ShellParam[] {
  const tags = header?.tags ?? [];
  const params: ShellParam[] = [];
  for (const tag of tags) {
    if (tag.name === "param") addParam(tag, params, report);
    else if (!isReadAt("script", tag.name)) constrainLast(tag, params, report);
  }
  const isDocumented = tags.some(({ name }) => name === "param" || name === "noargs");
  return isDocumented ? params : [argsParam];
}

/** Each parameter is compared with those before it, and becomes an environment variable of the script. */
const PARAMS_MAX = 256;

function addParam(tag: HeaderTag, params: ShellParam[], report: Report): void {
  const read = readParam(tag);
  if ("code" in read) {
    const at = { line: tag.line, column: tag.column + read.offset, length: read.length };
    return report("error", read.code, read.message, at);
  }
  if (params.length === PARAMS_MAX) {
    return report("error", "too-many-params", `a script has at most ${PARAMS_MAX} parameters`, tagSpan(tag));
  }
  if (params.some(({ name }) => name === read.name)) {
    return report("error", "repeated-param", `two parameters are named "${read.name}"`, tagSpan(tag));
  }
  params.push(read);
}

function constrainLast(tag: HeaderTag, params: ShellParam[], report: Report): void {
  const last = params.pop();
  if (!last) {
    const message = `@${tag.name} is not a tag for scripts, or comes before its @param${suggestTag(tag.name)}`;
    return report("warning", "unknown-tag", message, tagSpan(tag));
  }
  let isUnreported = true;
  const schema = constrain(last.schema, [{ ...tag, written: tag.name, node: tag }], (fault) => {
    const severity = fault.code === "pattern-unusable" ? "error" : "warning";
    report(severity, fault.code, fault.message, tagSpan(tag));
    isUnreported = false;
  });
  if (isUnreported && schema === last.schema && !("enum" in schema)) {
    const message = `Berth does not know the tag @${tag.name} and ignores it${suggestTag(tag.name)}`;
    report("warning", "unknown-tag", message, tagSpan(tag));
  }
  params.push({ ...last, schema });
}

function tagSpan(tag: HeaderTag): Span {
  return { line: tag.line, column: tag.tagColumn, length: tag.name.length + 1 };
}

function readRequests(header: Header | undefined, file: string, report: Report): readonly RequestedGrant[] {
  const requests: RequestedGrant[] = [];
  for (const tag of header?.tags ?? []) {
    if (!isGrantTag(tag.name)) continue;
    const { line, column, tagColumn } = tag;
    const read = readRequest(tag.name, tag.text);
    if (!("code" in read)) requests.push({ ...read, file, line, column: tagColumn });
    else if (read.length === 0) report("error", read.code, read.message, tagSpan(tag));
    else report("error", read.code, read.message, { line, column: column + read.offset, length: read.length });
  }
  const { requested, tooMany } = distinctRequests(requests);
  if (tooMany) report("error", "too-many-requests", tooMany.message, { ...tooMany.at, length: 1 });
  return requested;
}

function readTitle(header: Header | undefined): { title?: string } {
  const title = header?.tags.find(({ name }) => name === "title")?.text;
  return title ? { title } : {};
}

function readIcons(
  header: Header | undefined,
  entry: string,
  files: DefinitionSource["files"],
  report: Report,
): { icons?: readonly Icon[] } {
  const tags = header?.tags.filter(({ name }) => name === "icon").slice(0, ICONS_MAX) ?? [];
  const icons = tags.flatMap((tag) => {
    const read = readIcon(tag.text, entry, files);
    if ("icon" in read) return [read.icon];
    report("warning", "invalid-icon", `${read.fault}; it is left out`, tagSpan(tag));
    return [];
  });
  return icons.length > 0 ? { icons } : {};
}

function inputSchema(params: readonly ShellParam[]): JsonSchema {
  const properties = params.map(({ name, schema, description, default: fallback }): [string, JsonSchema] => [
    name,
    {
      ...schema,
      ...(description ? { description } : {}),
      ...(fallback === undefined ? {} : { default: fallback }),
    },
  ]);
  const required = params.filter(({ isOptional }) => !isOptional).map(({ name }) => name);
  return {
    type: "object",
    properties: Object.fromEntries(properties),
    ...(required.length > 0 ? { required } : {}),
    additionalProperties: false,
  };
}

/** A tag of a script's header, with all text up to the next tag. */
interface HeaderTag {
  /** Lower case, without the `@`. */
  readonly name: string;
  readonly text: string;
  /** Position of its text, from 1. */
  readonly line: number;
  readonly column: number;
  /** Column of the tag itself, from 1. */
  readonly tagColumn: number;
}

interface Header {
  /** The first paragraph before any tag. */
  readonly summary: string;
  readonly tags: readonly HeaderTag[];
}

/** The first block of `#` comments after the `#!` line, without lines for other tools (`# shellcheck …`). */
function readHeader(lines: readonly string[]): Header | undefined {
  let at = lines[0]?.startsWith("#!") ? 1 : 0;
  while (at < lines.length && /^\s*$|^#+\s?shellcheck\s/.test(lines[at]!)) at += 1;
  const summary: string[] = [];
  const tags: { tag: HeaderTag; text: string[] }[] = [];
  let isSummary = true;

  for (; lines[at]?.startsWith("#"); at += 1) {
    const line = lines[at]!;
    const text = line.replace(/^#+\s?/, "");
    if (/^shellcheck\s/.test(text)) continue;
    const match = /^(#+\s*)@([A-Za-z]+)(\s*)(.*)$/.exec(line);
    if (match) {
      const [, before = "", name = "", gap = "", rest = ""] = match;
      const column = before.length + 1 + name.length + gap.length + 1;
      const tag = { name: name.toLowerCase(), text: "", line: at + 1, column, tagColumn: before.length + 1 };
      tags.push({ tag, text: [rest.trimEnd()] });
    } else if (tags.length > 0) tags.at(-1)!.text.push(text.trim());
    else if (text.trim() === "") isSummary = summary.length === 0;
    else if (isSummary) summary.push(text.trim());
  }
  if (summary.length === 0 && tags.length === 0) return undefined;
  return {
    summary: summary.join("\n"),
    tags: tags.map(({ tag, text }) => Object.assign(tag, { text: text.join("\n").trim() })),
  };
}

/** One `@param` of a script's header. */
interface ShellParam {
  readonly name: string;
  readonly schema: JsonSchema;
  readonly isOptional: boolean;
  readonly default?: Json;
  readonly description: string;
}

/** A fault of a tag, and its range in the text. */
interface TagFault {
  readonly code: string;
  readonly message: string;
  readonly offset: number;
  readonly length: number;
}

/** Reads `{type} name - text`, or `{type} [name=default] - text`. */
function readParam({ text }: HeaderTag): ShellParam | TagFault {
  const typed = /^\{([^{}]*)\}\s*/.exec(text);
  if (!typed && text.startsWith("{")) return fault("malformed-param", "the type has no closing brace", 0, text.length);
  const type = typed?.[1] ?? "string";
  const schema = parseType(type);
  if (!schema) {
    const message = `"${type}" is not a type for scripts; use string, number, integer, boolean, "one" | "other", or a list such as string[]`;
    return fault("unknown-type", message, typed ? 1 : 0, type.length);
  }

  const start = typed?.[0].length ?? 0;
  const rest = text.slice(start);
  const plain = /^([^\s[\]=]+)/.exec(rest);
  const bracketed = plain ? undefined : /^\[\s*([^\s[\]=]+)\s*(=)?/.exec(rest);
  const name = plain?.[1] ?? bracketed?.[1];
  if (name === undefined) {
    return fault("malformed-param", "@param needs a name after its type: @param {string} text - The text", start, 1);
  }
  const nameAt = start + rest.indexOf(name);
  const wrongName = findNameFault(name);
  if (wrongName) return fault("bad-param-name", wrongName, nameAt, name.length);
  if (!bracketed) return param(name, schema, undefined, rest.slice(name.length));

  const value = bracketed[2] ? readValue(rest.slice(bracketed[0].length)) : readEnd(rest.slice(bracketed[0].length));
  if (!value) return fault("malformed-param", `[${name} has no closing bracket`, start, name.length + 1);
  const after = rest.slice(bracketed[0].length + value.length);
  if (!bracketed[2]) return { ...param(name, schema, undefined, after), isOptional: true };
  const fallback = parseDefault(value.text, schema);
  if (fallback === undefined) {
    const message = `the default ${value.text || "(nothing)"} is not a ${type}`;
    return fault("bad-default", message, start + bracketed[0].length, Math.max(1, value.text.length));
  }
  return { ...param(name, schema, fallback, after), isOptional: true };
}

function param(name: string, schema: JsonSchema, fallback: Json | undefined, after: string): ShellParam {
  const description = after.trim().replace(/^[-–—:]\s*/, "");
  return { name, schema, isOptional: false, description, ...(fallback === undefined ? {} : { default: fallback }) };
}

/** Reads up to the closing bracket; JSON in quotes or brackets may contain one. */
function readValue(text: string): { text: string; length: number } | undefined {
  const match = /^\s*("(?:[^"\\]|\\.)*"|\[(?:[^\]"]|"(?:[^"\\]|\\.)*")*\]|[^\]\n]*)\s*\]/.exec(text);
  return match ? { text: match[1]!.trim(), length: match[0].length } : undefined;
}

function readEnd(text: string): { text: string; length: number } | undefined {
  const match = /^\s*\]/.exec(text);
  return match ? { text: "", length: match[0].length } : undefined;
}

/** Variables that Berth, the shell, the loader, the C library or a language reads: a caller must not set them. */
const reservedNames = {
  berth: /^BERTH_/,
  shell:
    /^(PATH|IFS|ENV|HOME|PWD|OLDPWD|SHELL|SHELLOPTS|SHLVL|CDPATH|PS[0-9]|PROMPT_(COMMAND|DIRTRIM)|OPT(ARG|IND|ERR)|BASH.*|FPATH|FUNCNAME|FUNCNEST|FCEDIT|FIGNORE|GLOB(IGNORE|SORT)|EXECIGNORE|HIST.*|INPUTRC|COMP_.*|COMPREPLY|COPROC|DIRSTACK|PIPESTATUS|EPOCH(SECONDS|REALTIME)|SECONDS|RANDOM|SRANDOM|LINENO|PPID|E?UID|GROUPS|MACHTYPE|(HOST|OS)TYPE|HOSTNAME|MAIL(PATH|CHECK)?|MAPFILE|READLINE_.*|REPLY|CHILD_MAX|TIMEFORMAT|TMOUT|POSIXLY_CORRECT|INSIDE_EMACS|EMACS|TERM|COLUMNS|LINES|_)$/,
  loader: /^(LD_|DYLD_)/,
  library:
    /^(GLIBC_TUNABLES|GCONV_PATH|LOCPATH|NLSPATH|LANG|LANGUAGE|LC_.*|TZ|TZDIR|TMPDIR|TEMP|TMP|MALLOC_.*|RES_OPTIONS|RESOLV_.*|HOSTALIASES|LOCALDOMAIN|GETCONF_DIR|ARGP_HELP_FMT|OUTPUT_CHARSET|DATEMSK|OPENSSL_.*|SSLKEYLOGFILE|SSL_CERT_.*)$/,
  network: /^((?:all|ftp|https?|no|rsync)_proxy|(?:ALL|FTP|HTTPS?|NO|RSYNC)_PROXY|CURL_.*|WGETRC|SYSTEM_WGETRC|NETRC)$/,
  language: /^(NODE_|PYTHON|PERL|RUBY|GIT_|LUA_|AWKPATH|AWKLIBPATH|JQ_|JAVA_TOOL_|_JAVA_|CLASSPATH$)/,
} as const;
const readerLabels = {
  berth: "Berth",
  shell: "the shell",
  loader: "the dynamic loader",
  library: "the C library",
  network: "network programs",
  language: "language runtimes",
} as const satisfies Record<keyof typeof reservedNames, string>;

function findNameFault(name: string): string | undefined {
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
    return `"${name}" cannot name an environment variable; use letters, digits and underscores`;
  }
  const reader = (Object.keys(reservedNames) as (keyof typeof reservedNames)[]).find((key) =>
    reservedNames[key].test(name),
  );
  return (
    reader &&
    `"${name}" is read by ${readerLabels[reader]}; rename the parameter${isLower(name) ? "" : ", preferably in lower case"}`
  );
}

function isLower(text: string): boolean {
  return text === text.toLowerCase();
}

function fault(code: string, message: string, offset: number, length: number): TagFault {
  return { code, message, offset, length };
}

/** Parses the type of a parameter; undefined for an unknown type. */
function parseType(text: string): JsonSchema | undefined {
  const type = text.trim();
  const list = /^(.*\S)\s*\[\]$/s.exec(type)?.[1];
  if (list !== undefined && (!list.includes("|") || /^\([^()]*\)$/.test(list))) {
    const items = parseType(list.replace(/^\(([^()]*)\)$/, "$1"));
    return items && { type: "array", items };
  }
  if (["string", "number", "integer", "boolean"].includes(type)) return { type };
  const members = splitUnion(type);
  const values = members.map(parseLiteral);
  if (values.length > 0 && values.every((value) => value !== undefined)) {
    const types = [...new Set(values.map((value) => typeof value))];
    return { type: types.length === 1 ? types[0] : types, enum: [...new Set(values)] };
  }
  if (members.length < 2) return undefined;
  const schemas = members.map((member) => parseType(member));
  const types = schemas.map((schema) => schema?.["type"]);
  const isPlain = schemas.every((schema) => schema && Object.keys(schema).length === 1 && schema["type"] !== "array");
  return isPlain ? { type: [...new Set(types)] } : undefined;
}

/** Parses a default in `[name=value]` by the parameter's type; undefined if it does not fit. */
function parseDefault(text: string, schema: JsonSchema): Json | undefined {
  const value = tryParseJson(text);
  const options = schema["enum"] as Json[] | undefined;
  const candidates = [value, text].filter((candidate) => candidate !== undefined);
  if (options) return candidates.find((candidate) => options.includes(candidate));
  const types = [schema["type"]].flat();
  return candidates.find((candidate) => types.some((type) => hasType(candidate, type, schema)));
}

function hasType(value: Json, type: unknown, schema: JsonSchema): boolean {
  if (type === "array") {
    const items = schema["items"] as JsonSchema;
    return Array.isArray(value) && value.every((item) => fits(item, items));
  }
  return type === "integer" ? Number.isInteger(value) : typeof value === type;
}

function fits(value: Json, schema: JsonSchema): boolean {
  if (Array.isArray(schema["enum"])) return schema["enum"].includes(value);
  return [schema["type"]].flat().some((type) => hasType(value, type, schema));
}

/** Splits at `|` outside of quotes. */
function splitUnion(type: string): string[] {
  const members = type.match(/"(?:[^"\\]|\\.)*"|'[^']*'|[^|"'\s][^|"']*|\|/g) ?? [];
  const isAlternating = members.every((member, index) => (member === "|") === (index % 2 === 1));
  return isAlternating && members.length % 2 === 1 ? members.filter((_, index) => index % 2 === 0) : [];
}

function parseLiteral(text: string): string | number | undefined {
  const quoted = /^'([^']*)'$/.exec(text.trim())?.[1];
  const value = quoted ?? tryParseJson(text.trim());
  return typeof value === "string" || typeof value === "number" ? value : undefined;
}

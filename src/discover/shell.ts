import type { JsonSchema } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import { annotationsOf } from "./annotations.ts";
import { codeFrame } from "../lib/code-frame.ts";
import { nothingFound, type DefinitionSource, type DiscoveredTool, type Discovery } from "./discovery.ts";
import { readHeader, type Header, type HeaderTag } from "./shell-header.ts";
import { readParam, type ShellParam } from "./shell-param.ts";
import { constrain } from "./types/constraints.ts";
import { suggestionFor } from "./unknown-tags.ts";

/**
 * A shell definition is one tool, named after its server. The comment at its head says the rest, in the tags that
 * TypeScript definitions use:
 *
 *     #!/bin/sh
 *     # Finds lines that hold a text. The first paragraph is the tool's description.
 *     #
 *     # @param {string} text - A required text; without {type} a parameter is a string.
 *     # @minLength 1
 *     # @param {integer} [count=10] - An optional whole number. What follows a @param, such as
 *     #   this line or a constraint tag, belongs to it.
 *     # @maximum 100
 *     # @param {"asc" | "desc"} [order=asc] - One of several.
 *     # @param {string[]} [file] - A list; the script gets one element a line.
 *     # @title Find lines
 *     # @readOnly
 *
 * Types are string, number, integer, boolean, literals, any of these joined by `|`, and lists (`[]`). The constraint
 * tags and @readOnly, @destructive, @idempotent, @openWorld are those of TypeScript definitions. A script without any
 * @param takes one optional text, `args`, unless its header says @noArgs. Each argument is an environment variable of
 * its own name and stands in `$1`, `$2`, … in the order of the parameters; what the script prints is the result.
 */
export function discoverShell({ files, entry, server }: DefinitionSource): Discovery {
  const lines = (files[entry] ?? "").split(/\r?\n/);
  const problems: Problem[] = [];
  const report = (severity: Problem["severity"], code: string, message: string, at: Place): void => {
    const frame = codeFrame(lines[at.line - 1] ?? "", at.line, at.column, at.length);
    const { line, column } = at;
    problems.push({ severity, code, message: `${server}: ${message}`, tool: server, file: entry, line, column, frame });
  };

  if (!/^[A-Za-z0-9_.-]{1,128}$/.test(server)) {
    report("error", "invalid-tool-name", "a tool cannot have this name; rename the server", {
      line: 1,
      column: 1,
      length: 1,
    });
  }
  const header = readHeader(lines);
  const params = readParams(header, report);
  const tool: DiscoveredTool = {
    name: server,
    ...titleOf(header),
    ...(header?.summary ? { description: header.summary } : {}),
    inputSchema: inputSchema(params),
    outputSchema: null,
    annotations: annotationsOf({ tags: header?.tags ?? [] }),
    call: { export: "", style: "positional", params: params.map(({ name }) => name) },
    file: entry,
    line: 1,
    column: 1,
  };
  const tools = problems.some(({ severity }) => severity === "error") ? [] : [tool];
  return { ...nothingFound, tools, problems };
}

interface Place {
  readonly line: number;
  readonly column: number;
  readonly length: number;
}

type Report = (severity: Problem["severity"], code: string, message: string, at: Place) => void;

const args: ShellParam = {
  name: "args",
  schema: { type: "string" },
  isOptional: true,
  description: "Text for the script.",
};

const toolTags = new Set(
  (
    "param noargs title description readonly readonlyhint destructive destructivehint idempotent idempotenthint " +
    "openworld openworldhint example author license see since version copyright"
  ).split(" "),
);

function readParams(header: Header | undefined, report: Report): ShellParam[] {
  const tags = header?.tags ?? [];
  const params: ShellParam[] = [];
  for (const tag of tags) {
    if (tag.name === "param") addParam(tag, params, report);
    else if (!toolTags.has(tag.name)) constrainLast(tag, params, report);
  }
  const isDocumented = tags.some(({ name }) => name === "param" || name === "noargs");
  return isDocumented ? params : [args];
}

function addParam(tag: HeaderTag, params: ShellParam[], report: Report): void {
  const read = readParam(tag);
  if ("code" in read) {
    report("error", read.code, read.message, { line: tag.line, column: tag.column + read.offset, length: read.length });
    return;
  }
  if (params.some(({ name }) => name === read.name)) {
    report("error", "repeated-param", `there are two parameters named "${read.name}"`, whole(tag));
    return;
  }
  params.push(read);
}

function constrainLast(tag: HeaderTag, params: ShellParam[], report: Report): void {
  const last = params.pop();
  if (!last) {
    report(
      "warning",
      "unknown-tag",
      `@${tag.name} is no tag of a script, or comes before the @param it is about${suggestionFor(tag.name)}`,
      whole(tag),
    );
    return;
  }
  let isKnown = true;
  const schema = constrain(last.schema, [{ ...tag, written: tag.name, node: tag }], (fault) => {
    const severity = fault.code === "pattern-unusable" ? "error" : "warning";
    report(severity, fault.code, fault.message, whole(tag));
    isKnown = false;
  });
  if (isKnown && schema === last.schema && !("enum" in schema)) {
    report(
      "warning",
      "unknown-tag",
      `@${tag.name} is no tag that Berth knows, so it is ignored${suggestionFor(tag.name)}`,
      whole(tag),
    );
  }
  params.push({ ...last, schema });
}

function whole(tag: HeaderTag): Place {
  return { line: tag.line, column: tag.tagColumn, length: tag.name.length + 1 };
}

function titleOf(header: Header | undefined): { title?: string } {
  const title = header?.tags.find(({ name }) => name === "title")?.text;
  return title ? { title } : {};
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

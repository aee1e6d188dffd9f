import type { JsonSchema } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import { Budget } from "./budget.ts";
import type { DiscoveredResource } from "./discovery.ts";
import type { Tag } from "./doc-comments.ts";
import type { Candidate } from "./exports.ts";
import { callOf, namingOf, standingOf } from "./function.ts";
import { readInput, type Input } from "./input.ts";
import { settle } from "./overloads.ts";
import type { DefinitionProgram } from "./program.ts";
import { Reporter, textPart } from "./reporter.ts";
import { resultOf } from "./results.ts";
import { isTextual } from "./textual.ts";
import { parseUriTemplate, type Variable } from "./uri-template.ts";

/** `@resource <uri or RFC 6570 template> [mime type]`: a function that is called when the URI is read. */
export function readResource(
  found: Candidate,
  tag: Tag,
  program: DefinitionProgram,
): { resource?: DiscoveredResource; problems: Problem[] } {
  const reporter = new Reporter(found.name, program);
  const candidate = settle(found, program, reporter);
  if (!candidate) return { problems: reporter.problems };
  const naming = namingOf(candidate, reporter);

  const [, uri = "", mimeType = ""] = /^(\S*)\s*([^\n]*)/.exec(tag.text) ?? [];
  const variables = readUri(uri, tag, reporter);
  if (mimeType !== "" && !/^[\w.+-]+\/[\w.+-]+(;.*)?$/.test(mimeType)) {
    const message = `"${mimeType}" is no media type, as text/plain is one`;
    const part = textPart(tag, tag.text.indexOf(mimeType, uri.length), mimeType.length);
    reporter.add("error", "invalid-mime-type", message, tag.node, part);
  }
  const input = readInput(candidate, program, new Budget(), reporter);
  if (variables) checkParameters(variables, input, candidate, tag, reporter);
  if (reporter.hasErrors) return { problems: reporter.problems };

  const resource: DiscoveredResource = {
    ...naming,
    uri,
    ...(mimeType === "" ? {} : { mimeType }),
    inputSchema: input.schema,
    call: callOf(candidate, input, resultOf(candidate, program).isStreaming),
    ...standingOf(candidate, program),
  };
  return { resource, problems: reporter.problems };
}

function readUri(uri: string, tag: Tag, reporter: Reporter): readonly Variable[] | undefined {
  if (uri === "") {
    reporter.add(
      "error",
      "invalid-uri",
      "@resource needs a URI or a URI template, as in data://report",
      tag.node,
      textPart(tag),
    );
    return undefined;
  }
  const template = parseUriTemplate(uri);
  if ("parts" in template) return template.variables;
  const part = textPart(tag, template.offset, template.length);
  reporter.add("error", "invalid-uri", `@resource ${uri}: ${template.message}`, tag.node, part);
  return undefined;
}

/** The template must give exactly the variables that the function takes. */
function checkParameters(
  variables: readonly Variable[],
  { schema }: Input,
  { nameNode }: Candidate,
  tag: Tag,
  reporter: Reporter,
): void {
  const properties = (schema["properties"] ?? {}) as Record<string, JsonSchema>;
  for (const { name, offset } of variables) {
    if (Object.hasOwn(properties, name)) continue;
    const message = `the URI's variable "${name}" is no parameter of the function`;
    reporter.add("error", "unknown-variable", message, tag.node, textPart(tag, offset, name.length));
  }
  const required = (schema["required"] ?? []) as string[];
  for (const [name, property] of Object.entries(properties)) {
    const variable = variables.find((variable) => variable.name === name);
    if (!variable && required.includes(name)) {
      const message = `nothing gives the parameter "${name}" a value; put {${name}} into the URI, or give it a default`;
      reporter.add("error", "unfilled-parameter", message, nameNode);
    } else if (variable && !isTextual(property, true)) {
      const message = `the parameter "${name}" comes from a URI, so it has to be a string, a number, a boolean or a list of those`;
      reporter.add("error", "parameter-not-textual", message, nameNode);
    }
  }
}

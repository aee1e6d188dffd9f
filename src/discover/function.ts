import type { CallShape } from "./discovery.ts";
import { tagOf, tagText, withLinks } from "./doc-comments.ts";
import type { Candidate } from "./exports.ts";
import type { Input } from "./input.ts";
import type { DefinitionProgram } from "./program.ts";
import { textPart, type Reporter } from "./reporter.ts";

/** An exported function's name, description and place: the same for a tool, a resource and a prompt. */
export interface Naming {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
}

export interface Standing {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** `@name other-name` publishes a function under another name than its own. */
export function namingOf(candidate: Candidate, reporter: Reporter): Naming {
  const { name, doc, nameNode } = candidate;
  const tag = tagOf(doc, "name");
  if (tag && !/^[A-Za-z0-9_./-]{1,64}$/.test(tag.text)) {
    const wanted = "a name has 1 to 64 characters of A-Z, a-z, 0-9, _, ., / and -";
    reporter.add("error", "invalid-name", `@name ${tag.text}: ${wanted}`, tag.node, textPart(tag));
  } else if (!tag && !/^[A-Za-z0-9_.-]{1,128}$/.test(name)) {
    const reason = `the name has characters that clients refuse; publish it under another: @name …`;
    reporter.add("error", "invalid-tool-name", reason, nameNode);
  }
  const title = tagText(doc, "title");
  const description = [doc.description, deprecationOf(candidate)].filter(Boolean).join("\n\n");
  return {
    name: tag?.text ?? name,
    ...(title ? { title } : {}),
    ...(description ? { description } : {}),
  };
}

/** In words, as nothing else of a tool can say it. Of several signatures it may be about one alone. */
function deprecationOf({ doc, signatures }: Candidate): string {
  const text = tagText(doc, "deprecated");
  if (text === undefined || signatures.length > 1) return "";
  return text === "" ? "Deprecated." : `Deprecated: ${withLinks(text)}`;
}

/** Where the function stands, from 1. */
export function standingOf({ nameNode }: Candidate, program: DefinitionProgram): Standing {
  const file = nameNode.getSourceFile();
  const { line, character } = file.getLineAndCharacterOfPosition(nameNode.getStart(file));
  return { file: program.nameOf(file), line: line + 1, column: character + 1 };
}

export function callOf(
  candidate: Candidate,
  input: Pick<Input, "style" | "params" | "rest" | "context" | "dates" | "urls" | "spokenDefaults">,
  isStreaming: boolean,
): CallShape {
  return {
    export: candidate.export,
    style: input.style,
    params: input.params,
    ...(input.rest ? { rest: true } : {}),
    ...(input.context ? { context: true } : {}),
    ...(isStreaming ? { streaming: true } : {}),
    ...(input.dates.length > 0 ? { dates: input.dates } : {}),
    ...(input.urls.length > 0 ? { urls: input.urls } : {}),
    ...(input.spokenDefaults.length > 0 ? { spokenDefaults: input.spokenDefaults } : {}),
  };
}

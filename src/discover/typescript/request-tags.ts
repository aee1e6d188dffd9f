import ts from "#typescript";
import type { Problem } from "../../lib/problem.ts";
import type { RequestedGrant } from "../discovery.ts";
import { distinctRequests, grantFields, isGrantTag, readRequest } from "../tags/requested-grants.ts";
import { suggestTag, explainUnknownTag } from "../tags/tags.ts";
import type { Candidate } from "./candidate.ts";
import { leadingDocs, statementDocs, type DocTag } from "./doc-comments.ts";
import type { DefinitionProgram } from "./program.ts";
import { findPosition, locateRange, problemAt, textPart } from "./reporter.ts";

interface FoundRequests {
  readonly requested: readonly RequestedGrant[];
  readonly problems: readonly Problem[];
}

/** The grants requested at the head of a definition's own files and on its exported functions, with problems. */
export function findRequests(program: DefinitionProgram, candidates: readonly Candidate[]): FoundRequests {
  const files = program.own.filter(({ isDeclarationFile }) => !isDeclarationFile);
  const own = new Set(files);
  const heads = files.flatMap((file) => leadingDocs(file));
  const functionTags = candidates.flatMap(({ doc }) => doc.tags).filter(({ node }) => own.has(node.getSourceFile()));
  const functionNodes = new Set(functionTags.map(({ node }) => node));
  const requests: RequestedGrant[] = [];
  const tags = [...heads.flatMap((doc) => doc.tags), ...functionTags];
  const read = new Set(tags.map(({ node }) => node));
  const problems = [
    ...heads
      .flatMap(({ tags }) => tags.filter(({ node }) => !functionNodes.has(node)))
      .flatMap((tag) => misspelledTag(tag, program)),
    ...files.flatMap((file) => tagsInPlainComments(file, program)),
    ...files.flatMap((file) => misplacedTags(file, read, program)),
  ];
  for (const tag of tags) {
    if (!isGrantTag(tag.name)) continue;
    const file = tag.node.getSourceFile();
    const request = readRequest(tag.name, tag.text);
    if (!("code" in request)) {
      requests.push({ ...request, ...findPosition(tag.node, program) });
      continue;
    }
    const { code, message, offset, length } = request;
    const problem = problemAt(tag.node, { severity: "error", code, message }, program);
    const part = textPart(tag, offset, length);
    problems.push({ ...problem, ...locateRange(file.text, part.start, part.length) });
  }
  const { requested, tooMany } = distinctRequests(requests);
  if (tooMany) {
    const { file, line, column } = tooMany.at;
    problems.push({ severity: "error", code: "too-many-requests", message: tooMany.message, file, line, column });
  }
  return { requested, problems: [...new Map(problems.map((problem) => [JSON.stringify(problem), problem])).values()] };
}

/** Other tags at the head of a file are for other tools. */
function misspelledTag(tag: DocTag, program: DefinitionProgram): Problem[] {
  const message = explainUnknownTag(tag);
  const isMeant = Object.keys(grantFields).some((name) => suggestTag(tag.name) === `; did you mean @${name}?`);
  if (message === undefined || !isMeant) return [];
  return [problemAt(tag.node, { severity: "warning", code: "unknown-tag", message }, program)];
}

/** Tags of functions that are not exported, and of other declarations, are not read. */
function misplacedTags(file: ts.SourceFile, read: ReadonlySet<ts.Node>, program: DefinitionProgram): Problem[] {
  return statementDocs(file).flatMap(({ tags }) =>
    tags.flatMap((tag) => {
      if (!isGrantTag(tag.name) || read.has(tag.node)) return [];
      const message = `@${tag.name} is only read at the head of a file and on exported functions; move it there`;
      return [problemAt(tag.node, { severity: "warning", code: "unread-tag", message }, program)];
    }),
  );
}

/** Tags are only read in comments that begin with two stars; in any other comment they would have no effect. */
function tagsInPlainComments(file: ts.SourceFile, { relativeName }: DefinitionProgram): Problem[] {
  return (ts.getLeadingCommentRanges(file.text, 0) ?? []).flatMap(({ pos, end }): Problem[] => {
    const text = file.text.slice(pos, end);
    const match = /^(?:\/\/+|\/\*(?!\*))[\s*]*(@([a-z]+))\b/.exec(text);
    if (!match || !isGrantTag(match[2]!)) return [];
    const tag = match[1]!;
    const message = `${tag} is only read in a comment that begins with /**; write /** ${tag} … */`;
    const place = locateRange(file.text, pos + match[0].length - tag.length, tag.length);
    return [{ severity: "warning", code: "unread-tag", message, file: relativeName(file), ...place }];
  });
}

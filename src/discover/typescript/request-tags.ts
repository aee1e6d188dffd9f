import ts from "#typescript";
import type { Problem } from "../../lib/problem.ts";
import type { RequestedGrant } from "../discovery.ts";
import { distinctRequests, grantFields, isGrantTag, readRequest } from "../tags/requested-grants.ts";
import { suggestionFor, unknownTag } from "../tags/tags.ts";
import type { Candidate } from "./candidate.ts";
import { docsAtHead, docsOfStatements, type DocTag } from "./doc-comments.ts";
import type { DefinitionProgram } from "./program.ts";
import { findPosition, placeIn, problemAt, textPart } from "./reporter.ts";

interface FoundRequests {
  readonly requested: readonly RequestedGrant[];
  readonly problems: readonly Problem[];
}

/**
 * The grants that a definition requests in the comments at the heads of its own files and of the functions that it
 * exports, with what is wrong about them. A package requests nothing.
 */
export function requestsIn(program: DefinitionProgram, candidates: readonly Candidate[]): FoundRequests {
  const files = program.own.filter(({ isDeclarationFile }) => !isDeclarationFile);
  const own = new Set(files);
  const heads = files.flatMap((file) => docsAtHead(file));
  const ofFunctions = candidates.flatMap(({ doc }) => doc.tags).filter(({ node }) => own.has(node.getSourceFile()));
  const known = new Set(ofFunctions.map(({ node }) => node));
  const requests: RequestedGrant[] = [];
  const tags = [...heads.flatMap((doc) => doc.tags), ...ofFunctions];
  const read = new Set(tags.map(({ node }) => node));
  const problems = [
    ...heads
      .flatMap(({ tags }) => tags.filter(({ node }) => !known.has(node)))
      .flatMap((tag) => misspelt(tag, program)),
    ...files.flatMap((file) => inPlainComments(file, program)),
    ...files.flatMap((file) => elsewhere(file, read, program)),
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
    problems.push({ ...problem, ...placeIn(file.text, part.start, part.length) });
  }
  const { requested, tooMany } = distinctRequests(requests);
  if (tooMany) {
    const { file, line, column } = tooMany.at;
    problems.push({ severity: "error", code: "too-many-requests", message: tooMany.message, file, line, column });
  }
  return { requested, problems: [...new Map(problems.map((each) => [JSON.stringify(each), each])).values()] };
}

/** Other tags of a head are for other tools. */
function misspelt(tag: DocTag, program: DefinitionProgram): Problem[] {
  const message = unknownTag(tag);
  const isMeant = Object.keys(grantFields).some((name) => suggestionFor(tag.name) === `; did you mean @${name}?`);
  if (message === undefined || !isMeant) return [];
  return [problemAt(tag.node, { severity: "warning", code: "unknown-tag", message }, program)];
}

/** Tags of functions that are not exported, and of whatever else a file declares, are not read. */
function elsewhere(file: ts.SourceFile, read: ReadonlySet<ts.Node>, program: DefinitionProgram): Problem[] {
  return docsOfStatements(file).flatMap(({ tags }) =>
    tags.flatMap((tag) => {
      if (!isGrantTag(tag.name) || read.has(tag.node)) return [];
      const message = `@${tag.name} is read at the head of a file and at exported functions alone; move it there`;
      return [problemAt(tag.node, { severity: "warning", code: "unread-tag", message }, program)];
    }),
  );
}

/** Tags stand in comments that begin with two stars alone, and whoever writes them elsewhere would wait in vain. */
function inPlainComments(file: ts.SourceFile, { nameOf }: DefinitionProgram): Problem[] {
  return (ts.getLeadingCommentRanges(file.text, 0) ?? []).flatMap(({ pos, end }): Problem[] => {
    const text = file.text.slice(pos, end);
    const found = /^(?:\/\/+|\/\*(?!\*))[\s*]*(@([a-z]+))\b/.exec(text);
    if (!found || !isGrantTag(found[2]!)) return [];
    const tag = found[1]!;
    const message = `${tag} is read in a comment that begins with /** alone; write /** ${tag} … */`;
    const place = placeIn(file.text, pos + found[0].length - tag.length, tag.length);
    return [{ severity: "warning", code: "unread-tag", message, file: nameOf(file), ...place }];
  });
}

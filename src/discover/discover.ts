import ts from "#typescript";
import { valuesIn } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import { readCompletion, type Completable, readPrompt, readResource, readTool } from "./features.ts";
import {
  nothingFound,
  type ContractLimits,
  type DefinitionSource,
  type DiscoveredCompletion,
  type DiscoveredPrompt,
  type DiscoveredResource,
  type DiscoveredTool,
  type Discovery,
} from "./discovery.ts";
import { tagOf, type Tag } from "./doc-comments.ts";
import { exportedFunctions, type Candidate } from "./exports.ts";
import { nothingExported, unofferedExports } from "./unoffered.ts";
import { openProgram, type DefinitionProgram } from "./program.ts";
import { placeIn, problemAt } from "./reporter.ts";
import { typeErrors } from "./type-errors.ts";
import { parseUriTemplate } from "./uri-template.ts";

/**
 * Finds what a TypeScript definition offers, in this process. Loads the compiler, and types can be written to make
 * it run for ever: the serving process goes through `compiler.ts`, which does this in a child with limits.
 */
export function discover(source: DefinitionSource, limits?: ContractLimits): Discovery {
  const program = openProgram(source);
  const syntax = syntaxProblems(program);
  if (syntax.length > 0) return { ...nothingFound, problems: syntax };

  const finder = new Finder(program, limits);
  const candidates = exportedFunctions(program, source.server);
  if (candidates.length === 0) finder.findNothing();
  else finder.note(unofferedExports(program));
  for (const candidate of candidates) finder.read(candidate);
  for (const candidate of candidates) finder.readCompletions(candidate);
  const found = finder.found();
  return { ...found, problems: [...found.problems, ...typeErrors(program, found.problems)] };
}

/** A tag turns a function into something else than a tool. */
const roles = ["resource", "prompt", "completes"];

class Finder {
  readonly #program: DefinitionProgram;
  readonly #tools: DiscoveredTool[] = [];
  readonly #resources: DiscoveredResource[] = [];
  readonly #prompts: DiscoveredPrompt[] = [];
  readonly #completions: DiscoveredCompletion[] = [];
  readonly #completables: Completable[] = [];
  readonly #problems: Problem[] = [];

  readonly #limits: ContractLimits | undefined;
  #bytes = 0;
  #values = 0;

  constructor(program: DefinitionProgram, limits: ContractLimits | undefined) {
    this.#program = program;
    this.#limits = limits;
  }

  found(): Discovery {
    return {
      tools: this.#tools,
      resources: this.#resources,
      prompts: this.#prompts,
      completions: this.#completions,
      problems: this.#problems,
    };
  }

  findNothing(): void {
    this.#problems.push(nothingExported(this.#program));
  }

  read(candidate: Candidate): void {
    const tag = this.#roleOf(candidate);
    if (tag === "several") return;
    switch (tag?.name) {
      case "resource":
        return this.#addResource(candidate, tag);
      case "prompt":
        return this.#addPrompt(candidate);
      case undefined:
        return this.#addTool(candidate);
    }
  }

  /** When all prompts and resources are known. */
  readCompletions(candidate: Candidate): void {
    if (roleTags(candidate).length !== 1) return;
    for (const tag of candidate.doc.tags.filter(({ name }) => name === "completes")) {
      const { completion, problems } = readCompletion(candidate, tag, this.#completables, this.#program);
      this.note(problems);
      if (!completion) continue;
      const { of, argument } = completion;
      if (this.#completions.some((other) => other.of === of && other.argument === argument)) {
        this.#refuse(candidate, "repeated-completion", `another function completes ${tag.text} already`, tag.node);
      } else this.#completions.push(completion);
    }
  }

  #roleOf(candidate: Candidate): Tag | "several" | undefined {
    const [role, other] = roleTags(candidate);
    if (!role || !other) return role === undefined ? undefined : tagOf(candidate.doc, role);
    const message = `a function is either a @${role} or a @${other}; write two functions`;
    this.#refuse(candidate, "several-roles", message, tagOf(candidate.doc, other)!.node);
    return "several";
  }

  #addTool(candidate: Candidate): void {
    const isRepeated = (name: string): boolean => this.#tools.some((tool) => tool.name === name);
    if (isRepeated(candidate.name) && !tagOf(candidate.doc, "name")) return this.#refuseRepeated(candidate, "tool");
    const { tool, problems } = readTool(candidate, this.#program);
    this.note(problems);
    if (!tool) return;
    if (isRepeated(tool.name)) this.#refuseRepeated(candidate, "tool");
    else if (this.#hasRoom(candidate, tool)) this.#tools.push(tool);
  }

  #addResource(candidate: Candidate, tag: Tag): void {
    const { resource, problems } = readResource(candidate, tag, this.#program);
    this.note(problems);
    if (!resource) return;
    const { name, uri } = resource;
    if (this.#resources.some((other) => other.uri === uri)) {
      return this.#refuse(candidate, "repeated-resource", `there is another resource ${uri}`, tag.node);
    }
    if (!this.#hasRoom(candidate, resource)) return;
    this.#resources.push(resource);
    const template = parseUriTemplate(uri);
    const variables = "parts" in template ? template.variables.map((variable) => variable.name) : [];
    this.#completables.push({ names: [candidate.name, name], of: uri, arguments: variables });
  }

  #addPrompt(candidate: Candidate): void {
    const { prompt, problems } = readPrompt(candidate, this.#program);
    this.note(problems);
    if (!prompt) return;
    const { name } = prompt;
    if (this.#prompts.some((other) => other.name === name)) return this.#refuseRepeated(candidate, "prompt");
    if (!this.#hasRoom(candidate, prompt)) return;
    this.#prompts.push(prompt);
    const names = prompt.arguments.map((argument) => argument.name);
    this.#completables.push({ names: [candidate.name, name], of: name, arguments: names });
  }

  /** A few lines of types can unfold to megabytes, which whoever serves hashes, compares, lists and shows. */
  #hasRoom(candidate: Candidate, found: DiscoveredTool | DiscoveredResource | DiscoveredPrompt): boolean {
    if (!this.#limits) return true;
    const { toolBytes, contractBytes, contractValues } = this.#limits;
    const bytes = Buffer.byteLength(JSON.stringify(found));
    const remedy = "take plainer types: fewer literals, or a string that the function itself checks";
    if (bytes > toolBytes) {
      const message = `its schemas and texts have ${bytes} bytes, and at most ${toolBytes} are allowed (BERTH_TOOL_BYTES)`;
      this.#refuse(candidate, "too-large", `${message}; ${remedy}`, candidate.nameNode);
      return false;
    }
    if (this.#bytes + bytes > contractBytes) {
      const message = `with it all schemas and texts have more than ${contractBytes} bytes (BERTH_CONTRACT_BYTES)`;
      this.#refuse(candidate, "too-large", `${message}; ${remedy}, or split the server`, candidate.nameNode);
      return false;
    }
    const values = valuesIn(found, contractValues - this.#values);
    if (this.#values + values > contractValues) {
      const message = `with it all schemas have more than ${contractValues} values (BERTH_CONTRACT_VALUES)`;
      this.#refuse(candidate, "too-large", `${message}; ${remedy}, or split the server`, candidate.nameNode);
      return false;
    }
    this.#bytes += bytes;
    this.#values += values;
    return true;
  }

  /** There may be more of them than a call takes arguments. */
  note(problems: readonly Problem[]): void {
    for (const problem of problems) this.#problems.push(problem);
  }

  #refuseRepeated(candidate: Candidate, what: string): void {
    const message = `there is another ${what} of this name; export one of them under another name`;
    this.#refuse(candidate, `repeated-${what}`, message, candidate.nameNode);
  }

  #refuse(candidate: Candidate, code: string, message: string, node: ts.Node): void {
    const said = { severity: "error", code, message: `${candidate.name}: ${message}` } as const;
    this.#problems.push({ ...problemAt(node, said, this.#program), tool: candidate.name });
  }
}

function roleTags({ doc }: Candidate): string[] {
  return roles.filter((role) => tagOf(doc, role));
}

/** With a syntax error nothing further can be trusted. */
function syntaxProblems({ program, own, nameOf }: DefinitionProgram): Problem[] {
  const toProblem = (file: ts.SourceFile, diagnostic: ts.Diagnostic): Problem => {
    const place = placeIn(file.text, diagnostic.start ?? 0, diagnostic.length ?? 1);
    const message = ts.flattenDiagnosticMessageText(diagnostic.messageText, " ");
    return { severity: "error", code: "syntax-error", message, file: nameOf(file), ...place };
  };
  return own.flatMap((file) => {
    // The others follow from the first: of a parenthesis that is missing the parser tells at every line that comes after.
    const first = program.getSyntacticDiagnostics(file).toSorted((a, b) => (a.start ?? 0) - (b.start ?? 0))[0];
    return first ? [toProblem(file, first)] : [];
  });
}

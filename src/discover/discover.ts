import ts from "#typescript";
import { contractBounds } from "../contract/contract-bounds.ts";
import { ICONS_MAX, type Icon } from "../contract/icons.ts";
import { faultsOfHeaders } from "../contract/parameter-headers.ts";
import { type JsonSchema, soundObject, valuesIn } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import { fixed } from "../limits/fixed.ts";
import { readApp, readUiTag } from "./app-files.ts";
import { Budget } from "./budget.ts";
import type { Candidate, ToolObject } from "./candidate.ts";
import { TooManyDeclarations } from "./declaration-counter.ts";
import {
  nothingFound,
  type DefinitionSource,
  type DescribedSchema,
  type DescribedSchemas,
  type DiscoveredApp,
  type DiscoveredCompletion,
  type DiscoveredPrompt,
  type DiscoveredResource,
  type DiscoveredTool,
  type Discovery,
  type TaskSupport,
  type PromptArgument,
  type ToolUi,
  type CallShape,
} from "./discovery.ts";
import { tagOf, type Tag, tagText, withLinks, type Doc } from "./doc-comments.ts";
import { exportedFunctions } from "./exports.ts";
import { readIcon } from "./icon-files.ts";
import { readGivenInput, readHandlerInput, readInput, readNamedInput, type Input } from "./input.ts";
import { readOutput, resultOf } from "./output.ts";
import { settle } from "./overloads.ts";
import type { PackageFiles } from "./package-files.ts";
import { isHostContext, parametersOf, takenParameters } from "./parameters.ts";
import { nameOf, openProgram, type DefinitionProgram } from "./program.ts";
import { repeatedDeclarations } from "./repeated-names.ts";
import { placeIn, problemAt, Reporter, textPart } from "./reporter.ts";
import { requestsIn } from "./request-tags.ts";
import { resolveTagFile } from "./resolve.ts";
import { relativeReads, unsetVariables } from "./run-time-reads.ts";
import { faultOfForm } from "./schema-check.ts";
import { openSchema } from "./schema-merge.ts";
import { SchemaSources } from "./schema-sources.ts";
import { annotationsOf } from "./tags.ts";
import { exportedObjects, toolObjects, withMetadata, type ExportedObject } from "./tool-objects.ts";
import { typeErrors } from "./type-errors.ts";
import { nothingExported, unofferedExports } from "./unoffered.ts";
import { parseUriTemplate, type Variable } from "./uri-template.ts";

/** Names, texts and schemas of one discovered tool, resource or prompt, as JSON. */
const bounds = fixed({ toolBytes: 128 * 1024 });

/**
 * Finds what a TypeScript definition offers, in this process. Loads the compiler, and types can be written to make
 * it run for ever: the serving process goes through `compiler.ts`, which does this in a child with limits.
 */
export function discover(source: DefinitionSource, packages?: PackageFiles): Discovery {
  return beginDiscovery(source, packages).discovery;
}

/** A discovery by types alone, and a second one with the evaluated schemas. */
export interface BegunDiscovery {
  readonly discovery: Discovery;
  readonly find?: (described: DescribedSchemas) => Discovery;
  readonly schemas?: SchemaSources;
}

export function beginDiscovery(source: DefinitionSource, packages?: PackageFiles): BegunDiscovery {
  const program = openedProgram(source, packages);
  if (!("checker" in program)) return { discovery: { ...nothingFound, problems: [program] } };
  const syntax = syntaxProblems(program);
  if (syntax.length > 0) return { discovery: { ...nothingFound, problems: syntax } };
  const schemas = new SchemaSources(program);
  return {
    discovery: discoverIn(program, source, schemas),
    schemas,
    find: (described) => discoverIn(program, source, schemas.answer(described)),
  };
}

function discoverIn(program: DefinitionProgram, source: DefinitionSource, schemas: SchemaSources): Discovery {
  const finder = new Finder(program, source, schemas);
  const functions = exportedFunctions(program, source.server);
  const objects = exportedObjects(program);
  const candidates = [
    ...functions.map((each) => withMetadata(each, program, schemas)),
    ...toolObjects(objects, program, schemas, source.server),
  ];
  if (candidates.length === 0 && objects.length === 0) finder.note([nothingExported(program)]);
  else finder.note(unofferedExports(program, objects));
  for (const candidate of candidates) finder.read(candidate);
  for (const candidate of candidates) finder.readCompletions(candidate);
  const { requested, problems } = requestsIn(program, candidates);
  finder.note(problems);
  finder.note(unsetVariables(program, source.server));
  finder.note(relativeReads(program));
  finder.note(unreadObjects(objects, program, schemas));
  finder.note(unreachableSchemas(program, schemas));
  const found = finder.found();
  return {
    ...found,
    problems: [...found.problems, ...typeErrors(program, found.problems)],
    ...(requested.length > 0 && { requested }),
  };
}

/** Objects that hold tools by their types, and no tool when the module has been loaded, or less than they seem to. */
function unreadObjects(
  objects: readonly ExportedObject[],
  program: DefinitionProgram,
  schemas: SchemaSources,
): Problem[] {
  return objects.flatMap(({ exported, type, node }) => {
    const tools = schemas.describedTools(exported.name);
    if (tools?.length === 0) {
      const why = schemas.fault === undefined ? "" : `: ${schemas.fault}`;
      const message = `${exported.name}: it holds no tool when the module has been loaded${why}`;
      return [problemAt(node, { severity: "error", code: "no-tool-object", message }, program)];
    }
    const names = new Set(tools?.map(({ at }) => at[0]));
    if (!tools || names.has(undefined) || program.checker.isArrayLikeType(type)) return [];
    const others = program.checker.getPropertiesOfType(type).filter(({ name }) => !names.has(name));
    return others.map((other) => {
      const message = `${exported.name}.${other.name} has no handler, such as "execute", and is not offered`;
      return problemAt(
        other.valueDeclaration ?? node,
        { severity: "warning", code: "no-tool-object", message },
        program,
      );
    });
  });
}

function unreachableSchemas(program: DefinitionProgram, schemas: SchemaSources): Problem[] {
  return schemas.unreachable.map((name) => {
    const message =
      `the schema ${name.getText()} is no constant at the top level of a file, so what it says besides its type is not ` +
      "published: put it there";
    return problemAt(name, { severity: "warning", code: "schema-unread", message }, program);
  });
}

function openedProgram(source: DefinitionSource, packages?: PackageFiles): DefinitionProgram | Problem {
  try {
    return openProgram(source, packages);
  } catch (error) {
    if (!(error instanceof TooManyDeclarations)) throw error;
    const problem = { severity: "error", code: "too-many-declarations", message: error.message } as const;
    return problemAt(error.importedAt, problem, { nameOf });
  }
}

/** A tag turns a function into something else than a tool. */
const roles = ["resource", "prompt", "completes"];

/** Reads the functions one by one, and tells names and sizes of all of them apart. */
class Finder {
  readonly #program: DefinitionProgram;
  readonly #source: DefinitionSource;
  readonly #schemas: SchemaSources;
  readonly #apps = new Map<string, DiscoveredApp>();
  readonly #tools: DiscoveredTool[] = [];
  readonly #resources: DiscoveredResource[] = [];
  readonly #prompts: DiscoveredPrompt[] = [];
  readonly #completions: DiscoveredCompletion[] = [];
  readonly #completables: Completable[] = [];
  readonly #problems: Problem[] = [];

  #bytes = 0;
  #values = 0;

  constructor(program: DefinitionProgram, source: DefinitionSource, schemas: SchemaSources) {
    this.#program = program;
    this.#source = source;
    this.#schemas = schemas;
  }

  found(): Discovery {
    return {
      tools: this.#tools,
      resources: this.#resources,
      prompts: this.#prompts,
      completions: this.#completions,
      ...(this.#apps.size > 0 && { apps: [...this.#apps.values()] }),
      problems: this.#problems,
    };
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
        this.#refuse(candidate, "repeated-completion", `another function already completes ${tag.text}`, tag.node);
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
    const { object } = candidate;
    const { tool, app, problems }: ReadTool = object
      ? readToolObject(candidate, object, this.#program, this.#schemas)
      : readTool(candidate, this.#program, this.#source, this.#schemas);
    this.note(problems);
    if (!tool) return;
    if (isRepeated(tool.name)) this.#refuseRepeated(candidate, "tool");
    else if (this.#hasRoom(candidate, tool)) {
      this.#tools.push(tool);
      if (app) this.#apps.set(app.uri, app);
    }
  }

  #addResource(candidate: Candidate, tag: Tag): void {
    const { resource, problems } = readResource(candidate, tag, this.#program, this.#source, this.#schemas);
    this.note(problems);
    if (!resource) return;
    const { name, uri } = resource;
    if (this.#resources.some((other) => other.uri === uri)) {
      return this.#refuse(candidate, "repeated-resource", `another function is already the resource ${uri}`, tag.node);
    }
    if (!this.#hasRoom(candidate, resource)) return;
    this.#resources.push(resource);
    const template = parseUriTemplate(uri);
    const variables = "parts" in template ? template.variables.map((variable) => variable.name) : [];
    this.#completables.push({ names: [candidate.name, name], of: uri, arguments: variables });
  }

  #addPrompt(candidate: Candidate): void {
    const { prompt, problems } = readPrompt(candidate, this.#program, this.#source, this.#schemas);
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
    const { toolBytes } = bounds;
    const { contractBytes, contractValues } = contractBounds;
    const bytes = Buffer.byteLength(JSON.stringify(found));
    const remedy = "use simpler types: fewer literals, or a string that the function itself checks";
    if (bytes > toolBytes) {
      const message = `its schemas and texts have ${bytes} bytes, and at most ${toolBytes} are allowed`;
      this.#refuse(candidate, "too-large", `${message}; ${remedy}`, candidate.nameNode);
      return false;
    }
    const schemas = [found.inputSchema, ("outputSchema" in found && found.outputSchema) || {}];
    const broken = schemas.map(faultOfForm).find((fault) => fault !== undefined);
    if (broken !== undefined) {
      const message =
        candidate.object || found.call.parsed
          ? `its schema is not valid JSON Schema 2020-12 (${broken}): correct it there`
          : `its types give an invalid JSON Schema (${broken}); use simpler types`;
      this.#refuse(candidate, "invalid-schema", message, candidate.nameNode);
      return false;
    }
    if (this.#bytes + bytes > contractBytes) {
      const message = `with it all schemas and texts have more than ${contractBytes} bytes`;
      this.#refuse(candidate, "too-large", `${message}; ${remedy}, or split the server`, candidate.nameNode);
      return false;
    }
    const values = valuesIn(found, contractValues - this.#values);
    if (this.#values + values > contractValues) {
      const message = `with it all schemas have more than ${contractValues} values`;
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
    const message = `another ${what} has this name; export one of them under another name`;
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
    return first ? [toProblem(file, first)] : repeatedDeclarations(file, { nameOf });
  });
}

/** One exported function, as what its tags make of it: a tool, a resource, a prompt or a completion. */

interface ReadTool {
  readonly tool?: DiscoveredTool;
  readonly app?: DiscoveredApp | undefined;
  readonly problems: Problem[];
}

/** One object with a handler as a tool. */
function readToolObject(
  candidate: Candidate,
  object: ToolObject,
  program: DefinitionProgram,
  schemas: SchemaSources,
): ReadTool {
  const reporter = new Reporter(candidate, program);
  const { described, handler, value } = object;
  const fault = (message: string): undefined => {
    reporter.add("error", "invalid-schema", `the schema of its arguments ${message}`, candidate.nameNode);
  };
  const budget = new Budget();
  const input = readHandlerInput(candidate, object, program, { budget, schemas, fault });
  const naming = namingOf(candidate, reporter);
  const output = described.output
    ? describedOutput(described.output, candidate, reporter)
    : readOwnOutput(candidate, program, budget, reporter);
  if (!input || reporter.hasErrors) return { problems: reporter.problems };
  const [first, second] = parametersOf(candidate, program.checker);
  const isContext = second !== undefined && isHostContext(second, program);
  // Mastra hands a handler everything in one object.
  const under = handler === "execute" && first?.type.getProperty("context") && !hasArgument(input, "context");
  const tool: DiscoveredTool = {
    ...naming,
    ...(described.title !== undefined && { title: described.title }),
    inputSchema: input.schema,
    outputSchema: output,
    annotations: { ...annotationsOf(candidate.doc), ...described.annotations },
    call: {
      ...callOf(candidate, { ...input, context: isContext }, resultOf(candidate, program)),
      member: [...value.path, handler],
      ...(under && { under: "context" }),
      ...(second && !isContext && { options: true }),
    },
    ...standingOf(candidate, program),
  };
  return { tool, problems: reporter.problems };
}

function hasArgument({ schema }: Input, name: string): boolean {
  return Object.hasOwn(schema["properties"] ?? {}, name);
}

function describedOutput(output: DescribedSchema, { nameNode }: Candidate, reporter: Reporter): JsonSchema | null {
  if ("json" in output) return openSchema(output.json);
  const message = `the schema of its results cannot be read: ${output.fault}; the tool is offered without it`;
  reporter.add("warning", "schema-unread", message, nameNode);
  return null;
}

/** The types of a handler that a library has wrapped are the library's. */
function readOwnOutput(
  candidate: Candidate,
  program: DefinitionProgram,
  budget: Budget,
  reporter: Reporter,
): JsonSchema | null {
  return candidate.implementation ? readOutput(candidate, program, budget, reporter) : null;
}

/** One exported function as a tool; without the tool when a problem leaves it out. */
function readTool(
  found: Candidate,
  program: DefinitionProgram,
  source: DefinitionSource,
  schemas: SchemaSources,
): ReadTool {
  const reporter = new Reporter(found, program);
  const candidate = settle(found, program, reporter);
  if (!candidate) return { problems: reporter.problems };
  const naming = { ...namingOf(candidate, reporter), ...iconsOf(candidate, source, program, reporter) };

  const budget = new Budget();
  const given = readGivenInput(candidate, program, reporter);
  const named = given ? undefined : readNamedInput(candidate, program, budget, reporter, schemas);
  if (!named && reporter.hasErrors) return { problems: reporter.problems };
  const input = given ?? named ?? readInput(candidate, program, budget, reporter, schemas);
  const described = candidate.module?.output && schemas.describe(candidate.module.output, "output");
  const output = described
    ? describedOutput(described, candidate, reporter)
    : readOutput(candidate, program, budget, reporter, schemas);
  for (const { header, message } of faultsOfHeaders(input.schema)) {
    const tag = given ? tagOf(candidate.doc, "inputschema") : undefined;
    const node = input.headers.get(header) ?? tag?.node ?? candidate.nameNode;
    reporter.add("error", "invalid-header", message, node, tag && textPart(tag));
  }
  const { ui, app } = uiOf(candidate, source, program, reporter);
  if (reporter.hasErrors) return { problems: reporter.problems };

  const task = taskOf(candidate.doc, reporter);
  const tool: DiscoveredTool = {
    ...naming,
    inputSchema: withExamples(input.schema, candidate),
    outputSchema: output && withTitle(output, candidate),
    annotations: { ...annotationsOf(candidate.doc), ...candidate.module?.annotations },
    ...(task ? { task } : {}),
    ...(ui && { ui }),
    call: callOf(candidate, input, resultOf(candidate, program)),
    ...standingOf(candidate, program),
  };
  return { tool, app, problems: reporter.problems };
}

/** `@ui <file.html> [model] [app]` */
function uiOf(
  { doc }: Candidate,
  source: DefinitionSource,
  program: DefinitionProgram,
  reporter: Reporter,
): { readonly ui?: ToolUi; readonly app?: DiscoveredApp } {
  const tag = tagOf(doc, "ui");
  if (!tag) return {};
  const { file, visibility, unknown } = readUiTag(tag.text);
  const fault = (code: string, message: string, word = ""): object => {
    const at = tag.text.indexOf(word);
    reporter.add("error", code, message, tag.node, word === "" ? textPart(tag) : textPart(tag, at, word.length));
    return {};
  };
  if (unknown !== undefined)
    return fault("unknown-ui-word", `@ui takes an HTML file, model and app, not "${unknown}"`, unknown);
  if (file === undefined) {
    if (visibility) return { ui: { visibility } };
    return fault("missing-file", "@ui needs the HTML file that shows the results of the tool: @ui chart.html");
  }
  const found = resolveTagFile(program.nameOf(tag.node.getSourceFile()), file, (path) =>
    Object.hasOwn(source.files, path),
  );
  if (found.kind !== "file") {
    return fault("missing-file", `@ui ${file} names no file of the definition; put it beside this one`, file);
  }
  const { app, fault: wrong } = readApp(source, found.path);
  if (wrong) {
    const { line } = placeIn(source.files[found.path]!, wrong.start, wrong.length);
    return fault("invalid-ui", `${found.path}, line ${line}: ${wrong.message}`, file);
  }
  return { ui: { uri: app.uri, ...(visibility && { visibility }) }, app };
}

/** `@icon <image> [media type] [sizes] [theme]`, each one more. A bad one is left out, and its function is offered. */
function iconsOf(
  { doc }: Candidate,
  { files }: DefinitionSource,
  program: DefinitionProgram,
  reporter: Reporter,
): { readonly icons?: readonly Icon[] } {
  const tags = doc.tags.filter(({ name }) => name === "icon");
  const icons = tags.slice(0, ICONS_MAX).flatMap((tag) => {
    const read = readIcon(tag.text, program.nameOf(tag.node.getSourceFile()), files);
    if ("icon" in read) return [read.icon];
    const part = textPart(tag, Math.max(0, tag.text.indexOf(read.word)), read.word.length);
    reporter.add("warning", "invalid-icon", `${read.fault}; it is left out`, tag.node, part);
    return [];
  });
  const beyond = tags[ICONS_MAX];
  if (beyond)
    reporter.add("warning", "invalid-icon", `only ${ICONS_MAX} icons are read`, beyond.node, textPart(beyond));
  return icons.length > 0 ? { icons } : {};
}

/** `@task`, `@task required`, `@task deferred` or both. */
function taskOf(doc: Doc, reporter: Reporter): TaskSupport | undefined {
  const tag = tagOf(doc, "task");
  if (!tag) return undefined;
  const words = tag.text.split(/[\s,]+/).filter(Boolean);
  const unknown = words.find((word) => !["optional", "required", "deferred"].includes(word));
  if (unknown !== undefined) {
    const part = textPart(tag, tag.text.indexOf(unknown), unknown.length);
    reporter.add("warning", "unknown-task-word", `@task takes required and deferred, not "${unknown}"`, tag.node, part);
  }
  return { required: words.includes("required"), deferred: words.includes("deferred") };
}

/** `@returns` is the title of what is given back: a description belongs to the type. */
function withTitle(schema: JsonSchema, { doc }: Candidate): JsonSchema {
  return doc.returns === "" ? schema : { title: doc.returns, ...schema };
}

/** Examples of a whole call, where they are written as its arguments. */
function withExamples(schema: JsonSchema, { doc }: Candidate): JsonSchema {
  const examples = doc.tags
    .filter((tag) => tag.name === "example" || tag.name === "examples")
    .flatMap((tag) => soundObject(tag.text.replace(/^```\w*\n|\n?```$/g, "")) ?? []);
  return examples.length > 0 ? { ...schema, examples } : schema;
}

/** `@resource <uri or RFC 6570 template> [mime type]`: a function that is called when the URI is read. */
function readResource(
  found: Candidate,
  tag: Tag,
  program: DefinitionProgram,
  source: DefinitionSource,
  schemas: SchemaSources,
): { resource?: DiscoveredResource; problems: Problem[] } {
  const reporter = new Reporter(found, program);
  const candidate = settle(found, program, reporter);
  if (!candidate) return { problems: reporter.problems };
  const naming = { ...namingOf(candidate, reporter), ...iconsOf(candidate, source, program, reporter) };

  const [, uri = "", mimeType = ""] = /^(\S*)\s*([^\n]*)/.exec(tag.text) ?? [];
  const variables = readUri(uri, tag, reporter);
  if (mimeType !== "" && !/^[\w.+-]+\/[\w.+-]+(;.*)?$/.test(mimeType)) {
    const message = `"${mimeType}" is not a media type, such as text/plain`;
    const part = textPart(tag, tag.text.indexOf(mimeType, uri.length), mimeType.length);
    reporter.add("error", "invalid-mime-type", message, tag.node, part);
  }
  const input = readInput(candidate, program, new Budget(), reporter, schemas);
  if (variables) checkParameters(variables, input, candidate, tag, reporter);
  if (reporter.hasErrors) return { problems: reporter.problems };

  const resource: DiscoveredResource = {
    ...naming,
    uri,
    ...(mimeType === "" ? {} : { mimeType }),
    inputSchema: input.schema,
    call: callOf(candidate, input, resultOf(candidate, program)),
    ...standingOf(candidate, program),
  };
  return { resource, problems: reporter.problems };
}

function readUri(uri: string, tag: Tag, reporter: Reporter): readonly Variable[] | undefined {
  if (uri === "") {
    reporter.add(
      "error",
      "invalid-uri",
      "@resource needs a URI or a URI template, such as data://report",
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
    const message = `the URI's variable "${name}" is not a parameter of the function`;
    reporter.add("error", "unknown-variable", message, tag.node, textPart(tag, offset, name.length));
  }
  const required = (schema["required"] ?? []) as string[];
  for (const [name, property] of Object.entries(properties)) {
    const variable = variables.find((variable) => variable.name === name);
    if (!variable && required.includes(name)) {
      const message = `the parameter "${name}" never gets a value; put {${name}} into the URI, or give it a default`;
      reporter.add("error", "unfilled-parameter", message, nameNode);
    } else if (variable && !isTextual(property, true)) {
      const message = `the parameter "${name}" comes from a URI, so it must be a string, a number, a boolean or a list of those`;
      reporter.add("error", "parameter-not-textual", message, nameNode);
    }
  }
}

/** `@prompt`: a function whose parameters are a prompt's arguments, and whose result is its messages. */
function readPrompt(
  found: Candidate,
  program: DefinitionProgram,
  source: DefinitionSource,
  schemas: SchemaSources,
): { prompt?: DiscoveredPrompt; problems: Problem[] } {
  const reporter = new Reporter(found, program);
  const candidate = settle(found, program, reporter);
  if (!candidate) return { problems: reporter.problems };
  const naming = { ...namingOf(candidate, reporter), ...iconsOf(candidate, source, program, reporter) };

  const input = readInput(candidate, program, new Budget(), reporter, schemas);
  const prompt: DiscoveredPrompt = {
    ...naming,
    arguments: argumentsOf(input, candidate, reporter),
    inputSchema: input.schema,
    call: callOf(candidate, input, resultOf(candidate, program)),
    ...standingOf(candidate, program),
  };
  return reporter.hasErrors ? { problems: reporter.problems } : { prompt, problems: reporter.problems };
}

function argumentsOf({ schema }: Input, { nameNode }: Candidate, reporter: Reporter): PromptArgument[] {
  const required = (schema["required"] ?? []) as string[];
  return Object.entries((schema["properties"] ?? {}) as Record<string, JsonSchema>).map(([name, property]) => {
    if (!isTextual(property, false)) {
      const message = `clients send a prompt's arguments as strings, so "${name}" must be a string, a number or a boolean`;
      reporter.add("error", "parameter-not-textual", message, nameNode);
    }
    const { description } = property;
    const argument = { name, required: required.includes(name) };
    return typeof description === "string" ? Object.assign(argument, { description }) : argument;
  });
}

/** True if a text can stand for a value of this schema: it is then turned into a number or a boolean as needed. */
function isTextual(schema: JsonSchema, orList: boolean): boolean {
  const alternatives = schema["anyOf"] as JsonSchema[] | undefined;
  if (alternatives) return alternatives.every((alternative) => isTextual(alternative, orList));
  const values = (schema["enum"] ?? ("const" in schema ? [schema["const"]] : undefined)) as unknown[] | undefined;
  if (values) return values.every((value) => typeof value !== "object" || value === null);
  const types = [schema["type"] ?? []].flat() as string[];
  if (orList && types.length === 1 && types[0] === "array") {
    return isTextual((schema["items"] ?? {}) as JsonSchema, false);
  }
  return (
    types.every((type) => ["string", "number", "integer", "boolean", "null"].includes(type)) && !("$ref" in schema)
  );
}

/** A prompt or a resource whose arguments can be completed. */
interface Completable {
  /** The argument's name in the function, and as it is published. */
  readonly names: readonly string[];
  /** The name that clients use: a prompt's name, a resource's URI template. */
  readonly of: string;
  readonly arguments: readonly string[];
}

/** `@completes <function>.<argument>`: a function `(value, others) => string[]` that helps to fill an argument in. */
function readCompletion(
  found: Candidate,
  tag: Tag,
  completables: readonly Completable[],
  program: DefinitionProgram,
): { completion?: DiscoveredCompletion; problems: Problem[] } {
  const reporter = new Reporter(found, program);
  const candidate = settle(found, program, reporter);
  if (!candidate) return { problems: reporter.problems };

  const target = readTarget(tag, completables, reporter);
  const { parameters, context } = takenParameters(candidate, program, reporter);
  if (parameters.length > 2) {
    const message = "a completion takes the text typed so far and the other arguments: (value: string, others)";
    reporter.add("error", "completion-parameters", message, parameters[2]!.declaration ?? candidate.nameNode);
  }
  if (!target || reporter.hasErrors) return { problems: reporter.problems };

  const params = ["value", "others"].slice(0, parameters.length);
  const call = callOf(
    candidate,
    { style: "positional", params, rest: false, context, dates: [], urls: [], spokenDefaults: [] },
    { isStreaming: false, isList: false },
  );
  return { completion: { ...target, call }, problems: reporter.problems };
}

function readTarget(
  tag: Tag,
  completables: readonly Completable[],
  reporter: Reporter,
): Pick<DiscoveredCompletion, "of" | "argument"> | undefined {
  const [, name = "", argument = ""] = /^(\S+)\.([^\s.]+)/.exec(tag.text) ?? [];
  const fault = (code: string, message: string): undefined => {
    reporter.add("error", code, message, tag.node, textPart(tag));
  };
  if (name === "") return fault("unknown-completion", "@completes needs a function and its argument: @completes f.x");
  const target = completables.find(({ names }) => names.includes(name));
  if (!target) {
    return fault("unknown-completion", `"${name}" is not a valid @prompt or @resource`);
  }
  if (target.arguments.includes(argument)) return { of: target.of, argument };
  const known = target.arguments.map((each) => `"${each}"`).join(", ");
  return fault("unknown-completion", `"${name}" has no argument "${argument}"; it has ${known || "none"}`);
}

/** An exported function's name, description and place: the same for a tool, a resource and a prompt. */
interface Naming {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
}

interface Standing {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** `@name other-name` publishes a function under another name than its own. */
function namingOf(candidate: Candidate, reporter: Reporter): Naming {
  const { name, doc, nameNode } = candidate;
  const written = tagOf(doc, "name");
  const tag = written && /^[A-Za-z0-9_./-]{1,64}$/.test(written.text) ? written : undefined;
  if (written && !tag) {
    const wanted = "a name must have 1 to 64 characters of A-Z, a-z, 0-9, _, ., / and -; it is ignored";
    reporter.add("warning", "invalid-name", `@name ${written.text}: ${wanted}`, written.node, textPart(written));
  }
  if (!tag && !/^[A-Za-z0-9_.-]{1,128}$/.test(name)) {
    const reason = `the name has characters that clients refuse; publish it under another name: @name …`;
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
function standingOf({ nameNode }: Candidate, program: DefinitionProgram): Standing {
  const file = nameNode.getSourceFile();
  const { line, character } = file.getLineAndCharacterOfPosition(nameNode.getStart(file));
  return { file: program.nameOf(file), line: line + 1, column: character + 1 };
}

function callOf(
  candidate: Candidate,
  input: Pick<Input, "style" | "params" | "rest" | "context" | "dates" | "urls" | "spokenDefaults"> &
    Partial<Pick<Input, "parsed">>,
  { isStreaming, isList }: { readonly isStreaming: boolean; readonly isList: boolean },
): CallShape {
  return {
    export: candidate.export,
    style: input.style,
    params: input.params,
    ...(input.rest ? { rest: true } : {}),
    ...(input.context ? { context: true } : {}),
    ...(isStreaming ? { streaming: true } : {}),
    ...(isList ? { list: true } : {}),
    ...(input.dates.length > 0 ? { dates: input.dates } : {}),
    ...(input.urls.length > 0 ? { urls: input.urls } : {}),
    ...(input.spokenDefaults.length > 0 ? { spokenDefaults: input.spokenDefaults } : {}),
    ...(input.parsed && input.parsed.length > 0 ? { parsed: input.parsed } : {}),
  };
}

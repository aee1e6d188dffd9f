import ts from "#typescript";
import { contractBounds } from "../../contract/contract-bounds.ts";
import { ICONS_MAX, type Icon } from "../../contract/icons.ts";
import { faultsOfHeaders } from "../../contract/parameter-headers.ts";
import { type JsonSchema, soundObject, valuesIn } from "../../lib/json.ts";
import type { Problem } from "../../lib/problem.ts";
import { fixed } from "../../limits/fixed.ts";
import { readApp, readUiTag } from "../assets/app-files.ts";
import { readIcon } from "../assets/icon-files.ts";
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
} from "../discovery.ts";
import { resolveTagFile } from "../files/resolve.ts";
import type { PackageFiles } from "../packages/package-files.ts";
import { annotationsOf } from "../tags/tags.ts";
import { parseUriTemplate, type Variable } from "../uri-template.ts";
import { Budget } from "./budget.ts";
import type { Candidate, Reading, ToolObject } from "./candidate.ts";
import { TooManyDeclarations } from "./declaration-counter.ts";
import { tagOf, type DocTag, tagText, withLinks, type Doc } from "./doc-comments.ts";
import { exportedFunctions } from "./exports.ts";
import { plainInput, readGivenInput, readHandlerInput, readInput, readNamedInput, type Input } from "./input.ts";
import { readOutput, resultOf } from "./output.ts";
import { settle } from "./overloads.ts";
import { isHostContext, parametersOf, takenParameters } from "./parameters.ts";
import { nameOf, openProgram, type DefinitionProgram } from "./program.ts";
import { repeatedDeclarations } from "./repeated-names.ts";
import { findPosition, placeIn, problemAt, Reporter, textPart } from "./reporter.ts";
import { requestsIn } from "./request-tags.ts";
import { relativeReads, unsetVariables } from "./run-time-reads.ts";
import { faultOfForm } from "./schema-check.ts";
import { openSchema, propertiesIn } from "./schema-merge.ts";
import { SchemaSources } from "./schema-sources.ts";
import { exportedObjects, toolObjects, withMetadata, type ExportedObject } from "./tool-objects.ts";
import { typeErrors } from "./type-errors.ts";
import { nothingExported, unofferedExports } from "./unoffered.ts";

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
  const definition = { program, source, schemas };
  const finder = new Finder(definition);
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
  finder.note(unreadObjects(objects, definition));
  finder.note(unreachableSchemas(program, schemas));
  const found = finder.found();
  return {
    ...found,
    problems: [...found.problems, ...typeErrors(program, found.problems)],
    ...(requested.length > 0 && { requested }),
  };
}

/** Objects that hold tools by their types, and no tool when the module has been loaded, or less than they seem to. */
function unreadObjects(objects: readonly ExportedObject[], { program, schemas }: Definition): Problem[] {
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
      const problem = { severity: "warning", code: "no-tool-object", message } as const;
      return problemAt(other.valueDeclaration ?? node, problem, program);
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

/** A definition while its functions are read. */
interface Definition {
  readonly program: DefinitionProgram;
  readonly source: DefinitionSource;
  readonly schemas: SchemaSources;
}

type FullReading = Reading & Definition;

/** Reads the functions one by one, and tells names and sizes of all of them apart. */
class Finder {
  readonly #definition: Definition;
  readonly #apps = new Map<string, DiscoveredApp>();
  readonly #found = {
    tools: [] as DiscoveredTool[],
    resources: [] as DiscoveredResource[],
    prompts: [] as DiscoveredPrompt[],
    completions: [] as DiscoveredCompletion[],
  };
  readonly #completables: Completable[] = [];
  readonly #problems: Problem[] = [];

  #bytes = 0;
  #values = 0;

  constructor(definition: Definition) {
    this.#definition = definition;
  }

  found(): Discovery {
    const apps = [...this.#apps.values()];
    return { ...this.#found, ...(apps.length > 0 && { apps }), problems: this.#problems };
  }

  read(candidate: Candidate): void {
    const [role, other] = roleTags(candidate);
    const tag = role === undefined ? undefined : tagOf(candidate.doc, role)!;
    if (other !== undefined) {
      const message = `a function is either a @${role} or a @${other}; write two functions`;
      this.#refuse(candidate, "several-roles", message, tagOf(candidate.doc, other)!.node);
    } else if (!tag) this.#addTool(candidate);
    else if (role === "resource") this.#addResource(candidate, tag);
    else if (role === "prompt") this.#addPrompt(candidate);
  }

  /** When all prompts and resources are known. */
  readCompletions(candidate: Candidate): void {
    if (roleTags(candidate).length !== 1) return;
    for (const tag of candidate.doc.tags.filter(({ name }) => name === "completes")) {
      const completion = this.#read(candidate, (settled, reading) =>
        readCompletion(settled, tag, this.#completables, reading),
      );
      if (!completion) continue;
      const { of, argument } = completion;
      if (this.#found.completions.some((other) => other.of === of && other.argument === argument)) {
        this.#refuse(candidate, "repeated-completion", `another function already completes ${tag.text}`, tag.node);
      } else this.#found.completions.push(completion);
    }
  }

  /** Notes what is wrong about a candidate; undefined if that leaves it out. */
  #read<T>(found: Candidate, read: (settled: Candidate, reading: FullReading) => T | undefined): T | undefined {
    const reporter = new Reporter(found, this.#definition.program);
    const reading = { ...this.#definition, reporter, budget: new Budget() };
    const settled = settle(found, reading);
    const result = settled && read(settled, reading);
    this.note(reporter.problems);
    return reporter.hasErrors ? undefined : result;
  }

  #addTool(candidate: Candidate): void {
    const isRepeated = (name: string): boolean => this.#found.tools.some((tool) => tool.name === name);
    if (isRepeated(candidate.name) && !tagOf(candidate.doc, "name")) return this.#refuseRepeated(candidate, "tool");
    const { tool, app }: Partial<ReadTool> = this.#read(candidate, readTool) ?? {};
    if (!tool) return;
    if (isRepeated(tool.name)) this.#refuseRepeated(candidate, "tool");
    else if (this.#fits(candidate, tool)) {
      this.#found.tools.push(tool);
      if (app) this.#apps.set(app.uri, app);
    }
  }

  #addResource(candidate: Candidate, tag: DocTag): void {
    const resource = this.#read(candidate, (settled, reading) => readResource(settled, tag, reading));
    if (!resource) return;
    const { name, uri } = resource;
    if (this.#found.resources.some((other) => other.uri === uri)) {
      return this.#refuse(candidate, "repeated-resource", `another function is already the resource ${uri}`, tag.node);
    }
    if (!this.#fits(candidate, resource)) return;
    this.#found.resources.push(resource);
    const template = parseUriTemplate(uri);
    const variables = "parts" in template ? template.variables.map((variable) => variable.name) : [];
    this.#completables.push({ names: [candidate.name, name], of: uri, arguments: variables });
  }

  #addPrompt(candidate: Candidate): void {
    const prompt = this.#read(candidate, readPrompt);
    if (!prompt) return;
    const { name } = prompt;
    if (this.#found.prompts.some((other) => other.name === name)) return this.#refuseRepeated(candidate, "prompt");
    if (!this.#fits(candidate, prompt)) return;
    this.#found.prompts.push(prompt);
    const names = prompt.arguments.map((argument) => argument.name);
    this.#completables.push({ names: [candidate.name, name], of: name, arguments: names });
  }

  /** A few lines of types can unfold to megabytes, which whoever serves hashes, compares, lists and shows. */
  #fits(candidate: Candidate, found: DiscoveredTool | DiscoveredResource | DiscoveredPrompt): boolean {
    const { toolBytes } = bounds;
    const { contractBytes, contractValues } = contractBounds;
    const bytes = Buffer.byteLength(JSON.stringify(found));
    const refuse = (code: string, message: string): false => {
      this.#refuse(candidate, code, message, candidate.nameNode);
      return false;
    };
    const simplify = "use simpler types: fewer literals, or a string that the function itself checks";
    if (bytes > toolBytes) {
      const message = `its schemas and texts have ${bytes} bytes, and at most ${toolBytes} are allowed; ${simplify}`;
      return refuse("too-large", message);
    }
    const schemas = [found.inputSchema, ("outputSchema" in found && found.outputSchema) || {}];
    const broken = schemas.map(faultOfForm).find((fault) => fault !== undefined);
    if (broken !== undefined) {
      const isOwn = candidate.object ?? found.call.parsed;
      const message = isOwn
        ? `its schema is not valid JSON Schema 2020-12 (${broken}): correct it there`
        : `its types give an invalid JSON Schema (${broken}); use simpler types`;
      return refuse("invalid-schema", message);
    }
    const values = valuesIn(found, contractValues - this.#values);
    const excess =
      this.#bytes + bytes > contractBytes
        ? `schemas and texts have more than ${contractBytes} bytes`
        : this.#values + values > contractValues
          ? `schemas have more than ${contractValues} values`
          : undefined;
    if (excess !== undefined) return refuse("too-large", `with it all ${excess}; ${simplify}, or split the server`);
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
    const reporter = new Reporter(candidate, this.#definition.program);
    reporter.add("error", code, message, node);
    this.note(reporter.problems);
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

interface ReadTool {
  readonly tool: DiscoveredTool;
  readonly app?: DiscoveredApp | undefined;
}

/** One object with a handler as a tool. */
function readToolObject(candidate: Candidate, object: ToolObject, reading: FullReading): ReadTool | undefined {
  const { program, reporter } = reading;
  const { described, handler, value } = object;
  const input = readHandlerInput(candidate, object, reading);
  // The types of a handler that a library has wrapped are the library's.
  const ownOutput = candidate.implementation ? readOutput : () => null;
  const naming = readNaming(candidate, reporter);
  const output = described.output
    ? describedOutput(described.output, candidate, reporter)
    : ownOutput(candidate, { ...reading, schemas: undefined });
  if (!input) return undefined;
  const [first, second] = parametersOf(candidate, program.checker);
  const isContext = second !== undefined && isHostContext(second, program);
  const hasContext = Object.hasOwn(propertiesIn(input.schema), "context");
  // Mastra hands a handler everything in one object.
  const under = handler === "execute" && first?.type.getProperty("context") && !hasContext;
  const tool: DiscoveredTool = {
    ...naming,
    ...(described.title !== undefined && { title: described.title }),
    inputSchema: input.schema,
    outputSchema: output,
    annotations: { ...annotationsOf(candidate.doc), ...described.annotations },
    call: {
      ...callShape(candidate, { ...input, context: isContext }, resultOf(candidate, program)),
      member: [...value.path, handler],
      ...(under && { under: "context" }),
      ...(second && !isContext && { options: true }),
    },
    ...findPosition(candidate.nameNode, program),
  };
  return { tool };
}

function describedOutput(output: DescribedSchema, { nameNode }: Candidate, reporter: Reporter): JsonSchema | null {
  if ("json" in output) return openSchema(output.json);
  const message = `the schema of its results cannot be read: ${output.fault}; the tool is offered without it`;
  reporter.add("warning", "schema-unread", message, nameNode);
  return null;
}

/** One exported function as a tool; undefined if a problem leaves it out. */
function readTool(candidate: Candidate, reading: FullReading): ReadTool | undefined {
  const { program, reporter, schemas } = reading;
  const { doc, module, object } = candidate;
  if (object) return readToolObject(candidate, object, reading);
  const naming = readNamingAndIcons(candidate, reading);
  const given = readGivenInput(candidate, reading);
  const named = given ? undefined : readNamedInput(candidate, reading);
  if (!named && reporter.hasErrors) return undefined;
  const input = given ?? named ?? readInput(candidate, reading);
  const described = module?.output && schemas.describe(module.output, "output");
  const output = described ? describedOutput(described, candidate, reporter) : readOutput(candidate, reading);
  for (const { header, message } of faultsOfHeaders(input.schema)) {
    const tag = given ? tagOf(doc, "inputschema") : undefined;
    const node = input.headers.get(header) ?? tag?.node ?? candidate.nameNode;
    reporter.add("error", "invalid-header", message, node, tag && textPart(tag));
  }
  const { ui, app } = readUi(candidate, reading);
  if (reporter.hasErrors) return undefined;

  const task = readTask(doc, reporter);
  const tool: DiscoveredTool = {
    ...naming,
    inputSchema: withExamples(input.schema, candidate),
    outputSchema: output && withTitle(output, candidate),
    annotations: { ...annotationsOf(doc), ...module?.annotations },
    ...(task && { task }),
    ...(ui && { ui }),
    call: callShape(candidate, input, resultOf(candidate, program)),
    ...findPosition(candidate.nameNode, program),
  };
  return { tool, app };
}

/** `@ui <file.html> [model] [app]` */
function readUi(
  { doc }: Candidate,
  { source, program, reporter }: FullReading,
): { readonly ui?: ToolUi; readonly app?: DiscoveredApp } {
  const tag = tagOf(doc, "ui");
  if (!tag) return {};
  const { file, visibility, unknown } = readUiTag(tag.text);
  const fault = (code: string, message: string, word?: string): object => {
    reporter.addAtTag("error", code, message, tag, word);
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
function readIcons({ doc }: Candidate, { source, program, reporter }: FullReading): readonly Icon[] {
  const tags = doc.tags.filter(({ name }) => name === "icon");
  const beyond = tags[ICONS_MAX];
  const icons = tags.slice(0, ICONS_MAX).flatMap((tag) => {
    const read = readIcon(tag.text, program.nameOf(tag.node.getSourceFile()), source.files);
    if ("icon" in read) return [read.icon];
    reporter.addAtTag("warning", "invalid-icon", `${read.fault}; it is left out`, tag, read.word);
    return [];
  });
  if (beyond) reporter.addAtTag("warning", "invalid-icon", `only ${ICONS_MAX} icons are read`, beyond);
  return icons;
}

/** `@task`, `@task required`, `@task deferred` or both. */
function readTask(doc: Doc, reporter: Reporter): TaskSupport | undefined {
  const tag = tagOf(doc, "task");
  if (!tag) return undefined;
  const words = tag.text.split(/[\s,]+/).filter(Boolean);
  const unknown = words.find((word) => !["optional", "required", "deferred"].includes(word));
  if (unknown !== undefined) {
    const message = `@task takes required and deferred, not "${unknown}"`;
    reporter.addAtTag("warning", "unknown-task-word", message, tag, unknown);
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
function readResource(candidate: Candidate, tag: DocTag, reading: FullReading): DiscoveredResource {
  const { program, reporter } = reading;
  const naming = readNamingAndIcons(candidate, reading);
  const [, uri = "", mimeType = ""] = /^(\S*)\s*([^\n]*)/.exec(tag.text) ?? [];
  const variables = readUri(uri, tag, reporter);
  if (mimeType !== "" && !/^[\w.+-]+\/[\w.+-]+(;.*)?$/.test(mimeType)) {
    const message = `"${mimeType}" is not a media type, such as text/plain`;
    const part = textPart(tag, tag.text.indexOf(mimeType, uri.length), mimeType.length);
    reporter.add("error", "invalid-mime-type", message, tag.node, part);
  }
  const input = readInput(candidate, reading);
  if (variables) checkParameters(variables, input, candidate, tag, reporter);
  return {
    ...naming,
    uri,
    ...(mimeType !== "" && { mimeType }),
    inputSchema: input.schema,
    call: callShape(candidate, input, resultOf(candidate, program)),
    ...findPosition(candidate.nameNode, program),
  };
}

function readUri(uri: string, tag: DocTag, reporter: Reporter): readonly Variable[] | undefined {
  const template = parseUriTemplate(uri);
  if (uri === "") {
    const message = "@resource needs a URI or a URI template, such as data://report";
    reporter.addAtTag("error", "invalid-uri", message, tag);
  } else if ("parts" in template) return template.variables;
  else {
    const part = textPart(tag, template.offset, template.length);
    reporter.add("error", "invalid-uri", `@resource ${uri}: ${template.message}`, tag.node, part);
  }
  return undefined;
}

/** The template must give exactly the variables that the function takes. */
function checkParameters(
  variables: readonly Variable[],
  { schema }: Input,
  { nameNode }: Candidate,
  tag: DocTag,
  reporter: Reporter,
): void {
  const properties = propertiesIn(schema);
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
function readPrompt(candidate: Candidate, reading: FullReading): DiscoveredPrompt {
  const { program, reporter } = reading;
  const naming = readNamingAndIcons(candidate, reading);
  const input = readInput(candidate, reading);
  return {
    ...naming,
    arguments: promptArguments(input, candidate, reporter),
    inputSchema: input.schema,
    call: callShape(candidate, input, resultOf(candidate, program)),
    ...findPosition(candidate.nameNode, program),
  };
}

function promptArguments({ schema }: Input, { nameNode }: Candidate, reporter: Reporter): PromptArgument[] {
  const required = (schema["required"] ?? []) as string[];
  return Object.entries(propertiesIn(schema)).map(([name, property]) => {
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
  candidate: Candidate,
  tag: DocTag,
  completables: readonly Completable[],
  reading: FullReading,
): DiscoveredCompletion | undefined {
  const { reporter } = reading;
  const target = readTarget(tag, completables, reporter);
  const { parameters, context } = takenParameters(candidate, reading);
  if (parameters.length > 2) {
    const message = "a completion takes the text typed so far and the other arguments: (value: string, others)";
    reporter.add("error", "completion-parameters", message, parameters[2]!.declaration ?? candidate.nameNode);
  }
  const params = ["value", "others"].slice(0, parameters.length);
  const input: Input = { ...plainInput, params, context };
  return target && { ...target, call: callShape(candidate, input, { isStreaming: false, isList: false }) };
}

function readTarget(
  tag: DocTag,
  completables: readonly Completable[],
  reporter: Reporter,
): Pick<DiscoveredCompletion, "of" | "argument"> | undefined {
  const [, name = "", argument = ""] = /^(\S+)\.([^\s.]+)/.exec(tag.text) ?? [];
  const target = completables.find(({ names }) => names.includes(name));
  if (target?.arguments.includes(argument)) return { of: target.of, argument };
  const known = target?.arguments.map((each) => `"${each}"`).join(", ");
  const message =
    name === ""
      ? "@completes needs a function and its argument: @completes f.x"
      : target
        ? `"${name}" has no argument "${argument}"; it has ${known || "none"}`
        : `"${name}" is not a valid @prompt or @resource`;
  reporter.addAtTag("error", "unknown-completion", message, tag);
  return undefined;
}

type Naming = Pick<DiscoveredTool, "name" | "title" | "description" | "icons">;

function readNamingAndIcons(candidate: Candidate, reading: FullReading): Naming {
  const naming = readNaming(candidate, reading.reporter);
  const icons = readIcons(candidate, reading);
  return { ...naming, ...(icons.length > 0 && { icons }) };
}

/** `@name other-name` publishes a function under another name than its own. */
function readNaming(candidate: Candidate, reporter: Reporter): Naming {
  const { name, doc, nameNode } = candidate;
  const written = tagOf(doc, "name");
  const tag = written && /^[A-Za-z0-9_./-]{1,64}$/.test(written.text) ? written : undefined;
  if (written && !tag) {
    const allowed = "a name must have 1 to 64 characters of A-Z, a-z, 0-9, _, ., / and -; it is ignored";
    reporter.addAtTag("warning", "invalid-name", `@name ${written.text}: ${allowed}`, written);
  }
  if (!tag && !/^[A-Za-z0-9_.-]{1,128}$/.test(name)) {
    const reason = `the name has characters that clients refuse; publish it under another name: @name …`;
    reporter.add("error", "invalid-tool-name", reason, nameNode);
  }
  const title = tagText(doc, "title");
  const description = [doc.description, deprecation(candidate)].filter(Boolean).join("\n\n");
  return { name: tag?.text ?? name, ...(title && { title }), ...(description && { description }) };
}

/** In words, as nothing else of a tool can say it. Of several signatures it may be about one alone. */
function deprecation({ doc, signatures }: Candidate): string {
  const text = tagText(doc, "deprecated");
  if (text === undefined || signatures.length > 1) return "";
  return text === "" ? "Deprecated." : `Deprecated: ${withLinks(text)}`;
}

function callShape(
  candidate: Candidate,
  { style, params, rest, context, dates, urls, spokenDefaults, parsed }: Input,
  { isStreaming, isList }: { readonly isStreaming: boolean; readonly isList: boolean },
): CallShape {
  return {
    export: candidate.export,
    style,
    params,
    ...(rest && { rest }),
    ...(context && { context }),
    ...(isStreaming && { streaming: true }),
    ...(isList && { list: true }),
    ...(dates.length > 0 && { dates }),
    ...(urls.length > 0 && { urls }),
    ...(spokenDefaults.length > 0 && { spokenDefaults }),
    ...(parsed.length > 0 && { parsed }),
  };
}

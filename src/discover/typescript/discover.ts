import ts from "#typescript";
import { contractBounds } from "../../contract/contract-bounds.ts";
import { ICONS_MAX, type Icon } from "../../contract/icons.ts";
import { findHeaderFaults } from "../../contract/parameter-headers.ts";
import { type JsonSchema, tryParseObject, countValues } from "../../lib/json.ts";
import type { Problem } from "../../lib/problem.ts";
import { fixed } from "../../limits/fixed.ts";
import { readApp, readUiTag } from "../assets/app-files.ts";
import { readIcon } from "../assets/icon-files.ts";
import {
  emptyDiscovery,
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
import { readAnnotations } from "../tags/tags.ts";
import { parseUriTemplate, type Variable } from "../uri-template.ts";
import { Budget } from "./budget.ts";
import type { Candidate, ReadContext, ToolObject } from "./candidate.ts";
import { TooManyDeclarations } from "./declaration-counter.ts";
import { findTag, type DocTag, tagText, withLinks, type Doc } from "./doc-comments.ts";
import { exportedFunctions } from "./exports.ts";
import { plainInput, readExplicitInput, readHandlerInput, readInput, readNamedInput, type Input } from "./input.ts";
import { readOutput, resolveResult } from "./output.ts";
import { resolveOverloads } from "./overloads.ts";
import { isHostContext, listParameters, callerParameters } from "./parameters.ts";
import { relativeName, openProgram, type DefinitionProgram } from "./program.ts";
import { repeatedDeclarations } from "./repeated-names.ts";
import { findPosition, locateRange, problemAt, Reporter, textPart } from "./reporter.ts";
import { findRequests } from "./request-tags.ts";
import { relativeReads, unsetVariables } from "./run-time-reads.ts";
import { findMetaSchemaFault } from "./schema-check.ts";
import { openSchema, propertiesIn } from "./schema-merge.ts";
import { SchemaSources } from "./schema-sources.ts";
import { exportedObjects, toolObjects, withMetadata, type ExportedObject } from "./tool-objects.ts";
import { typeErrors } from "./type-errors.ts";
import { nothingExported, unofferedExports } from "./unoffered.ts";

/** Limit of the names, texts and schemas of one discovered tool, resource or prompt, as JSON. */
const bounds = fixed({ toolBytes: 128 * 1024 });

/** Finds what a definition offers, in this process. Types can make it run forever: servers use `compiler.ts`. */
export function discover(source: DefinitionSource, packages?: PackageFiles): Discovery {
  return beginDiscovery(source, packages).discovery;
}

/** A discovery by types alone, and a function for a second one with the evaluated schemas. */
export interface FirstPass {
  readonly discovery: Discovery;
  readonly complete?: (described: DescribedSchemas) => Discovery;
  readonly schemas?: SchemaSources;
}

export function beginDiscovery(source: DefinitionSource, packages?: PackageFiles): FirstPass {
  const program = tryOpenProgram(source, packages);
  if (!("checker" in program)) return { discovery: { ...emptyDiscovery, problems: [program] } };
  const syntax = syntaxProblems(program);
  if (syntax.length > 0) return { discovery: { ...emptyDiscovery, problems: syntax } };
  const schemas = new SchemaSources(program);
  return {
    discovery: discoverIn(program, source, schemas),
    schemas,
    complete: (described) => discoverIn(program, source, schemas.answer(described)),
  };
}

function discoverIn(program: DefinitionProgram, source: DefinitionSource, schemas: SchemaSources): Discovery {
  const definition = { program, source, schemas };
  const finder = new Finder(definition);
  const functions = exportedFunctions(program, source.server);
  const objects = exportedObjects(program);
  const candidates = [
    ...functions.map((candidate) => withMetadata(candidate, program, schemas)),
    ...toolObjects(objects, program, schemas, source.server),
  ];
  if (candidates.length === 0 && objects.length === 0) finder.note([nothingExported(program)]);
  else finder.note(unofferedExports(program, objects));
  for (const candidate of candidates) finder.read(candidate);
  for (const candidate of candidates) finder.readCompletions(candidate);
  const { requested, problems } = findRequests(program, candidates);
  finder.note(problems);
  finder.note(unsetVariables(program, source.server));
  finder.note(relativeReads(program));
  finder.note(unreadObjects(objects, definition));
  finder.note(unreachableSchemas(program, schemas));
  const discovery = finder.result();
  return {
    ...discovery,
    problems: [...discovery.problems, ...typeErrors(program, discovery.problems)],
    ...(requested.length > 0 && { requested }),
  };
}

/** Reports objects that have tools by their types, but none or fewer after the module has been loaded. */
function unreadObjects(objects: readonly ExportedObject[], { program, schemas }: Definition): Problem[] {
  return objects.flatMap(({ exported, type, node }) => {
    const tools = schemas.describedTools(exported.name);
    if (tools?.length === 0) {
      const reason = schemas.fault === undefined ? "" : `: ${schemas.fault}`;
      const message = `${exported.name}: it contains no tool after the module has been loaded${reason}`;
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
      `the schema ${name.getText()} is not a constant at the top level of a file, so only its type is ` +
      "published: put it there";
    return problemAt(name, { severity: "warning", code: "schema-unread", message }, program);
  });
}

function tryOpenProgram(source: DefinitionSource, packages?: PackageFiles): DefinitionProgram | Problem {
  try {
    return openProgram(source, packages);
  } catch (error) {
    if (!(error instanceof TooManyDeclarations)) throw error;
    const problem = { severity: "error", code: "too-many-declarations", message: error.message } as const;
    return problemAt(error.importedAt, problem, { relativeName });
  }
}

/** Tags that turn a function into something other than a tool. */
const roles = ["resource", "prompt", "completes"];

/** A definition whose functions are being read. */
interface Definition {
  readonly program: DefinitionProgram;
  readonly source: DefinitionSource;
  readonly schemas: SchemaSources;
}

type FullReading = ReadContext & Definition;

/** Reads the functions one by one, and checks the names and sizes of all of them together. */
class Finder {
  readonly #definition: Definition;
  readonly #apps = new Map<string, DiscoveredApp>();
  readonly #offers = {
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

  result(): Discovery {
    const apps = [...this.#apps.values()];
    return { ...this.#offers, ...(apps.length > 0 && { apps }), problems: this.#problems };
  }

  read(candidate: Candidate): void {
    const [role, other] = roleTags(candidate);
    const tag = role === undefined ? undefined : findTag(candidate.doc, role)!;
    if (other !== undefined) {
      const message = `a function is either a @${role} or a @${other}; write two functions`;
      this.#refuse(candidate, "several-roles", message, findTag(candidate.doc, other)!.node);
    } else if (!tag) this.#addTool(candidate);
    else if (role === "resource") this.#addResource(candidate, tag);
    else if (role === "prompt") this.#addPrompt(candidate);
  }

  /** Called when all prompts and resources are known. */
  readCompletions(candidate: Candidate): void {
    if (roleTags(candidate).length !== 1) return;
    for (const tag of candidate.doc.tags.filter(({ name }) => name === "completes")) {
      const completion = this.#read(candidate, (settled, reading) =>
        readCompletion(settled, tag, this.#completables, reading),
      );
      if (!completion) continue;
      const { of, argument } = completion;
      if (this.#offers.completions.some((other) => other.of === of && other.argument === argument)) {
        this.#refuse(candidate, "repeated-completion", `another function already completes ${tag.text}`, tag.node);
      } else this.#offers.completions.push(completion);
    }
  }

  /** Records the problems of a candidate; undefined if one of them leaves it out. */
  #read<T>(candidate: Candidate, read: (settled: Candidate, reading: FullReading) => T | undefined): T | undefined {
    const reporter = new Reporter(candidate, this.#definition.program);
    const reading = { ...this.#definition, reporter, budget: new Budget() };
    const settled = resolveOverloads(candidate, reading);
    const result = settled && read(settled, reading);
    this.note(reporter.problems);
    return reporter.hasErrors ? undefined : result;
  }

  #addTool(candidate: Candidate): void {
    const isRepeated = (name: string): boolean => this.#offers.tools.some((tool) => tool.name === name);
    if (isRepeated(candidate.name) && !findTag(candidate.doc, "name")) return this.#refuseRepeated(candidate, "tool");
    const { tool, app }: Partial<ReadTool> = this.#read(candidate, readTool) ?? {};
    if (!tool) return;
    if (isRepeated(tool.name)) this.#refuseRepeated(candidate, "tool");
    else if (this.#fits(candidate, tool)) {
      this.#offers.tools.push(tool);
      if (app) this.#apps.set(app.uri, app);
    }
  }

  #addResource(candidate: Candidate, tag: DocTag): void {
    const resource = this.#read(candidate, (settled, reading) => readResource(settled, tag, reading));
    if (!resource) return;
    const { name, uri } = resource;
    if (this.#offers.resources.some((other) => other.uri === uri)) {
      return this.#refuse(candidate, "repeated-resource", `another function is already the resource ${uri}`, tag.node);
    }
    if (!this.#fits(candidate, resource)) return;
    this.#offers.resources.push(resource);
    const template = parseUriTemplate(uri);
    const variables = "parts" in template ? template.variables.map((variable) => variable.name) : [];
    this.#completables.push({ names: [candidate.name, name], of: uri, arguments: variables });
  }

  #addPrompt(candidate: Candidate): void {
    const prompt = this.#read(candidate, readPrompt);
    if (!prompt) return;
    const { name } = prompt;
    if (this.#offers.prompts.some((other) => other.name === name)) return this.#refuseRepeated(candidate, "prompt");
    if (!this.#fits(candidate, prompt)) return;
    this.#offers.prompts.push(prompt);
    const names = prompt.arguments.map((argument) => argument.name);
    this.#completables.push({ names: [candidate.name, name], of: name, arguments: names });
  }

  /** A few lines of types can expand to megabytes, which a serving process would hash, compare, list and display. */
  #fits(candidate: Candidate, offer: DiscoveredTool | DiscoveredResource | DiscoveredPrompt): boolean {
    const { toolBytes } = bounds;
    const { contractBytes, contractValues } = contractBounds;
    const bytes = Buffer.byteLength(JSON.stringify(offer));
    const refuse = (code: string, message: string): false => {
      this.#refuse(candidate, code, message, candidate.nameNode);
      return false;
    };
    const simplify = "use simpler types: fewer literals, or a string that the function itself checks";
    if (bytes > toolBytes) {
      const message = `its schemas and texts have ${bytes} bytes, and at most ${toolBytes} are allowed; ${simplify}`;
      return refuse("too-large", message);
    }
    const schemas = [offer.inputSchema, ("outputSchema" in offer && offer.outputSchema) || {}];
    const invalidity = schemas.map(findMetaSchemaFault).find((fault) => fault !== undefined);
    if (invalidity !== undefined) {
      const isOwn = candidate.object ?? offer.call.parsed;
      const message = isOwn
        ? `its schema is not valid JSON Schema 2020-12 (${invalidity}): correct it there`
        : `its types give an invalid JSON Schema (${invalidity}); use simpler types`;
      return refuse("invalid-schema", message);
    }
    const values = countValues(offer, contractValues - this.#values);
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

  /** A loop, because there may be more problems than a call can take arguments. */
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
  return roles.filter((role) => findTag(doc, role));
}

/** After a syntax error, nothing else can be trusted. */
function syntaxProblems({ program, own, relativeName: nameOf }: DefinitionProgram): Problem[] {
  const toProblem = (file: ts.SourceFile, diagnostic: ts.Diagnostic): Problem => {
    const place = locateRange(file.text, diagnostic.start ?? 0, diagnostic.length ?? 1);
    const message = ts.flattenDiagnosticMessageText(diagnostic.messageText, " ");
    return { severity: "error", code: "syntax-error", message, file: nameOf(file), ...place };
  };
  return own.flatMap((file) => {
    // Later errors follow from the first: after a missing parenthesis, the parser reports each of the following lines.
    const first = program.getSyntacticDiagnostics(file).toSorted((a, b) => (a.start ?? 0) - (b.start ?? 0))[0];
    return first ? [toProblem(file, first)] : repeatedDeclarations(file, { relativeName: nameOf });
  });
}

interface ReadTool {
  readonly tool: DiscoveredTool;
  readonly app?: DiscoveredApp | undefined;
}

/** Reads an object with a handler as a tool. */
function readToolObject(candidate: Candidate, object: ToolObject, reading: FullReading): ReadTool | undefined {
  const { program, reporter } = reading;
  const { described, handler, value } = object;
  const input = readHandlerInput(candidate, object, reading);
  // The types of a handler that a library has wrapped are those of the library.
  const ownOutput = candidate.implementation ? readOutput : () => null;
  const naming = readNaming(candidate, reporter);
  const output = described.output
    ? describedOutput(described.output, candidate, reporter)
    : ownOutput(candidate, { ...reading, schemas: undefined });
  if (!input) return undefined;
  const [first, second] = listParameters(candidate, program.checker);
  const isContext = second !== undefined && isHostContext(second, program);
  const hasContext = Object.hasOwn(propertiesIn(input.schema), "context");
  // Mastra passes everything to a handler in one object.
  const under = handler === "execute" && first?.type.getProperty("context") && !hasContext;
  const tool: DiscoveredTool = {
    ...naming,
    ...(described.title !== undefined && { title: described.title }),
    inputSchema: input.schema,
    outputSchema: output,
    annotations: { ...readAnnotations(candidate.doc), ...described.annotations },
    call: {
      ...callShape(candidate, { ...input, context: isContext }, resolveResult(candidate, program)),
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

/** Reads an exported function as a tool; undefined if a problem leaves it out. */
function readTool(candidate: Candidate, reading: FullReading): ReadTool | undefined {
  const { program, reporter, schemas } = reading;
  const { doc, module, object } = candidate;
  if (object) return readToolObject(candidate, object, reading);
  const naming = readNamingAndIcons(candidate, reading);
  const given = readExplicitInput(candidate, reading);
  const named = given ? undefined : readNamedInput(candidate, reading);
  if (!named && reporter.hasErrors) return undefined;
  const input = given ?? named ?? readInput(candidate, reading);
  const described = module?.output && schemas.describe(module.output, "output");
  const output = described ? describedOutput(described, candidate, reporter) : readOutput(candidate, reading);
  for (const { header, message } of findHeaderFaults(input.schema)) {
    const tag = given ? findTag(doc, "inputschema") : undefined;
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
    annotations: { ...readAnnotations(doc), ...module?.annotations },
    ...(task && { task }),
    ...(ui && { ui }),
    call: callShape(candidate, input, resolveResult(candidate, program)),
    ...findPosition(candidate.nameNode, program),
  };
  return { tool, app };
}

/** `@ui <file.html> [model] [app]` */
function readUi(
  { doc }: Candidate,
  { source, program, reporter }: FullReading,
): { readonly ui?: ToolUi; readonly app?: DiscoveredApp } {
  const tag = findTag(doc, "ui");
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
  const target = resolveTagFile(program.relativeName(tag.node.getSourceFile()), file, (path) =>
    Object.hasOwn(source.files, path),
  );
  if (target.kind !== "file") {
    return fault("missing-file", `@ui ${file} is not a file of the definition; put it next to this one`, file);
  }
  const { app, fault: appFault } = readApp(source, target.path);
  if (appFault) {
    const { line } = locateRange(source.files[target.path]!, appFault.start, appFault.length);
    return fault("invalid-ui", `${target.path}, line ${line}: ${appFault.message}`, file);
  }
  return { ui: { uri: app.uri, ...(visibility && { visibility }) }, app };
}

/** `@icon <image> [media type] [sizes] [theme]`, repeatable. An invalid icon is left out. */
function readIcons({ doc }: Candidate, { source, program, reporter }: FullReading): readonly Icon[] {
  const tags = doc.tags.filter(({ name }) => name === "icon");
  const excess = tags[ICONS_MAX];
  const icons = tags.slice(0, ICONS_MAX).flatMap((tag) => {
    const read = readIcon(tag.text, program.relativeName(tag.node.getSourceFile()), source.files);
    if ("icon" in read) return [read.icon];
    reporter.addAtTag("warning", "invalid-icon", `${read.fault}; it is left out`, tag, read.word);
    return [];
  });
  if (excess) reporter.addAtTag("warning", "invalid-icon", `only ${ICONS_MAX} icons are read`, excess);
  return icons;
}

/** `@task`, `@task required`, `@task deferred` or both. */
function readTask(doc: Doc, reporter: Reporter): TaskSupport | undefined {
  const tag = findTag(doc, "task");
  if (!tag) return undefined;
  const words = tag.text.split(/[\s,]+/).filter(Boolean);
  const unknown = words.find((word) => !["optional", "required", "deferred"].includes(word));
  if (unknown !== undefined) {
    const message = `@task takes required and deferred, not "${unknown}"`;
    reporter.addAtTag("warning", "unknown-task-word", message, tag, unknown);
  }
  return { required: words.includes("required"), deferred: words.includes("deferred") };
}

/** `@returns` becomes the title of the result's schema: descriptions belong to types. */
function withTitle(schema: JsonSchema, { doc }: Candidate): JsonSchema {
  return doc.returns === "" ? schema : { title: doc.returns, ...schema };
}

/** Examples of a whole call, if they are written as its arguments object. */
function withExamples(schema: JsonSchema, { doc }: Candidate): JsonSchema {
  const examples = doc.tags
    .filter((tag) => tag.name === "example" || tag.name === "examples")
    .flatMap((tag) => tryParseObject(tag.text.replace(/^```\w*\n|\n?```$/g, "")) ?? []);
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
    call: callShape(candidate, input, resolveResult(candidate, program)),
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

/** The template must provide exactly the variables that the function takes. */
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
    call: callShape(candidate, input, resolveResult(candidate, program)),
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

/** True if a text can represent a value of this schema: it is converted to a number or a boolean as needed. */
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
  /** The function's own name, and its published name. */
  readonly names: readonly string[];
  /** The name that clients use: a prompt's name, a resource's URI template. */
  readonly of: string;
  readonly arguments: readonly string[];
}

/** `@completes <function>.<argument>`: a function `(value, others) => string[]` that suggests values. */
function readCompletion(
  candidate: Candidate,
  tag: DocTag,
  completables: readonly Completable[],
  reading: FullReading,
): DiscoveredCompletion | undefined {
  const { reporter } = reading;
  const target = readTarget(tag, completables, reporter);
  const { parameters, context } = callerParameters(candidate, reading);
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
  const available = target?.arguments.map((argumentName) => `"${argumentName}"`).join(", ");
  const message =
    name === ""
      ? "@completes needs a function and its argument: @completes f.x"
      : target
        ? `"${name}" has no argument "${argument}"; it has ${available || "none"}`
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

/** `@name other-name` publishes a function under another name. */
function readNaming(candidate: Candidate, reporter: Reporter): Naming {
  const { name, doc, nameNode } = candidate;
  const written = findTag(doc, "name");
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

/** As text, because a tool has no field for it. Of several signatures, the tag may be about only one. */
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

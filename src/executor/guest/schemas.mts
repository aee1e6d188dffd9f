import type {
  BundledValue,
  DescribedSchema,
  DescribedTool,
  ParsedArgument,
  SchemaRequest,
} from "../../discover/discovery.ts";
import type { JsonObject, JsonSchema } from "../../lib/json.ts";
import { loadBundle } from "./bundle.mts";
import { describe as explain } from "./errors.mts";
import { visitAt, formatPath } from "./reach.mts";

/**
 * The schemas of libraries in a program: converts them to JSON Schema, and parses arguments with them. Supports
 * Standard Schema and, for libraries that do not describe themselves by it, their own converters.
 */
type Bundle = Record<string, unknown>;

interface StandardSchema {
  readonly "~standard"?: {
    readonly vendor: string;
    readonly validate: (value: unknown) => ValidationResult | Promise<ValidationResult>;
    readonly jsonSchema?: Readonly<Record<"input" | "output", (options: object) => JsonSchema>>;
  };
}

interface ValidationResult {
  readonly value?: unknown;
  readonly issues?: readonly {
    readonly message: string;
    readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[];
  }[];
}

/**
 * The answers to a request, as JSON, from two loads of the program: one today, and one in another year with other
 * random numbers. A schema that differs between the two cannot be published.
 */
export async function describeTwice(request: SchemaRequest, code: Uint8Array): Promise<[string, string]> {
  fakeClockAndRandom(0, 16_807);
  const first = await describeSchemas(request, await loadBundle(code));
  fakeClockAndRandom(LATER_MS, RANDOM_MAX - 16_807);
  return [first, await describeSchemas(request, await loadBundle(code, "?again"))];
}

/** More than a year, and the other half of the day: anything that depends on either differs then. */
const LATER_MS = 400.5 * 24 * 3_600_000;
const RANDOM_MAX = 2 ** 31 - 1;
const OriginalDate = Date;

/** Advances the clock and seeds the random numbers. */
function fakeClockAndRandom(laterMs: number, seed: number): void {
  const now = (): number => OriginalDate.now() + laterMs;
  globalThis.Date = new Proxy(OriginalDate, {
    construct: (constructor, args: [], target: typeof Date) =>
      Reflect.construct(constructor, args.length > 0 ? args : [now()], target) as Date,
    apply: () => new OriginalDate(now()).toString(),
    get: (constructor, name, receiver) =>
      name === "now" ? now : (Reflect.get(constructor, name, receiver) as unknown),
  });
  let random = seed;
  // Park and Miller's generator.
  Math.random = () => (random = (random * 16_807) % RANDOM_MAX) / RANDOM_MAX;
}

async function describeSchemas(request: SchemaRequest, bundle: Bundle): Promise<string> {
  const context = { request, bundle };
  const schemas = request.schemas.map((each) => describe(valueAt(bundle, each), each.io, context));
  const ids = new Map<object, number>();
  const tools = request.tools.map((name) => describeTools(bundle[name], context, ids));
  return JSON.stringify({ schemas: await Promise.all(schemas), tools: await Promise.all(tools) });
}

interface DescribeContext {
  readonly request: SchemaRequest;
  readonly bundle: Bundle;
}

type Io = SchemaRequest["schemas"][number]["io"];

async function describe(value: unknown, io: Io, context: DescribeContext): Promise<DescribedSchema> {
  try {
    const converted = await convert(value, io, context);
    // A value that JSON cannot represent must not pass for one that it can.
    const json: unknown = isObject(converted) ? JSON.parse(JSON.stringify(converted)) : undefined;
    return isObject(json) && !Array.isArray(json) ? { json } : { fault: NOT_A_SCHEMA };
  } catch (error) {
    return { fault: explain(error).message };
  }
}

const NOT_A_SCHEMA =
  "it is not a schema that can describe itself as JSON Schema: use zod 4, valibot, ArkType, or a library with Standard JSON Schema";

type Converter = (schema: unknown, options: object) => JsonSchema;

const TARGET = "draft-2020-12";
/** For zod: types that JSON cannot represent are left open, not refused. */
const OPEN = { unrepresentable: "any" };

async function convert(value: unknown, io: Io, context: DescribeContext): Promise<unknown> {
  if (!isObject(value) && typeof value !== "function") return undefined;
  const { "~standard": standard, jsonSchema, toJsonSchema } = value as Convertible;
  const vendor = standard?.vendor;
  const findConverter = (library: "zod" | "valibot"): Converter | undefined =>
    context.bundle[context.request.converters[library] ?? ""] as Converter | undefined;
  if (standard?.jsonSchema)
    return standard.jsonSchema[io]({ target: TARGET, ...(vendor === "zod" && { libraryOptions: OPEN }) });
  if (vendor === "zod" && "_zod" in value) return findConverter("zod")?.(value, { io, target: TARGET, ...OPEN });
  if (vendor === "zod") throw new Error("zod 3 cannot describe its schemas as JSON: use zod 4");
  if (vendor === "valibot") {
    const converter = findConverter("valibot");
    if (!converter) throw new Error("valibot needs a package for that: run berth add @valibot/to-json-schema");
    return converter(value, { typeMode: io, errorMode: "ignore", target: TARGET });
  }
  if (typeof toJsonSchema === "function") return toJsonSchema.call(value);
  if (vendor !== undefined) throw new Error(`the library ${vendor} cannot describe its schemas as JSON`);
  if (jsonSchema !== undefined) return typeof jsonSchema === "function" ? jsonSchema() : jsonSchema;
  const shape = readShape(value);
  if (shape) return convertShape(shape, io, context);
  const keywords = Object.keys(value);
  if (keywords.length === 0) return { type: "object", properties: {} };
  return keywords.some((keyword) => KEYWORDS.has(keyword)) ? value : undefined;
}

interface Convertible extends StandardSchema {
  readonly jsonSchema?: unknown;
  readonly toJsonSchema?: () => unknown;
}

/** An object with one of these is treated as JSON Schema. */
const KEYWORDS: ReadonlySet<string> = new Set("$schema type properties $ref anyOf oneOf allOf enum const".split(" "));

/** The schemas of the properties of an object, as in `{ city: z.string() }`; undefined for any other value. */
function readShape(value: object): [string, Required<StandardSchema>["~standard"], unknown][] | undefined {
  const parts = Object.entries(value).map(([name, part]) => [
    name,
    (part as StandardSchema | null)?.["~standard"],
    part,
  ]);
  return parts.length > 0 && parts.every(([, standard]) => standard) ? (parts as never) : undefined;
}

async function convertShape(
  shape: NonNullable<ReturnType<typeof readShape>>,
  io: Io,
  context: DescribeContext,
): Promise<JsonSchema> {
  const properties: [string, unknown][] = [];
  const required: string[] = [];
  for (const [name, standard, part] of shape) {
    const { $schema: _, ...json } = (await convert(part, io, context)) as JsonSchema;
    properties.push([name, json]);
    if ((await standard.validate(undefined)).issues) required.push(name);
  }
  return { type: "object", properties: Object.fromEntries(properties), required };
}

/** The tools that a value is, or contains in a list or by name. */
async function describeTools(
  value: unknown,
  context: DescribeContext,
  ids: Map<object, number>,
): Promise<DescribedTool[]> {
  const isTool = (candidate: unknown): candidate is JsonObject =>
    isObject(candidate) && context.request.handlers.some((name) => typeof candidate[name] === "function");
  /** A getter that throws affects only its own tool. */
  const toolsAt = async (read: () => unknown, at: readonly string[]): Promise<DescribedTool[]> => {
    let key = {};
    const id = (): number => ids.get(key) ?? ids.set(key, ids.size).size - 1;
    try {
      const tool = read();
      if (!isTool(tool)) return [];
      key = tool;
      return [{ id: id(), at, ...(await describeTool(tool, context)) }];
    } catch (error) {
      return [{ id: id(), at, input: { fault: explain(error).message } }];
    }
  };
  const self = await toolsAt(() => value, []);
  if (self.length > 0 || !isObject(value)) return self;
  const nested = await Promise.all(Object.keys(value).map((name) => toolsAt(() => value[name], [name])));
  return nested.flat();
}

async function describeTool(
  tool: Record<string, unknown>,
  context: DescribeContext,
): Promise<Omit<DescribedTool, "id" | "at">> {
  const text = (key: string, ...names: readonly string[]): object => {
    const value = names.map((name) => tool[name]).find((each) => typeof each === "string" && each !== "");
    return value === undefined ? {} : { [key]: value };
  };
  const schema = tool["inputSchema"] ?? tool["parameters"] ?? tool["schema"] ?? undefined;
  const outputSchema = tool["outputSchema"] ?? undefined;
  const { annotations } = tool;
  return {
    ...text("name", "name", "id"),
    ...text("title", "title"),
    ...text("description", "description"),
    ...(isObject(annotations) && { annotations }),
    ...(schema !== undefined && { input: await describe(schema, "input", context) }),
    ...(outputSchema !== undefined && { output: await describe(outputSchema, "output", context) }),
  };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

export function valueAt(bundle: Bundle, { export: name, path }: BundledValue): unknown {
  return path.reduce<unknown>((at, step) => (at as Record<string, unknown> | undefined)?.[step], bundle[name]);
}

/** The arguments as parsed by their schemas; a promise if a schema is asynchronous. Throws their issues. */
export function parseArguments(
  parsed: readonly ParsedArgument[],
  args: JsonObject,
  bundle: Bundle,
): JsonObject | Promise<JsonObject> {
  let whole: unknown = args;
  const pending: Promise<void>[] = [];
  for (const { schema, at, absent, orNull } of parsed) {
    const standard = findStandard(valueAt(bundle, schema));
    if (!standard) continue;
    const parse = (value: unknown, path: string, put: (result: unknown) => void): void => {
      if ((value === undefined && !absent) || (value === null && orNull)) return;
      const validated = standard.validate(value);
      if (validated instanceof Promise) pending.push(validated.then((result) => put(unwrap(result, path))));
      else put(unwrap(validated, path));
    };
    const parseIn = (holder: JsonObject, key: string): void => {
      const value = Object.hasOwn(holder, key) ? holder[key] : undefined;
      // As a key of JSON, `__proto__` is plain data.
      const options = { enumerable: true, configurable: true, writable: true };
      parse(value, formatPath(at), (result) => void Object.defineProperty(holder, key, { ...options, value: result }));
    };
    if (at.length === 0) parse(args, "", (result) => (whole = result));
    else visitAt(args, at, parseIn, absent);
  }
  return pending.length > 0 ? Promise.all(pending).then(() => whole as JsonObject) : (whole as JsonObject);
}

/** The standard interface of a schema; `{ city: z.string() }` is treated as an object with these properties. */
function findStandard(schema: unknown): StandardSchema["~standard"] {
  if (!isObject(schema) && typeof schema !== "function") return undefined;
  const standard = (schema as StandardSchema)["~standard"];
  const shape = standard ? undefined : readShape(schema);
  if (!shape) return standard;
  const validate = async (value: unknown): Promise<ValidationResult> => {
    const parsed: Record<string, unknown> = {};
    const issues: NonNullable<ValidationResult["issues"]>[number][] = [];
    for (const [name, member] of shape) {
      const validated = await member.validate((value as JsonObject)[name]);
      for (const issue of validated.issues ?? []) issues.push({ ...issue, path: [name, ...(issue.path ?? [])] });
      if (validated.value !== undefined) parsed[name] = validated.value;
    }
    return issues.length > 0 ? { issues } : { value: parsed };
  };
  return { vendor: "", validate };
}

function unwrap({ issues, value }: ValidationResult, parent: string): unknown {
  if (!issues) return value;
  const texts = issues.map(({ message, path = [] }) => {
    const steps = path.map((step) => String(typeof step === "object" ? step.key : step));
    const at = [parent, ...steps].filter(Boolean).join(".");
    return at === "" ? message : `${at}: ${message}`;
  });
  throw new Error(texts.join("; "));
}

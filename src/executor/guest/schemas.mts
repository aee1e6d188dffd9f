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
import { eachAt, written } from "./reach.mts";

/**
 * The schemas of libraries that a program holds: what they say as JSON Schema, and what they make of arguments. Knows
 * Standard Schema and, where a library does not describe itself by it, that library's own converter.
 */
type Bundle = Record<string, unknown>;

interface StandardSchema {
  readonly "~standard"?: {
    readonly vendor: string;
    readonly validate: (value: unknown) => Validated | Promise<Validated>;
    readonly jsonSchema?: Readonly<Record<"input" | "output", (options: object) => JsonSchema>>;
  };
}

interface Validated {
  readonly value?: unknown;
  readonly issues?: readonly {
    readonly message: string;
    readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[];
  }[];
}

/**
 * The answers to a request, as JSON: of a program that is loaded today, and of one that is loaded in another year and
 * with other random numbers. What is not the same then is no schema to publish.
 */
export async function describeTwice(request: SchemaRequest, code: Uint8Array): Promise<[string, string]> {
  pretend(0, 16_807);
  const one = await describeSchemas(request, await loadBundle(code));
  pretend(LATER_MS, RANDOM_MAX - 16_807);
  return [one, await describeSchemas(request, await loadBundle(code, "?again"))];
}

/** More than a year, and the other half of the day: what depends on either is not the same then. */
const LATER_MS = 400.5 * 24 * 3_600_000;
const RANDOM_MAX = 2 ** 31 - 1;
const PresentDate = Date;

/** Sets the clock so much forward, and begins with this random number. */
function pretend(laterMs: number, seed: number): void {
  const now = (): number => PresentDate.now() + laterMs;
  globalThis.Date = new Proxy(PresentDate, {
    construct: (made, args: [], target: typeof Date) =>
      Reflect.construct(made, args.length > 0 ? args : [now()], target) as Date,
    apply: () => new PresentDate(now()).toString(),
    get: (made, name, receiver) => (name === "now" ? now : (Reflect.get(made, name, receiver) as unknown)),
  });
  let random = seed;
  // Park and Miller's generator.
  Math.random = () => (random = (random * 16_807) % RANDOM_MAX) / RANDOM_MAX;
}

async function describeSchemas(request: SchemaRequest, bundle: Bundle): Promise<string> {
  const given = { request, bundle };
  const schemas = request.schemas.map((each) => describe(valueAt(bundle, each), each.io, given));
  const ids = new Map<object, number>();
  const tools = request.tools.map((name) => describeTools(bundle[name], given, ids));
  return JSON.stringify({ schemas: await Promise.all(schemas), tools: await Promise.all(tools) });
}

interface Given {
  readonly request: SchemaRequest;
  readonly bundle: Bundle;
}

type Io = SchemaRequest["schemas"][number]["io"];

async function describe(value: unknown, io: Io, given: Given): Promise<DescribedSchema> {
  try {
    const converted = await convert(value, io, given);
    // What cannot be written as JSON must not be taken for what can.
    const json: unknown = isObject(converted) ? JSON.parse(JSON.stringify(converted)) : undefined;
    return isObject(json) && !Array.isArray(json) ? { json } : { fault: NO_SCHEMA };
  } catch (error) {
    return { fault: explain(error).message };
  }
}

const NO_SCHEMA =
  "it is no schema that describes itself as JSON Schema: use zod 4, valibot, ArkType, or a library with Standard JSON Schema";

type Converter = (schema: unknown, options: object) => JsonSchema;

const TARGET = "draft-2020-12";
/** zod's: what JSON cannot say is left open, and not refused. */
const OPEN = { unrepresentable: "any" };

async function convert(value: unknown, io: Io, given: Given): Promise<unknown> {
  if (!isObject(value) && typeof value !== "function") return undefined;
  const { "~standard": standard, jsonSchema, toJsonSchema } = value as Convertible;
  const vendor = standard?.vendor;
  const findConverter = (library: "zod" | "valibot"): Converter | undefined =>
    given.bundle[given.request.converters[library] ?? ""] as Converter | undefined;
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
  if (shape) return convertShape(shape, io, given);
  const keywords = Object.keys(value);
  if (keywords.length === 0) return { type: "object", properties: {} };
  return keywords.some((keyword) => KEYWORDS.has(keyword)) ? value : undefined;
}

interface Convertible extends StandardSchema {
  readonly jsonSchema?: unknown;
  readonly toJsonSchema?: () => unknown;
}

/** An object with one of these is taken for JSON Schema itself. */
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
  given: Given,
): Promise<JsonSchema> {
  const properties: [string, unknown][] = [];
  const required: string[] = [];
  for (const [name, standard, part] of shape) {
    const { $schema: _, ...json } = (await convert(part, io, given)) as JsonSchema;
    properties.push([name, json]);
    if ((await standard.validate(undefined)).issues) required.push(name);
  }
  return { type: "object", properties: Object.fromEntries(properties), required };
}

/** The tools that a value is, or that it holds in a list or under names. */
async function describeTools(value: unknown, given: Given, ids: Map<object, number>): Promise<DescribedTool[]> {
  const isTool = (it: unknown): it is JsonObject =>
    isObject(it) && given.request.handlers.some((name) => typeof it[name] === "function");
  /** A getter that throws affects only its own tool. */
  const toolsAt = async (read: () => unknown, at: readonly string[]): Promise<DescribedTool[]> => {
    let key = {};
    const id = (): number => ids.get(key) ?? ids.set(key, ids.size).size - 1;
    try {
      const tool = read();
      if (!isTool(tool)) return [];
      key = tool;
      return [{ id: id(), at, ...(await describeTool(tool, given)) }];
    } catch (error) {
      return [{ id: id(), at, input: { fault: explain(error).message } }];
    }
  };
  const own = await toolsAt(() => value, []);
  if (own.length > 0 || !isObject(value)) return own;
  const held = await Promise.all(Object.keys(value).map((name) => toolsAt(() => value[name], [name])));
  return held.flat();
}

async function describeTool(tool: Record<string, unknown>, given: Given): Promise<Omit<DescribedTool, "id" | "at">> {
  const text = (key: string, ...names: readonly string[]): object => {
    const found = names.map((name) => tool[name]).find((each) => typeof each === "string" && each !== "");
    return found === undefined ? {} : { [key]: found };
  };
  const schema = tool["inputSchema"] ?? tool["parameters"] ?? tool["schema"] ?? undefined;
  const outputSchema = tool["outputSchema"] ?? undefined;
  const { annotations } = tool;
  return {
    ...text("name", "name", "id"),
    ...text("title", "title"),
    ...text("description", "description"),
    ...(isObject(annotations) && { annotations }),
    ...(schema !== undefined && { input: await describe(schema, "input", given) }),
    ...(outputSchema !== undefined && { output: await describe(outputSchema, "output", given) }),
  };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

export function valueAt(bundle: Bundle, { export: name, path }: BundledValue): unknown {
  return path.reduce<unknown>((at, step) => (at as Record<string, unknown> | undefined)?.[step], bundle[name]);
}

/** The arguments as their schemas make them; a promise where one of these takes time. Throws what they find wrong. */
export function parseArguments(
  parsed: readonly ParsedArgument[],
  args: JsonObject,
  bundle: Bundle,
): JsonObject | Promise<JsonObject> {
  let whole: unknown = args;
  const waiting: Promise<void>[] = [];
  for (const { schema, at, absent, orNull } of parsed) {
    const standard = findStandard(valueAt(bundle, schema));
    if (!standard) continue;
    const parse = (value: unknown, place: string, put: (made: unknown) => void): void => {
      if ((value === undefined && !absent) || (value === null && orNull)) return;
      const validated = standard.validate(value);
      if (validated instanceof Promise) waiting.push(validated.then((it) => put(soundValue(it, place))));
      else put(soundValue(validated, place));
    };
    const parseIn = (holder: JsonObject, key: string): void => {
      const value = Object.hasOwn(holder, key) ? holder[key] : undefined;
      // As a key of JSON, `__proto__` is one like any other.
      const options = { enumerable: true, configurable: true, writable: true };
      parse(value, written(at), (made) => void Object.defineProperty(holder, key, { ...options, value: made }));
    };
    if (at.length === 0) parse(args, "", (made) => (whole = made));
    else eachAt(args, at, parseIn, absent);
  }
  return waiting.length > 0 ? Promise.all(waiting).then(() => whole as JsonObject) : (whole as JsonObject);
}

/** The standard interface of a schema; `{ city: z.string() }` is an object with these properties. */
function findStandard(schema: unknown): StandardSchema["~standard"] {
  if (!isObject(schema) && typeof schema !== "function") return undefined;
  const own = (schema as StandardSchema)["~standard"];
  const shape = own ? undefined : readShape(schema);
  if (!shape) return own;
  const validate = async (value: unknown): Promise<Validated> => {
    const made: Record<string, unknown> = {};
    const issues: NonNullable<Validated["issues"]>[number][] = [];
    for (const [name, standard] of shape) {
      const validated = await standard.validate((value as JsonObject)[name]);
      for (const issue of validated.issues ?? []) issues.push({ ...issue, path: [name, ...(issue.path ?? [])] });
      if (validated.value !== undefined) made[name] = validated.value;
    }
    return issues.length > 0 ? { issues } : { value: made };
  };
  return { vendor: "", validate };
}

function soundValue({ issues, value }: Validated, place: string): unknown {
  if (!issues) return value;
  const texts = issues.map(({ message, path = [] }) => {
    const steps = path.map((step) => String(typeof step === "object" ? step.key : step));
    const at = [place, ...steps].filter(Boolean).join(".");
    return at === "" ? message : `${at}: ${message}`;
  });
  throw new Error(texts.join("; "));
}

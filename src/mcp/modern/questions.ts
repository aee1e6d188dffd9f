import { permittedCatalog } from "../../host/catalog/permitted.ts";
import type { Host } from "../../host/host.ts";
import type { InputRequests, InputRequest, InputRequired, Catalog } from "../../host/offers/catalog.ts";
import { nameOfKey } from "../../host/upstreams/upstream-call.ts";
import { digestOfJson } from "../../lib/canonical-json.ts";
import { cutText } from "../../lib/cut-text.ts";
import { BerthError } from "../../lib/errors.ts";
import { JsonText, isObject, type JsonDigest, type JsonObject, type Json } from "../../lib/json.ts";
import { parseJson } from "../../lib/parse-json.ts";
import type { Sealer } from "../../lib/seal.ts";
import { joinAnswers } from "../../outcome/answers.ts";
import { isConsentKey } from "../../outcome/consent.ts";
import { REQUEST_STATE_MS } from "../../outcome/question.ts";
import type { MethodCall, ServerPlace } from "../protocol.ts";
import { ANSWER_BYTES, bytesOf, heldBytes, TOO_MANY_ANSWERS, whyTooLong } from "../question-length.ts";

/**
 * Questions in the modern era: a result that asks, and a repeated request with the answers (2026-07-28
 * `basic/patterns/mrtr`). Nothing is kept here between the two: the client carries the sealed state.
 */
export interface QuestionParts {
  readonly host: Host;
  readonly sealer: Sealer;
}

/** The members that only a result with questions has. Throws `missing_capability`. */
export function ask({ sealer }: QuestionParts, call: MethodCall, asked: InputRequired): object {
  const { inputRequests } = asked;
  checkCapabilities(call.client.capabilities, asked);
  const tooLong = whyTooLong(bytesOf(inputRequests));
  if (tooLong !== undefined) throw new BerthError("guest_failed", tooLong);
  const { shown, keys } = shownByName(inputRequests);
  const methods = Object.fromEntries(Object.entries(shown).map(([key, { method }]) => [key, method]));
  const { catalog, answers = {} } = call;
  const state: State = { release: catalog.release, answers, asked: methods, ...(keys && { keys }) };
  return { inputRequests: shown, requestState: sealer.seal(bindingOf(call), state, REQUEST_STATE_MS) };
}

/** True for a request that repeats an earlier one, with answers. */
export function isRepeated({ params }: MethodCall): boolean {
  return params["requestState"] !== undefined || params["inputResponses"] !== undefined;
}

/** The call with all answers so far, in the release that asked. Rejects with `invalid_params`. */
export async function withAnswers({ host, sealer }: QuestionParts, call: MethodCall): Promise<MethodCall> {
  const { requestState, inputResponses } = call.params;
  if (requestState === undefined) return { ...call, answers: bounded(readInputResponses(inputResponses)) };
  if (typeof requestState !== "string") throw new BerthError("invalid_params", '"requestState" must be a string');
  let state: State;
  try {
    state = sealer.unseal(bindingOf(call), requestState) as State;
  } catch (error) {
    // A consent says more exactly why it does not count here, and that is recorded: where one is needed.
    const consents = consentsIn(inputResponses);
    if (!consents || !(await asksConsent(call))) throw error;
    return { ...call, answers: bounded(consents) };
  }
  const { release, answers, asked, keys } = state;
  const given = inputResponses === undefined ? {} : readInputResponses(inputResponses, asked);
  const joined = bounded(joinAnswers(answers, keys ? underOwnKeys(given, keys) : given));
  // A consent counts in the release that is served, and in no other: whoever consents does not know of an earlier one.
  const catalog = consentsIn(given) ? call.catalog : await catalogOfRelease(host, call, release);
  return { ...call, catalog, answers: joined };
}

/** The answers that are for Berth and not for a function; undefined if there are none. */
function consentsIn(inputResponses: unknown): JsonObject | undefined {
  if (!isObject(inputResponses)) return undefined;
  const consents = Object.entries(inputResponses).filter(([key]) => isConsentKey(key)) as [string, Json][];
  return consents.length > 0 && consents.length <= RESPONSES_MAX ? Object.fromEntries(consents) : undefined;
}

async function asksConsent({ method, params: { name }, catalog }: MethodCall): Promise<boolean> {
  const tool = method === "tools/call" && typeof name === "string" ? catalog.tool(name) : undefined;
  return (await tool?.asksConsent?.()) ?? false;
}

/** The state that a client carries from one round to the next. */
interface State {
  readonly release: string;
  readonly answers: JsonObject;
  readonly asked: AskedMethods;
  /** The keys of questions that are shown under the names given by an upstream. */
  readonly keys?: Readonly<Record<string, string>>;
}

function bounded(answers: JsonObject): JsonObject {
  if (heldBytes(answers) <= ANSWER_BYTES) return answers;
  throw new BerthError("invalid_params", `a call cannot take ${TOO_MANY_ANSWERS}`);
}

/** An upstream's questions under the names that it gave them, unless two are the same; `keys` has their own keys. */
function shownByName(inputRequests: InputRequests): { shown: InputRequests; keys?: Record<string, string> } {
  const named = Object.keys(inputRequests).flatMap((key) => {
    const name = nameOfKey(key);
    return name === undefined || Object.hasOwn(inputRequests, name) ? [] : [[name, key] as const];
  });
  if (named.length === 0) return { shown: inputRequests };
  const keys = Object.fromEntries(named);
  const names = new Map(Object.entries(keys).map(([name, key]) => [key, name]));
  const shown = Object.entries(inputRequests).map(([key, request]) => [names.get(key) ?? key, request] as const);
  return { shown: Object.fromEntries(shown), keys };
}

function underOwnKeys(answers: JsonObject, keys: Readonly<Record<string, string>>): JsonObject {
  const own = (name: string): string => (Object.hasOwn(keys, name) ? keys[name]! : name);
  return Object.fromEntries(Object.entries(answers).map(([name, answer]) => [own(name), answer]));
}

/** State is valid for one request of one server of one tenant, and for the principal that got it. */
function bindingOf(call: MethodCall): string[] {
  const { tenant, catalog, principal, method } = call;
  return [tenant, catalog.server, method, digestOf(call), ...(principal ? [principal.id] : [])];
}

/**
 * Digests the parameters that identify the request, whatever the order of their keys. They are parsed from the text
 * again, since checking arguments fills in their defaults.
 */
function digestOf({ params, body }: MethodCall): string {
  const { name, uri } = params;
  return digestOfJson([name ?? null, uri ?? null, argumentsDigest(params["arguments"], body).sha256]).sha256;
}

function argumentsDigest(args: unknown, body: string): JsonDigest {
  if (args instanceof JsonText) return args.givenDigest;
  const { params } = parseJson(body) as { params: JsonObject };
  return digestOfJson(params["arguments"] ?? {});
}

type AskedMethods = Readonly<Record<string, InputRequest["method"]>>;

/**
 * Reads the answers in `inputResponses`. Keys that were not asked are ignored; `asked` is undefined when the request
 * does not refer to an earlier round, and then any key counts. Throws `invalid_params` for a value that is not an
 * answer, naming the first keys, and for more than a call may ever have asked.
 */
export function readInputResponses(inputResponses: unknown, asked?: AskedMethods): JsonObject {
  if (!isObject(inputResponses)) throw new BerthError("invalid_params", '"inputResponses" must be an object');
  const keys = Object.keys(asked ?? inputResponses).filter((key) => Object.hasOwn(inputResponses, key));
  if (keys.length > RESPONSES_MAX) {
    throw new BerthError("invalid_params", `"inputResponses" has more than ${RESPONSES_MAX} keys`);
  }
  const known = keys.map((key) => [key, inputResponses[key]] as const);
  const problems = known.flatMap(([key, value]) => {
    const wanted = asked ? expected[asked[key]!] : anyAnswer;
    return wanted.matches(value) ? [] : `${JSON.stringify(cutText(key, KEY_UNITS_SHOWN))} must be ${wanted.shape}`;
  });
  if (problems.length > 0) {
    const more = problems.length > PROBLEMS_SHOWN ? `; and ${problems.length - PROBLEMS_SHOWN} more` : "";
    const first = problems.slice(0, PROBLEMS_SHOWN).join("; ");
    throw new BerthError("invalid_params", `"inputResponses": ${first}${more}`);
  }
  return Object.fromEntries(known as [string, Json][]);
}

/** The most that a call may ask in all its rounds together. */
const RESPONSES_MAX = 640;
const PROBLEMS_SHOWN = 10;
const KEY_UNITS_SHOWN = 256;

interface AnswerShape {
  readonly shape: string;
  readonly matches: (value: unknown) => boolean;
}

/** 2026-07-28 `schema.ts`: `ElicitResult`, `CreateMessageResult`, `ListRootsResult`. */
const expected: Readonly<Record<InputRequest["method"], AnswerShape>> = {
  "elicitation/create": {
    shape: '{"action": "accept" | "decline" | "cancel", "content"?: an object of plain values}',
    matches: (value) =>
      isObject(value) &&
      ["accept", "decline", "cancel"].includes(value["action"] as string) &&
      (value["content"] === undefined ||
        (isObject(value["content"]) && Object.values(value["content"]).every(isPlainValue))),
  },
  "sampling/createMessage": {
    shape: '{"role": "user" | "assistant", "content": a content block or several, "model": a string}',
    matches: (value) =>
      isObject(value) &&
      ["user", "assistant"].includes(value["role"] as string) &&
      [value["content"]].flat().every((block) => isObject(block) && typeof block["type"] === "string") &&
      typeof value["model"] === "string",
  },
  "roots/list": {
    shape: '{"roots": [{"uri": a string, "name"?: a string}, …]}',
    matches: (value) =>
      isObject(value) &&
      Array.isArray(value["roots"]) &&
      value["roots"].every((root) => isObject(root) && typeof root["uri"] === "string"),
  },
};

const anyAnswer: AnswerShape = {
  shape: "an answer to an elicitation, to a sampling request or to a request for roots",
  matches: (value) => Object.values(expected).some(({ matches }) => matches(value)),
};

function isPlainValue(value: unknown): boolean {
  if (Array.isArray(value)) return value.every((each) => typeof each === "string");
  return ["string", "number", "boolean"].includes(typeof value);
}

/** Throws `missing_capability` for questions that the client cannot be asked. */
export function checkCapabilities(capabilities: JsonObject, { inputRequests, hint }: InputRequired): void {
  const missing = missingCapabilities(capabilities, inputRequests);
  if (!missing) return;
  const names = Object.keys(missing).join(", ");
  const detail = hint === undefined ? names : `${names}; ${hint}`;
  throw new BerthError("missing_capability", detail, { data: { requiredCapabilities: missing } });
}

/**
 * The capabilities object that these questions need and the client did not declare; undefined when nothing is missing.
 * Specification: `basic/patterns/mrtr`, server requirement 7, and the pages of `client/`.
 */
export function missingCapabilities(capabilities: JsonObject, inputRequests: InputRequests): JsonObject | undefined {
  const missing: Record<string, JsonObject> = {};
  for (const request of Object.values(inputRequests)) {
    const [name, parts] = neededBy(request);
    const declared = capabilities[name];
    const lacking = isObject(declared) ? parts.filter((part) => !has(name, declared, part)) : parts;
    if (isObject(declared) && lacking.length === 0) continue;
    missing[name] = { ...missing[name], ...Object.fromEntries(lacking.map((part) => [part, {}])) };
  }
  return Object.keys(missing).length > 0 ? missing : undefined;
}

/** The capability that a question needs, and the parts of it. */
function neededBy({ method, params }: InputRequest): [capability: string, parts: string[]] {
  switch (method) {
    case "elicitation/create":
      return ["elicitation", [params["mode"] === "url" ? "url" : "form"]];
    case "sampling/createMessage": {
      const { tools, toolChoice, includeContext = "none" } = params;
      const usesTools = tools !== undefined || toolChoice !== undefined;
      return ["sampling", [...(usesTools ? ["tools"] : []), ...(includeContext === "none" ? [] : ["context"])]];
    }
    case "roots/list":
      return ["roots", []];
  }
}

function has(capability: string, declared: Record<string, unknown>, part: string): boolean {
  if (isObject(declared[part])) return true;
  // An elicitation capability without modes means forms, as it did before there were modes.
  return capability === "elicitation" && part === "form" && declared["url"] === undefined;
}

/**
 * The catalog of a release: a call that began in it ends in it, whatever was deployed since. Rejects with
 * `invalid_params` when it is gone.
 */
export async function catalogOfRelease(
  host: Host,
  { tenant, catalog: current, principal }: Pick<ServerPlace, "tenant" | "catalog" | "principal">,
  release: string,
): Promise<Catalog> {
  if (current.release === release) return current;
  const kept = await host.release(tenant, current.server, release);
  if (kept) return permittedCatalog(kept, principal);
  const detail = `the release of "${current.server}" that asked (${release}) is gone; make the request again`;
  throw new BerthError("invalid_params", detail);
}

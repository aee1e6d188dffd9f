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
import type { MethodCall, RequestTarget } from "../protocol.ts";
import { ANSWER_BYTES, questionBytes, memoryBytes, TOO_MANY_ANSWERS, questionsTooLong } from "../question-limits.ts";

/**
 * Questions in the modern era: a result that asks, and a repeated request with the answers (2026-07-28
 * `basic/patterns/mrtr`). Nothing is stored between the two: the client carries the sealed state.
 */
export interface QuestionParts {
  readonly host: Host;
  readonly sealer: Sealer;
}

/** The members that only a result with questions has. Throws `missing_capability`. */
export function ask({ sealer }: QuestionParts, call: MethodCall, inputRequired: InputRequired): object {
  const { inputRequests } = inputRequired;
  checkCapabilities(call.client.capabilities, inputRequired);
  const tooLong = questionsTooLong(questionBytes(inputRequests));
  if (tooLong !== undefined) throw new BerthError("guest_failed", tooLong);
  const { shown, keys } = restoreNames(inputRequests);
  const methods = Object.fromEntries(Object.entries(shown).map(([key, { method }]) => [key, method]));
  const { catalog, answers = {} } = call;
  const state: State = { release: catalog.release, answers, asked: methods, ...(keys && { keys }) };
  return { inputRequests: shown, requestState: sealer.seal(stateBinding(call), state, REQUEST_STATE_MS) };
}

export function isRepeated({ params }: MethodCall): boolean {
  return params["requestState"] !== undefined || params["inputResponses"] !== undefined;
}

/** The call with all answers so far, in the release that asked. Rejects with `invalid_params`. */
export async function withAnswers({ host, sealer }: QuestionParts, call: MethodCall): Promise<MethodCall> {
  const { requestState, inputResponses } = call.params;
  if (requestState === undefined) return { ...call, answers: checkSize(readInputResponses(inputResponses)) };
  if (typeof requestState !== "string") throw new BerthError("invalid_params", '"requestState" must be a string');
  let state: State;
  try {
    state = sealer.unseal(stateBinding(call), requestState) as State;
  } catch (error) {
    // If the tool needs consent, its own check reports and records more precisely why a consent is invalid here.
    const consents = consentAnswers(inputResponses);
    if (!consents || !(await asksConsent(call))) throw error;
    return { ...call, answers: checkSize(consents) };
  }
  const { release, answers, asked, keys } = state;
  const received = inputResponses === undefined ? {} : readInputResponses(inputResponses, asked);
  const joined = checkSize(joinAnswers(answers, keys ? restoreKeys(received, keys) : received));
  // A consent is only valid in the release that is served: the user who consents has not seen an earlier one.
  const catalog = consentAnswers(received) ? call.catalog : await releaseCatalog(host, call, release);
  return { ...call, catalog, answers: joined };
}

/** Answers for Berth, not for a function; undefined if there are none. */
function consentAnswers(inputResponses: unknown): JsonObject | undefined {
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
  /** The keys of questions that are shown under names from an upstream. */
  readonly keys?: Readonly<Record<string, string>>;
}

function checkSize(answers: JsonObject): JsonObject {
  if (memoryBytes(answers) <= ANSWER_BYTES) return answers;
  throw new BerthError("invalid_params", `a call cannot take ${TOO_MANY_ANSWERS}`);
}

/** Shows an upstream's questions under the names that it gave them, unless names collide; `keys` maps them back. */
function restoreNames(inputRequests: InputRequests): { shown: InputRequests; keys?: Record<string, string> } {
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

function restoreKeys(answers: JsonObject, keys: Readonly<Record<string, string>>): JsonObject {
  const toKey = (name: string): string => (Object.hasOwn(keys, name) ? keys[name]! : name);
  return Object.fromEntries(Object.entries(answers).map(([name, answer]) => [toKey(name), answer]));
}

/** State is valid for one request to one server of one tenant, and for the principal that received it. */
function stateBinding(call: MethodCall): string[] {
  const { tenant, catalog, principal, method } = call;
  return [tenant, catalog.server, method, requestDigest(call), ...(principal ? [principal.id] : [])];
}

/**
 * Digests the parameters that identify the request, regardless of key order. They are parsed from the raw message
 * again, since checking arguments fills in their defaults.
 */
function requestDigest({ params, body }: MethodCall): string {
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
 * Reads the answers in `inputResponses`. Ignores keys that were not asked; `asked` is undefined when the request does
 * not refer to an earlier round, and then every key counts. Throws `invalid_params` for an invalid answer, naming the
 * first keys, and for more answers than a call can ask for.
 */
export function readInputResponses(inputResponses: unknown, asked?: AskedMethods): JsonObject {
  if (!isObject(inputResponses)) throw new BerthError("invalid_params", '"inputResponses" must be an object');
  const keys = Object.keys(asked ?? inputResponses).filter((key) => Object.hasOwn(inputResponses, key));
  if (keys.length > RESPONSES_MAX) {
    throw new BerthError("invalid_params", `"inputResponses" has more than ${RESPONSES_MAX} keys`);
  }
  const received = keys.map((key) => [key, inputResponses[key]] as const);
  const problems = received.flatMap(([key, value]) => {
    const kind = asked ? expected[asked[key]!] : anyAnswer;
    return kind.matches(value) ? [] : `${JSON.stringify(cutText(key, KEY_UNITS_SHOWN))} must be ${kind.shape}`;
  });
  if (problems.length > 0) {
    const more = problems.length > PROBLEMS_SHOWN ? `; and ${problems.length - PROBLEMS_SHOWN} more` : "";
    const first = problems.slice(0, PROBLEMS_SHOWN).join("; ");
    throw new BerthError("invalid_params", `"inputResponses": ${first}${more}`);
  }
  return Object.fromEntries(received as [string, Json][]);
}

/** Questions that a call may ask in all its rounds together. */
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

/** Throws `missing_capability` for questions that the client does not support. */
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
    const [name, parts] = requiredCapability(request);
    const declared = capabilities[name];
    const missingParts = isObject(declared) ? parts.filter((part) => !has(name, declared, part)) : parts;
    if (isObject(declared) && missingParts.length === 0) continue;
    missing[name] = { ...missing[name], ...Object.fromEntries(missingParts.map((part) => [part, {}])) };
  }
  return Object.keys(missing).length > 0 ? missing : undefined;
}

/** The capability that a question needs, with its parts. */
function requiredCapability({ method, params }: InputRequest): [capability: string, parts: string[]] {
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
  // As before modes were added, an elicitation capability without modes means forms.
  return capability === "elicitation" && part === "form" && declared["url"] === undefined;
}

/**
 * The catalog of the release in which a call began, whatever was deployed since. Rejects with `invalid_params` when it
 * no longer exists.
 */
export async function releaseCatalog(
  host: Host,
  { tenant, catalog: current, principal }: Pick<RequestTarget, "tenant" | "catalog" | "principal">,
  release: string,
): Promise<Catalog> {
  if (current.release === release) return current;
  const loaded = await host.release(tenant, current.server, release);
  if (loaded) return permittedCatalog(loaded, principal);
  const detail = `the release of "${current.server}" that asked (${release}) is gone; send the request again`;
  throw new BerthError("invalid_params", detail);
}

import type { InputRequests } from "../../host/catalog/catalog.ts";
import type { Host } from "../../host/host.ts";
import { nameOfKey } from "../../host/calls/upstream-open-call.ts";
import { joinAnswers } from "../../outcome/answers.ts";
import { digestOfJson } from "../../lib/canonical-json.ts";
import { BerthError } from "../../lib/errors.ts";
import { JsonText, type JsonDigest, type JsonObject } from "../../lib/json.ts";
import type { Limits } from "../../limits/limits.ts";
import { parseJson } from "../../lib/parse-json.ts";
import type { Method, MethodCall } from "../protocol.ts";
import { bytesOf, heldBytes, tooManyAnswers, whyTooLong } from "../question-length.ts";
import type { Sealer } from "../seal.ts";
import { readInputResponses, type AskedMethods } from "./input-responses.ts";
import { catalogOfRelease } from "./release.ts";
import { missingCapabilities } from "./required-capabilities.ts";

/**
 * Questions in the modern era: a result that asks, and a repeated request with the answers (2026-07-28
 * `basic/patterns/mrtr`). Nothing is kept here between the two: the client carries the sealed state.
 */
export interface Rounds {
  /** Wraps a method whose requests may be repeated with answers: it continues in the release that asked. */
  resumable(run: Method): Method;
  /** The members that only a result with questions has. Throws `missing_capability`. */
  ask(call: MethodCall, inputRequests: InputRequests, answers: JsonObject): AskingResult;
}

export interface AskingResult {
  readonly inputRequests: InputRequests;
  readonly requestState: string;
}

export type RoundsLimits = Pick<Limits, "requestStateMs" | "questionBytes" | "answerBytes">;

/** The state that a client carries from one round to the next. */
interface State {
  readonly release: string;
  readonly answers: JsonObject;
  readonly asked: AskedMethods;
  /** The keys of questions that are shown under the names given by an upstream. */
  readonly keys?: Readonly<Record<string, string>>;
}

export function createRounds(options: { host: Host; sealer: Sealer; limits: RoundsLimits }): Rounds {
  const { host, sealer, limits } = options;

  return {
    resumable: (run) => (call) => {
      const { requestState, inputResponses } = call.params;
      if (requestState === undefined && inputResponses === undefined) return run(call);
      return resume(call, requestState, inputResponses).then(run);
    },

    ask(call, inputRequests, answers) {
      const missing = missingCapabilities(call.client.capabilities, inputRequests);
      if (missing) {
        const names = Object.keys(missing).join(", ");
        throw new BerthError("missing_capability", names, { data: { requiredCapabilities: missing } });
      }
      const tooLong = whyTooLong(bytesOf(inputRequests), limits.questionBytes);
      if (tooLong !== undefined) throw new BerthError("guest_failed", tooLong);
      const { shown, keys } = shownByName(inputRequests);
      const asked = Object.fromEntries(Object.entries(shown).map(([key, { method }]) => [key, method]));
      const state: State = { release: call.catalog.release, answers, asked, ...(keys && { keys }) };
      return { inputRequests: shown, requestState: sealer.seal(bindingOf(call), state, limits.requestStateMs) };
    },
  };

  async function resume(call: MethodCall, requestState: unknown, inputResponses: unknown): Promise<MethodCall> {
    if (requestState === undefined) return { ...call, answers: bounded(readInputResponses(inputResponses)) };
    if (typeof requestState !== "string") throw new BerthError("invalid_params", '"requestState" must be a text');
    const { release, answers, asked, keys } = sealer.unseal(bindingOf(call), requestState) as State;
    const given = inputResponses === undefined ? {} : readInputResponses(inputResponses, asked);
    const joined = bounded(joinAnswers(answers, keys ? underOwnKeys(given, keys) : given));
    const catalog = await catalogOfRelease(host, call, release);
    return { ...call, catalog, answers: joined };
  }

  function bounded(answers: JsonObject): JsonObject {
    const { answerBytes } = limits;
    if (heldBytes(answers, answerBytes) <= answerBytes) return answers;
    throw new BerthError("invalid_params", `a call takes no ${tooManyAnswers(answerBytes)}`);
  }
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

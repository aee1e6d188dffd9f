import { randomUUID } from "node:crypto";
import { relayedExtensions } from "../../contract/extensions.ts";
import type { CallOptions, InputRequest, InputRequired } from "../../host/offers/catalog.ts";
import { Cancellation, type CancelSignal } from "../../lib/cancellation.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject, type JsonObject } from "../../lib/json.ts";
import { QUESTION_ROUNDS_MAX } from "../../limits/limits.ts";
import { joinAnswers } from "../../outcome/answers.ts";
import { notificationText, requestText } from "../json-rpc.ts";
import { callOptions } from "../methods/calls.ts";
import { ANSWER_BYTES, questionBytes, memoryBytes, TOO_MANY_ANSWERS, questionsTooLong } from "../question-limits.ts";
import type { ClientAnswer, LegacyCall, Session, SessionClaims } from "./session.ts";
import { Stream } from "./stream.ts";

/**
 * Runs guest code until it has all the answers that it asks for, sending its questions as requests on the stream of the
 * call. `run` restarts from the beginning each time. Returns `Unanswered` when the client cannot be asked, or does not
 * answer.
 */
export async function runUntilAnswered<Outcome extends object>(
  answerMs: number,
  call: LegacyCall,
  run: (options: CallOptions) => Promise<Outcome | InputRequired>,
): Promise<Outcome | Unanswered> {
  const options = callOptions(call);
  let answers: JsonObject | undefined;
  for (let round = 1; round <= QUESTION_ROUNDS_MAX; round++) {
    const outcome = await run(answers ? { ...options, answers } : options);
    if (!isInputRequired(outcome)) return outcome;
    const result = await ask(answerMs, call, outcome, answers ?? {});
    if ("unanswered" in result) return result;
    answers = joinAnswers(answers, result.answers);
  }
  throw new BerthError("guest_failed", `it asked for input ${QUESTION_ROUNDS_MAX} times in one request`);
}

export interface Unanswered {
  readonly unanswered: string;
}

function isInputRequired(outcome: object): outcome is InputRequired {
  return "inputRequests" in outcome;
}

async function ask(
  answerMs: number,
  call: LegacyCall,
  { inputRequests, hint }: InputRequired,
  earlier: JsonObject,
): Promise<{ readonly answers: JsonObject } | Unanswered> {
  const { peer } = call.client;
  const questions = Object.entries(inputRequests);
  const cannot = (reason: string): Unanswered => ({ unanswered: hint === undefined ? reason : `${reason}; ${hint}` });
  if (!peer) return cannot("it asks the client, which needs a session; send Mcp-Session-Id");
  const impossible = findObstacle(call, peer, questions);
  if (impossible !== undefined) return cannot(impossible);
  const bytes = questionBytes(inputRequests);
  // The waiting call stays in memory as well, whether or not its client stays connected.
  const reason = questionsTooLong(bytes) ?? call.events?.hold?.(bytes + call.body.length + WAITING_BYTES)?.message;
  if (reason !== undefined) return { unanswered: reason };
  const answers: JsonObject = {};
  let error: string | undefined;
  let answerBytes = memoryBytes(earlier);
  const overLimit = new Cancellation();
  /** Answers wait for the last one, so each is counted as it arrives. */
  const reserve = (answer: Extract<ClientAnswer, { units: number }>): string | undefined => {
    const more = memoryBytes(answer.result, ANSWER_BYTES, answer.units);
    answerBytes += more;
    if (answerBytes > ANSWER_BYTES) return `its client sent ${TOO_MANY_ANSWERS}`;
    return call.events?.hold?.(more)?.message;
  };
  const pending = questions.map(async ([key, request]) => {
    const answer = await askOne(call, peer, request, { answerMs, overLimit });
    if (overLimit.aborted) return;
    if ("error" in answer) {
      error = `the client did not answer: ${answer.error}`;
      return;
    }
    const reason = reserve(answer);
    if (reason === undefined)
      return void Object.defineProperty(answers, key, { value: answer.result, enumerable: true });
    error = reason;
    overLimit.abort();
  });
  await Promise.all(pending);
  return error === undefined ? { answers } : { unanswered: error };
}

/** Memory of a waiting call in addition to its texts. */
const WAITING_BYTES = 4 * 1024;

function findObstacle(call: LegacyCall, peer: Session, questions: [string, InputRequest][]): string | undefined {
  if (!call.events) return "it asks the client, which needs a stream; accept text/event-stream";
  if (call.events instanceof Stream && !call.events.tryOpen())
    return "it cannot ask: too many streams of its session are open";
  const missing = new Set(questions.flatMap(([, request]) => missingCapability(peer.claims, request) ?? []));
  return missing.size > 0 ? `it needs a client that supports ${[...missing].join(" and ")}` : undefined;
}

async function askOne(
  call: LegacyCall,
  peer: Session,
  request: InputRequest,
  { answerMs, overLimit }: { readonly answerMs: number; readonly overLimit: CancelSignal },
): Promise<ClientAnswer> {
  const { events, signal } = call;
  const params = questionParams(peer.claims, request);
  const question = peer.questions.ask((id) => {
    void events?.send(requestText(id, request.method, params), { lasting: true });
  }, answerMs);
  const giveUp = (): void => question.giveUp();
  signal?.addEventListener("abort", giveUp);
  overLimit.addEventListener("abort", giveUp);
  if (signal?.aborted) giveUp();
  const answer = await question.answer;
  signal?.removeEventListener("abort", giveUp);
  if (answer) return answer;
  const reason = abandonReason(signal, overLimit) ?? `no answer came within ${answerMs} ms`;
  void events?.send(notificationText("notifications/cancelled", { requestId: question.id, reason }));
  return { error: reason };
}

function abandonReason(cancelled: CancelSignal | undefined, overLimit: CancelSignal): string | undefined {
  if (cancelled?.aborted) return "the call was cancelled";
  return overLimit.aborted ? "the answers exceed the limit" : undefined;
}

/** The capability that a client lacks for a question, as its revision names it; undefined if none. */
function missingCapability(
  { version, capabilities }: SessionClaims,
  { method, params }: InputRequest,
): string | undefined {
  switch (method) {
    case "elicitation/create":
      return missingElicitation(version, capabilities["elicitation"], params["mode"] === "url");
    case "sampling/createMessage": {
      const { sampling } = capabilities;
      if (!isObject(sampling)) return "sampling";
      return params["tools"] !== undefined && !isObject(sampling["tools"]) ? "sampling with tools" : undefined;
    }
    case "roots/list":
      return isObject(capabilities["roots"]) ? undefined : "roots";
    default:
      return String(method);
  }
}

/** Elicitation was added in 2025-06-18, and its URL mode in 2025-11-25; `{}` declares forms only. */
function missingElicitation(version: string, elicitation: unknown, byUrl: boolean): string | undefined {
  if (!isObject(elicitation) || version < "2025-06-18") return "elicitation";
  if (byUrl) return isObject(elicitation["url"]) && version >= "2025-11-25" ? undefined : "elicitation by URL";
  const isFormsOnly = elicitation["url"] === undefined;
  return isFormsOnly || isObject(elicitation["form"]) ? undefined : "elicitation by form";
}

/** Adapts the parameters of a question to the client's revision. */
function questionParams({ version, capabilities }: SessionClaims, { method, params }: InputRequest): JsonObject {
  if (method === "elicitation/create") {
    if (params["mode"] === "url") return { elicitationId: randomUUID(), ...params };
    if (version >= "2025-11-25") return params;
    const { mode: _mode, ...form } = params;
    return form;
  }
  if (method === "sampling/createMessage") {
    const { includeContext, tools, toolChoice, ...rest } = params;
    const { sampling } = capabilities;
    const supportsContext = version < "2025-11-25" || (isObject(sampling) && isObject(sampling["context"]));
    return {
      ...rest,
      ...(includeContext !== undefined && (supportsContext || includeContext === "none") && { includeContext }),
      ...(tools !== undefined && { tools }),
      ...(toolChoice !== undefined && { toolChoice }),
    };
  }
  return params;
}

/** The capabilities that a server can use, without a client's own additions: a token must stay small. */
export function usedCapabilities(capabilities: unknown): JsonObject {
  if (!isObject(capabilities)) return {};
  const used: JsonObject = {};
  for (const [name, parts] of Object.entries(USABLE_CAPABILITIES)) {
    const declared = capabilities[name];
    if (!isObject(declared)) continue;
    used[name] = Object.fromEntries(parts.filter((part) => isObject(declared[part])).map((part) => [part, {}]));
  }
  const extensions = relayedExtensions(capabilities as JsonObject);
  if (extensions && JSON.stringify(extensions).length <= EXTENSIONS_UNITS_MAX) used["extensions"] = extensions;
  return used;
}

const EXTENSIONS_UNITS_MAX = 512;

const USABLE_CAPABILITIES: Readonly<Record<string, readonly string[]>> = {
  roots: [],
  sampling: ["tools", "context"],
  elicitation: ["form", "url"],
};

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
import { ANSWER_BYTES, bytesOf, heldBytes, TOO_MANY_ANSWERS, whyTooLong } from "../question-length.ts";
import type { ClientAnswer, LegacyCall, Session, SessionFacts } from "./session.ts";
import { Stream } from "./stream.ts";

/**
 * Runs guest code until it has all the answers that it asks for: its client is asked by requests on the stream of the
 * call. `run` starts from the top each time. `Unanswered` when the client cannot be asked, or does not answer.
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
    if (!asks(outcome)) return outcome;
    const asked = await ask(answerMs, call, outcome, answers ?? {});
    if ("unanswered" in asked) return asked;
    answers = joinAnswers(answers, asked.answers);
  }
  throw new BerthError("guest_failed", `it asked for input ${QUESTION_ROUNDS_MAX} times in one request`);
}

/** The reason why a question got no answer. */
export interface Unanswered {
  readonly unanswered: string;
}

function asks(outcome: object): outcome is InputRequired {
  return "inputRequests" in outcome;
}

/** `earlier` are the answers of earlier rounds. */
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
  const impossible = whyNot(call, peer, questions);
  if (impossible !== undefined) return cannot(impossible);
  const bytes = bytesOf(inputRequests);
  // While it waits, the call stays in memory as well, whether its client stays or leaves.
  const reason = whyTooLong(bytes) ?? call.events?.hold?.(bytes + call.body.length + WAITING_BYTES)?.message;
  if (reason !== undefined) return { unanswered: reason };
  const answers: JsonObject = {};
  let error: string | undefined;
  let held = heldBytes(earlier);
  const noRoom = new Cancellation();
  /** Answers wait for the last one, so they are counted as they come. */
  const whyNoRoom = (answer: Extract<ClientAnswer, { units: number }>): string | undefined => {
    const more = heldBytes(answer.result, ANSWER_BYTES, answer.units);
    held += more;
    if (held > ANSWER_BYTES) return `its client sent ${TOO_MANY_ANSWERS}`;
    return call.events?.hold?.(more)?.message;
  };
  const asking = questions.map(async ([key, request]) => {
    const answer = await askOne(call, peer, request, { answerMs, noRoom });
    if (noRoom.aborted) return;
    if ("error" in answer) {
      error = `the client did not answer: ${answer.error}`;
      return;
    }
    const reason = whyNoRoom(answer);
    if (reason === undefined)
      return void Object.defineProperty(answers, key, { value: answer.result, enumerable: true });
    error = reason;
    noRoom.abort();
  });
  await Promise.all(asking);
  return error === undefined ? { answers } : { unanswered: error };
}

/** The memory that a waiting call takes besides its texts. */
const WAITING_BYTES = 4 * 1024;

function whyNot(call: LegacyCall, peer: Session, questions: [string, InputRequest][]): string | undefined {
  if (!call.events) return "it asks the client, which needs a stream; accept text/event-stream";
  if (call.events instanceof Stream && !call.events.tryOpen())
    return "it cannot ask: too many streams of its session are open";
  const lacking = new Set(questions.flatMap(([, request]) => whatLacks(peer.facts, request) ?? []));
  return lacking.size > 0 ? `it needs a client that supports ${[...lacking].join(" and ")}` : undefined;
}

async function askOne(
  call: LegacyCall,
  peer: Session,
  request: InputRequest,
  { answerMs, noRoom }: { readonly answerMs: number; readonly noRoom: CancelSignal },
): Promise<ClientAnswer> {
  const { events, signal } = call;
  const params = questionParams(peer.facts, request);
  const question = peer.questions.ask((id) => {
    void events?.send(requestText(id, request.method, params), { lasting: true });
  }, answerMs);
  const giveUp = (): void => question.giveUp();
  signal?.addEventListener("abort", giveUp);
  noRoom.addEventListener("abort", giveUp);
  if (signal?.aborted) giveUp();
  const answer = await question.answer;
  signal?.removeEventListener("abort", giveUp);
  if (answer) return answer;
  const reason = whyGivenUp(signal, noRoom) ?? `no answer came within ${answerMs} ms`;
  void events?.send(notificationText("notifications/cancelled", { requestId: question.id, reason }));
  return { error: reason };
}

function whyGivenUp(cancelled: CancelSignal | undefined, noRoom: CancelSignal): string | undefined {
  if (cancelled?.aborted) return "the call was cancelled";
  return noRoom.aborted ? "there is no room for more answers" : undefined;
}

/** The capability that a client lacks for a question, as its revision names it; undefined when it lacks none. */
function whatLacks({ version, capabilities }: SessionFacts, { method, params }: InputRequest): string | undefined {
  switch (method) {
    case "elicitation/create":
      return elicitationLacks(version, capabilities["elicitation"], params["mode"] === "url");
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

/** Elicitation came with 2025-06-18, its URLs with 2025-11-25; `{}` stands for forms only. */
function elicitationLacks(version: string, elicitation: unknown, byUrl: boolean): string | undefined {
  if (!isObject(elicitation) || version < "2025-06-18") return "elicitation";
  if (byUrl) return isObject(elicitation["url"]) && version >= "2025-11-25" ? undefined : "elicitation by URL";
  const formsAlone = elicitation["url"] === undefined;
  return formsAlone || isObject(elicitation["form"]) ? undefined : "elicitation by form";
}

/** The parameters of a question as the client's revision knows them. */
function questionParams({ version, capabilities }: SessionFacts, { method, params }: InputRequest): JsonObject {
  if (method === "elicitation/create") {
    if (params["mode"] === "url") return { elicitationId: randomUUID(), ...params };
    if (version >= "2025-11-25") return params;
    const { mode: _mode, ...form } = params;
    return form;
  }
  if (method === "sampling/createMessage") {
    const { includeContext, tools, toolChoice, ...rest } = params;
    const { sampling } = capabilities;
    const context = version < "2025-11-25" || (isObject(sampling) && isObject(sampling["context"]));
    return {
      ...rest,
      ...(includeContext !== undefined && (context || includeContext === "none") && { includeContext }),
      ...(tools !== undefined && { tools }),
      ...(toolChoice !== undefined && { toolChoice }),
    };
  }
  return params;
}

/** The capabilities that a server may use, without a client's own additions: a token has to stay small. */
export function usedCapabilities(capabilities: unknown): JsonObject {
  if (!isObject(capabilities)) return {};
  const used: JsonObject = {};
  for (const [name, parts] of Object.entries(USED)) {
    const given = capabilities[name];
    if (!isObject(given)) continue;
    used[name] = Object.fromEntries(parts.filter((part) => isObject(given[part])).map((part) => [part, {}]));
  }
  const extensions = relayedExtensions(capabilities as JsonObject);
  if (extensions && JSON.stringify(extensions).length <= EXTENSIONS_UNITS_MAX) used["extensions"] = extensions;
  return used;
}

/** Longer ones count as none. */
const EXTENSIONS_UNITS_MAX = 512;

const USED: Readonly<Record<string, readonly string[]>> = {
  roots: [],
  sampling: ["tools", "context"],
  elicitation: ["form", "url"],
};

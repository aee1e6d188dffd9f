import { EXTENSION_TASKS } from "../../contract/extensions.ts";
import type { Catalog } from "../../host/offers/catalog.ts";
import { Cancellation } from "../../lib/cancellation.ts";
import { clock } from "../../lib/clock.ts";
import { cutText } from "../../lib/cut-text.ts";
import { BerthError } from "../../lib/errors.ts";
import { yieldToCalls } from "../../lib/event-loop.ts";
import { isObject, type JsonObject } from "../../lib/json.ts";
import { LongText, type Text } from "../../lib/long-text.ts";
import { fixed } from "../../limits/fixed.ts";
import { methodErrorAnswer } from "../error-answer.ts";
import {
  errorText,
  idOf,
  isId,
  readMessage,
  resultText,
  type ClientResponse,
  type Message,
  type Params,
  type Request,
  type RequestId,
} from "../json-rpc.ts";
import { methodCall } from "../methods/calls.ts";
import type { Answer, Post, RequestTarget } from "../protocol.ts";
import { isLegacy, isModern, LEGACY_VERSIONS } from "../revisions.ts";
import { usedCapabilities } from "./ask.ts";
import type { Legacy } from "./legacy.ts";
import { callLegacyMethod } from "./methods.ts";
import { answerOnOtherNode, cancelOnOtherNode, unexpectedResponse } from "./node-messages.ts";
import { legacyClient, type ClientAnswer, type LegacyCall, type Session } from "./session.ts";
import { answerLost } from "./stream-store.ts";
import { primes, requestIds } from "./streams.ts";

const bounds = fixed({
  /** Silence after which a call gets a stream, so that it survives its connection. */
  silentCallMs: 100,
  /** Bytes of the answers to one batch; further answers are rejected, except the first. */
  batchBytes: 4 * 1024 * 1024,
});
const BATCH_MESSAGES = 100;

/** Revisions in which a body may be an array of messages. */
const BATCHING: ReadonlySet<string> = new Set(["2025-03-26", "2024-11-05"]);

/** Answers a POST, with or without a session. Rejects with `BerthError` to reject it as a whole. */
export async function receiveLegacy(
  legacy: Legacy,
  place: RequestTarget,
  post: Post,
  body: Message | readonly unknown[],
): Promise<Answer> {
  const opened = findSession(legacy, place, post);
  const session = opened instanceof Promise ? await opened : opened;
  if (!isBatch(body)) {
    const message = body;
    if (message.kind !== "request") return acceptMessage(legacy, session, message, post.body.length);
    if (message.method === "initialize") return initialize(legacy, place, message, session);
    return inStream(legacy, post, session, [message], (streamed) =>
      answerRequest(legacy, place, streamed, session, message),
    );
  }
  const header = String(post.headers["mcp-protocol-version"]);
  checkBatch(body, isModern(header) ? header : legacyClient(post.headers, session).version);
  return inStream(legacy, post, session, body, (streamed) => answerBatch(legacy, place, streamed, session, body));
}

function findSession(
  { sessions }: Legacy,
  place: RequestTarget,
  { headers }: Post,
): Session | Promise<Session> | undefined {
  const token = headers["mcp-session-id"];
  return token === undefined ? undefined : sessions.open(place, String(token));
}

/** A second `initialize` in a session changes nothing. */
function initialize(
  legacy: Legacy,
  place: RequestTarget,
  { id, params }: Request,
  session: Session | undefined,
): Answer {
  const version = negotiate(params);
  if (version === undefined) {
    return { status: 200, body: errorText(id, new BerthError("invalid_params", '"protocolVersion" must be a string')) };
  }
  const opened = session ?? legacy.sessions.issue(place, version, usedCapabilities(params["capabilities"]));
  const result = JSON.stringify(initialization(place.catalog, opened.claims.version, legacy.berthVersion));
  return { status: 200, body: resultText(id, result), headers: { "Mcp-Session-Id": opened.token } };
}

/**
 * 2025-11-25 `basic/lifecycle`: the requested version if supported, otherwise the latest of the era; undefined without
 * a version.
 */
function negotiate(params: Params): string | undefined {
  const requested = params["protocolVersion"];
  if (typeof requested !== "string") return undefined;
  return isLegacy(requested) ? requested : LEGACY_VERSIONS[0];
}

/**
 * Declares all capabilities, whatever the server currently offers: a session outlives a release, and the next release
 * may offer more. Only the server's extensions are declared.
 */
function initialization(catalog: Catalog, version: string, berthVersion: string): object {
  const { description } = catalog.contract;
  // Berth answers legacy calls with their results, never with a task.
  const { [EXTENSION_TASKS]: _tasks, ...extensions } = catalog.contract.extensions ?? {};
  return {
    protocolVersion: version,
    capabilities: {
      tools: { listChanged: true },
      resources: { subscribe: true, listChanged: true },
      prompts: { listChanged: true },
      logging: {},
      ...(version >= "2025-03-26" && { completions: {} }),
      ...(Object.keys(extensions).length > 0 && { extensions }),
    },
    serverInfo: {
      name: catalog.server,
      version: `${berthVersion}+${catalog.release}`,
      ...(catalog.icons && version >= "2025-11-25" && { icons: catalog.icons }),
    },
    ...(description !== undefined && { instructions: description }),
  };
}

/** In a session, messages before the answer go on a stream that outlives the connection, if possible. */
async function inStream(
  legacy: Legacy,
  post: Post,
  session: Session | undefined,
  bodies: readonly unknown[],
  run: (streamed: Post) => Promise<Answer>,
): Promise<Answer> {
  const { events: sink, signal } = post;
  if (!session) return run(post);
  const unregister = countConnected(session, signal);
  if (!sink) return run(post).finally(unregister);
  if (!sink.open) {
    const { events, unreserve: letGo } = legacy.streams.reserving(session, sink);
    return run({ ...post, events })
      .finally(letGo)
      .finally(unregister);
  }
  const stream = legacy.streams.create(session, requestIds(bodies));
  stream.attach(sink);
  const leave = (): void => stream.detach(sink);
  signal?.addEventListener("abort", leave);
  if (primes(session) && prefersEvents(post)) stream.tryOpen();
  const silence = primes(session) ? clock.after(bounds.silentCallMs, () => stream.tryOpen()).unref() : undefined;
  const answered = await run({ ...post, events: stream }).finally(unregister);
  silence?.clear();
  signal?.removeEventListener("abort", leave);
  if (!stream.isOpen) return answered;
  if (answered.body instanceof LongText) await answered.body.decode();
  if (answered.body !== undefined) void stream.send(answered.body, { lasting: true });
  stream.end();
  return { status: 200 };
}

/** Executes a request, which its session, if any, can cancel. */
async function answerRequest(
  legacy: Legacy,
  place: RequestTarget,
  post: Post,
  session: Session | undefined,
  message: Request,
): Promise<Answer> {
  const client = legacyClient(post.headers, session);
  const { logs } = legacy;
  if (!session) return answerCall(legacy, methodCall(place, post, message, client, logs));
  const cancellation = new Cancellation();
  session.calls.set(message.id, cancellation);
  // A broken HTTP connection does not cancel a call of a session: the client reconnects, or cancels with a
  // notification.
  if (post.headerless) post.signal?.addEventListener("abort", () => cancellation.abort());
  const answered = await answerCall(legacy, methodCall(place, post, message, client, logs, cancellation));
  if (session.calls.get(message.id) === cancellation) session.calls.delete(message.id);
  if (cancellation.aborted) return cancelled(message, post);
  // A 404 would tell the client that its session is gone.
  return answered.status < 500 ? { ...answered, status: 200 } : answered;
}

async function answerCall(legacy: Legacy, call: LegacyCall): Promise<Answer> {
  try {
    return { status: 200, body: resultText(call.id, await callLegacyMethod(legacy, call)) };
  } catch (error) {
    return methodErrorAnswer(legacy.log, call, error, "legacy");
  }
}

async function answerBatch(
  legacy: Legacy,
  place: RequestTarget,
  post: Post,
  session: Session | undefined,
  bodies: readonly unknown[],
): Promise<Answer> {
  let isOpen = false;
  const { events } = post;
  const tracked: Post = events
    ? {
        ...post,
        events: {
          send: (message, more) => ((isOpen = true), events.send(message, more)),
          hold: (bytes) => events.hold?.(bytes),
        },
      }
    : post;
  const answerOne = async (body: unknown): Promise<Text | undefined> => {
    const isSkipped = isFull && isObject(body) && "method" in body && "id" in body;
    const answered = isSkipped
      ? tooLarge(body, "this request was not executed")
      : await answerBatchItem(legacy, place, tracked, session, body);
    const text = answered === undefined || isSkipped ? answered : inBatch(body, answered);
    if (text === undefined || !isOpen) return text;
    // The answer stays in memory until the last one of the batch, which may wait for the client.
    const isLost = events?.hold?.(approximateLength(text)) !== undefined;
    if (text instanceof LongText && !isLost) await text.decode();
    void events?.send(isLost ? errorText(idOf(body), answerLost()) : text, { lasting: true });
    return undefined;
  };
  let bytes = 0;
  let isFull = false;
  const tooLarge = (body: unknown, what: string): string => {
    const most = `${bounds.batchBytes} bytes`;
    return errorText(idOf(body), new BerthError("batch_too_large", `${most}; ${what}`));
  };
  /** Caps the total of many short answers, or of the same one a hundred times. */
  const inBatch = (body: unknown, text: Text): Text => {
    const size = bytes > 0 && bytes + approximateLength(text) > bounds.batchBytes ? Infinity : byteLength(text);
    if (bytes === 0 || bytes + size <= bounds.batchBytes) {
      bytes += size;
      return text;
    }
    isFull = true;
    return tooLarge(body, "this answer was omitted");
  };
  const pending: Promise<Text | undefined>[] = [];
  for (const body of bodies) {
    const answered = answerOne(body);
    // Rejections are handled with the others, below.
    answered.catch(() => {});
    pending.push(answered);
    // Counts an immediate answer before the next request begins.
    await Promise.race([answered, yieldToCalls()]).catch(() => {});
  }
  const answered = await Promise.all(pending);
  const texts = answered.flatMap((text) => text ?? []);
  if (!isOpen) return texts.length === 0 ? { status: 202 } : { status: 200, body: joinTexts(texts) };
  for (const text of texts) {
    if (text instanceof LongText) await text.decode();
    await events?.send(text, { lasting: true });
  }
  return { status: 200 };
}

async function answerBatchItem(
  legacy: Legacy,
  place: RequestTarget,
  post: Post,
  session: Session | undefined,
  body: unknown,
): Promise<Text | undefined> {
  try {
    const message = readMessage(body);
    if (message.kind === "request") {
      return (await answerRequest(legacy, place, post, session, message)).body;
    }
    await acceptMessage(legacy, session, message, message.kind === "response" ? JSON.stringify(body).length : 0);
    return undefined;
  } catch (error) {
    if (!(error instanceof BerthError)) throw error;
    return errorText(idOf(body), error);
  }
}

function checkBatch(bodies: readonly unknown[], version: string): void {
  if (!BATCHING.has(version)) {
    throw new BerthError("invalid_request", `revision ${version} has no batches; send each message on its own`);
  }
  if (bodies.length === 0) throw new BerthError("invalid_request", "a batch must not be empty");
  if (bodies.length > BATCH_MESSAGES) {
    throw new BerthError("invalid_request", `a batch holds at most ${BATCH_MESSAGES} messages`);
  }
  if (bodies.some((body) => isObject(body) && body["method"] === "initialize")) {
    throw new BerthError("invalid_request", "initialize must not be in a batch");
  }
}

/** Counts the session's client as connected until it disconnects or the returned function is called. */
function countConnected(session: Session, signal: Post["signal"]): () => void {
  if (signal?.aborted) return () => {};
  session.present += 1;
  const leave = (): void => {
    signal?.removeEventListener("abort", leave);
    session.present -= isCounted ? 1 : 0;
    isCounted = false;
  };
  let isCounted = true;
  signal?.addEventListener("abort", leave);
  return leave;
}

/** A client that lists event streams before JSON gets a stream from the start, so that it can always reconnect. */
function prefersEvents({ headers: { accept } }: Post): boolean {
  return typeof accept === "string" && accept.trimStart().startsWith("text/event-stream");
}

function isBatch(body: Message | readonly unknown[]): body is readonly unknown[] {
  return Array.isArray(body);
}

/** Handles a message that is not a request. `units` is its length in UTF-16 code units. */
function acceptMessage(
  legacy: Legacy,
  session: Session | undefined,
  message: Exclude<Message, Request>,
  units: number,
): Answer | Promise<Answer> {
  if (message.kind === "response") return acceptAnswer(legacy, session, message.id, parseAnswer(message, units));
  const { requestId } = message.params;
  if (session && message.method === "notifications/cancelled" && isId(requestId)) {
    const call = session.calls.get(requestId);
    if (call) call.abort();
    else cancelOnOtherNode(legacy, session, requestId);
  }
  return { status: 202 };
}

/** Passes the client's answer to its question, on this node or another. */
function acceptAnswer(
  legacy: Legacy,
  session: Session | undefined,
  id: RequestId,
  answer: ClientAnswer,
): Answer | Promise<Answer> {
  if (session?.questions.answer(id, answer)) return { status: 202 };
  if (!session) throw unexpectedResponse();
  return answerOnOtherNode(legacy, session, id, answer).then(() => ({ status: 202 }));
}

function parseAnswer({ body }: ClientResponse, units: number): ClientAnswer {
  const { result, error } = body;
  if (isObject(result)) return { result: result as JsonObject, units };
  const message = isObject(error) ? error["message"] : "its answer is not an object";
  return {
    error: typeof message === "string" ? cutText(message, ERROR_UNITS_MAX) : "it reported an error without a message",
  };
}

/** Answer limits apply to results only, and a short error fits into a message between nodes. */
const ERROR_UNITS_MAX = 4_096;

/** A cancelled request gets no response (2025-11-25 `basic/utilities/cancellation`), if HTTP can express that. */
function cancelled({ id }: Request, { events }: Post): Answer {
  events?.open?.();
  if (events) return { status: 200 };
  return { status: 200, body: errorText(id, new BerthError("cancelled")) };
}

function joinTexts(texts: readonly Text[]): Text {
  if (texts.every((text) => typeof text === "string")) return `[${texts.join(",")}]`;
  const pieces = texts.flatMap((text, at) => [
    at === 0 ? "[" : ",",
    ...(text instanceof LongText ? text.pieces : [text]),
  ]);
  return new LongText(...pieces, "]");
}

function byteLength(text: Text): number {
  return text instanceof LongText ? text.bytes : Buffer.byteLength(text);
}

/** The length of a text: bytes if it is long, otherwise UTF-16 code units, which are never more than its bytes. */
function approximateLength(text: Text): number {
  return text instanceof LongText ? text.bytes : text.length;
}

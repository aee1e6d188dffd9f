import { setTimeout as sleep } from "node:timers/promises";
import type { Principal } from "../../access/principal.ts";
import { BerthError } from "../../lib/errors.ts";
import { mayReceiveUpdates } from "../admit.ts";
import { errorText, type RequestId } from "../json-rpc.ts";
import type { Answer, Listen } from "../protocol.ts";
import type { Legacy } from "./legacy.ts";
import { legacyClient, type Session } from "./session.ts";
import { answerLost, type StoredStream } from "./stream-store.ts";
import { eventId, readEventId, streamBounds, type EventPosition, type RetainedEvents, type Stream } from "./stream.ts";
import { primes } from "./streams.ts";

/**
 * GET: opens the stream for messages that no request asked for, or reopens a broken stream, on `listen.events`.
 * Resolves to an answer when nothing more will be sent; rejects with `BerthError`.
 */
export async function listenLegacy(
  legacy: Legacy,
  tenant: string,
  server: string,
  listen: Listen,
): Promise<Answer | undefined> {
  const { headers, principal } = listen;
  const token = headers["mcp-session-id"];
  if (typeof token !== "string")
    throw new BerthError("method_not_allowed", "a stream needs a session; send Mcp-Session-Id");
  const session = await legacy.sessions.open({ tenant, server, principal }, token);
  legacyClient(headers, session);

  const last = headers["last-event-id"];
  if (last === undefined) return begin(legacy, session, listen);
  const position = typeof last === "string" ? readEventId(last) : undefined;
  if (!position) throw new BerthError("invalid_request", "Last-Event-ID is not from this server");
  const stream = session.stream(position.stream);
  if (!stream) return restore(legacy, session, listen, position);
  // This status tells a client not to reconnect (the SSE standard).
  if (!stream.hasAfter(position.seq)) return { status: 204 };
  return resume(stream, listen, position);
}

function begin(legacy: Legacy, session: Session, { events, signal, principal }: Listen): undefined {
  const stream = legacy.streams.create(session, undefined);
  stream.attach(events);
  if (!stream.tryOpen()) {
    throw new BerthError("too_many_streams", `a session has at most ${streamBounds.streamsPerSession}`);
  }
  signal?.addEventListener("abort", () => stream.detach(events));
  session.unwatch ??= watch(legacy, session, principal);
  return undefined;
}

function resume(stream: Stream, { events, signal }: Listen, { seq }: EventPosition): undefined {
  stream.resume(events, seq);
  signal?.addEventListener("abort", () => stream.detach(events));
}

/** Restores the stream of another process from the store. */
async function restore(
  legacy: Legacy,
  session: Session,
  listen: Listen,
  position: EventPosition,
): Promise<Answer | undefined> {
  const stored = await legacy.store.readSoon(session, position.stream);
  if (position.requests && stored) return follow(legacy, session, listen, position, stored);
  if (position.requests) return reportLost(listen, position.requests);
  if (stored) {
    session.unwatch ??= watch(legacy, session, listen.principal);
    resume(session.stream(position.stream) ?? legacy.streams.adopt(session, position, stored), listen, position);
  } else begin(legacy, session, listen);
  // Changes between the two processes went unnotified.
  for (const list of LISTS) session.notify(`notifications/${list}/list_changed`);
  for (const uri of session.subscriptions) session.notify("notifications/resources/updated", { uri });
  return undefined;
}

const LISTS = ["tools", "resources", "prompts"] as const;

/** The stream is no longer stored: tells the client which requests to repeat. */
function reportLost({ events }: Listen, requests: readonly RequestId[]): undefined {
  if (requests.length === 0) throw answerLost();
  for (const id of requests) void events.send(errorText(id, answerLost()));
  events.open?.();
  events.close?.();
}

function watch({ host }: Legacy, session: Session, principal: Principal | undefined): () => void {
  return host.watch(session.tenant, session.server, (change) => {
    if (change.kind !== "resource") session.notify(`notifications/${change.kind}/list_changed`);
    else if (session.subscriptions.has(change.uri) && mayReceiveUpdates(principal, change.server)) {
      session.notify("notifications/resources/updated", { uri: change.uri });
    }
  });
}

/** Poll interval for the output of another process. */
const POLL_MS = 200;

/**
 * Streams the events of a call that another process runs, or ran, from the store. If that process is gone, answers each
 * of its open requests with an error, so that no client waits forever.
 */
async function follow(
  { store, closing }: Legacy,
  session: Session,
  { events, signal }: Listen,
  position: EventPosition,
  found: StoredStream,
): Promise<Answer | undefined> {
  let seen = position.seq;
  if (found.retained.isEnded && !found.retained.events.some(({ seq }) => seq > seen)) return { status: 204 };
  events.open?.(
    primes(session) ? { eventId: eventId(position.stream, seen), retryMs: streamBounds.streamRetryMs } : undefined,
  );
  let isProcessGone = false;
  for (let stored: StoredStream | undefined = found; stored; stored = await store.read(session, position.stream)) {
    const { retained: kept } = stored;
    for (const { seq, message } of kept.events) {
      if (seq <= seen) continue;
      void events.send(message, { eventId: eventId(position.stream, seq) });
      seen = seq;
    }
    if (!kept.isEnded && isProcessGone) answerRest(kept);
    if (kept.isEnded || isProcessGone) break;
    // Checked before the next read, which then includes the last events of the process.
    isProcessGone = await store.isGone(session, stored);
    if (!isProcessGone) await sleep(POLL_MS);
    if (signal?.aborted || closing.aborted) break;
  }
  events.close?.();
  return undefined;

  function answerRest({ events: sent }: RetainedEvents): void {
    const answered = new Set(sent.flatMap(({ message, lasting }) => (lasting ? answeredBy(message) : [])));
    for (const id of position.requests ?? []) if (!answered.has(id)) void events.send(errorText(id, answerLost()));
  }
}

/** The request that a message answers; a question has an id as well. */
function answeredBy(message: string): RequestId[] {
  const { id, method } = JSON.parse(message) as { id?: RequestId; method?: string };
  return id === undefined || method !== undefined ? [] : [id];
}

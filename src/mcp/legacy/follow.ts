import { setTimeout as sleep } from "node:timers/promises";
import type { CancelSignal } from "../../lib/cancellation.ts";
import type { Limits } from "../../limits/limits.ts";
import { errorText, type RequestId } from "../json-rpc.ts";
import type { Answer, Listen } from "../protocol.ts";
import type { Session } from "./session.ts";
import { eventId, type EventPosition } from "./event-id.ts";
import type { KeptEvents } from "./stream.ts";
import { answerLost, type StoredStream, type StreamStore } from "./stream-store.ts";
import { primes } from "./streams.ts";

/** How soon the output of another process is seen here. */
const LOOK_MS = 200;

export interface Following {
  readonly session: Session;
  readonly listen: Listen;
  readonly position: EventPosition;
  readonly store: StreamStore;
  readonly closing: CancelSignal;
  readonly limits: Pick<Limits, "streamRetryMs">;
}

/**
 * Shows the stream of a call that another process carries out, or did, from the events in the store. When that process
 * is gone, answers each of its open requests with an error, so that no client waits forever.
 */
export async function follow(found: StoredStream, following: Following): Promise<Answer | undefined> {
  const { session, listen, position, store, closing, limits } = following;
  const { events, signal } = listen;
  let seen = position.seq;
  if (found.kept.isEnded && !found.kept.events.some(({ seq }) => seq > seen)) return { status: 204 };
  events.open?.(
    primes(session) ? { eventId: eventId(position.stream, seen), retryMs: limits.streamRetryMs } : undefined,
  );
  let isGone = false;
  for (let stored: StoredStream | undefined = found; stored; stored = await store.read(session, position.stream)) {
    const { kept } = stored;
    for (const { seq, message } of kept.events) {
      if (seq <= seen) continue;
      void events.send(message, { eventId: eventId(position.stream, seq) });
      seen = seq;
    }
    if (!kept.isEnded && isGone) answerRest(kept);
    if (kept.isEnded || isGone) break;
    // Checked before the next reading, which then has its last events.
    isGone = await store.isGone(session, stored);
    if (!isGone) await sleep(LOOK_MS);
    // The client comes back to the process that serves next.
    if (signal?.aborted || closing.aborted) break;
  }
  events.close?.();
  return undefined;

  function answerRest({ events: said }: KeptEvents): void {
    const answered = new Set(said.flatMap(({ message, lasting }) => (lasting ? answeredBy(message) : [])));
    for (const id of position.requests ?? []) if (!answered.has(id)) void events.send(errorText(id, answerLost()));
  }
}

/** The request that a message answers; a question has an id as well. */
function answeredBy(message: string): RequestId[] {
  const { id, method } = JSON.parse(message) as { id?: RequestId; method?: string };
  return id === undefined || method !== undefined ? [] : [id];
}

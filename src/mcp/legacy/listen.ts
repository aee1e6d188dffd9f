import type { Principal } from "../../access/principal.ts";
import { BerthError } from "../../lib/errors.ts";
import type { CancelSignal } from "../../lib/cancellation.ts";
import { mayHearOf } from "../admit.ts";
import { errorText, type RequestId } from "../json-rpc.ts";
import type { Answer, Listen } from "../protocol.ts";
import { legacyClient } from "./client.ts";
import { follow } from "./follow.ts";
import type { Legacy, LegacyOptions } from "./legacy.ts";
import type { Session } from "./session.ts";
import type { Sessions } from "./sessions.ts";
import { readEventId, type EventPosition } from "./event-id.ts";
import type { Stream } from "./stream.ts";
import { answerLost, type StreamStore } from "./stream-store.ts";
import type { Streams } from "./streams.ts";

const LISTS = ["tools", "resources", "prompts"] as const;

export interface ListenParts extends LegacyOptions {
  readonly sessions: Sessions;
  readonly streams: Streams;
  readonly store: StreamStore;
  readonly closing: CancelSignal;
}

/** GET: the stream for messages that no request asked for, and the way back to any broken stream. */
export function createListen({ host, sessions, streams, store, closing, limits }: ListenParts): Legacy["listen"] {
  return async (tenant, server, listen) => {
    const { headers, principal } = listen;
    const token = headers["mcp-session-id"];
    if (typeof token !== "string")
      throw new BerthError("method_not_allowed", "a stream needs the session of Mcp-Session-Id");
    const session = await sessions.open({ tenant, server, principal }, token);
    legacyClient(headers, session);

    const last = headers["last-event-id"];
    if (last === undefined) return begin(session, listen);
    const position = typeof last === "string" ? readEventId(last) : undefined;
    if (!position) throw new BerthError("invalid_request", "Last-Event-ID is none that this server gave");
    const stream = session.stream(position.stream);
    if (!stream) return restore(session, listen, position);
    // This status tells a client that there is nothing to come back for (the SSE standard).
    if (!stream.hasAfter(position.seq)) return { status: 204 };
    return resume(stream, listen, position);
  };

  function resume(stream: Stream, { events, signal }: Listen, { seq }: EventPosition): undefined {
    stream.resume(events, seq);
    signal?.addEventListener("abort", () => stream.detach(events));
  }

  function begin(session: Session, { events, signal, principal }: Listen): undefined {
    const stream = streams.create(session, undefined);
    stream.attach(events);
    if (!stream.tryOpen())
      throw new BerthError("too_many_streams", `a session has at most ${limits.streamsPerSession}`);
    signal?.addEventListener("abort", () => stream.detach(events));
    session.unwatch ??= watch(session, principal);
    return undefined;
  }

  /** Another process had the stream; its events are in the store. */
  async function restore(session: Session, listen: Listen, position: EventPosition): Promise<Answer | undefined> {
    const stored = await store.readSoon(session, position.stream);
    if (position.requests && stored) return follow(stored, { session, listen, position, store, closing, limits });
    if (position.requests) return lost(listen, position.requests);
    if (stored) {
      session.unwatch ??= watch(session, listen.principal);
      resume(session.stream(position.stream) ?? streams.adopt(session, position, stored), listen, position);
    } else begin(session, listen);
    // No client was told what happened between the two processes.
    for (const list of LISTS) session.notify(`notifications/${list}/list_changed`);
    for (const uri of session.subscriptions) session.notify("notifications/resources/updated", { uri });
    return undefined;
  }

  /** The stream is no longer stored: the client learns which requests to repeat. */
  function lost({ events }: Listen, requests: readonly RequestId[]): undefined {
    if (requests.length === 0) throw answerLost();
    for (const id of requests) void events.send(errorText(id, answerLost()));
    events.open?.();
    events.close?.();
  }

  function watch(session: Session, principal: Principal | undefined): () => void {
    return host.watch(session.tenant, session.server, (change) => {
      if (change.kind !== "resource") session.notify(`notifications/${change.kind}/list_changed`);
      else if (session.subscriptions.has(change.uri) && mayHearOf(principal, change.server)) {
        session.notify("notifications/resources/updated", { uri: change.uri });
      }
    });
  }
}

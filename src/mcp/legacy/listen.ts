import { BerthError } from "../../errors.ts";
import { errorText } from "../json-rpc.ts";
import type { Answer, Listen } from "../protocol.ts";
import { legacyClient } from "./client.ts";
import type { Legacy, LegacyOptions } from "./legacy.ts";
import type { Session } from "./session.ts";
import type { Sessions } from "./sessions.ts";
import { readEventId, type Position } from "./stream.ts";
import type { Streams } from "./streams.ts";

const LISTS = ["tools", "resources", "prompts"] as const;

export interface ListenParts extends LegacyOptions {
  readonly sessions: Sessions;
  readonly streams: Streams;
}

/** GET: the stream on which a session hears what no request asked for, and the way back to any stream that broke. */
export function createListen({ host, sessions, streams, limits }: ListenParts): Legacy["listen"] {
  return async (tenant, server, listen) => {
    const { headers } = listen;
    const token = headers["mcp-session-id"];
    if (typeof token !== "string")
      throw new BerthError("method_not_allowed", "a stream needs the session of Mcp-Session-Id");
    const session = await sessions.open(tenant, server, token);
    legacyClient(headers, session);

    const last = headers["last-event-id"];
    if (last === undefined) return begin(session, listen);
    const position = typeof last === "string" ? readEventId(last) : undefined;
    if (!position) throw new BerthError("invalid_request", "Last-Event-ID is none that this server gave");
    const stream = session.streams.get(position.stream);
    if (!stream) return lost(session, listen, position);
    // By this status a client learns that there is nothing to come back for (the SSE standard).
    if (!stream.hasAfter(position.seq)) return { status: 204 };
    stream.resume(listen.events, position.seq);
    listen.signal?.addEventListener("abort", () => stream.detach(listen.events));
    return undefined;
  };

  function begin(session: Session, { events, signal }: Listen): undefined {
    const stream = streams.create(session, undefined);
    stream.attach(events);
    if (!stream.tryOpen())
      throw new BerthError("too_many_streams", `a session has at most ${limits.streamsPerSession}`);
    signal?.addEventListener("abort", () => stream.detach(events));
    session.unwatch ??= watch(session);
    return undefined;
  }

  /** The process that kept the stream is gone, or kept it no longer: the client learns what it has to ask again. */
  function lost(session: Session, listen: Listen, { requests }: Position): Answer | undefined {
    if (!requests) {
      begin(session, listen);
      for (const list of LISTS) session.notify(`notifications/${list}/list_changed`);
      for (const uri of session.subscriptions) session.notify("notifications/resources/updated", { uri });
      return undefined;
    }
    const error = new BerthError("answer_lost");
    if (requests.length === 0) throw error;
    for (const id of requests) void listen.events.send(errorText(id, error));
    listen.events.open?.();
    listen.events.close?.();
    return undefined;
  }

  function watch(session: Session): () => void {
    return host.watch(session.tenant, session.server, (change) => {
      if (change.kind !== "resource") session.notify(`notifications/${change.kind}/list_changed`);
      else if (session.subscriptions.has(change.uri)) {
        session.notify("notifications/resources/updated", { uri: change.uri });
      }
    });
  }
}

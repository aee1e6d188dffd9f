import type { Cluster } from "../../cluster/cluster.ts";
import type { NodeRequests } from "../../cluster/node-requests.ts";
import type { Host } from "../../host/host.ts";
import { Cancellation } from "../../lib/cancellation.ts";
import { BerthError } from "../../lib/errors.ts";
import { createYielder } from "../../lib/event-loop.ts";
import type { Log } from "../../lib/log.ts";
import type { Records } from "../../lib/records.ts";
import type { Sealer } from "../../lib/seal.ts";
import { fixed } from "../../limits/fixed.ts";
import type { Limits } from "../../limits/limits.ts";
import { requestText } from "../json-rpc.ts";
import type { Answer, CallNatively, ClientLogs, Post } from "../protocol.ts";
import { listenToNodes } from "./node-messages.ts";
import type { Session } from "./session.ts";
import { Sessions } from "./sessions.ts";
import { StreamStore } from "./stream-store.ts";
import { streamBounds, type Stream } from "./stream.ts";
import { Streams } from "./streams.ts";

/**
 * The era of `initialize`, 2024-11-05 to 2025-11-25: sessions, their streams, and the server's requests to a client.
 * `receive.ts` handles POST, `listen.ts` GET. Independent of HTTP libraries and sockets.
 */
export interface Legacy extends LegacyOptions {
  readonly sessions: Sessions;
  readonly streams: Streams;
  readonly store: StreamStore;
  /** Aborted when streams end, so that clients reconnect to the next process. */
  readonly closing: Cancellation;
}

export interface LegacyOptions {
  readonly host: Host;
  readonly callNatively?: CallNatively | undefined;
  readonly berthVersion: string;
  readonly sealer: Sealer;
  readonly records: Records;
  readonly cluster: Pick<Cluster, "id" | "on" | "onLapse" | "tell" | "heard">;
  readonly errands: NodeRequests;
  readonly limits: Limits;
  readonly log: Log;
  readonly logs: ClientLogs;
}

const bounds = fixed({
  /** The interval of pings to a listening client, and the time that it has to reply. */
  pingMs: 120_000,
});
/** Maximum interval of session maintenance. */
const MAINTENANCE_MS = 5_000;

export function createLegacy(options: LegacyOptions): Legacy {
  const { sealer, records, cluster, log, limits } = options;
  const sessions = new Sessions(sealer, records, limits, cluster);
  const store = new StreamStore(records, log);
  const streams = new Streams(store, limits);
  const closing = new Cancellation();
  const pings = new Pings();
  let running: Promise<void> | undefined;
  const maintain = async (): Promise<void> => {
    // A copy: sessions in use move to the end of the map, which would make the loop endless.
    const all = [...sessions.values()];
    await pings.send(all);
    await streams.maintain(all);
    await sessions.sweep(all);
  };
  const timer = setInterval(
    () => void (running ??= maintain().finally(() => (running = undefined))),
    Math.min(MAINTENANCE_MS, bounds.pingMs, streamBounds.replayMs),
  ).unref();
  closing.addEventListener("abort", () => clearInterval(timer));
  listenToNodes({ ...options, sessions });
  return { ...options, sessions, streams, store, closing };
}

/** DELETE. Rejects with `session_not_found`. */
export async function endSession(
  { sessions }: Legacy,
  tenant: string,
  server: string,
  { headers, headerless, principal }: Pick<Post, "headers" | "headerless" | "principal">,
): Promise<Answer> {
  const token = headers["mcp-session-id"];
  if (typeof token !== "string")
    throw new BerthError("method_not_allowed", "DELETE ends the session of Mcp-Session-Id");
  const session = await sessions.open({ tenant, server, principal }, token);
  // If the connection is the session, its client never saw the token.
  await (headerless ? sessions.drop(session) : sessions.end(session));
  return { status: 204 };
}

export function closeLegacy({ closing, sessions }: Legacy): void {
  closing.abort();
  for (const session of sessions.values()) {
    session.stopWatching();
    for (const stream of session.listeners) stream.end();
    session.questions.giveUp();
  }
}

/**
 * Pings listening clients (2025-11-25 `basic/utilities/ping`). A client that does not answer is disconnected; if it is
 * still there, it reconnects.
 */
class Pings {
  readonly #due = new WeakMap<Session, number>();

  async send(sessions: Iterable<Session>): Promise<void> {
    const now = performance.now();
    const maybeYield = createYielder();
    for (const session of sessions) {
      await maybeYield();
      const stream = session.listeners.findLast(({ isAttached }) => isAttached);
      const due = this.#due.get(session);
      if (stream && due !== undefined && due <= now) void this.#ping(session, stream);
      if (!stream) this.#due.delete(session);
      else if (due === undefined || due <= now) this.#due.set(session, now + bounds.pingMs);
    }
  }

  async #ping(session: Session, stream: Stream): Promise<void> {
    const question = session.questions.ask((id) => void stream.send(requestText(id, "ping")), bounds.pingMs);
    if (!(await question.answer)) stream.disconnect();
  }
}

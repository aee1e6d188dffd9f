import type { Host } from "../../host/host.ts";
import { Cancellation } from "../../lib/cancellation.ts";
import { BerthError } from "../../lib/errors.ts";
import type { Log } from "../../lib/log.ts";
import { turnTaker } from "../../lib/event-loop.ts";
import type { Limits } from "../../limits/limits.ts";
import { requestText, type Message, type Request } from "../json-rpc.ts";
import type { Answer, Client, Codec, Listen, ServerPlace, Post } from "../protocol.ts";
import type { Records } from "../records.ts";
import { LEGACY_VERSIONS } from "../revisions.ts";
import type { Sealer } from "../seal.ts";
import { createLegacyCodec, type LegacyCodecLimits } from "./codec.ts";
import { createListen } from "./listen.ts";
import { createReceive } from "./receive.ts";
import type { Session } from "./session.ts";
import { Sessions, type SessionLimits } from "./sessions.ts";
import { StreamStore, type StreamStoreLimits } from "./stream-store.ts";
import type { Stream } from "./stream.ts";
import { Streams, type SessionStreamLimits } from "./streams.ts";

/**
 * The era of `initialize`: 2024-11-05 to 2025-11-25. It owns sessions, their streams, and the server's requests to a
 * client. It knows no HTTP library and no socket, and leaves the methods of both eras to `methods/`.
 */
export interface Legacy {
  /** Answers one POST: a message, or a batch of them. Throws `BerthError` to refuse it as a whole. */
  receive(place: ServerPlace, post: Post, body: Message | readonly unknown[]): Promise<Answer>;
  /**
   * Opens the stream of a session, or a broken one again, on `listen.events`; returns an answer when nothing more is to
   * come. Rejects with `BerthError`.
   */
  listen(tenant: string, server: string, listen: Listen): Promise<Answer | undefined>;
  /** Ends a session. Rejects with `session_not_found`. */
  end(tenant: string, server: string, post: Pick<Post, "headers" | "headerless" | "principal">): Promise<Answer>;
  /** The number of sessions that this process remembers. */
  sessions(): number;
  /** Forgets a tenant's sessions, and ends everything that they have in progress. */
  endTenant(tenant: string): void;
  /** Ends every stream, so that clients come back to the process that serves next. */
  close(): void;
  /** Resolves when everything that they missed is stored for them. */
  settled(): Promise<void>;
}

export interface LegacyOptions {
  readonly host: Host;
  readonly berthVersion: string;
  readonly sealer: Sealer;
  readonly records: Records;
  readonly limits: LegacyLimits;
  readonly log: Log;
  /** Carries out a request whose client is known. Never rejects. */
  readonly answer: (place: ServerPlace, request: Request, post: Post, codec: Codec, client: Client) => Promise<Answer>;
}

export type LegacyLimits = LegacyCodecLimits &
  SessionLimits &
  SessionStreamLimits &
  StreamStoreLimits &
  Pick<Limits, "silentCallMs" | "batchMessages" | "batchBytes" | "pingMs">;

/** The longest interval at which sessions are maintained. */
const TEND_MS = 5_000;

export function createLegacy(options: LegacyOptions): Legacy {
  const { limits } = options;
  const sessions = new Sessions(options.sealer, options.records, limits);
  const store = new StreamStore(options.records, options.log, limits);
  const streams = new Streams(store, limits);
  const codecs = new Map(
    LEGACY_VERSIONS.map((version) => [version as string, createLegacyCodec(version, { limits, sessions })]),
  );
  const closing = new Cancellation();
  const pings = new Pings(limits.pingMs);
  let tend: Promise<void> | undefined;
  const tendAll = async (): Promise<void> => {
    // A copy: sessions in use move to the end of the map, and would be visited forever.
    const all = [...sessions.values()];
    await pings.send(all);
    await streams.tend(all);
    await sessions.sweep(all);
  };
  const tending = setInterval(
    () => void (tend ??= tendAll().finally(() => (tend = undefined))),
    Math.min(TEND_MS, limits.pingMs, limits.replayMs),
  ).unref();

  return {
    receive: createReceive({ ...options, sessions, streams, codecs }),
    listen: createListen({ ...options, sessions, streams, store, closing }),
    async end(tenant, server, { headers, headerless, principal }) {
      const token = headers["mcp-session-id"];
      if (typeof token !== "string")
        throw new BerthError("method_not_allowed", "DELETE ends the session of Mcp-Session-Id");
      const session = await sessions.open({ tenant, server, principal }, token);
      // Where a connection is the session, its client never saw the token.
      await (headerless ? sessions.drop(session) : sessions.end(session));
      return { status: 204 };
    },
    sessions: () => sessions.size,
    endTenant: (tenant) => sessions.forgetTenant(tenant),
    close() {
      clearInterval(tending);
      closing.abort();
      for (const session of sessions.values()) {
        session.stopWatching();
        for (const stream of session.listeners) stream.end();
        session.questions.giveUp();
      }
    },
    settled: () => store.close(),
  };
}

/**
 * Pings listening clients (2025-11-25 `basic/utilities/ping`). A client that does not answer loses its connection, and
 * comes back if it is there after all.
 */
class Pings {
  readonly #pingMs: number;
  readonly #due = new WeakMap<Session, number>();

  constructor(pingMs: number) {
    this.#pingMs = pingMs;
  }

  /** Takes turns with the calls of others. */
  async send(sessions: Iterable<Session>): Promise<void> {
    const now = performance.now();
    const takeTurns = turnTaker();
    for (const session of sessions) {
      await takeTurns();
      const stream = session.listeners.findLast(({ isAttached }) => isAttached);
      const due = this.#due.get(session);
      if (stream && due !== undefined && due <= now) void this.#ping(session, stream);
      if (!stream) this.#due.delete(session);
      else if (due === undefined || due <= now) this.#due.set(session, now + this.#pingMs);
    }
  }

  async #ping(session: Session, stream: Stream): Promise<void> {
    const question = session.questions.ask((id) => void stream.send(requestText(id, "ping")), this.#pingMs);
    if (!(await question.answer)) stream.disconnect();
  }
}

import { turnTaker } from "../../lib/event-loop.ts";
import { requestText } from "../json-rpc.ts";
import type { Session } from "./session.ts";
import type { Stream } from "./stream.ts";

/**
 * Pings listening clients (2025-11-25 `basic/utilities/ping`). A client that does not answer loses its connection, and
 * comes back if it is there after all.
 */
export class Pings {
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

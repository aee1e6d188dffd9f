import { BerthError } from "../../errors.ts";
import type { LogLevel } from "../../log-level.ts";
import type { Records } from "../records.ts";
import type { SessionFacts } from "./session.ts";

/** What a client has said in a session that calls of other processes, or after a restart, have to know. */
export interface SessionState {
  readonly ended?: true;
  readonly logLevel?: LogLevel;
  readonly subscriptions?: readonly string[];
}

/** How often a change is tried that others are faster with. */
const TRIES_MAX = 20;

/** The states of sessions. One in which nothing was said has none, so that most sessions are not stored at all. */
export class SessionStore {
  readonly #records: Records;

  constructor(records: Records) {
    this.#records = records;
  }

  async read(tenant: string, { id }: SessionFacts): Promise<SessionState> {
    const record = await this.#records.record(tenant, "session", id);
    return record ? (JSON.parse(record.value) as SessionState) : {};
  }

  /** Resolves when whoever reads it next reads `state()`. Rejects with `session_not_found` when it was ended. */
  async write(tenant: string, { id, until }: SessionFacts, state: () => SessionState): Promise<void> {
    for (let tries = 1; tries <= TRIES_MAX; tries++) {
      const record = await this.#records.record(tenant, "session", id);
      if (record && (JSON.parse(record.value) as SessionState).ended) throw new BerthError("session_not_found");
      const put = { value: JSON.stringify(state()), expected: record?.revision ?? 0, expiresAt: until };
      if ((await this.#records.putRecord(tenant, "session", id, put)) !== undefined) return;
    }
    throw new BerthError("store_failed", `the session was changed ${TRIES_MAX} times in between`);
  }
}

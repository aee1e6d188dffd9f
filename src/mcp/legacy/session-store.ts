import { BerthError } from "../../lib/errors.ts";
import { limitVariable, type Limits } from "../../limits/limits.ts";
import type { LogLevel } from "../../lib/log-level.ts";
import { KeptCount } from "../kept-count.ts";
import type { Records, ProtocolRecord } from "../records.ts";
import type { Session } from "./session.ts";

/** The state that a client has set in a session, for calls in other processes or after a restart. */
export interface SessionState {
  readonly ended?: true;
  readonly logLevel?: LogLevel;
  readonly subscriptions?: readonly string[];
}

export type SessionStoreLimits = Pick<Limits, "keptSessionBytesPerTenant">;

/** The most attempts at a change that loses against concurrent ones. */
const TRIES_MAX = 20;
/** The size of a record besides its text. */
const RECORD_BYTES = 1_024;

/**
 * The states of sessions. A session without changes has none, so most are not stored at all. Each session has one write
 * at a time, which includes every change until it begins.
 */
export class SessionStore {
  readonly #records: Records;
  readonly #limits: SessionStoreLimits;
  readonly #kept: KeptCount;
  readonly #stored = new WeakMap<Session, Stored>();
  readonly #writing = new WeakMap<Session, { readonly now: Promise<void>; next?: Promise<void> }>();

  constructor(records: Records, limits: SessionStoreLimits) {
    this.#records = records;
    this.#limits = limits;
    this.#kept = new KeptCount(records, "session");
  }

  async read(session: Session): Promise<SessionState> {
    const record = await this.#records.record(session.tenant, "session", session.facts.id);
    this.#stored.set(session, storedAs(record));
    return record ? (JSON.parse(record.value) as SessionState) : {};
  }

  /**
   * Resolves when the next reader sees all changes until now. Rejects with `session_not_found` when the session was
   * ended.
   */
  save(session: Session): Promise<void> {
    const writing = this.#writing.get(session);
    if (!writing) return this.#begin(session);
    return (writing.next ??= writing.now.then(ignore, ignore).then(() => this.#begin(session)));
  }

  async remove(session: Session): Promise<void> {
    const writing = this.#writing.get(session);
    await (writing?.next ?? writing?.now)?.catch(ignore);
    const { revision, bytes } = this.#stored.get(session) ?? NOTHING;
    if (revision === 0) return;
    const { tenant, facts } = session;
    const put = { value: "", expected: revision, expiresAt: 0 };
    const isGone = (await this.#records.putRecord(tenant, "session", facts.id, put)) !== undefined;
    if (isGone) await this.#kept.add(tenant, facts.until, -1, -bytes);
  }

  #begin(session: Session): Promise<void> {
    const writing: { now: Promise<void>; next?: Promise<void> } = { now: this.#write(session) };
    this.#writing.set(session, writing);
    const over = (): void => void (writing.next ?? this.#writing.delete(session));
    writing.now.then(over, over);
    return writing.now;
  }

  async #write(session: Session): Promise<void> {
    const { tenant, facts } = session;
    for (let tries = 1; tries <= TRIES_MAX; tries++) {
      const { revision: expected, bytes: before } = this.#stored.get(session) ?? NOTHING;
      // If the end of a session is not stored, its own client may go on with it, and nothing worse.
      if (expected === 0 && !(await this.#hasRoom(session))) return;
      const value = JSON.stringify(stateOf(session));
      const put = { value, expected, expiresAt: facts.until };
      const revision = await this.#records.putRecord(tenant, "session", facts.id, put);
      if (revision === undefined) {
        const record = await this.#records.record(tenant, "session", facts.id);
        if (record && (JSON.parse(record.value) as SessionState).ended) throw new BerthError("session_not_found");
        this.#stored.set(session, storedAs(record));
        continue;
      }
      const bytes = Math.max(before, RECORD_BYTES + Buffer.byteLength(value));
      this.#stored.set(session, { revision, bytes });
      // The change is made, so a failure to count it must not fail it.
      if (bytes > before)
        await this.#kept.add(tenant, facts.until, expected === 0 ? 1 : 0, bytes - before).catch(ignore);
      return;
    }
    throw new BerthError("store_failed", `the session was changed ${TRIES_MAX} times in between`);
  }

  /** Throws `storage_full` when there is no room for the state. */
  async #hasRoom({ tenant, isEnded }: Session): Promise<boolean> {
    const { keptSessionBytesPerTenant } = this.#limits;
    const { count, bytes } = await this.#kept.of(tenant);
    if (bytes < keptSessionBytesPerTenant) return true;
    if (isEnded) return false;
    const limit = `${keptSessionBytesPerTenant} (${limitVariable("keptSessionBytesPerTenant")})`;
    throw new BerthError(
      "storage_full",
      `the tenant keeps ${bytes} bytes of ${count} sessions, and the limit is ${limit}`,
    );
  }
}

/** The known record; revision 0 when there is none. */
interface Stored {
  readonly revision: number;
  /** The bytes counted for it. */
  readonly bytes: number;
}

const NOTHING: Stored = { revision: 0, bytes: 0 };

function storedAs(record: ProtocolRecord | undefined): Stored {
  return record ? { revision: record.revision, bytes: RECORD_BYTES + Buffer.byteLength(record.value) } : NOTHING;
}

function stateOf({ isEnded, logLevel, subscriptions }: Session): SessionState {
  return isEnded ? { ended: true } : { logLevel, subscriptions: [...subscriptions] };
}

function ignore(): void {}

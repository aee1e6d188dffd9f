import { randomUUID } from "node:crypto";
import { BerthError } from "../../lib/errors.ts";
import { turnTaker } from "../../lib/event-loop.ts";
import { isObject, type JsonObject } from "../../lib/json.ts";
import type { LogLevel } from "../../lib/log-level.ts";
import type { Records, StoredRecord } from "../../lib/records.ts";
import { limitVariable, type Limits } from "../../limits/limits.ts";
import { KeptCount } from "../kept-count.ts";
import { isLegacy } from "../revisions.ts";
import type { Sealer } from "../seal.ts";
import { Session, type SessionFacts, type Whose } from "./session.ts";

/**
 * Sessions by the token that the client carries. The token is sealed and contains all that a call depends on, so a
 * session outlives the process that issued it; the client's later changes are stored, and this process only keeps what
 * it has in progress.
 */
export class Sessions {
  readonly #sealer: Sealer;
  readonly #limits: SessionLimits;
  /** The most recently used session comes last. */
  readonly #known = new Map<string, Session>();
  /** The number of sessions of each principal of each tenant. */
  readonly #counts = new Map<string, Map<string | undefined, number>>();
  readonly #store: SessionStore;

  constructor(sealer: Sealer, records: Records, limits: SessionLimits) {
    this.#sealer = sealer;
    this.#store = new SessionStore(records, limits);
    this.#limits = limits;
  }

  /** Issues a session. Throws `too_many_sessions` when every remembered session is in use. */
  issue(whose: Whose, version: string, capabilities: JsonObject): Session {
    const { sessionMs } = this.#limits;
    const facts = { id: randomUUID(), version, capabilities, until: this.#store.now() + sessionMs };
    const token = this.#sealer.seal(binding(whose), facts, sessionMs);
    return this.#remember(new Session(token, whose, facts));
  }

  /**
   * The session of a token; synchronous when this process knows it. Throws or rejects with `session_not_found` for a
   * token that was forged, has ended, or was given elsewhere or to another principal.
   */
  open(whose: Whose, token: string): Session | Promise<Session> {
    const known = this.#known.get(token);
    if (
      known &&
      known.server === whose.server &&
      known.tenant === whose.tenant &&
      known.principalId === whose.principal?.id
    ) {
      if (known.facts.until <= this.#store.now()) this.#expire(known);
      // The most recently used session is forgotten last.
      this.#known.delete(token);
      this.#known.set(token, known);
      return known;
    }
    return this.#restore(new Session(token, whose, this.#read(whose, token)));
  }

  /** Resolves when the client's changes are stored for the process that serves it next. */
  save(session: Session): Promise<void> {
    return this.#store.save(session);
  }

  /** Ends the session and everything that it has in progress, for good. */
  async end(session: Session): Promise<void> {
    session.isEnded = true;
    this.#forget(session);
    await this.#store.save(session);
  }

  /** Like `end`, for a session whose token nobody else has seen: nothing of it needs to be stored. */
  async drop(session: Session): Promise<void> {
    this.#forget(session);
    await this.#store.remove(session);
  }

  get size(): number {
    return this.#known.size;
  }

  values(): Iterable<Session> {
    return this.#known.values();
  }

  /** Ends everything that a tenant's sessions have in progress; the sessions themselves can be resumed. */
  forgetTenant(tenant: string): void {
    for (const session of this.#known.values()) if (session.tenant === tenant) this.#forget(session);
  }

  /** Forgets expired sessions, taking turns with the calls of others. */
  async sweep(sessions: Iterable<Session>): Promise<void> {
    const now = this.#store.now();
    const takeTurns = turnTaker();
    for (const session of sessions) {
      await takeTurns();
      if (session.facts.until <= now) this.#forget(session);
    }
  }

  async #restore(session: Session): Promise<Session> {
    const { ended, logLevel, subscriptions = [] } = await this.#store.read(session);
    if (ended) throw new BerthError("session_not_found", "it was ended");
    const known = this.#known.get(session.token);
    if (known) return known;
    session.logLevel = logLevel ?? session.logLevel;
    for (const uri of subscriptions) session.subscriptions.add(uri);
    return this.#remember(session);
  }

  #expire(session: Session): never {
    this.#forget(session);
    throw new BerthError("session_not_found", "it has expired");
  }

  #read(whose: Whose, token: string): SessionFacts {
    try {
      const facts = this.#sealer.unseal(binding(whose), token);
      if (isFacts(facts)) return facts;
    } catch (error) {
      if (!(error instanceof BerthError)) throw error;
    }
    throw new BerthError("session_not_found");
  }

  #remember(session: Session): Session {
    if (this.#known.size >= this.#limits.sessions) this.#makeRoom(session);
    this.#known.set(session.token, session);
    this.#count(session, 1);
    return session;
  }

  /**
   * Forgets the least recently used idle session; else one of the tenant with the most, and there of the principal with
   * the most, preferably one without a connection. A principal's new session never displaces a connected one of its
   * own.
   */
  #makeRoom({ tenant, principalId }: Session): void {
    for (const session of this.#known.values()) if (session.isIdle) return this.#forget(session);
    const from = whoHasMost(this.#counts, tenant, (counts) =>
      [...counts.values()].reduce((sum, each) => sum + each, 0),
    );
    const whose = whoHasMost(this.#counts.get(from)!, from === tenant ? principalId : undefined, (count) => count);
    const isOwn = from === tenant && whose === principalId;
    let connected: Session | undefined;
    for (const session of this.#known.values()) {
      if (session.tenant !== from || session.principalId !== whose) continue;
      if (!session.isConnected) return this.#forget(session);
      if (!isOwn) connected ??= session;
    }
    if (!connected) throw new BerthError("too_many_sessions", `the limit is ${this.#limits.sessions}`);
    this.#forget(connected);
  }

  #count({ tenant, principalId }: Session, by: 1 | -1): void {
    const counts = this.#counts.get(tenant) ?? new Map<string | undefined, number>();
    const count = (counts.get(principalId) ?? 0) + by;
    if (count > 0) this.#counts.set(tenant, counts.set(principalId, count));
    else if (counts.delete(principalId) && counts.size === 0) this.#counts.delete(tenant);
  }

  #forget(session: Session): void {
    if (this.#known.get(session.token) === session) {
      this.#known.delete(session.token);
      this.#count(session, -1);
    }
    session.stopWatching();
    for (const call of session.calls.values()) call.abort();
    for (const stream of session.dropStreams()) {
      stream.end();
      stream.clear();
    }
  }
}

/** The one with the most; in a tie, the one that asks. */
function whoHasMost<Who, Count>(counts: ReadonlyMap<Who, Count>, asking: Who, countOf: (count: Count) => number): Who {
  const own = counts.get(asking);
  let [who, most] = [asking, own === undefined ? 0 : countOf(own)];
  for (const [each, count] of counts) if (countOf(count) > most) [who, most] = [each, countOf(count)];
  return who;
}

export type SessionLimits = Pick<Limits, "sessions" | "sessionMs"> & SessionStoreLimits;

function binding({ tenant, server, principal }: Whose): string[] {
  return ["session", tenant, server, ...(principal ? [principal.id] : [])];
}

function isFacts(value: unknown): value is SessionFacts {
  if (!isObject(value)) return false;
  const { id, version, capabilities, until } = value;
  const isWhole = typeof id === "string" && typeof until === "number" && isObject(capabilities);
  return isWhole && typeof version === "string" && isLegacy(version);
}

/** The state that a client has set in a session, for calls in other processes or after a restart. */
interface SessionState {
  readonly ended?: true;
  readonly logLevel?: LogLevel;
  readonly subscriptions?: readonly string[];
}

type SessionStoreLimits = Pick<Limits, "keptSessionBytesPerTenant">;

/** The most attempts at a change that loses against concurrent ones. */
const TRIES_MAX = 20;
/** The size of a record besides its text. */
const RECORD_BYTES = 1_024;

/**
 * The states of sessions. A session without changes has none, so most are not stored at all. Each session has one write
 * at a time, which includes every change until it begins.
 */
class SessionStore {
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

  now(): number {
    return this.#records.now();
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
    throw new BerthError("store_failed", `the session was changed ${TRIES_MAX} times meanwhile`);
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

function storedAs(record: StoredRecord | undefined): Stored {
  return record ? { revision: record.revision, bytes: RECORD_BYTES + Buffer.byteLength(record.value) } : NOTHING;
}

function stateOf({ isEnded, logLevel, subscriptions }: Session): SessionState {
  return isEnded ? { ended: true } : { logLevel, subscriptions: [...subscriptions] };
}

function ignore(): void {}

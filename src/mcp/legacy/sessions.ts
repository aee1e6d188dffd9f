import { randomUUID } from "node:crypto";
import type { Cluster } from "../../cluster/cluster.ts";
import { BerthError } from "../../lib/errors.ts";
import { turnTaker } from "../../lib/event-loop.ts";
import { isObject, type JsonObject } from "../../lib/json.ts";
import type { LogLevel } from "../../lib/log-level.ts";
import type { Records, StoredRecord } from "../../lib/records.ts";
import type { Sealer } from "../../lib/seal.ts";
import { fixed } from "../../limits/fixed.ts";
import { limitVariable, type Limits } from "../../limits/limits.ts";
import { KeptCount } from "../kept-count.ts";
import { isLegacy } from "../revisions.ts";
import { Session, type SessionFacts, type SessionState, type Whose } from "./session.ts";

/**
 * Sessions by the token that the client carries. The token is sealed and contains all that a call depends on, so a
 * session outlives the process that issued it; the client's later changes are stored, and this process only keeps what
 * it has in progress. Of changes in other nodes it hears by letters.
 */
export class Sessions {
  readonly #sealer: Sealer;
  readonly #limits: SessionLimits;
  readonly #cluster: SessionCluster;
  /** The most recently used session comes last. */
  readonly #known = new Map<string, Session>();
  /** The same, by the id that nodes know them by. */
  readonly #ids = new Map<string, Session>();
  /** The number of letters about sessions. */
  #heard = 0;
  /** The number of sessions of each principal of each tenant. */
  readonly #counts = new Map<string, Map<string | undefined, number>>();
  readonly #store: SessionStore;

  constructor(sealer: Sealer, records: Records, limits: SessionLimits, cluster: SessionCluster) {
    this.#sealer = sealer;
    this.#store = new SessionStore(records);
    this.#limits = limits;
    this.#cluster = cluster;
    cluster.on(CHANGED, (body) => this.#hear(body as unknown as ChangedLetter));
    cluster.onLapse(() => void this.#catchUp());
  }

  /** Issues a session. Throws `too_many_sessions` when every remembered session is in use. */
  issue(whose: Whose, version: string, capabilities: JsonObject): Session {
    const { sessionMs } = this.#limits;
    const facts = { id: randomUUID(), version, capabilities, until: this.#store.now() + sessionMs };
    const token = this.#sealer.seal(binding(whose), facts, sessionMs);
    return this.#remember(this.#make(token, whose, facts));
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
    return this.#restore(this.#make(token, whose, this.#read(whose, token)));
  }

  /** The session of this id where this process has something of it; for letters of other nodes. */
  find(tenant: string, id: string): Session | undefined {
    const session = this.#ids.get(id);
    return session?.tenant === tenant ? session : undefined;
  }

  /** Resolves when what its client has set is stored and in force, also at other nodes that know the session. */
  async change(session: Session, change: SessionChange): Promise<void> {
    const { tenant, facts } = session;
    await this.#store.change(session, change);
    this.#cluster.tell(CHANGED, { tenant, id: facts.id, ...("end" in change && { end: true }) });
    await this.#cluster.heard();
  }

  /** Ends the session and everything that it has in progress, wherever that is, for good. */
  async end(session: Session): Promise<void> {
    this.#forget(session);
    await this.change(session, { end: true });
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
    for (;;) {
      const heard = this.#heard;
      const isEnded = await this.#store.follow(session);
      if (isEnded) throw new BerthError("session_not_found", "it was ended");
      // No letter comes for a session that is not known yet.
      if (heard === this.#heard) break;
    }
    return this.#known.get(session.token) ?? this.#remember(session);
  }

  async #hear({ tenant, id, end }: ChangedLetter): Promise<void> {
    this.#heard += 1;
    const session = this.find(tenant, id);
    if (session && (end || (await this.#store.follow(session)))) this.#forget(session);
  }

  /** Reads all sessions again: letters about them may have been lost. */
  async #catchUp(): Promise<void> {
    this.#heard += 1;
    const takeTurns = turnTaker();
    // A copy: sessions in use move to the end of the map, and would be visited forever.
    const all = [...this.#known.values()];
    for (const session of all) {
      await takeTurns();
      // Where the store fails again, so does the next sign of life.
      if (await this.#store.follow(session).catch(() => false)) this.#forget(session);
    }
  }

  #make(token: string, whose: Whose, facts: SessionFacts): Session {
    return new Session(token, whose, facts, this.#cluster.id);
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
    this.#ids.set(session.facts.id, session);
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
    if (!connected) {
      const { sessions } = this.#limits;
      throw new BerthError("too_many_sessions", `the limit is ${sessions} (${limitVariable("sessions")})`);
    }
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
      this.#ids.delete(session.facts.id);
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

type SessionLimits = Pick<Limits, "sessions" | "sessionMs">;

function binding({ tenant, server, principal }: Whose): string[] {
  return ["session", tenant, server, ...(principal ? [principal.id] : [])];
}

function isFacts(value: unknown): value is SessionFacts {
  if (!isObject(value)) return false;
  const { id, version, capabilities, until } = value;
  const isWhole = typeof id === "string" && typeof until === "number" && isObject(capabilities);
  return isWhole && typeof version === "string" && isLegacy(version);
}

/** One thing that a client sets in a session. */
export type SessionChange =
  | { readonly level: LogLevel }
  | { readonly subscribe: string }
  | { readonly unsubscribe: string }
  | { readonly end: true };

type SessionCluster = Pick<Cluster, "id" | "on" | "onLapse" | "tell" | "heard">;

/** Tells other nodes of a change to a session. */
const CHANGED = "session";

interface ChangedLetter {
  readonly tenant: string;
  readonly id: string;
  readonly end?: true;
}

const bounds = fixed({
  /** The stored data of a tenant's sessions until they end: levels and subscriptions, and 1 KiB for each. */
  keptSessionBytesPerTenant: 256 * 1024 * 1024,
  /** Resources to which one session is subscribed. */
  subscriptionsPerSession: 256,
});

/** The most attempts at a change that loses against concurrent ones. */
const TRIES_MAX = 20;
/** The size of a record besides its text. */
const RECORD_BYTES = 1_024;
/** The limit for all subscriptions of a session together: they are written whenever one is added or removed. */
const URIS_CHARACTERS_MAX = 64 * 1_024;

/**
 * The states of sessions. A session without changes has none, so most are not stored at all. Each session has one write
 * at a time, which includes every change until it begins. A change is made to the state as it is stored by then, so that
 * none undoes what another process has stored.
 */
class SessionStore {
  readonly #records: Records;
  readonly #kept: KeptCount;
  readonly #stored = new WeakMap<Session, Stored>();
  /** The changes that wait for their write; there is a list as long as one is under way. */
  readonly #waiting = new WeakMap<Session, WaitingChange[]>();
  readonly #writing = new WeakMap<Session, Promise<void>>();

  constructor(records: Records) {
    this.#records = records;
    this.#kept = new KeptCount(records, "session");
  }

  now(): number {
    return this.#records.now();
  }

  /** The session takes what is stored; true when it was ended. */
  async follow(session: Session): Promise<boolean> {
    const record = await this.#records.record(session.tenant, "session", session.facts.id);
    const stored = storedAs(record);
    if (stored.revision > (this.#stored.get(session)?.revision ?? 0)) this.#take(session, stored);
    return stored.state.ended === true;
  }

  /**
   * Resolves when the next reader sees the change. Rejects with `session_not_found` when the session was ended, and with
   * `storage_full` or `invalid_params` when there is no room for it.
   */
  change(session: Session, change: SessionChange): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiting = this.#waiting.get(session);
      if (waiting) return void waiting.push({ change, resolve, reject });
      this.#waiting.set(session, [{ change, resolve, reject }]);
      this.#writing.set(session, this.#writeAll(session));
    });
  }

  async remove(session: Session): Promise<void> {
    await this.#writing.get(session);
    const { revision, bytes } = this.#stored.get(session) ?? NOTHING;
    if (revision === 0) return;
    const { tenant, facts } = session;
    const put = { value: "", expected: revision, expiresAt: 0 };
    const isGone = (await this.#records.putRecord(tenant, "session", facts.id, put)) !== undefined;
    if (isGone) await this.#kept.add(tenant, facts.until, -1, -bytes);
  }

  async #writeAll(session: Session): Promise<void> {
    for (let changes; (changes = this.#waiting.get(session)!).length > 0;) {
      this.#waiting.set(session, []);
      try {
        await this.#write(session, changes);
        for (const { resolve } of changes) resolve();
      } catch (error) {
        for (const { reject } of changes) reject(error);
      }
    }
    this.#waiting.delete(session);
    this.#writing.delete(session);
  }

  async #write(session: Session, changes: readonly WaitingChange[]): Promise<void> {
    const { tenant, facts } = session;
    const refused = new Set<WaitingChange>();
    for (let tries = 1; tries <= TRIES_MAX; tries++) {
      const { revision: expected, bytes: before, state: old } = this.#stored.get(session) ?? NOTHING;
      if (old.ended) throw new BerthError("session_not_found", "it was ended");
      let state = old;
      for (const each of changes) {
        if (refused.has(each)) continue;
        try {
          state = this.#changed(state, each.change);
        } catch (error) {
          refused.add(each);
          each.reject(error);
        }
      }
      if (refused.size === changes.length) return;
      // If the end of a session is not stored, its own client may go on with it, and nothing worse.
      if (expected === 0 && !(await this.#hasRoom(tenant, state))) return;
      const value = JSON.stringify(state);
      const put = { value, expected, expiresAt: facts.until };
      const revision = await this.#records.putRecord(tenant, "session", facts.id, put);
      if (revision === undefined) {
        this.#take(session, storedAs(await this.#records.record(tenant, "session", facts.id)));
        continue;
      }
      const bytes = Math.max(before, RECORD_BYTES + Buffer.byteLength(value));
      this.#take(session, { revision, bytes, state });
      // The change is made, so a failure to count it must not fail it.
      if (bytes > before)
        await this.#kept.add(tenant, facts.until, expected === 0 ? 1 : 0, bytes - before).catch(ignore);
      return;
    }
    throw new BerthError("store_failed", `the session was changed ${TRIES_MAX} times meanwhile`);
  }

  #changed(state: SessionState, change: SessionChange): SessionState {
    if ("end" in change || state.ended) return { ended: true };
    if ("level" in change) return { ...state, logLevel: change.level };
    const { subscriptions = [] } = state;
    if ("unsubscribe" in change)
      return { ...state, subscriptions: subscriptions.filter((uri) => uri !== change.unsubscribe) };
    const { subscribe } = change;
    if (subscriptions.includes(subscribe)) return state;
    const { subscriptionsPerSession } = bounds;
    if (subscriptions.length >= subscriptionsPerSession)
      throw new BerthError("invalid_params", `a session has at most ${subscriptionsPerSession} subscriptions`);
    if (subscriptions.reduce((sum, uri) => sum + uri.length, subscribe.length) > URIS_CHARACTERS_MAX) {
      throw new BerthError(
        "invalid_params",
        `the subscriptions of a session have at most ${URIS_CHARACTERS_MAX} characters`,
      );
    }
    return { ...state, subscriptions: [...subscriptions, subscribe] };
  }

  #take(session: Session, stored: Stored): void {
    this.#stored.set(session, stored);
    session.follow(stored.state);
  }

  /** Throws `storage_full` when there is no room for the state. */
  async #hasRoom(tenant: string, { ended }: SessionState): Promise<boolean> {
    const { keptSessionBytesPerTenant } = bounds;
    const { count, bytes } = await this.#kept.of(tenant);
    if (bytes < keptSessionBytesPerTenant) return true;
    if (ended) return false;
    throw new BerthError(
      "storage_full",
      `the tenant keeps ${bytes} bytes of ${count} sessions, and the limit is ${keptSessionBytesPerTenant}`,
    );
  }
}

interface WaitingChange {
  readonly change: SessionChange;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** The known record; revision 0 when there is none. */
interface Stored {
  readonly revision: number;
  /** The bytes counted for it. */
  readonly bytes: number;
  readonly state: SessionState;
}

const NOTHING: Stored = { revision: 0, bytes: 0, state: {} };

function storedAs(record: StoredRecord | undefined): Stored {
  if (!record) return NOTHING;
  const { revision, value } = record;
  return { revision, bytes: RECORD_BYTES + Buffer.byteLength(value), state: JSON.parse(value) as SessionState };
}

function ignore(): void {}

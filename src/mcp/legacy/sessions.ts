import { randomUUID } from "node:crypto";
import type { Cluster } from "../../cluster/cluster.ts";
import { BerthError } from "../../lib/errors.ts";
import { createYielder } from "../../lib/event-loop.ts";
import { isObject, type JsonObject } from "../../lib/json.ts";
import type { LogLevel } from "../../lib/log-level.ts";
import type { Records, StoredRecord } from "../../lib/records.ts";
import type { Sealer } from "../../lib/seal.ts";
import { fixed } from "../../limits/fixed.ts";
import { limitVariable, type Limits } from "../../limits/limits.ts";
import { RecordUsage } from "../record-usage.ts";
import { isLegacy } from "../revisions.ts";
import { Session, type SessionClaims, type SessionState, type SessionOwner } from "./session.ts";

/**
 * Sessions by the token that the client carries. The token is sealed and contains all that a call depends on, so a
 * session outlives the process that issued it. The client's later changes are stored; this process only holds work in
 * progress. Other nodes report their changes by messages.
 */
export class Sessions {
  readonly #sealer: Sealer;
  readonly #limits: SessionLimits;
  readonly #cluster: SessionCluster;
  /** Least recently used first. */
  readonly #byToken = new Map<string, Session>();
  readonly #byId = new Map<string, Session>();
  /** Counts the messages about sessions, to notice one that arrives during a read. */
  #messageCount = 0;
  readonly #counts = new Map<string, Map<string | undefined, number>>();
  readonly #store: SessionStore;

  constructor(sealer: Sealer, records: Records, limits: SessionLimits, cluster: SessionCluster) {
    this.#sealer = sealer;
    this.#store = new SessionStore(records);
    this.#limits = limits;
    this.#cluster = cluster;
    cluster.on(CHANGED, (body) => this.#onChanged(body as unknown as ChangedMessage));
    cluster.onLapse(() => void this.#refreshAll());
  }

  /** Issues a session. Throws `too_many_sessions` when every cached session is in use. */
  issue(owner: SessionOwner, version: string, capabilities: JsonObject): Session {
    const { sessionMs } = this.#limits;
    const claims = { id: randomUUID(), version, capabilities, until: this.#store.now() + sessionMs };
    const token = this.#sealer.seal(binding(owner), claims, sessionMs);
    return this.#cache(this.#createSession(token, owner, claims));
  }

  /**
   * The session of a token; synchronous when cached. Throws or rejects with `session_not_found` for a token that was
   * forged, has ended, or belongs to another server, tenant or principal.
   */
  open(owner: SessionOwner, token: string): Session | Promise<Session> {
    const cached = this.#byToken.get(token);
    if (
      cached &&
      cached.server === owner.server &&
      cached.tenant === owner.tenant &&
      cached.principalId === owner.principal?.id
    ) {
      if (cached.claims.until <= this.#store.now()) this.#expire(cached);
      // Moves it to the end: the least recently used session is evicted first.
      this.#byToken.delete(token);
      this.#byToken.set(token, cached);
      return cached;
    }
    return this.#restore(this.#createSession(token, owner, this.#unseal(owner, token)));
  }

  /** The session with this id if it is cached, for messages from other nodes. */
  find(tenant: string, id: string): Session | undefined {
    const session = this.#byId.get(id);
    return session?.tenant === tenant ? session : undefined;
  }

  /** Resolves when the change is stored and in force, also on other nodes that have cached the session. */
  async change(session: Session, change: SessionChange): Promise<void> {
    const { tenant, claims } = session;
    await this.#store.change(session, change);
    this.#cluster.tell(CHANGED, { tenant, id: claims.id, ...("end" in change && { end: true }) });
    await this.#cluster.heard();
  }

  /** Ends the session permanently, with everything that it has in progress on any node. */
  async end(session: Session): Promise<void> {
    this.#evict(session);
    await this.change(session, { end: true });
  }

  /** Like `end`, for a session whose token no one else has seen: nothing needs to be stored. */
  async drop(session: Session): Promise<void> {
    this.#evict(session);
    await this.#store.remove(session);
  }

  get size(): number {
    return this.#byToken.size;
  }

  values(): Iterable<Session> {
    return this.#byToken.values();
  }

  /** Ends everything that a tenant's sessions have in progress; the sessions themselves can be resumed. */
  evictTenant(tenant: string): void {
    for (const session of this.#byToken.values()) if (session.tenant === tenant) this.#evict(session);
  }

  async sweep(sessions: Iterable<Session>): Promise<void> {
    const now = this.#store.now();
    const maybeYield = createYielder();
    for (const session of sessions) {
      await maybeYield();
      if (session.claims.until <= now) this.#evict(session);
    }
  }

  async #restore(session: Session): Promise<Session> {
    for (;;) {
      const seen = this.#messageCount;
      const isEnded = await this.#store.refresh(session);
      if (isEnded) throw new BerthError("session_not_found", "it was ended");
      // Messages about sessions that are not cached are ignored, so read again after any.
      if (seen === this.#messageCount) break;
    }
    return this.#byToken.get(session.token) ?? this.#cache(session);
  }

  async #onChanged({ tenant, id, end }: ChangedMessage): Promise<void> {
    this.#messageCount += 1;
    const session = this.find(tenant, id);
    if (session && (end || (await this.#store.refresh(session)))) this.#evict(session);
  }

  /** Refreshes all sessions, since messages about them may have been lost. */
  async #refreshAll(): Promise<void> {
    this.#messageCount += 1;
    const maybeYield = createYielder();
    // A copy: sessions in use move to the end of the map, which would make the loop endless.
    const all = [...this.#byToken.values()];
    for (const session of all) {
      await maybeYield();
      // If the store still fails, so does the next heartbeat, and this runs again.
      if (await this.#store.refresh(session).catch(() => false)) this.#evict(session);
    }
  }

  #createSession(token: string, owner: SessionOwner, claims: SessionClaims): Session {
    return new Session(token, owner, claims, this.#cluster.id);
  }

  #expire(session: Session): never {
    this.#evict(session);
    throw new BerthError("session_not_found", "it has expired");
  }

  #unseal(owner: SessionOwner, token: string): SessionClaims {
    try {
      const claims = this.#sealer.unseal(binding(owner), token);
      if (isClaims(claims)) return claims;
    } catch (error) {
      if (!(error instanceof BerthError)) throw error;
    }
    throw new BerthError("session_not_found");
  }

  #cache(session: Session): Session {
    if (this.#byToken.size >= this.#limits.sessions) this.#evictOne(session);
    this.#byToken.set(session.token, session);
    this.#byId.set(session.claims.id, session);
    this.#count(session, 1);
    return session;
  }

  /**
   * Evicts the least recently used idle session; otherwise one of the tenant with the most sessions, of its principal
   * with the most, preferably one without a connection. A principal's new session never displaces a connected one of
   * its own.
   */
  #evictOne({ tenant, principalId }: Session): void {
    for (const session of this.#byToken.values()) if (session.isIdle) return this.#evict(session);
    const from = maxKey(this.#counts, tenant, (counts) => [...counts.values()].reduce((sum, each) => sum + each, 0));
    const principal = maxKey(this.#counts.get(from)!, from === tenant ? principalId : undefined, (count) => count);
    const isOwn = from === tenant && principal === principalId;
    let connected: Session | undefined;
    for (const session of this.#byToken.values()) {
      if (session.tenant !== from || session.principalId !== principal) continue;
      if (!session.isConnected) return this.#evict(session);
      if (!isOwn) connected ??= session;
    }
    if (!connected) {
      const { sessions } = this.#limits;
      throw new BerthError("too_many_sessions", `the limit is ${sessions} (${limitVariable("sessions")})`);
    }
    this.#evict(connected);
  }

  #count({ tenant, principalId }: Session, by: 1 | -1): void {
    const counts = this.#counts.get(tenant) ?? new Map<string | undefined, number>();
    const count = (counts.get(principalId) ?? 0) + by;
    if (count > 0) this.#counts.set(tenant, counts.set(principalId, count));
    else if (counts.delete(principalId) && counts.size === 0) this.#counts.delete(tenant);
  }

  #evict(session: Session): void {
    if (this.#byToken.get(session.token) === session) {
      this.#byToken.delete(session.token);
      this.#byId.delete(session.claims.id);
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

/** The key with the largest count; the requester wins a tie. */
function maxKey<Key, Count>(counts: ReadonlyMap<Key, Count>, requester: Key, countOf: (count: Count) => number): Key {
  const requesterCount = counts.get(requester);
  let [key, most] = [requester, requesterCount === undefined ? 0 : countOf(requesterCount)];
  for (const [each, count] of counts) if (countOf(count) > most) [key, most] = [each, countOf(count)];
  return key;
}

type SessionLimits = Pick<Limits, "sessions" | "sessionMs">;

function binding({ tenant, server, principal }: SessionOwner): string[] {
  return ["session", tenant, server, ...(principal ? [principal.id] : [])];
}

function isClaims(value: unknown): value is SessionClaims {
  if (!isObject(value)) return false;
  const { id, version, capabilities, until } = value;
  const hasFields = typeof id === "string" && typeof until === "number" && isObject(capabilities);
  return hasFields && typeof version === "string" && isLegacy(version);
}

export type SessionChange =
  | { readonly level: LogLevel }
  | { readonly subscribe: string }
  | { readonly unsubscribe: string }
  | { readonly end: true };

type SessionCluster = Pick<Cluster, "id" | "on" | "onLapse" | "tell" | "heard">;

/** Notifies other nodes of a change to a session. */
const CHANGED = "session";

interface ChangedMessage {
  readonly tenant: string;
  readonly id: string;
  readonly end?: true;
}

const bounds = fixed({
  /** Stored data of a tenant's sessions until they end: levels and subscriptions, plus 1 KiB for each. */
  keptSessionBytesPerTenant: 256 * 1024 * 1024,
  subscriptionsPerSession: 256,
});

/** Attempts at a change before giving up to concurrent ones. */
const TRIES_MAX = 20;
/** Size of a record in addition to its text. */
const RECORD_BYTES = 1_024;
/** Limits all subscriptions of a session together: they are rewritten at every change. */
const URIS_CHARACTERS_MAX = 64 * 1_024;

/**
 * The states of sessions. A session without changes has none, so most are never stored. Each session has one write at a
 * time, which includes every change that is waiting when it begins. Changes are applied to the stored state, so that
 * none undoes what another process has stored.
 */
class SessionStore {
  readonly #records: Records;
  readonly #usage: RecordUsage;
  readonly #stored = new WeakMap<Session, Stored>();
  /** Changes waiting for their write; the list exists while a write is in progress. */
  readonly #waiting = new WeakMap<Session, WaitingChange[]>();
  readonly #writing = new WeakMap<Session, Promise<void>>();

  constructor(records: Records) {
    this.#records = records;
    this.#usage = new RecordUsage(records, "session");
  }

  now(): number {
    return this.#records.now();
  }

  /** Applies the stored state to the session; true when it was ended. */
  async refresh(session: Session): Promise<boolean> {
    const record = await this.#records.record(session.tenant, "session", session.claims.id);
    const stored = parseRecord(record);
    if (stored.revision > (this.#stored.get(session)?.revision ?? 0)) this.#apply(session, stored);
    return stored.state.ended === true;
  }

  /**
   * Resolves when the next reader sees the change. Rejects with `session_not_found` when the session was ended, and
   * with `storage_full` or `invalid_params` when a limit is exceeded.
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
    const { tenant, claims } = session;
    const put = { value: "", expected: revision, expiresAt: 0 };
    const isRemoved = (await this.#records.putRecord(tenant, "session", claims.id, put)) !== undefined;
    if (isRemoved) await this.#usage.add(tenant, claims.until, -1, -bytes);
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
    const { tenant, claims } = session;
    const refused = new Set<WaitingChange>();
    for (let tries = 1; tries <= TRIES_MAX; tries++) {
      const { revision: expected, bytes: before, state: old } = this.#stored.get(session) ?? NOTHING;
      if (old.ended) throw new BerthError("session_not_found", "it was ended");
      let state = old;
      for (const each of changes) {
        if (refused.has(each)) continue;
        try {
          state = this.#applyChange(state, each.change);
        } catch (error) {
          refused.add(each);
          each.reject(error);
        }
      }
      if (refused.size === changes.length) return;
      // If the end of a session cannot be stored, only its own client can go on using it.
      if (expected === 0 && !(await this.#fitsQuota(tenant, state))) return;
      const value = JSON.stringify(state);
      const put = { value, expected, expiresAt: claims.until };
      const revision = await this.#records.putRecord(tenant, "session", claims.id, put);
      if (revision === undefined) {
        this.#apply(session, parseRecord(await this.#records.record(tenant, "session", claims.id)));
        continue;
      }
      const bytes = Math.max(before, RECORD_BYTES + Buffer.byteLength(value));
      this.#apply(session, { revision, bytes, state });
      // The change is stored, so a failure to count it must not fail it.
      if (bytes > before)
        await this.#usage.add(tenant, claims.until, expected === 0 ? 1 : 0, bytes - before).catch(ignore);
      return;
    }
    throw new BerthError("store_failed", `the session was changed concurrently ${TRIES_MAX} times`);
  }

  #applyChange(state: SessionState, change: SessionChange): SessionState {
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

  #apply(session: Session, stored: Stored): void {
    this.#stored.set(session, stored);
    session.apply(stored.state);
  }

  /** Throws `storage_full` when the state exceeds the quota; returns false if it only marks the end. */
  async #fitsQuota(tenant: string, { ended }: SessionState): Promise<boolean> {
    const { keptSessionBytesPerTenant } = bounds;
    const { count, bytes } = await this.#usage.read(tenant);
    if (bytes < keptSessionBytesPerTenant) return true;
    if (ended) return false;
    throw new BerthError(
      "storage_full",
      `the tenant stores ${bytes} bytes of ${count} sessions, and the limit is ${keptSessionBytesPerTenant}`,
    );
  }
}

interface WaitingChange {
  readonly change: SessionChange;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** The last known record; revision 0 if there is none. */
interface Stored {
  readonly revision: number;
  readonly bytes: number;
  readonly state: SessionState;
}

const NOTHING: Stored = { revision: 0, bytes: 0, state: {} };

function parseRecord(record: StoredRecord | undefined): Stored {
  if (!record) return NOTHING;
  const { revision, value } = record;
  return { revision, bytes: RECORD_BYTES + Buffer.byteLength(value), state: JSON.parse(value) as SessionState };
}

function ignore(): void {}

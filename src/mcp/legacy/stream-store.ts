import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { BoundedMap } from "../../lib/bounded-map.ts";
import { clock, type Timer } from "../../lib/clock.ts";
import { BerthError } from "../../lib/errors.ts";
import { yieldToCalls } from "../../lib/event-loop.ts";
import type { Log } from "../../lib/log.ts";
import type { KeyedRecordPut, Records } from "../../lib/records.ts";
import type { Session } from "./session.ts";
import { streamBounds, type RetainedEvents, type Stream } from "./stream.ts";

/**
 * Stores the events that streams retain for reconnecting clients, beyond the life of the process. Writes are deferred,
 * put many streams in one transaction and yield to the event loop; calls never wait for them. Also writes the heartbeat
 * of the process that continues the streams. Knows no connection.
 */
export class StreamStore {
  readonly #records: Records;
  readonly #log: Log;
  /** Distinguishes this process's streams from those of other processes. */
  readonly #owner = randomUUID();
  /** Streams that are, or will be, written and have not ended. */
  readonly #open = new Map<Stream, Session>();
  readonly #changed = new Map<Stream, Session>();
  readonly #writes = new WeakMap<Stream, WriteState>();
  readonly #removals = new Map<Stream, Session>();
  /** This process's heartbeat, by tenant. */
  readonly #heartbeats = new Map<string, { readonly revision: number; readonly until: number }>();
  readonly #silence = new ProcessSilence();
  readonly #heartbeatTimer: NodeJS.Timeout;
  #timer: Timer | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(records: Records, log: Log) {
    this.#records = records;
    this.#log = log;
    this.#heartbeatTimer = setInterval(() => this.#beat(), streamBounds.streamLeaseMs / 3).unref();
  }

  change(stream: Stream, session: Session): void {
    if (this.#writes.get(stream)?.revision === DISOWNED) return;
    this.#changed.set(stream, session);
    if (stream.isEnded) this.#open.delete(stream);
    else this.#open.set(stream, session);
    this.#timer ??= clock.after(WRITE_MS, () => void this.#flush(false)).unref();
  }

  /** Removes a stream that its client can no longer resume. */
  remove(stream: Stream, session: Session): void {
    this.#open.delete(stream);
    this.#changed.delete(stream);
    const written = this.#writes.get(stream);
    // A record that is about to expire needs no removal.
    if (!written || written.revision === DISOWNED || written.expiresAt < this.#records.now() + SOON_MS) return;
    this.#removals.set(stream, session);
    this.#timer ??= clock.after(WRITE_MS, () => void this.#flush(false)).unref();
  }

  /** The stored stream; undefined when the store has none, or no longer has it. */
  async read(session: Session, streamId: string): Promise<StoredStream | undefined> {
    const record = await this.#records.record(session.tenant, "stream", streamKey(session, streamId));
    return record && { ...parseStream(record.value), revision: record.revision };
  }

  /** Like `read`, but retries for a client that reconnects before the other process has written. */
  async readSoon(session: Session, streamId: string): Promise<StoredStream | undefined> {
    for (const waitMs of [0, WRITE_MS, 4 * WRITE_MS]) {
      if (waitMs > 0) await sleep(waitMs);
      const stored = await this.read(session, streamId);
      if (stored) return stored;
    }
    return undefined;
  }

  /** Continues the stream in this process: its writes replace the record that was read. */
  adopt(stream: Stream, { revision }: StoredStream): void {
    this.#writes.set(stream, { revision, nextAt: 0, expiresAt: 0 });
  }

  /** True when the process that had a stream will not continue it. */
  async isGone({ tenant }: Session, { owner }: StoredStream): Promise<boolean> {
    const heartbeat = await this.#records.record(tenant, "stream", ownerKey(owner));
    return heartbeat?.value === LEFT || this.#silence.isGone(`${tenant} ${owner}`, heartbeat === undefined);
  }

  /** Resolves when everything is written; other processes may then continue streams that have not ended. */
  async close(): Promise<void> {
    clearInterval(this.#heartbeatTimer);
    await this.#flush(true);
    await this.#writing;
    const tenants = [...this.#heartbeats.keys()];
    const until = this.#records.now() + streamBounds.replayMs;
    for (const tenant of tenants) await this.#write(tenant, [this.#heartbeat(tenant, until, LEFT)], []);
  }

  /** Serialized: each write needs the revisions of the previous ones. */
  #flush(all: boolean): Promise<void> {
    this.#timer?.clear();
    this.#timer = undefined;
    this.#writing = this.#writing.then(() => this.#writeChanges(all));
    return this.#writing;
  }

  async #writeChanges(all: boolean): Promise<void> {
    const [now, elapsed] = [this.#records.now(), clock.now()];
    const due = new Map<string, { puts: KeyedRecordPut[]; streams: (Stream | undefined)[] }>();
    let units = 0;
    const add = ({ tenant }: Session, put: KeyedRecordPut, stream: Stream | undefined): Promise<void> | undefined => {
      let group = due.get(tenant);
      if (!group) due.set(tenant, (group = { puts: [], streams: [] }));
      group.puts.push(put);
      group.streams.push(stream);
      units += RECORD_UNITS + put.value.length;
      return units < BATCH_UNITS ? undefined : writeDue();
    };
    const writeDue = async (): Promise<void> => {
      for (const [tenant, { puts, streams }] of due) {
        if ((this.#heartbeats.get(tenant)?.until ?? 0) < now + streamBounds.streamLeaseMs / 2) {
          puts.push(this.#heartbeat(tenant, now + streamBounds.streamLeaseMs));
          streams.push(undefined);
        }
        await this.#write(tenant, puts, streams);
        await yieldToCalls();
      }
      due.clear();
      units = 0;
    };
    for (const [stream, session] of this.#removals) {
      const expected = this.#writes.get(stream)?.revision ?? 0;
      this.#writes.delete(stream);
      this.#removals.delete(stream);
      await add(session, { key: streamKey(session, stream.id), value: "", expected, expiresAt: 0 }, undefined);
    }
    // Concurrent changes are written the next time.
    for (const [stream, session] of new Map(this.#changed)) {
      const written = this.#writes.get(stream);
      if (!this.#changed.has(stream)) continue;
      if (!all && !stream.isEnded && written && written.nextAt > elapsed) continue;
      this.#changed.delete(stream);
      const value = serializeStream(this.#owner, stream.retained);
      const expiresAt = now + streamBounds.replayMs + (stream.isEnded ? 0 : 2 * streamBounds.streamLeaseMs);
      const nextAt = elapsed + WRITE_MS + value.length / UNITS_PER_MS;
      this.#writes.set(stream, { revision: written?.revision ?? 0, nextAt, expiresAt });
      await add(
        session,
        { key: streamKey(session, stream.id), value, expected: written?.revision ?? 0, expiresAt },
        stream,
      );
    }
    await writeDue();
    if (this.#changed.size > 0) this.#timer ??= clock.after(WRITE_MS, () => void this.#flush(false)).unref();
  }

  /** A failure only costs reconnecting clients the events that they missed. */
  async #write(
    tenant: string,
    puts: readonly KeyedRecordPut[],
    streams: readonly (Stream | undefined)[],
  ): Promise<void> {
    try {
      const revisions = await this.#records.putRecords(tenant, "stream", puts);
      for (const [index, { key, expiresAt: until }] of puts.entries()) {
        const [stream, revision] = [streams[index], revisions[index]];
        if (key === ownerKey(this.#owner)) this.#heartbeats.set(tenant, { revision: revision ?? 0, until });
        const written = stream && this.#writes.get(stream);
        if (!written) continue;
        if (revision !== undefined) this.#writes.set(stream, { ...written, revision });
        else this.#disown(stream);
      }
    } catch (error) {
      this.#log.error({ err: error }, "events of streams could not be stored for reconnecting clients");
    }
  }

  #disown(stream: Stream): void {
    this.#open.delete(stream);
    this.#changed.delete(stream);
    this.#writes.set(stream, { revision: DISOWNED, nextAt: 0, expiresAt: 0 });
  }

  /** Writes this process's heartbeat, and renews the records of open streams. */
  #beat(): void {
    const now = this.#records.now();
    const tenants = new Set<string>();
    for (const [stream, session] of this.#open) {
      tenants.add(session.tenant);
      const written = this.#writes.get(stream);
      if (written && written.expiresAt - now < streamBounds.replayMs / 2 + streamBounds.streamLeaseMs) {
        this.change(stream, session);
      }
    }
    if (tenants.size > 0) this.#writing = this.#writing.then(() => this.#writeHeartbeats(tenants));
  }

  async #writeHeartbeats(tenants: Iterable<string>): Promise<void> {
    const until = this.#records.now() + streamBounds.streamLeaseMs;
    for (const tenant of tenants) await this.#write(tenant, [this.#heartbeat(tenant, until)], []);
  }

  #heartbeat(tenant: string, expiresAt: number, value = ""): KeyedRecordPut {
    return { key: ownerKey(this.#owner), value, expected: this.#heartbeats.get(tenant)?.revision ?? 0, expiresAt };
  }
}

/**
 * Decides when another process without a heartbeat in the store counts as gone: after `streamLeaseMs` of silence by the
 * observer's monotonic clock. Expiry in the store depends on the system clock, which may jump.
 */
class ProcessSilence {
  readonly #silent = new BoundedMap<string, { readonly since: number; checkedAt: number }>(OWNERS_MAX);

  isGone(owner: string, isSilent: boolean): boolean {
    const last = this.#silent.get(owner);
    this.#silent.delete(owner);
    if (!isSilent) return false;
    const now = clock.now();
    const since = last && now - last.checkedAt < MAX_GAP_LEASES * streamBounds.streamLeaseMs ? last.since : now;
    this.#silent.set(owner, { since, checkedAt: now });
    return now - since >= streamBounds.streamLeaseMs;
  }
}

/** Checks further apart than this many `streamLeaseMs` do not prove silence in between. */
const MAX_GAP_LEASES = 20;
const OWNERS_MAX = 1_000;

export interface StoredStream {
  readonly owner: string;
  readonly revision: number;
  readonly retained: RetainedEvents;
}

interface WriteState {
  readonly revision: number;
  /** Streams with much output are written less often, so that none monopolizes the disk. By `clock.now()`. */
  readonly nextAt: number;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** The last heartbeat of a process that shut down properly. */
const LEFT = "left";
const DISOWNED = -1;
const SOON_MS = 1_000;
/** Maximum delay of a write when there is little to write. */
const WRITE_MS = 50;
/** The average rate of one stream. */
const UNITS_PER_MS = 1024;
/** Characters of all streams written before yielding; each record counts `RECORD_UNITS` extra. */
const BATCH_UNITS = 512 * 1024;
const RECORD_UNITS = 4 * 1024;

/** A JSON line about the stream, followed by the messages verbatim: they are JSON, and may be long. */
function serializeStream(owner: string, { last, isEnded, events }: RetainedEvents): string {
  const marks = events.map(({ seq, message, lasting }) => ({ seq, lasting, units: message.length }));
  return `${JSON.stringify({ owner, last, isEnded, marks })}\n${events.map(({ message }) => message).join("")}`;
}

function parseStream(text: string): Omit<StoredStream, "revision"> {
  const head = text.indexOf("\n");
  const { owner, marks, ...kept } = JSON.parse(text.slice(0, head)) as StreamHead;
  let at = head + 1;
  const events = marks.map(({ seq, lasting, units }) => ({ seq, lasting, message: text.slice(at, (at += units)) }));
  return { owner, retained: { ...kept, events } };
}

interface StreamHead extends Omit<RetainedEvents, "events"> {
  readonly owner: string;
  readonly marks: readonly { readonly seq: number; readonly lasting: boolean; readonly units: number }[];
}

function streamKey({ claims }: Session, streamId: string): string {
  return `${claims.id}/${streamId}`;
}

function ownerKey(owner: string): string {
  return `owner/${owner}`;
}

export function answerLost(): BerthError {
  return new BerthError("answer_lost", "send the request again", { data: { retriable: true } });
}

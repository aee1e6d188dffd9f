import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { BoundedMap } from "../../lib/bounded-map.ts";
import { clock, type Timer } from "../../lib/clock.ts";
import { BerthError } from "../../lib/errors.ts";
import { nextTurn } from "../../lib/event-loop.ts";
import type { Log } from "../../lib/log.ts";
import type { KeyedRecordPut, Records } from "../../lib/records.ts";
import type { Session } from "./session.ts";
import { streamBounds, type KeptEvents, type Stream } from "./stream.ts";

/**
 * Stores the events that streams keep for clients that come back, beyond the life of the process: written behind, many
 * streams in one transaction, taking turns with calls, which never wait for it. It owns the records, and the sign of
 * life of the process that continues the streams. It knows no connection.
 */
export class StreamStore {
  readonly #records: Records;
  readonly #log: Log;
  /** Tells this process's streams from those of others. */
  readonly #owner = randomUUID();
  /** Streams that are, or will be, written and have not ended. */
  readonly #open = new Map<Stream, Session>();
  readonly #changed = new Map<Stream, Session>();
  readonly #written = new WeakMap<Stream, Written>();
  readonly #removals = new Map<Stream, Session>();
  /** This process's sign of life, by tenant. */
  readonly #alive = new Map<string, { readonly revision: number; readonly until: number }>();
  readonly #silence = new ProcessSilence();
  readonly #heart: NodeJS.Timeout;
  #timer: Timer | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(records: Records, log: Log) {
    this.#records = records;
    this.#log = log;
    this.#heart = setInterval(() => this.#beat(), streamBounds.streamLeaseMs / 3).unref();
  }

  /** Schedules the stream to be written again. */
  change(stream: Stream, session: Session): void {
    if (this.#written.get(stream)?.revision === DISOWNED) return;
    this.#changed.set(stream, session);
    if (stream.isEnded) this.#open.delete(stream);
    else this.#open.set(stream, session);
    this.#timer ??= clock.after(WRITE_MS, () => void this.#flush(false)).unref();
  }

  /** Removes a stream that no client can come back to. */
  remove(stream: Stream, session: Session): void {
    this.#open.delete(stream);
    this.#changed.delete(stream);
    const written = this.#written.get(stream);
    // A record that is about to expire needs no removal.
    if (!written || written.revision === DISOWNED || written.expiresAt < this.#records.now() + SOON_MS) return;
    this.#removals.set(stream, session);
    this.#timer ??= clock.after(WRITE_MS, () => void this.#flush(false)).unref();
  }

  /** The stored stream; undefined when the store has none, or no longer has it. */
  async read(session: Session, streamId: string): Promise<StoredStream | undefined> {
    const record = await this.#records.record(session.tenant, "stream", keyOf(session, streamId));
    return record && { ...readStream(record.value), revision: record.revision };
  }

  /** Like `read`, for a client that may be faster than the writes of the process that it comes from. */
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
    this.#written.set(stream, { revision, nextAt: 0, expiresAt: 0 });
  }

  /** True when the process that had a stream will not continue it. */
  async isGone({ tenant }: Session, { owner }: StoredStream): Promise<boolean> {
    const sign = await this.#records.record(tenant, "stream", ownerKey(owner));
    return sign?.value === LEFT || this.#silence.isGone(`${tenant} ${owner}`, sign === undefined);
  }

  /** Resolves when everything is written; any process may then continue streams that have not ended. */
  async close(): Promise<void> {
    clearInterval(this.#heart);
    await this.#flush(true);
    await this.#writing;
    const tenants = [...this.#alive.keys()];
    const until = this.#records.now() + streamBounds.replayMs;
    for (const tenant of tenants) await this.#write(tenant, [this.#signOfLife(tenant, until, LEFT)], []);
  }

  /** One after the other: each write needs the revisions of the writes before. */
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
      return units < WRITTEN_AT_ONCE ? undefined : writeDue();
    };
    const writeDue = async (): Promise<void> => {
      for (const [tenant, { puts, streams }] of due) {
        if ((this.#alive.get(tenant)?.until ?? 0) < now + streamBounds.streamLeaseMs / 2) {
          puts.push(this.#signOfLife(tenant, now + streamBounds.streamLeaseMs));
          streams.push(undefined);
        }
        await this.#write(tenant, puts, streams);
        await nextTurn();
      }
      due.clear();
      units = 0;
    };
    for (const [stream, session] of this.#removals) {
      const expected = this.#written.get(stream)?.revision ?? 0;
      this.#written.delete(stream);
      this.#removals.delete(stream);
      await add(session, { key: keyOf(session, stream.id), value: "", expected, expiresAt: 0 }, undefined);
    }
    // Changes made meanwhile are written the next time.
    for (const [stream, session] of new Map(this.#changed)) {
      const written = this.#written.get(stream);
      if (!this.#changed.has(stream)) continue;
      if (!all && !stream.isEnded && written && written.nextAt > elapsed) continue;
      this.#changed.delete(stream);
      const value = textOf(this.#owner, stream.kept);
      const expiresAt = now + streamBounds.replayMs + (stream.isEnded ? 0 : 2 * streamBounds.streamLeaseMs);
      const nextAt = elapsed + WRITE_MS + value.length / WRITTEN_PER_MS;
      this.#written.set(stream, { revision: written?.revision ?? 0, nextAt, expiresAt });
      await add(
        session,
        { key: keyOf(session, stream.id), value, expected: written?.revision ?? 0, expiresAt },
        stream,
      );
    }
    await writeDue();
    if (this.#changed.size > 0) this.#timer ??= clock.after(WRITE_MS, () => void this.#flush(false)).unref();
  }

  /** A failure costs returning clients the events that they missed, and nobody else anything. */
  async #write(
    tenant: string,
    puts: readonly KeyedRecordPut[],
    streams: readonly (Stream | undefined)[],
  ): Promise<void> {
    try {
      const revisions = await this.#records.putRecords(tenant, "stream", puts);
      for (const [index, { key, expiresAt: until }] of puts.entries()) {
        const [stream, revision] = [streams[index], revisions[index]];
        if (key === ownerKey(this.#owner)) this.#alive.set(tenant, { revision: revision ?? 0, until });
        const written = stream && this.#written.get(stream);
        if (!written) continue;
        if (revision !== undefined) this.#written.set(stream, { ...written, revision });
        // Another process continues it, so it is no longer ours to write.
        else this.#disown(stream);
      }
    } catch (error) {
      this.#log.error({ err: error }, "events of streams could not be stored for reconnecting clients");
    }
  }

  #disown(stream: Stream): void {
    this.#open.delete(stream);
    this.#changed.delete(stream);
    this.#written.set(stream, { revision: DISOWNED, nextAt: 0, expiresAt: 0 });
  }

  /** Writes this process's sign of life, and extends the records of open streams. */
  #beat(): void {
    const now = this.#records.now();
    const tenants = new Set<string>();
    for (const [stream, session] of this.#open) {
      tenants.add(session.tenant);
      const written = this.#written.get(stream);
      if (written && written.expiresAt - now < streamBounds.replayMs / 2 + streamBounds.streamLeaseMs) {
        this.change(stream, session);
      }
    }
    if (tenants.size > 0) this.#writing = this.#writing.then(() => this.#sayAlive(tenants));
  }

  async #sayAlive(tenants: Iterable<string>): Promise<void> {
    const until = this.#records.now() + streamBounds.streamLeaseMs;
    for (const tenant of tenants) await this.#write(tenant, [this.#signOfLife(tenant, until)], []);
  }

  #signOfLife(tenant: string, expiresAt: number, value = ""): KeyedRecordPut {
    return { key: ownerKey(this.#owner), value, expected: this.#alive.get(tenant)?.revision ?? 0, expiresAt };
  }
}

/**
 * Decides when another process counts as gone that has no sign of life in the store: once the observer has found none
 * for `streamLeaseMs`, by its own monotonic clock. Expiry in the store depends on the time of day, and that clock may jump.
 */
class ProcessSilence {
  readonly #silent = new BoundedMap<string, { readonly since: number; lookedAt: number }>(OWNERS_MAX);

  isGone(owner: string, isSilent: boolean): boolean {
    const known = this.#silent.get(owner);
    this.#silent.delete(owner);
    if (!isSilent) return false;
    const now = clock.now();
    const since = known && now - known.lookedAt < FORGOTTEN_AFTER * streamBounds.streamLeaseMs ? known.since : now;
    this.#silent.set(owner, { since, lookedAt: now });
    return now - since >= streamBounds.streamLeaseMs;
  }
}

/** Two looks so many times `streamLeaseMs` apart say nothing of the time between them. */
const FORGOTTEN_AFTER = 20;
const OWNERS_MAX = 1_000;

export interface StoredStream {
  readonly owner: string;
  readonly revision: number;
  readonly kept: KeptEvents;
}

interface Written {
  readonly revision: number;
  /** A stream with much output is written less often, so that none keeps the disk to itself. By `clock.now()`. */
  readonly nextAt: number;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** The last sign of a process that has ended properly. */
const LEFT = "left";
const DISOWNED = -1;
const SOON_MS = 1_000;
/** The longest delay of a write, when there is little to write. */
const WRITE_MS = 50;
/** The characters of one stream. */
const WRITTEN_PER_MS = 1024;
/** The characters of all streams in one stretch of the serving thread, and the weight of a record besides. */
const WRITTEN_AT_ONCE = 512 * 1024;
const RECORD_UNITS = 4 * 1024;

/** A JSON line about the stream, followed by the messages as they are: they are JSON, and may be long. */
function textOf(owner: string, { last, isEnded, events }: KeptEvents): string {
  const marks = events.map(({ seq, message, lasting }) => ({ seq, lasting, units: message.length }));
  return `${JSON.stringify({ owner, last, isEnded, marks })}\n${events.map(({ message }) => message).join("")}`;
}

function readStream(text: string): Omit<StoredStream, "revision"> {
  const head = text.indexOf("\n");
  const { owner, marks, ...kept } = JSON.parse(text.slice(0, head)) as StreamHead;
  let at = head + 1;
  const events = marks.map(({ seq, lasting, units }) => ({ seq, lasting, message: text.slice(at, (at += units)) }));
  return { owner, kept: { ...kept, events } };
}

interface StreamHead extends Omit<KeptEvents, "events"> {
  readonly owner: string;
  readonly marks: readonly { readonly seq: number; readonly lasting: boolean; readonly units: number }[];
}

function keyOf({ facts }: Session, streamId: string): string {
  return `${facts.id}/${streamId}`;
}

function ownerKey(owner: string): string {
  return `owner/${owner}`;
}

/** The error for a client whose answer can no longer be given. */
export function answerLost(): BerthError {
  return new BerthError("answer_lost", "send the request again", { data: { retriable: true } });
}

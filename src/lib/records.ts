/**
 * Values that change often and expire by themselves, for everything that outlives a process: sessions, streams, tasks,
 * sign-ins, consents. Several processes may have them open. The store implements it.
 */
export interface Records {
  /** Milliseconds since the epoch, by the clock that all processes share which have the records open. */
  now(): number;

  /** Undefined when the record is missing or expired. */
  record(tenant: string, kind: RecordKind, key: string): Promise<StoredRecord | undefined>;

  /**
   * Writes a record that still has the revision `expected` (0: does not exist), and returns its new revision;
   * undefined, with nothing written, when someone else was first.
   */
  putRecord(tenant: string, kind: RecordKind, key: string, put: RecordPut): Promise<number | undefined>;

  /**
   * As `putRecord` for several at once: the new revision of each, undefined for each where someone else was first. The
   * records outlive this process at once, and a power cut a little later.
   */
  putRecords(
    tenant: string,
    kind: RecordKind,
    puts: readonly KeyedRecordPut[],
  ): Promise<readonly (number | undefined)[]>;
}

export type RecordKind = "task" | "session" | "stream" | "sign-in" | "consent";

export interface StoredRecord {
  readonly value: string;
  readonly revision: number;
}

export interface RecordPut {
  readonly value: string;
  readonly expected: number;
  /** Milliseconds since the epoch; a time in the past removes the record. */
  readonly expiresAt: number;
}

export interface KeyedRecordPut extends RecordPut {
  readonly key: string;
}

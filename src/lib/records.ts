/**
 * Values that change often and expire, for everything that outlives a process: sessions, streams, tasks, sign-ins,
 * consents. Several processes may have them open. Implemented by the store.
 */
export interface Records {
  /** Milliseconds since the epoch, by a clock that all processes with these records share. */
  now(): number;

  /** Undefined if the record is missing or expired. */
  record(tenant: string, kind: RecordKind, key: string): Promise<StoredRecord | undefined>;

  /**
   * Writes a record that still has the revision `expected` (0: does not exist), and returns its new revision;
   * undefined, with nothing written, if another writer was first.
   */
  putRecord(tenant: string, kind: RecordKind, key: string, put: RecordPut): Promise<number | undefined>;

  /**
   * Like `putRecord` for several at once: the new revision of each, or undefined if another writer was first. The
   * records survive the end of this process immediately, and a power cut a little later.
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

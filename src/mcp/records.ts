/** The storage of everything that outlives a process; several processes may have it open. A store implements it. */
export interface Records {
  record(tenant: string, kind: RecordKind, key: string): Promise<StoredRecord | undefined>;
  /** Undefined when the record does not have the revision `expected` (0: does not exist). */
  putRecord(tenant: string, kind: RecordKind, key: string, put: RecordPut): Promise<number | undefined>;
  /** Writes several at once; they outlive this process, but perhaps not an immediate power cut. */
  putRecords(
    tenant: string,
    kind: RecordKind,
    puts: readonly KeyedRecordPut[],
  ): Promise<readonly (number | undefined)[]>;
}

export type RecordKind = "task" | "session" | "stream" | "sign-in";

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

/** Where the protocol keeps what outlives a process; several processes may have it open. A store is one. */
export interface Records {
  record(tenant: string, kind: RecordKind, key: string): Promise<StoredRecord | undefined>;
  /** Undefined when the record has not the revision `expected` (0: is not there). */
  putRecord(tenant: string, kind: RecordKind, key: string, put: RecordPut): Promise<number | undefined>;
  /** Several at once, which outlive this process, but maybe not a power cut that comes at once. */
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
  /** Milliseconds since the epoch; what lies in the past removes the record. */
  readonly expiresAt: number;
}

export interface KeyedRecordPut extends RecordPut {
  readonly key: string;
}

/** The storage of everything that outlives a process; several processes may have it open. A store implements it. */
export interface Records {
  record(tenant: string, kind: ProtocolRecordKind, key: string): Promise<ProtocolRecord | undefined>;
  /** Undefined when the record does not have the revision `expected` (0: does not exist). */
  putRecord(tenant: string, kind: ProtocolRecordKind, key: string, put: ProtocolRecordPut): Promise<number | undefined>;
  /** Writes several at once; they outlive this process, but perhaps not an immediate power cut. */
  putRecords(
    tenant: string,
    kind: ProtocolRecordKind,
    puts: readonly ProtocolKeyedPut[],
  ): Promise<readonly (number | undefined)[]>;
}

export type ProtocolRecordKind = "task" | "session" | "stream" | "sign-in";

export interface ProtocolRecord {
  readonly value: string;
  readonly revision: number;
}

export interface ProtocolRecordPut {
  readonly value: string;
  readonly expected: number;
  /** Milliseconds since the epoch; a time in the past removes the record. */
  readonly expiresAt: number;
}

export interface ProtocolKeyedPut extends ProtocolRecordPut {
  readonly key: string;
}

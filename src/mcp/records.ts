/** Where the protocol keeps what outlives a process; several processes may have it open. A store is one. */
export interface Records {
  record(tenant: string, kind: RecordKind, key: string): Promise<{ value: string; revision: number } | undefined>;
  /** Undefined when the record has not the revision `expected` (0: is not there). */
  putRecord(
    tenant: string,
    kind: RecordKind,
    key: string,
    put: { value: string; expected: number; expiresAt: number },
  ): Promise<number | undefined>;
}

type RecordKind = "task" | "session";

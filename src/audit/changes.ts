import { actorOf, entryOf, type AuditEntry } from "./audit-entry.ts";

/** A change as a store's `change` knows it: contents by their CIDs alone. */
interface Changed {
  readonly by: string;
  readonly subject?: { readonly kind: string; readonly name: string; readonly breaking?: boolean };
}

interface MovedName {
  readonly kind: string;
  readonly name: string;
  /** Null for a name that is new or removed. */
  readonly from: string | null;
  readonly cid: string | null;
}

/** The record of one transaction that moved names: by a person, by the boot image, or by the loading of a server. */
export function auditOfChange(tenant: string, { by, subject }: Changed, moved: readonly MovedName[]): AuditEntry {
  const names = moved.map(({ kind, name, from, cid }) => ({ kind, name, from, to: cid }));
  const about = subject && {
    subject: { kind: subject.kind, name: subject.name },
    ...(subject.breaking && { breaking: true }),
  };
  const kind = subject?.kind === "contract" ? "approval" : "edit";
  return entryOf(tenant, kind, { ...actorOf(by), ...about, names });
}

import { actorOf, entryOf, type AuditEntry } from "./entry.ts";

/** What has changed, as a store's `change` knows it: contents by their CIDs alone. */
interface Changed {
  readonly by: string;
  readonly subject?: { readonly kind: string; readonly name: string; readonly breaking?: boolean };
}

interface MovedName {
  readonly kind: string;
  readonly name: string;
  /** Null where nothing stood, and where nothing stands any more. */
  readonly from: string | null;
  readonly cid: string | null;
}

/** The record of one transaction that moved names: of a person, of the boot image, or of a server that was loaded. */
export function auditOfChange(tenant: string, { by, subject }: Changed, moved: readonly MovedName[]): AuditEntry {
  const names = moved.map(({ kind, name, from, cid }) => ({ kind, name, from, to: cid }));
  const about = subject && {
    subject: { kind: subject.kind, name: subject.name },
    ...(subject.breaking && { breaking: true }),
  };
  const kind = subject?.kind === "contract" ? "approval" : "edit";
  return entryOf(tenant, kind, { ...actorOf(by), ...about, names });
}

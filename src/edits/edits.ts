import type { Rights } from "../access/rights.ts";
import type { Contract } from "../contract/contract.ts";
import type { Review, Saved } from "../contract/review.ts";
import type { ReleaseVersion } from "../host/catalog/releases.ts";
import type { CancelSignal } from "../lib/cancellation.ts";
import type { Cid } from "../lib/cid.ts";
import type { CurrentDraft, Draft } from "../lib/draft.ts";

/**
 * Changes variables, definitions and servers' entries in `mcps` while Berth runs. A save checks everything, takes
 * effect as a whole or not at all, and leaves the previous version in the history. It knows neither HTTP nor pages.
 */
export interface Edits {
  /** The sorted names of what can be edited: variables, and servers that have a definition or an entry. */
  names(tenant: string, kind: Subject["kind"]): Promise<readonly string[]>;
  /** The current versions under these names, without names that have none. */
  list(tenant: string, kind: Subject["kind"], names: readonly string[]): Promise<readonly Listed[]>;
  /** The current version; undefined if there is none. Rejects with `content_corrupt` or `content_missing`. */
  read(tenant: string, subject: Subject): Promise<CurrentDraft | undefined>;
  /** The language of a server's definition; undefined if it has none here. Does not reject for a damaged one. */
  language(tenant: string, server: string): Promise<CurrentDraft["language"] | "damaged" | undefined>;
  /**
   * Reports what saving `draft` would do, without doing it. A null draft deletes; for a definition, the whole server.
   * Rejects with `forbidden` and `programs_refused` as `save` does, since a review may have to start the server.
   * Nothing of it is stored, and once `signal` is aborted, no further step is started. Rejects with
   * `too_many_requests`, as `save` does, if the tenant has too many saves and reviews in progress.
   */
  review(tenant: string, subject: Subject, draft: Draft | null, rights: Rights, signal?: CancelSignal): Promise<Review>;
  /**
   * Saves, or changes nothing and rejects: with `read_only`, `name_conflict` (data: `current`, the current CID),
   * `edit_refused` (data: `problems`) or `edit_breaking` (data: `review`), which `allowBreaking` permits; with
   * `forbidden` or `programs_refused` (data: `changes`) if the author may not make all of the changes; and with
   * `not_found` if there is nothing to delete.
   */
  save(tenant: string, subject: Subject, draft: Draft | null, options: SaveOptions): Promise<Saved>;
  /** Every version, newest first; deletions have no CID. */
  history(tenant: string, subject: Subject): Promise<readonly Version[]>;
  /** The draft of a version; undefined if this subject never had that version. */
  version(tenant: string, subject: Subject, cid: Cid): Promise<Draft | undefined>;
  /** The releases of a server, newest first. */
  releases(tenant: string, server: string): Promise<readonly ReleaseVersion[]>;
  /** The contract that clients saw of a release; undefined if it is not a release of this server. */
  contract(tenant: string, server: string, release: Cid): Promise<Contract | undefined>;
  /** Restores an earlier release: definition and entry, or with `keepEntry` the definition. Rejects as `save` does. */
  restoreRelease(
    tenant: string,
    server: string,
    release: Cid,
    options: SaveOptions & { readonly keepEntry?: boolean },
  ): Promise<Saved>;
  /**
   * Withdraws an earlier release, so that it is neither served at its address nor restorable; or reinstates it. Its CID
   * and its content remain. Rejects with `read_only`, `forbidden`, `not_found`, `name_conflict`, and with
   * `edit_refused` for the currently served release.
   */
  withdrawRelease(tenant: string, server: string, release: Cid, options: WithdrawOptions): Promise<void>;
}

export interface WithdrawOptions extends Pick<SaveOptions, "by" | "rights"> {
  /** False reinstates it. */
  readonly isWithdrawn: boolean;
}

export type Subject =
  | { readonly kind: "variable"; readonly name: string }
  /** The source of a server. */
  | { readonly kind: "definition"; readonly name: string }
  /** A server's entry in the variable `mcps`, as JSON. */
  | { readonly kind: "entry"; readonly name: string };

export interface Listed {
  readonly name: string;
  readonly cid: Cid;
  readonly changedAt: number;
}

export interface SaveOptions {
  /** The version that the author saw; null for none. If absent, the save overwrites any version. */
  readonly expected?: Cid | null;
  /** Require that a version exists. */
  readonly mustExist?: boolean;
  readonly allowBreaking?: boolean;
  /** The source of the save: `page`, `api`, … */
  readonly by: string;
  /** The rights of the principal that saves. */
  readonly rights: Rights;
}

export interface Version {
  readonly cid: Cid | null;
  readonly changedAt: number;
  readonly by: string;
}

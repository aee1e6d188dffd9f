import type { Rights } from "../../access/rights.ts";
import type { CancelSignal } from "../../lib/cancellation.ts";
import type { Cid } from "../../lib/cid.ts";
import type { ContractChange } from "../../contract/change.ts";
import type { Contract } from "../../contract/contract.ts";
import type { Problem } from "../../lib/problem.ts";

/**
 * What a person changes while Berth runs: variables, definitions and the servers' entries in `mcps`. A save checks
 * everything, takes effect as a whole or not at all, and what stood before stays in the history.
 * It knows no HTTP and no page.
 */
export interface Edits {
  /**
   * The names of what can be edited, sorted: those of variables, and of servers that have a definition or an entry.
   */
  names(tenant: string, kind: Subject["kind"]): Promise<readonly string[]>;
  /** What stands under these names; without those where nothing does. */
  list(tenant: string, kind: Subject["kind"], names: readonly string[]): Promise<readonly Listed[]>;
  /** What stands now; undefined when there is nothing of that name. Rejects with `content_corrupt` and `content_missing`. */
  read(tenant: string, subject: Subject): Promise<Current | undefined>;
  /** The language of a server's definition; undefined where it has none here. Does not reject for one that is damaged. */
  language(tenant: string, server: string): Promise<Current["language"] | "damaged" | undefined>;
  /**
   * What saving `draft` would do, without doing it. A null draft deletes; of a definition, the whole server. Rejects with
   * `forbidden` and `programs_refused` as `save` does: to look at a server can take starting it. Nothing of it is kept in
   * the store, and once nobody waits for it, nothing more of it is begun. Rejects with `too_many_requests` where too much
   * of the tenant is under way, as `save` does.
   */
  review(tenant: string, subject: Subject, draft: Draft | null, rights: Rights, signal?: CancelSignal): Promise<Review>;
  /**
   * Saves, or changes nothing and rejects with `read_only`, `name_moved` (data: `current`, the CID that stands),
   * `edit_refused` (data: `problems`) or `edit_breaking` (data: `review`), which `allowBreaking` lets through; with
   * `forbidden` or `programs_refused` (data: `changes`) when the writer may not change all that it changes; and with
   * `not_found` when nothing is there to delete.
   */
  save(tenant: string, subject: Subject, draft: Draft | null, options: SaveOptions): Promise<Saved>;
  /** Every version, newest first; deletions have no CID. */
  history(tenant: string, subject: Subject): Promise<readonly Version[]>;
  /** The draft that a version of this subject was; undefined when it never was one. */
  version(tenant: string, subject: Subject, cid: Cid): Promise<Draft | undefined>;
  /** The releases of a server, newest first. */
  releases(tenant: string, server: string): Promise<readonly ReleaseVersion[]>;
  /** What clients saw of a release; undefined when it is none of this server's. */
  contract(tenant: string, server: string, release: Cid): Promise<Contract | undefined>;
  /**
   * Makes an earlier release what the server is now: its definition and its entry, or with `keepEntry` the definition
   * alone. Rejects as `save` does.
   */
  restoreRelease(
    tenant: string,
    server: string,
    release: Cid,
    options: SaveOptions & { readonly keepEntry?: boolean },
  ): Promise<Saved>;
  /**
   * Has nobody be given an earlier release any more, by its address or by a restore; or reinstates it. Its CID and its
   * content stay. Rejects with `read_only`, `forbidden`, `not_found`, `name_moved`, and `edit_refused` for what is
   * served now.
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

/** Texts by path; everything but a definition of several files is one text, whose path is its name. */
export interface Draft {
  /** The path of the main text. */
  readonly entry: string;
  readonly files: Readonly<Record<string, string>>;
}

export interface Current extends Draft {
  /** Of what stands now: the ETag of its URL. */
  readonly cid: Cid;
  readonly language: "typescript" | "shell" | "json" | "text";
  /** Milliseconds since the epoch. */
  readonly changedAt: number;
  readonly by: string;
}

export interface Listed {
  readonly name: string;
  readonly cid: Cid;
  readonly changedAt: number;
}

export interface SaveOptions {
  /** What the writer saw; null: that nothing stood there. Without it the save goes over whatever stands. */
  readonly expected?: Cid | null;
  /** Something has to stand there, whatever it is. */
  readonly mustExist?: boolean;
  readonly allowBreaking?: boolean;
  /** Who or what saves: `page`, `api`, … */
  readonly by: string;
  /** Of whoever saves. */
  readonly rights: Rights;
}

export interface Review {
  /** Errors refuse the save; warnings do not. Each with file, line and column, or a JSON pointer with its line. */
  readonly problems: readonly Problem[];
  /** The servers that would not be what they are, sorted by name. */
  readonly servers: readonly ServerEffect[];
  /** True when a change of some server is breaking. */
  readonly breaking: boolean;
}

export interface ServerEffect {
  readonly server: string;
  /** `refused`: it serves now and would not any more. `starting`: what it offers is not known yet. */
  readonly outcome: "added" | "removed" | "changed" | "refused" | "starting";
  /** CIDs of the releases. */
  readonly before?: Cid;
  readonly after?: Cid;
  readonly changes: readonly ContractChange[];
  /** Tools whose contract stays while their code does not. */
  readonly newBehaviour: readonly string[];
}

export interface Saved {
  readonly cid: Cid | null;
  readonly review: Review;
}

export interface Version {
  readonly cid: Cid | null;
  readonly changedAt: number;
  readonly by: string;
}

export interface ReleaseVersion {
  readonly release: Cid;
  readonly contract: Cid;
  readonly changedAt: number;
  readonly by: string;
  readonly current: boolean;
  /** Nobody is given it, until it is reinstated. */
  readonly withdrawn: boolean;
}

import { BerthError } from "../lib/errors.ts";
import { limitVariable, type Limits } from "../limits/limits.ts";
import type { Draft } from "../lib/draft.ts";

export type DraftRoomLimits = Pick<Limits, "draftsPerTenant" | "draftBytes" | "draftBytesPerTenant">;

/** The time after which room may be free again. */
const RETRY_AFTER_S = 1;

/**
 * Limits what saves and reviews hold until they are answered: their drafts wait for the compiler, which works on one
 * definition at a time. It knows nothing of what they do.
 */
export class DraftRoom {
  readonly #limits: DraftRoomLimits;
  readonly #heldBy = new Map<string, { drafts: number; units: number }>();
  #units = 0;

  constructor(limits: DraftRoomLimits) {
    this.#limits = limits;
  }

  /**
   * Rejects with `too_many_requests` when there is no room. A limit of bytes never refuses the only draft that it
   * counts.
   */
  async hold<T>(tenant: string, draft: Draft | null, work: () => Promise<T>): Promise<T> {
    const units = draft ? unitsOf(draft) : 0;
    this.#check(tenant, units);
    this.#count(tenant, 1, units);
    try {
      return await work();
    } finally {
      this.#count(tenant, -1, -units);
    }
  }

  #check(tenant: string, units: number): void {
    const { draftsPerTenant, draftBytes, draftBytesPerTenant } = this.#limits;
    const held = this.#heldBy.get(tenant) ?? { drafts: 0, units: 0 };
    if (held.drafts >= draftsPerTenant) throw full(`${draftsPerTenant} saves and reviews`, "draftsPerTenant");
    if (units === 0) return;
    if (held.units > 0 && held.units + units > draftBytesPerTenant) {
      throw full(`drafts of ${draftBytesPerTenant} characters of the tenant`, "draftBytesPerTenant");
    }
    if (this.#units > 0 && this.#units + units > draftBytes) {
      throw full(`drafts of ${draftBytes} characters`, "draftBytes");
    }
  }

  #count(tenant: string, drafts: number, units: number): void {
    const held = this.#heldBy.get(tenant) ?? { drafts: 0, units: 0 };
    this.#units += units;
    held.drafts += drafts;
    held.units += units;
    if (held.drafts === 0) this.#heldBy.delete(tenant);
    else this.#heldBy.set(tenant, held);
  }
}

function unitsOf({ files }: Draft): number {
  let units = 0;
  for (const [path, text] of Object.entries(files)) units += path.length + text.length;
  return units;
}

function full(what: string, limit: keyof DraftRoomLimits): BerthError {
  const message = `${what} are under way (${limitVariable(limit)}); try again in ${RETRY_AFTER_S} s`;
  return new BerthError("too_many_requests", message, { data: { retryAfterSeconds: RETRY_AFTER_S } });
}

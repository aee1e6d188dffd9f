import { isUtf8 } from "node:buffer";
import { BerthError } from "../lib/errors.ts";
import { yieldInOrder } from "../lib/event-loop.ts";
import { GrowingBytes } from "../lib/growing-bytes.ts";
import { DECODE_STEP_BYTES, splitUtf8, decodeUtf8 } from "../lib/long-text.ts";
import { TenantCounts } from "../lib/tenant-counts.ts";
import { limitVariable, type Limits } from "../limits/limits.ts";
import type { RequestContext } from "./request-context.ts";

/** A body with a few names: a request for a token, an approval. */
export const SHORT_BODY_BYTES = 64 * 1024;
/** The body of a sign-in: a token, and the page to go to next. */
const SIGN_IN_BYTES = 8 * 1024;

type BodyLimits = Pick<
  Limits,
  | "bodyBytes"
  | "unfinishedBodyBytes"
  | "unfinishedBodyBytesPerTenant"
  | "unfinishedSignInBytes"
  | "heldBodyBytes"
  | "heldBodyBytesPerTenant"
>;

/**
 * Reads request bodies and counts the bytes of unfinished ones: however many are begun and never ended, they take a
 * bounded amount of memory. A body that comes in one piece is not counted. Complete bodies are bounded, too, while
 * their requests are in progress.
 */
export class Bodies {
  readonly #limits: BodyLimits;
  readonly #unfinished = new TenantCounts();
  #unfinishedSignIns = 0;
  readonly #held = new TenantCounts();

  constructor(limits: BodyLimits) {
    this.#limits = limits;
  }

  /** The bytes held of unfinished bodies. */
  get unfinishedBytes(): number {
    return this.#unfinished.all + this.#unfinishedSignIns;
  }

  /**
   * Reads the body as text, up to `bytesMax` bytes, or `bodyBytes` without it. Rejects with `body_too_large`, with
   * `too_many_requests` or `too_many_bodies` when there is no room for unfinished bodies, with `parse_error` when it is
   * not UTF-8, or with `invalid_request` when the client stops midway.
   */
  read(context: RequestContext, bytesMax?: number): Promise<string> {
    return this.#read(context, bytesMax, this.#roomOf(context));
  }

  /**
   * Like `read`, for a sign-in. Anybody may send one to any tenant, so it uses neither that tenant's room nor the
   * common one: sign-ins share a small room of their own.
   */
  readSignIn(context: RequestContext): Promise<string> {
    return this.#read(context, SIGN_IN_BYTES, {
      fullFor: (bytes) => {
        const { unfinishedSignInBytes } = this.#limits;
        if (this.#unfinishedSignIns + bytes <= unfinishedSignInBytes) return undefined;
        return full("too_many_bodies", `sign-ins may have ${unfinishedSignInBytes} bytes`);
      },
      count: (bytes) => void (this.#unfinishedSignIns += bytes),
    });
  }

  #read({ request }: RequestContext, bytesMax: number | undefined, room: Room): Promise<string> {
    const most = bytesMax ?? this.#limits.bodyBytes;
    return new Promise((resolve, reject) => {
      let first: Buffer | undefined;
      let rest: GrowingBytes | undefined;
      let length = 0;
      let counted = 0;
      const release = (): void => {
        if (counted > 0) room.count(-counted);
        counted = 0;
      };
      const refuse = (error: BerthError): void => {
        // The rest is read and discarded, so that the client sees the answer.
        request.off("data", onData).resume();
        first = rest = undefined;
        release();
        reject(error);
      };
      const onData = (chunk: Buffer): void => {
        length += chunk.length;
        if (length > most) {
          const setting = bytesMax === undefined ? ` (${limitVariable("bodyBytes")})` : "";
          return refuse(new BerthError("body_too_large", `the limit is ${most} bytes${setting}; send less`));
        }
        if (!first) {
          first = chunk;
          if (Number(request.headers["content-length"]) === length) return;
        } else {
          if (!rest) (rest = new GrowingBytes()).add(first);
          rest.add(chunk);
        }
        const full = room.fullFor(length - counted);
        if (full) return refuse(full);
        room.count(length - counted);
        counted = length;
      };
      request.on("data", onData);
      request.on("end", () => {
        const bytes = rest?.take() ?? first;
        if (!bytes || bytes.length <= DECODE_STEP_BYTES) {
          release();
          if (!bytes) resolve("");
          else if (isUtf8(bytes)) resolve(decodeUtf8(bytes));
          else reject(notUtf8());
        } else resolve(textInTurns(bytes).finally(release));
      });
      request.on("error", () => {
        release();
        reject(new BerthError("invalid_request", "the body ended too early"));
      });
    });
  }

  /**
   * Counts a body until the returned function is called: a request that waits for its turn, or for a client, keeps its
   * body. Throws `too_many_requests` when there is no room; a tenant's only body always has room.
   */
  hold(tenant: string, { length }: string): () => void {
    if (length <= UNCOUNTED_UNITS) return nothing;
    const { heldBodyBytes, heldBodyBytesPerTenant } = this.#limits;
    const own = this.#held.of(tenant);
    if (own > 0 && own + length > heldBodyBytesPerTenant)
      throw fullOfHeld(heldBodyBytesPerTenant, "heldBodyBytesPerTenant");
    if (own > 0 && this.#held.all + length > heldBodyBytes) throw fullOfHeld(heldBodyBytes, "heldBodyBytes");
    this.#held.add(tenant, length);
    return () => this.#held.add(tenant, -length);
  }

  #roomOf({ claimed: { tenant } }: RequestContext): Room {
    const { unfinishedBodyBytes, unfinishedBodyBytesPerTenant } = this.#limits;
    return {
      fullFor: (bytes) => {
        if (this.#unfinished.of(tenant) + bytes > unfinishedBodyBytesPerTenant) {
          const who = `the tenant "${tenant}" may have ${unfinishedBodyBytesPerTenant} bytes`;
          return full("too_many_requests", who);
        }
        if (this.#unfinished.all + bytes <= unfinishedBodyBytes) return undefined;
        return full("too_many_bodies", `there may be ${unfinishedBodyBytes} bytes`);
      },
      count: (bytes) => this.#unfinished.add(tenant, bytes),
    };
  }
}

/**
 * Decodes in turns: a megabyte of non-ASCII text takes several milliseconds. Rejects with `parse_error` when it is not
 * UTF-8.
 */
async function textInTurns(bytes: Buffer): Promise<string> {
  let text = "";
  for (const piece of splitUtf8(bytes)) {
    if (!isUtf8(piece)) throw notUtf8();
    text += decodeUtf8(piece);
    await yieldInOrder();
  }
  return text;
}

function notUtf8(): BerthError {
  return new BerthError("parse_error", "it is not UTF-8");
}

/** Counts the bytes of a body until it is complete. */
interface Room {
  /** The error when there is no room for so many more; undefined when there is. */
  fullFor(bytes: number): BerthError | undefined;
  count(bytes: number): void;
}

/** Most bodies are short, and requests are counted anyway. */
const UNCOUNTED_UNITS = 4 * 1024;

const nothing = (): void => {};

/** By then other clients may have sent their bodies or got their answers. */
const RETRY_AFTER_S = 1;

function fullOfHeld(most: number, limit: "heldBodyBytes" | "heldBodyBytesPerTenant"): BerthError {
  const whose = limit === "heldBodyBytes" ? "of all tenants" : "of the tenant";
  const why = `requests ${whose} with ${most} characters are in progress`;
  return new BerthError("too_many_requests", `${why}; try again in ${RETRY_AFTER_S} s`, {
    data: { retryAfterSeconds: RETRY_AFTER_S },
  });
}

function full(code: "too_many_requests" | "too_many_bodies", who: string): BerthError {
  const why = `${who} of incomplete bodies`;
  return new BerthError(code, `${why}; try again in ${RETRY_AFTER_S} s`, {
    data: { retryAfterSeconds: RETRY_AFTER_S },
  });
}

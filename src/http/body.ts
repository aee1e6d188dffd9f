import { isUtf8 } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { BerthError } from "../errors.ts";
import { GrowingBytes } from "../growing-bytes.ts";
import { limitVariable, type Limits } from "../limits.ts";
import { claimedPlaceOf } from "./place.ts";

/** The limits that one body may have: each is refused by its name. */
export type BodyLimits = Pick<
  Limits,
  "bodyBytes" | "shortBodyBytes" | "unfinishedBodyBytes" | "unfinishedBodyBytesPerTenant"
>;

/**
 * Reads the bodies of requests, and counts what has come of those that are not whole yet: however many are begun and
 * never ended, they hold a bounded amount of memory. A body that comes in one piece is not counted.
 */
export class Bodies {
  readonly #limits: BodyLimits;
  #unfinished = 0;
  readonly #byTenant = new Map<string, number>();

  constructor(limits: BodyLimits) {
    this.#limits = limits;
  }

  /** Bytes that are held of bodies that are not whole. */
  get unfinishedBytes(): number {
    return this.#unfinished;
  }

  /**
   * The body as text. Rejects with `body_too_large`, with `too_many_requests` or `too_many_bodies` where there is no room
   * for what is not whole, with `parse_error` for what is no UTF-8, or with `invalid_request` when the client stops in
   * the middle. `bytesMax` is the limit of that name, or a number that follows from another one.
   */
  read(request: IncomingMessage, bytesMax: "bodyBytes" | "shortBodyBytes" | number = "bodyBytes"): Promise<string> {
    const most = typeof bytesMax === "number" ? bytesMax : this.#limits[bytesMax];
    return new Promise((resolve, reject) => {
      let first: Buffer | undefined;
      let rest: GrowingBytes | undefined;
      let length = 0;
      let counted = 0;
      const release = (): void => {
        if (counted > 0) this.#count(request, -counted);
        counted = 0;
      };
      const refuse = (error: BerthError): void => {
        // The rest is read and thrown away, so that the client gets to see the answer.
        request.off("data", onData).resume();
        first = rest = undefined;
        release();
        reject(error);
      };
      const onData = (chunk: Buffer): void => {
        length += chunk.length;
        if (length > most) return refuse(tooLarge(bytesMax, most));
        if (!first) {
          first = chunk;
          if (Number(request.headers["content-length"]) === length) return;
        } else {
          if (!rest) (rest = new GrowingBytes()).add(first);
          rest.add(chunk);
        }
        const full = this.#fullFor(request, length - counted);
        if (full) return refuse(full);
        this.#count(request, length - counted);
        counted = length;
      };
      request.on("data", onData);
      request.on("end", () => {
        release();
        const bytes = rest?.take() ?? first;
        if (!bytes) resolve("");
        else if (isUtf8(bytes)) resolve(bytes.toString());
        else reject(new BerthError("parse_error", "it is not UTF-8"));
      });
      request.on("error", () => {
        release();
        reject(new BerthError("invalid_request", "the body ended too early"));
      });
    });
  }

  #fullFor(request: IncomingMessage, bytes: number): BerthError | undefined {
    const { unfinishedBodyBytes, unfinishedBodyBytesPerTenant } = this.#limits;
    const { tenant } = claimedPlaceOf(request);
    if ((this.#byTenant.get(tenant) ?? 0) + bytes > unfinishedBodyBytesPerTenant) {
      const who = `the tenant "${tenant}" may have ${unfinishedBodyBytesPerTenant} bytes`;
      return full("too_many_requests", who, "unfinishedBodyBytesPerTenant");
    }
    if (this.#unfinished + bytes <= unfinishedBodyBytes) return undefined;
    return full("too_many_bodies", `there may be ${unfinishedBodyBytes} bytes`, "unfinishedBodyBytes");
  }

  #count(request: IncomingMessage, bytes: number): void {
    const { tenant } = claimedPlaceOf(request);
    this.#unfinished += bytes;
    const ofTenant = (this.#byTenant.get(tenant) ?? 0) + bytes;
    if (ofTenant === 0) this.#byTenant.delete(tenant);
    else this.#byTenant.set(tenant, ofTenant);
  }
}

/** When others may have sent what they began. */
const RETRY_AFTER_S = 1;

function full(code: "too_many_requests" | "too_many_bodies", who: string, limit: keyof BodyLimits): BerthError {
  const why = `${who} of bodies that are not whole yet (${limitVariable(limit)})`;
  return new BerthError(code, `${why}; try again in ${RETRY_AFTER_S} s`, {
    data: { retryAfterSeconds: RETRY_AFTER_S },
  });
}

function tooLarge(limit: keyof BodyLimits | number, bytes: number): BerthError {
  const name = typeof limit === "number" ? "" : ` (${limitVariable(limit)})`;
  return new BerthError("body_too_large", `the limit is ${bytes} bytes${name}; send less`);
}

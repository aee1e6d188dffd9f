import type { Principal } from "../access/principal.ts";
import type { Admission } from "../admission/admission.ts";
import type { Limits } from "../limits/limits.ts";
import type { SignIns } from "./access/sign-in.ts";
import { EventStream, type StreamOwner } from "./event-stream.ts";
import type { RequestContext } from "./request-context.ts";

type StreamLimits = Pick<Limits, "openStreams" | "streamKeepAliveMs" | "unreadStreamBytes">;

/**
 * The streams of one HTTP server: at most `openStreams` in all, limited per tenant and principal as well, and none
 * silent for much longer than `streamKeepAliveMs`, so that proxies and clients do not take it for dead. A stream counts
 * as one of its tenant's requests; its place is free again when its connection closes, however long its call runs.
 */
export class OpenStreams {
  readonly #limits: StreamLimits;
  readonly #admission: Pick<Admission, "enterStream">;
  readonly #signIns: Pick<SignIns, "now" | "hasEnded">;
  /**
   * Only opened streams: most answers never become one, and a set that changes with each request keeps what it held
   * alive until a full garbage collection.
   */
  readonly #open = new Set<EventStream>();
  #taken = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    limits: StreamLimits,
    admission: Pick<Admission, "enterStream">,
    signIns: Pick<SignIns, "now" | "hasEnded" | "onEnded">,
  ) {
    this.#limits = limits;
    this.#signIns = signIns;
    signIns.onEnded((id) => {
      for (const stream of this.#open) if (stream.principal?.signIn === id) stream.cut();
    });
    this.#admission = admission;
  }

  get open(): number {
    return this.#open.size;
  }

  /** Takes a stream for the answer to one request; undefined at the limit. */
  take(context: RequestContext): EventStream | undefined {
    if (this.#taken >= this.#limits.openStreams) return undefined;
    this.#taken += 1;
    const stream = new EventStream(context, this.#limits.unreadStreamBytes, this.#owner);
    context.atClose(stream);
    return stream;
  }

  /** Cuts the streams of a principal whose access has ended. */
  cut(principalId: string): void {
    for (const stream of this.#open) if (stream.principal?.id === principalId) stream.cut();
  }

  readonly #owner: StreamOwner = {
    onOpen: (stream) => {
      this.#open.add(stream);
      this.#timer ??= setInterval(this.#comment, this.#limits.streamKeepAliveMs).unref();
    },
    onStand: ({ principal }, { response, tenant }) => {
      // A client that has already left is not counted.
      if (!response.destroyed) {
        response.once("close", this.#admission.enterStream(tenant, principal));
      }
    },
    onOver: (stream) => {
      this.#taken -= 1;
      if (stream.isOpen) this.#open.delete(stream);
    },
  };

  /** Cuts the stream if its person has signed out, perhaps in another process. A check that fails is repeated. */
  async #cutSignedOut(stream: EventStream, { tenant, signIn }: Principal): Promise<void> {
    const hasEnded = await this.#signIns.hasEnded(tenant, signIn!).catch(() => false);
    if (hasEnded) stream.cut();
  }

  readonly #comment = (): void => {
    const now = this.#signIns.now();
    for (const stream of this.#open) {
      if ((stream.principal?.until ?? now) < now) stream.cut();
      else stream.comment();
      if (stream.principal?.signIn !== undefined) void this.#cutSignedOut(stream, stream.principal);
    }
    if (this.#open.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  };
}

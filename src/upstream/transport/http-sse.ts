import { EventEmitter, once } from "node:events";
import { clock } from "../../lib/clock.ts";
import { connectionEnded, UpstreamError } from "../messages/upstream-error.ts";
import type { Closed } from "./channel.ts";
import { isSessionLost, networkFailure, statusFailure, type RemoteAddress } from "./http-error.ts";
import type { HttpAnswer, HttpLink } from "./http-link.ts";
import { requestBounds, type OutgoingRequest, type Receiver, type Transport } from "./transport.ts";

/** HTTP+SSE of 2024-11-05: messages are posted, and everything from the server arrives on one stream. */
export class HttpSse implements Transport {
  readonly kind = "http";
  readonly closed: Promise<Closed>;
  readonly #link: HttpLink;
  readonly #address: RemoteAddress;
  readonly #stop = new AbortController();
  readonly #events = new EventEmitter();
  readonly #posts = new Set<AbortController>();
  readonly #accepted = new Map<number, OutgoingRequest>();
  #receiver!: Receiver;
  #endpoint: URL | undefined;
  #reason = "";
  #end: (closed: Closed) => void = () => {};

  constructor(link: HttpLink, address: RemoteAddress) {
    this.#link = link;
    this.#address = address;
    this.closed = new Promise((resolve) => (this.#end = resolve));
  }

  set receiver(receiver: Receiver) {
    this.#receiver = receiver;
  }

  async open(): Promise<void> {
    const { url, headers } = this.#address;
    const { signal } = this.#stop;
    const answer = await this.#link.open(url, { headers: { ...headers, accept: "text/event-stream" }, signal });
    if (!answer.ok || !answer.isStream) {
      throw statusFailure(answer, await answer.beginning(), this.#address)("opening its event stream");
    }
    const opened = once(this.#events, "endpoint", { signal });
    void this.#follow(answer);
    await opened;
  }

  send(request: OutgoingRequest): void {
    if (this.#reason !== "") return this.#receiver.failed(request, (what) => connectionEnded(what, this.#reason, true));
    void this.#post(request.json, request);
  }

  forget({ id }: OutgoingRequest): void {
    this.#accepted.delete(id);
  }

  notify(json: string): Promise<void> {
    return this.#post(json);
  }

  answer(json: string): Promise<void> {
    return this.#post(json);
  }

  close(fault?: string): Promise<void> {
    this.#finish(fault ?? "was left", fault === undefined);
    return Promise.resolve();
  }

  /** If too many are not accepted, the oldest is abandoned: its sender may be long gone. */
  async #post(json: string, request?: OutgoingRequest): Promise<void> {
    const post = new AbortController();
    this.#posts.add(post);
    const [oldest] = this.#posts;
    if (this.#posts.size > requestBounds.upstreamRequests)
      oldest!.abort(new Error("the server does not read what it is sent"));
    try {
      const headers = { ...this.#address.headers, "content-type": "application/json" };
      const init = { method: "POST", headers, body: json, signal: post.signal } as const;
      const answer = await this.#link.open(this.#endpoint!, init);
      if (!request) return answer.leave();
      if (!answer.ok) {
        const body = await answer.beginning();
        const isLost = this.#reason !== "" || isSessionLost(answer.status, body);
        const failure = isLost
          ? (what: string) => connectionEnded(what, "has lost the session", true)
          : statusFailure(answer, body, this.#address);
        this.#receiver.failed(request, failure);
        if (isLost) this.#finish("has lost the session", false);
        return;
      }
      if (this.#reason !== "")
        return this.#receiver.failed(request, (what) => connectionEnded(what, this.#reason, false));
      this.#accepted.set(request.id, request);
      // Some servers answer in the response.
      const { messages } = await answer.messages(this.#receiver.deviate);
      for (const message of messages) this.#receiver.message(message, request);
    } catch (error) {
      if (request) this.#receiver.failed(request, networkFailure(error, this.#address));
    } finally {
      this.#posts.delete(post);
    }
  }

  async #follow(answer: HttpAnswer): Promise<void> {
    let reason = "ended its event stream";
    try {
      for await (const { type, data, messages, fault } of answer.events((habit) => this.#receiver.deviate(habit))) {
        if (fault !== undefined) throw new UpstreamError("upstream_protocol", fault);
        if (type === "endpoint" && !this.#endpoint) this.#setEndpoint(data);
        else for (const message of messages) this.#receiver.message(message);
      }
    } catch (error) {
      reason = error instanceof UpstreamError ? error.detail : "cut its event stream";
    }
    this.#finish(reason, false);
  }

  #setEndpoint(data: string): void {
    const { url } = this.#address;
    const endpoint = URL.canParse(data, url.href) ? new URL(data, url) : undefined;
    // Messages carry credentials.
    if (endpoint?.origin !== url.origin)
      throw new UpstreamError("upstream_protocol", "names an address of another origin");
    this.#endpoint = endpoint;
    this.#events.emit("endpoint");
  }

  #finish(reason: string, expected: boolean): void {
    if (this.#reason !== "") return;
    this.#reason = reason;
    const lost = connectionEnded("", reason, false);
    this.#stop.abort(lost);
    for (const request of this.#accepted.values())
      this.#receiver.failed(request, (what) => connectionEnded(what, reason, false));
    // Other posts may be rejected, and are then repeated.
    clock.after(expected ? 0 : REJECTION_MS, () => this.#posts.forEach((post) => post.abort(lost))).unref();
    this.#end({ reason, stderr: "", expected });
  }
}

/** How long a server that ended its stream may take to reject later posts. */
const REJECTION_MS = 1_000;

import { hkdfSync, randomUUID } from "node:crypto";
import {
  createServer as createHttpServer,
  type ClientRequest,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import { Agent, request as startRequest, type RequestOptions } from "node:https";
import { createServer as createListener, type AddressInfo, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { createSecureContext, TLSSocket } from "node:tls";
import { Cancellation, type CancelSignal } from "../lib/cancellation.ts";
import { BerthError } from "../lib/errors.ts";
import type { JsonObject } from "../lib/json.ts";
import type { Log } from "../lib/log.ts";
import { serialize, TransferReader } from "../lib/transfer.ts";
import { fixed } from "../limits/fixed.ts";
import type { Cluster } from "./cluster.ts";

export const nodeCallBounds = fixed({
  /** How long a call may take to reach another node, which rejects later ones, and those that expire in over twice that. */
  nodeCallMs: 5_000,
  /** The size of one message of a call: its request, its result, or a part in between. */
  nodeCallBytes: 64 * 1024 * 1024,
  /** Connections that a node accepts from other nodes. Each carries one call at a time. */
  nodeConnections: 1_000,
});

/** The fact that publishes where a node accepts calls. */
const ADDRESS = "calls";
/** Socket addresses of the operating system have no space for longer paths. */
const PATH_BYTES_MAX = 100;
/**
 * The minimum number of connections that may not have authenticated yet; half of all, if that is more, as a node opens
 * many at once. Above it, the oldest is closed.
 */
const UNAUTHENTICATED_MIN = 64;
/** How long an idle connection waits for the next call. The caller closes it earlier. */
const IDLE_MS = 10_000;
/** The maximum number of recent calls that are remembered, to reject replays. */
const ACCEPTED_MAX = 100_000;
/** The precision with which nodes know the clock of the store, by which calls expire. */
const CLOCK_PRECISION_MS = 500;
/** If the response takes longer, the node confirms first that it has accepted the call. */
const CONFIRM_AFTER_MS = 50;
/** Messages up to this size are sent in one piece. */
const SINGLE_WRITE_BYTES_MAX = 64 * 1024;
/** The limit on unread parts of one response; further parts are dropped. */
const UNREAD_BYTES_MAX = 1024 * 1024;

/**
 * Calls from one node to another over a direct connection, for what must not wait for the store or is too long for a
 * mailbox. It owns authentication (all nodes share a key), the expiry of calls, and protection against replays; it
 * knows nothing of what calls mean.
 *
 * A call is a POST over TLS with a pre-shared key, which each side proves to the other. Without the key, nobody on the
 * path can call, respond, read, modify, or replay anything. Within a machine, the connection is a socket in a folder
 * that only this user can access.
 */
export class NodeCalls {
  readonly #options: NodeCallsOptions;
  readonly #topics = new Map<string, NodeCallHandler>();
  /** Own calls use the first key; calls of other nodes may use any of them. */
  readonly #keys: readonly NodeKey[];
  readonly #agent: Agent;
  readonly #listener: Server;
  readonly #sockets = new Set<Socket>();
  /** Connections that have not authenticated, oldest first. */
  readonly #unauthenticated = new Set<Socket>();
  /** When each accepted call expires, by id, oldest first. */
  readonly #accepted = new Map<string, number>();
  /** Functions that end the running calls to and from each node. */
  readonly #running = new Map<string, Set<() => void>>();

  constructor(options: NodeCallsOptions) {
    this.#options = options;
    const { keys, cluster } = options;
    this.#keys = keys.map(deriveNodeKey);
    this.#agent = new Agent({ keepAlive: true, maxCachedSessions: 0, maxSockets: nodeCallBounds.nodeConnections });
    this.#listener = this.#listen();
    cluster.onGone((node) => {
      for (const end of this.#running.get(node) ?? []) end();
    });
  }

  /** Starts to accept calls. Other nodes learn the address when this node joins them. */
  async open(): Promise<void> {
    const { cluster, makeFolder, address: configuredAddress, log } = this.#options;
    if (configuredAddress) {
      await this.#listenAt(configuredAddress);
      const { port } = this.#listener.address() as AddressInfo;
      return cluster.say(ADDRESS, { host: configuredAddress.host, port });
    }
    try {
      const path = join(makeFolder("node-"), "calls");
      if (Buffer.byteLength(path) > PATH_BYTES_MAX) throw new Error(`the path ${path} is too long for a Unix socket`);
      await this.#listenAt({ path });
      void cluster.say(ADDRESS, { path });
    } catch (error) {
      log.warn({ err: error }, "a Unix socket for calls of other nodes could not be opened; using loopback");
      await this.#listenAt({ host: "127.0.0.1", port: 0 });
      const { address, port } = this.#listener.address() as AddressInfo;
      void cluster.say(ADDRESS, { host: address, port });
    }
  }

  /** Answers calls on a topic with the result of `handler`. */
  on(topic: string, handler: NodeCallHandler): void {
    this.#topics.set(topic, handler);
  }

  /**
   * Calls another node and resolves with its response. Rejects with `NotTaken` if the call was certainly not executed,
   * with `NodeLost` if it may have been, and with `cancelled` on abort of its signal.
   */
  call(to: string, topic: string, body: unknown, { signal, onPart }: NodeCallOptions = {}): Promise<unknown> {
    const { cluster, now } = this.#options;
    const address = readAddress(cluster.others.get(to));
    if (!address) return Promise.reject(new CallNotAccepted("it is not a living node"));
    const expires = now() + nodeCallBounds.nodeCallMs;
    const envelope: Envelope = { from: cluster.id, to, id: randomUUID(), expires, topic, body };
    if (signal?.aborted) return Promise.reject(new BerthError("cancelled"));
    return new Promise((resolve, reject) => {
      const request = startRequest({ ...this.#tls(), ...address, agent: this.#agent, method: "POST" });
      // A reused connection may be lost at the moment when this call is sent.
      let mayBeExecuted = false;
      let isSettled = false;
      const settle = (complete: () => void): void => {
        if (isSettled) return;
        isSettled = true;
        clearTimeout(timer);
        untrack();
        signal?.removeEventListener("abort", cancel);
        complete();
      };
      const fail = (error: unknown): void =>
        settle(() => {
          reject(error);
          request.destroy();
        });
      const failOnLoss = (cause?: unknown): void => {
        if (!isSettled) fail(mayBeExecuted ? new NodeLost(cause) : new CallNotAccepted("it cannot be reached", cause));
      };
      const cancel = (): void => fail(new BerthError("cancelled"));
      // The other node rejects calls that arrive later. This process may have been blocked, so it first reads what has
      // arrived.
      const giveUp = (): void => fail(new CallNotAccepted("it does not respond"));
      let timer = setTimeout(
        () => (timer = setTimeout(giveUp, CLOCK_PRECISION_MS)),
        nodeCallBounds.nodeCallMs + CLOCK_PRECISION_MS,
      );
      const untrack = this.#track(to, failOnLoss);
      signal?.addEventListener("abort", cancel);
      request.on("socket", (socket) => {
        if (request.reusedSocket) mayBeExecuted = true;
        else socket.once("secureConnect", () => (mayBeExecuted = true));
      });
      request.on("error", failOnLoss);
      request.on("response", (response) => {
        clearTimeout(timer);
        const reader = new TransferReader(nodeCallBounds.nodeCallBytes);
        response.on("error", failOnLoss);
        response.on("close", () => failOnLoss());
        response.on("data", (chunk: Buffer) => {
          try {
            for (const reply of reader.push(chunk) as Reply[]) {
              if ("part" in reply) onPart?.(reply.part);
              else if ("answer" in reply) settle(() => resolve(reply.answer));
              else if ("refused" in reply) fail(new CallNotAccepted(reply.refused));
              else fail(new BerthError("internal", "another node failed"));
            }
          } catch (error) {
            failOnLoss(error);
          }
        });
      });
      send(request, envelope);
    });
  }

  /** Registers `end` to be called when the node is gone. Returns a function that unregisters it. */
  #track(node: string, end: () => void): () => void {
    const ends = this.#running.get(node) ?? new Set();
    this.#running.set(node, ends.add(end));
    return () => {
      if (ends.delete(end) && ends.size === 0 && this.#running.get(node) === ends) this.#running.delete(node);
    };
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#listener.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    this.#agent.destroy();
    if (this.#listener.listening || this.#sockets.size > 0) await closed;
  }

  #tls(): RequestOptions {
    const [ownKey] = this.#keys;
    // There are no certificates: a key proves that its owner is a node.
    return {
      ...CIPHERS,
      pskCallback: () => ownKey,
      checkServerIdentity: () => undefined,
    } as RequestOptions;
  }

  #listenAt(endpoint: { path: string } | { host: string; port: number }): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#listener.once("error", reject);
      // Otherwise, a worker has its primary process listen and distribute the connections among all workers.
      this.#listener.listen({ ...endpoint, exclusive: true }, () => {
        this.#listener.off("error", reject);
        this.#listener.on("error", (error) =>
          this.#options.log.warn({ err: error }, "the listener for calls of other nodes failed"),
        );
        resolve();
      });
    });
  }

  #listen(): Server {
    const secureContext = createSecureContext(CIPHERS);
    const http = createHttpServer({ keepAliveTimeout: IDLE_MS }, (request, response) => {
      this.#unauthenticated.delete((request.socket as WithRawSocket)[RAW]);
      this.#handleRequest(request, response).catch(() => response.destroy());
    });
    const listener = createListener((raw) => {
      this.#trackConnection(raw);
      const socket = new TLSSocket(raw, {
        isServer: true,
        secureContext,
        pskCallback: (_socket: TLSSocket, identity: string) =>
          this.#keys.find((key) => key.identity === identity)?.psk ?? null,
      } as ConstructorParameters<typeof TLSSocket>[1]);
      socket.on("error", () => raw.destroy());
      socket.once("secure", () => {
        (socket as unknown as WithRawSocket)[RAW] = raw;
        http.emit("connection", socket);
      });
    });
    listener.maxConnections = nodeCallBounds.nodeConnections;
    return listener.unref();
  }

  /**
   * Until its first call, a connection is unauthenticated. It has a short time to complete the handshake and to begin.
   */
  #trackConnection(raw: Socket): void {
    this.#sockets.add(raw);
    this.#unauthenticated.add(raw);
    const timer = setTimeout(() => this.#unauthenticated.has(raw) && raw.destroy(), nodeCallBounds.nodeCallMs).unref();
    raw.on("error", () => raw.destroy());
    raw.on("close", () => {
      clearTimeout(timer);
      this.#sockets.delete(raw);
      this.#unauthenticated.delete(raw);
    });
    const limit = Math.max(UNAUTHENTICATED_MIN, nodeCallBounds.nodeConnections / 2);
    if (this.#unauthenticated.size > limit) for (const oldest of this.#unauthenticated) return void oldest.destroy();
  }

  async #handleRequest(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { log } = this.#options;
    const envelope = await this.#read(request);
    if (!envelope) return void request.socket.destroy();
    const handler = this.#topics.get(envelope.topic);
    const rejection = handler ? this.#rejectionReason(envelope) : "it does not know the topic";
    if (rejection !== undefined) return send(response, { refused: rejection });
    const signal = new Cancellation();
    const untrack = this.#track(envelope.from, () => response.destroy());
    response.on("close", () => {
      untrack();
      signal.abort();
    });
    // Confirms that the call is accepted if the response takes longer.
    const confirmTimer = setTimeout(() => response.flushHeaders(), CONFIRM_AFTER_MS);
    const part = (value: unknown): void => {
      if (response.writableLength > UNREAD_BYTES_MAX || response.destroyed) return;
      response.write(Buffer.concat(serialize({ part: value })));
    };
    try {
      send(response, { answer: await handler!(envelope.body, { from: envelope.from, signal, part }) });
    } catch (error) {
      if (error instanceof CallNotAccepted) return send(response, { refused: error.reason });
      log.error({ err: error, topic: envelope.topic }, "a call of another node failed");
      send(response, { failed: true });
    } finally {
      clearTimeout(confirmTimer);
    }
  }

  /** Resolves with undefined for a malformed call, or one that takes too long to arrive. */
  #read(request: IncomingMessage): Promise<Envelope | undefined> {
    const { nodeCallBytes, nodeCallMs } = nodeCallBounds;
    const reader = new TransferReader(nodeCallBytes);
    return new Promise((resolve) => {
      let envelope: unknown;
      const timer = setTimeout(() => request.destroy(), nodeCallMs);
      const fail = (error: unknown): void => {
        this.#options.log.warn({ err: error }, "a call of another node could not be read");
        request.destroy();
      };
      request.on("data", (chunk: Buffer) => {
        try {
          for (const value of reader.push(chunk)) envelope ??= value;
        } catch (error) {
          fail(error);
        }
      });
      request.on("error", fail);
      request.on("end", () => resolve(envelope as Envelope | undefined));
      request.on("close", () => {
        clearTimeout(timer);
        resolve(undefined);
      });
    });
  }

  /** Why a call is rejected, for its caller. */
  #rejectionReason({ from, to, id, expires }: Envelope): string | undefined {
    const { cluster, now } = this.#options;
    if (to !== cluster.id || from === cluster.id) return "the call is for another node";
    const time = now();
    if (expires <= time) return `the call took more than ${nodeCallBounds.nodeCallMs} ms to arrive`;
    if (expires > time + 2 * nodeCallBounds.nodeCallMs) return "the clocks of the two nodes differ too much";
    for (const [knownId, until] of this.#accepted) {
      if (until > time) break;
      this.#accepted.delete(knownId);
    }
    if (this.#accepted.has(id)) return "the call was accepted before";
    if (this.#accepted.size >= ACCEPTED_MAX) return "it has too many recent calls";
    this.#accepted.set(id, expires);
    return undefined;
  }
}

export interface NodeCallsOptions {
  readonly cluster: Pick<Cluster, "id" | "others" | "say" | "onGone">;
  /** Known to all nodes of the cluster, and to no one else. */
  readonly keys: readonly Uint8Array[];
  readonly now: () => number;
  readonly makeFolder: (prefix: string) => string;
  /** Where nodes on other machines reach this one; port 0 for any port. Without it, only nodes on this machine can. */
  readonly address?: { readonly host: string; readonly port: number } | undefined;
  readonly log: Log;
}

export interface NodeCallOptions {
  readonly signal?: CancelSignal | undefined;
  readonly onPart?: (part: unknown) => void;
}

/** Throws `NotTaken` if it does not start the call. */
export type NodeCallHandler = (body: unknown, call: ReceivedCall) => Promise<unknown>;

export interface ReceivedCall {
  readonly from: string;
  /** Aborted when the caller no longer waits. */
  readonly signal: CancelSignal;
  /** Sends a part ahead of the response, or drops it if the caller is too slow. */
  part(value: unknown): void;
}

/** The other node did not execute the call, so it may be repeated. */
export class CallNotAccepted extends Error {
  readonly reason: string;

  /** `reason` is what is wrong with the other node or the call. */
  constructor(reason: string, cause?: unknown) {
    super(`another node did not accept the call: ${reason}`, { cause });
    this.reason = reason;
  }
}

/** The other node was lost during the call and may have executed it. */
export class NodeLost extends Error {
  constructor(cause?: unknown) {
    super("another node was lost during the call", { cause });
  }
}

interface Envelope {
  readonly from: string;
  readonly to: string;
  readonly id: string;
  /** In the time of the store. */
  readonly expires: number;
  readonly topic: string;
  readonly body: unknown;
}

type Reply =
  | { readonly part: unknown }
  | { readonly answer: unknown }
  | { readonly refused: string }
  | { readonly failed: true };

/** Node.js does not support pre-shared keys in TLS 1.3. Ephemeral keys provide forward secrecy. */
const CIPHERS = { ciphers: "ECDHE-PSK-CHACHA20-POLY1305", minVersion: "TLSv1.2", maxVersion: "TLSv1.2" } as const;

interface NodeKey {
  readonly psk: Uint8Array;
  /** Distinguishes keys without revealing anything about them. */
  readonly identity: string;
}

function deriveNodeKey(key: Uint8Array): NodeKey {
  const derived = (what: string, bytes: number): Uint8Array => new Uint8Array(hkdfSync("sha256", key, "", what, bytes));
  return {
    psk: derived("berth: calls between nodes", 32),
    identity: Buffer.from(derived("berth: the key of calls between nodes", 9)).toString("base64url"),
  };
}

const RAW = Symbol("raw");
type WithRawSocket = IncomingMessage["socket"] & { [RAW]: Socket };

function readAddress(facts: JsonObject | undefined): Pick<RequestOptions, "socketPath" | "host" | "port"> | undefined {
  const { path, host, port } = (facts?.[ADDRESS] ?? {}) as JsonObject;
  if (typeof path === "string") return { socketPath: path };
  return typeof host === "string" && typeof port === "number" ? { host, port } : undefined;
}

/** Sends the last value of a message. A short one goes in one write together with the head. */
function send(message: ClientRequest | ServerResponse, value: Envelope | Reply): void {
  const pieces = serialize(value);
  const bytes = pieces.reduce((sum, { length }) => sum + length, 0);
  if (bytes <= SINGLE_WRITE_BYTES_MAX) return void message.end(Buffer.concat(pieces, bytes));
  for (const piece of pieces) message.write(piece);
  message.end();
}

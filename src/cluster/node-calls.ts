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
import { piecesOf, TransferReader } from "../lib/transfer.ts";
import { fixed } from "../limits/fixed.ts";
import type { Cluster } from "./cluster.ts";

export const nodeCallBounds = fixed({
  /** How long a call from one node may take to reach another, which refuses it later, and after twice that time. */
  nodeCallMs: 5_000,
  /** The longest message of such a call: its request, its result, or a line in between. */
  nodeCallBytes: 64 * 1024 * 1024,
  /** Connections that a node accepts from other nodes, each for one call at a time. */
  nodeConnections: 1_000,
});

/** The fact by which the others know where a node takes calls. */
const ADDRESS = "calls";
/** A longer path of a socket does not fit into what the system calls take for one. */
const PATH_BYTES_MAX = 100;
/**
 * Connections that may not have shown the key yet, or half of all, if that is more: a node opens many at a time. Beyond
 * that the oldest is cut.
 */
const STRANGERS_MIN = 64;
/** An idle connection is kept so long for the next call; the caller's end lets go first. */
const IDLE_MS = 10_000;
/** Calls that were taken lately, and cannot be taken again. */
const TAKEN_MAX = 100_000;
/** A call that expires is refused by the clock of the store, which processes read with this precision, or better. */
const LATE_MS = 500;
/** How long the answer may take before it is said that a call is taken. */
const TAKEN_MS = 50;
/** Pieces that are together no longer are sent as one. */
const JOINED_BYTES_MAX = 64 * 1024;
/** The unread part of one answer; further lines on its way are dropped. */
const UNREAD_BYTES_MAX = 1024 * 1024;

/**
 * Calls from one node to another, over a connection of their own: for what must not wait for the store, or is too long
 * for a letter. It owns who may call (the nodes, which share a key), how long a call is good for, and that it is taken
 * once; it knows nothing of what calls mean.
 *
 * A call is a POST over TLS with a pre-shared key, which each side proves to the other: nobody without it can call,
 * answer, read, change, or repeat anything, wherever the connection goes. Within a machine it goes through a socket in a
 * folder that only this user can enter.
 */
export class NodeCalls {
  readonly #options: NodeCallsOptions;
  readonly #topics = new Map<string, CallHandler>();
  /** The first one is shown to others, and each of them is taken. */
  readonly #keys: readonly NodeKey[];
  readonly #agent: Agent;
  readonly #listener: Server;
  readonly #sockets = new Set<Socket>();
  /** The oldest first. */
  readonly #strangers = new Set<Socket>();
  /** When each call expires that was taken, by its id: the oldest first. */
  readonly #taken = new Map<string, number>();
  /** Functions that end the calls under way to each node, and from it. */
  readonly #underWay = new Map<string, Set<() => void>>();

  constructor(options: NodeCallsOptions) {
    this.#options = options;
    const { keys, cluster } = options;
    this.#keys = keys.map(nodeKeyOf);
    this.#agent = new Agent({ keepAlive: true, maxCachedSessions: 0, maxSockets: nodeCallBounds.nodeConnections });
    this.#listener = this.#listen();
    cluster.onGone((node) => {
      for (const end of this.#underWay.get(node) ?? []) end();
    });
  }

  /** Takes calls from now on; the others know where as soon as this node joins them. */
  async open(): Promise<void> {
    const { cluster, makeFolder, address: at, log } = this.#options;
    if (at) {
      await this.#listenAt(at);
      const { port } = this.#listener.address() as AddressInfo;
      return cluster.say(ADDRESS, { host: at.host, port });
    }
    try {
      const path = join(makeFolder("node-"), "calls");
      if (Buffer.byteLength(path) > PATH_BYTES_MAX) throw new Error(`the path ${path} is too long for a socket`);
      await this.#listenAt({ path });
      void cluster.say(ADDRESS, { path });
    } catch (error) {
      log.warn(
        { err: error },
        "other nodes cannot call this one through a socket of the file system, and use loopback",
      );
      await this.#listenAt({ host: "127.0.0.1", port: 0 });
      const { address, port } = this.#listener.address() as AddressInfo;
      void cluster.say(ADDRESS, { host: address, port });
    }
  }

  /** Answers the calls about a topic with what `handler` resolves with. */
  on(topic: string, handler: CallHandler): void {
    this.#topics.set(topic, handler);
  }

  /**
   * Calls another node, and resolves with its answer. Rejects with `NotTaken` when the call was surely not carried out,
   * with `NodeLost` when it may have been, and with `cancelled` by its signal.
   */
  call(to: string, topic: string, body: unknown, { signal, onPart }: CallWays = {}): Promise<unknown> {
    const { cluster, now } = this.#options;
    const address = addressIn(cluster.others.get(to));
    if (!address) return Promise.reject(new NotTaken("it is not there"));
    const expires = now() + nodeCallBounds.nodeCallMs;
    const envelope: Envelope = { from: cluster.id, to, id: randomUUID(), expires, topic, body };
    if (signal?.aborted) return Promise.reject(new BerthError("cancelled"));
    return new Promise((resolve, reject) => {
      const request = startRequest({ ...this.#tls(), ...address, agent: this.#agent, method: "POST" });
      // A connection that a call before has used may be lost in the moment in which this one is sent.
      let mayBeTaken = false;
      let isSettled = false;
      const settle = (then: () => void): void => {
        if (isSettled) return;
        isSettled = true;
        clearTimeout(late);
        leave();
        signal?.removeEventListener("abort", cancel);
        then();
      };
      const fail = (error: unknown): void =>
        settle(() => {
          reject(error);
          request.destroy();
        });
      const lose = (cause?: unknown): void => {
        if (!isSettled) fail(mayBeTaken ? new NodeLost(cause) : new NotTaken("it cannot be reached", cause));
      };
      const cancel = (): void => fail(new BerthError("cancelled"));
      // A node that has not taken it by then refuses it. This one may have been held up: what has come is read first.
      const giveUp = (): void => fail(new NotTaken("it does not answer"));
      let late = setTimeout(() => (late = setTimeout(giveUp, LATE_MS)), nodeCallBounds.nodeCallMs + LATE_MS);
      const leave = this.#enter(to, lose);
      signal?.addEventListener("abort", cancel);
      request.on("socket", (socket) => {
        if (request.reusedSocket) mayBeTaken = true;
        else socket.once("secureConnect", () => (mayBeTaken = true));
      });
      request.on("error", lose);
      request.on("response", (response) => {
        clearTimeout(late);
        const reader = new TransferReader(nodeCallBounds.nodeCallBytes);
        response.on("error", lose);
        response.on("close", () => lose());
        response.on("data", (chunk: Buffer) => {
          try {
            for (const reply of reader.push(chunk) as Reply[]) {
              if ("part" in reply) onPart?.(reply.part);
              else if ("answer" in reply) settle(() => resolve(reply.answer));
              else if ("refused" in reply) fail(new NotTaken(reply.refused));
              else fail(new BerthError("internal", "another node failed"));
            }
          } catch (error) {
            lose(error);
          }
        });
      });
      send(request, envelope);
    });
  }

  /** Has `end` called when the node is gone, until the returned function is. */
  #enter(node: string, end: () => void): () => void {
    const ends = this.#underWay.get(node) ?? new Set();
    this.#underWay.set(node, ends.add(end));
    return () => {
      if (ends.delete(end) && ends.size === 0 && this.#underWay.get(node) === ends) this.#underWay.delete(node);
    };
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#listener.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    this.#agent.destroy();
    if (this.#listener.listening || this.#sockets.size > 0) await closed;
  }

  #tls(): RequestOptions {
    const [shown] = this.#keys;
    // There are no certificates: whoever has a key is a node.
    return {
      ...CIPHERS,
      pskCallback: () => shown,
      checkServerIdentity: () => undefined,
    } as RequestOptions;
  }

  #listenAt(where: { path: string } | { host: string; port: number }): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#listener.once("error", reject);
      // A worker would otherwise have its primary process listen, and share the connections among all workers.
      this.#listener.listen({ ...where, exclusive: true }, () => {
        this.#listener.off("error", reject);
        this.#listener.on("error", (error) => this.#options.log.warn({ err: error }, "calls of other nodes failed"));
        resolve();
      });
    });
  }

  #listen(): Server {
    const secureContext = createSecureContext(CIPHERS);
    const http = createHttpServer({ keepAliveTimeout: IDLE_MS }, (request, response) => {
      this.#strangers.delete((request.socket as Behind)[RAW]);
      this.#take(request, response).catch(() => response.destroy());
    });
    const listener = createListener((raw) => {
      this.#admit(raw);
      const socket = new TLSSocket(raw, {
        isServer: true,
        secureContext,
        pskCallback: (_socket: TLSSocket, identity: string) =>
          this.#keys.find((key) => key.identity === identity)?.psk ?? null,
      } as ConstructorParameters<typeof TLSSocket>[1]);
      socket.on("error", () => raw.destroy());
      socket.once("secure", () => {
        (socket as unknown as Behind)[RAW] = raw;
        http.emit("connection", socket);
      });
    });
    listener.maxConnections = nodeCallBounds.nodeConnections;
    return listener.unref();
  }

  /** Until its first call, a connection is a stranger's: it has a moment to show the key, and to begin. */
  #admit(raw: Socket): void {
    this.#sockets.add(raw);
    this.#strangers.add(raw);
    const timer = setTimeout(() => this.#strangers.has(raw) && raw.destroy(), nodeCallBounds.nodeCallMs).unref();
    raw.on("error", () => raw.destroy());
    raw.on("close", () => {
      clearTimeout(timer);
      this.#sockets.delete(raw);
      this.#strangers.delete(raw);
    });
    const most = Math.max(STRANGERS_MIN, nodeCallBounds.nodeConnections / 2);
    if (this.#strangers.size > most) for (const oldest of this.#strangers) return void oldest.destroy();
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { log } = this.#options;
    const envelope = await this.#read(request);
    if (!envelope) return void request.socket.destroy();
    const handler = this.#topics.get(envelope.topic);
    const refused = handler ? this.#refusal(envelope) : "it does not know what the call is about";
    if (refused !== undefined) return send(response, { refused });
    const signal = new Cancellation();
    const leave = this.#enter(envelope.from, () => response.destroy());
    response.on("close", () => {
      leave();
      signal.abort();
    });
    // Says that the call is taken, where the answer does not say it soon.
    const saying = setTimeout(() => response.flushHeaders(), TAKEN_MS);
    const part = (value: unknown): void => {
      if (response.writableLength > UNREAD_BYTES_MAX || response.destroyed) return;
      response.write(Buffer.concat(piecesOf({ part: value })));
    };
    try {
      send(response, { answer: await handler!(envelope.body, { from: envelope.from, signal, part }) });
    } catch (error) {
      if (error instanceof NotTaken) return send(response, { refused: error.reason });
      log.error({ err: error, topic: envelope.topic }, "a call of another node failed");
      send(response, { failed: true });
    } finally {
      clearTimeout(saying);
    }
  }

  /** Resolves with undefined for what is no call, or takes too long to arrive. */
  #read(request: IncomingMessage): Promise<Envelope | undefined> {
    const { nodeCallBytes, nodeCallMs } = nodeCallBounds;
    const reader = new TransferReader(nodeCallBytes);
    return new Promise((resolve) => {
      let envelope: unknown;
      const timer = setTimeout(() => request.destroy(), nodeCallMs);
      const fail = (error: unknown): void => {
        this.#options.log.warn({ err: error }, "a call of another node cannot be read");
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

  /** Why a call is not taken, for the node that makes it. */
  #refusal({ from, to, id, expires }: Envelope): string | undefined {
    const { cluster, now } = this.#options;
    if (to !== cluster.id || from === cluster.id) return "the call is for another node";
    const time = now();
    if (expires <= time) return `the call took more than ${nodeCallBounds.nodeCallMs} ms to arrive`;
    if (expires > time + 2 * nodeCallBounds.nodeCallMs) return "the call is from a node with another time";
    for (const [known, until] of this.#taken) {
      if (until > time) break;
      this.#taken.delete(known);
    }
    if (this.#taken.has(id)) return "the call was taken before";
    if (this.#taken.size >= TAKEN_MAX) return "it has too many calls at once";
    this.#taken.set(id, expires);
    return undefined;
  }
}

export interface NodeCallsOptions {
  readonly cluster: Pick<Cluster, "id" | "others" | "say" | "onGone">;
  /** Shared by all nodes, and by nobody else. */
  readonly keys: readonly Uint8Array[];
  /** The store's clock. */
  readonly now: () => number;
  readonly makeFolder: (prefix: string) => string;
  /** Where nodes of other machines reach this one, by any port if it is 0; without it, only those of this machine do. */
  readonly address?: { readonly host: string; readonly port: number } | undefined;
  readonly log: Log;
}

export interface CallWays {
  readonly signal?: CancelSignal | undefined;
  readonly onPart?: (part: unknown) => void;
}

/** Throws `NotTaken` for what it does not begin. */
export type CallHandler = (body: unknown, call: TakenCall) => Promise<unknown>;

export interface TakenCall {
  readonly from: string;
  /** Aborted when the caller no longer waits. */
  readonly signal: CancelSignal;
  /** Sends something before the answer, or drops it where the caller does not keep up. */
  part(value: unknown): void;
}

/** The other node did not carry out the call: it may be made again. */
export class NotTaken extends Error {
  readonly reason: string;

  /** `reason` says what is wrong with the other node, or with the call. */
  constructor(reason: string, cause?: unknown) {
    super(`another node did not take the call: ${reason}`, { cause });
    this.reason = reason;
  }
}

/** The other node was lost during the call, which it may have carried out. */
export class NodeLost extends Error {
  constructor(cause?: unknown) {
    super("another node was lost during the call", { cause });
  }
}

interface Envelope {
  readonly from: string;
  readonly to: string;
  readonly id: string;
  /** By the store's clock. */
  readonly expires: number;
  readonly topic: string;
  readonly body: unknown;
}

type Reply =
  | { readonly part: unknown }
  | { readonly answer: unknown }
  | { readonly refused: string }
  | { readonly failed: true };

/** TLS 1.3 takes no pre-shared keys from Node. Ephemeral keys keep what was said secret when the key gets known. */
const CIPHERS = { ciphers: "ECDHE-PSK-CHACHA20-POLY1305", minVersion: "TLSv1.2", maxVersion: "TLSv1.2" } as const;

interface NodeKey {
  readonly psk: Uint8Array;
  /** Tells keys apart, and reveals nothing of them. */
  readonly identity: string;
}

function nodeKeyOf(key: Uint8Array): NodeKey {
  const derived = (what: string, bytes: number): Uint8Array => new Uint8Array(hkdfSync("sha256", key, "", what, bytes));
  return {
    psk: derived("berth: calls between nodes", 32),
    identity: Buffer.from(derived("berth: the key of calls between nodes", 9)).toString("base64url"),
  };
}

/** The connection under that of TLS. */
const RAW = Symbol("raw");
type Behind = IncomingMessage["socket"] & { [RAW]: Socket };

function addressIn(facts: JsonObject | undefined): Pick<RequestOptions, "socketPath" | "host" | "port"> | undefined {
  const { path, host, port } = (facts?.[ADDRESS] ?? {}) as JsonObject;
  if (typeof path === "string") return { socketPath: path };
  return typeof host === "string" && typeof port === "number" ? { host, port } : undefined;
}

/** The last value of a message, short ones with the head of the message in one piece. */
function send(message: ClientRequest | ServerResponse, value: Envelope | Reply): void {
  const pieces = piecesOf(value);
  const bytes = pieces.reduce((sum, { length }) => sum + length, 0);
  if (bytes <= JOINED_BYTES_MAX) return void message.end(Buffer.concat(pieces, bytes));
  for (const piece of pieces) message.write(piece);
  message.end();
}

import { lookup, Resolver } from "node:dns/promises";
import { isIP, type LookupFunction } from "node:net";
import { Agent, buildConnector, type Dispatcher } from "undici";
import { GrowingBytes } from "../lib/growing-bytes.ts";
import type { ReadingTime } from "../lib/reading-time.ts";
import { authorityOf, NetworkRefused, portOf, type NetworkRules } from "./network-rules.ts";
import { readInSlices } from "./read-in-slices.ts";

/** In the order in which addresses are tried. */
export type Resolve = (hostname: string) => Promise<readonly string[]>;

export interface AgentOptions {
  readonly rules: NetworkRules;
  readonly connections: number;
  readonly resolve?: Resolve;
  /** The budget of time for reading responses. */
  readonly readingTime?: ReadingTime;
}

export function openAgentToAnywhere(): Agent {
  const connect = buildConnector({ timeout: CONNECT_MS });
  return bounded(new Agent({ ...IDLE, connect: (options, callback) => connect(options, sliced(callback)) }));
}

const CONNECT_MS = 10_000;
const IDLE_MS = 4_000;
const IDLE = { keepAliveTimeout: IDLE_MS, keepAliveMaxTimeout: IDLE_MS };

/**
 * Connections that follow the rules: each one resolves its host here and connects to an address that was checked and to
 * no other, whatever the name resolves to a moment later. All requests and redirects use them.
 */
export function openAgent({ rules, connections, resolve, readingTime }: AgentOptions): Agent {
  return bounded(
    new Agent({
      connections,
      pipelining: 1,
      ...IDLE,
      connect: (options, callback) => void connect(options, callback),
    }),
  );

  async function connect(options: buildConnector.Options, callback: buildConnector.Callback): Promise<void> {
    let addresses: readonly string[];
    try {
      const { hostname, protocol, port } = options;
      const at = portOf({ port: port ?? "", protocol });
      addresses = await checkedAddresses(hostname, at, rules, resolve ?? resolverFor(rules, at));
    } catch (error) {
      return callback(error as Error, null);
    }
    buildConnector({ timeout: CONNECT_MS, lookup: pinnedTo(addresses) })(options, sliced(callback, readingTime));
  }
}

function sliced(callback: buildConnector.Callback, readingTime?: ReadingTime): buildConnector.Callback {
  return (...[error, socket]) => {
    if (error) return callback(error, null);
    readInSlices(socket, readingTime);
    callback(null, socket);
  };
}

function bounded(agent: Agent): Agent {
  const dispatch = agent.dispatch.bind(agent);
  agent.dispatch = (options, handler) => dispatch(options, new BoundedHandler(handler));
  return agent;
}

/** Maximum interim responses (`103 Early Hints`): they are not read, so back-pressure does not bound them. */
const INTERIM_MAX = 16;
/** Smaller pieces of a body that arrive together are forwarded together. */
const SLICE_BYTES = 4 * 1024;

/**
 * Checks response heads before bodies are decoded, and forwards bodies in slices: forwarding and buffering one piece
 * costs as much as hundreds of bytes.
 *
 * Calls each method on the handler itself, because the handler stores there what its signal aborts.
 */
class BoundedHandler implements Dispatcher.DispatchHandler {
  readonly #handler: Dispatcher.DispatchHandler;
  readonly #buffered = new GrowingBytes();
  #interim = 0;
  #wantsMore = true;
  #isOver = false;

  constructor(handler: Dispatcher.DispatchHandler) {
    this.#handler = handler;
  }

  onConnect(...connected: Parameters<Required<Dispatcher.DispatchHandler>["onConnect"]>): void {
    this.#handler.onConnect?.(...connected);
  }

  /** Throws `NetworkRefused`. */
  onHeaders(status: number, headers: Buffer[], resume: () => void, text: string): boolean {
    if (status < 200 && ++this.#interim > INTERIM_MAX) {
      throw new NetworkRefused(`it sent more than ${INTERIM_MAX} interim answers`);
    }
    if (status >= 200) checkCoding(headers);
    const resumeAll = (): void => {
      this.#wantsMore = true;
      resume();
    };
    return this.#handler.onHeaders!(status, headers, resumeAll, text);
  }

  onData(piece: Buffer): boolean {
    if (this.#buffered.length === 0) {
      if (piece.length >= SLICE_BYTES) return (this.#wantsMore = this.#handler.onData!(piece));
      queueMicrotask(() => this.#flush());
    }
    this.#buffered.add(piece);
    if (this.#buffered.length >= SLICE_BYTES) this.#flush();
    return this.#wantsMore;
  }

  onComplete(trailers: string[] | null): void {
    this.#flush();
    this.#isOver = true;
    this.#handler.onComplete!(trailers);
  }

  onError(error: Error): void {
    this.#isOver = true;
    this.#handler.onError!(error);
  }

  #flush(): void {
    if (this.#buffered.length > 0 && !this.#isOver) this.#wantsMore = this.#handler.onData!(this.#buffered.take());
  }
}

const CONTENT_ENCODING = "content-encoding";
const CODING_UNITS_SHOWN = 60;

/**
 * The bytes sent bound the work of one coding; with nested codings, a few bytes can cause endless work without any
 * output. Throws `NetworkRefused`.
 */
function checkCoding(headers: readonly (Buffer | Buffer[])[]): void {
  const codings: string[] = [];
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const name = headers[at]!;
    if (name.length !== CONTENT_ENCODING.length || name.toString().toLowerCase() !== CONTENT_ENCODING) continue;
    codings.push(String(headers[at + 1]));
  }
  const all = codings.join(", ");
  if (!all.includes(",")) return;
  throw new NetworkRefused(`its answer has more than one Content-Encoding (${all.slice(0, CODING_UNITS_SHOWN)})`);
}

/** The addresses of a host that the rules allow at this port: at least one. Throws `NetworkRefused`. */
export async function checkedAddresses(
  hostname: string,
  port: number,
  rules: NetworkRules,
  resolve: Resolve,
): Promise<readonly string[]> {
  rules.checkHost(hostname, port);
  const found = isIP(hostname) === 0 ? await resolve(hostname) : [hostname];
  const allowed = found.filter((address) => rules.mayReach(address, port, hostname));
  if (allowed.length > 0) return allowed;
  const authority = authorityOf(hostname, port);
  if (found.length > 0) throw new NetworkRefused(`${authority} may not be reached: ${rules.explain(found, authority)}`);
  const unknown = new NetworkRefused(`${authority} may not be reached: the host has no address`);
  throw Object.assign(unknown, { code: "ENOTFOUND" });
}

/** Resolves to addresses that were already checked. */
export function pinnedTo(addresses: readonly string[]): LookupFunction {
  const all = addresses.map((address) => ({ address, family: isIP(address) }));
  return (_hostname, options, callback) => {
    if (options.all) callback(null, all);
    else callback(null, all[0]!.address, all[0]!.family);
  };
}

/**
 * Queries the machine's name servers directly. The system resolver runs in a few shared threads, which one slow name
 * server could block.
 */
export async function resolveHost(hostname: string): Promise<readonly string[]> {
  // RFC 6761: name servers are not asked for it.
  if (hostname === "localhost" || hostname.endsWith(".localhost")) return ["127.0.0.1", "::1"];
  const resolver = new Resolver({ timeout: RESOLVE_MS, tries: RESOLVE_TRIES });
  const answers = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)]);
  return answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
}

/** Hosts that the operator opened may be defined in this machine's hosts file, and may have short names. */
export function resolverFor(rules: NetworkRules, port?: number): Resolve {
  return async (hostname) => {
    if (!rules.isPrivateHost(hostname, port)) return resolveHost(hostname);
    const found = await lookup(hostname, { all: true, order: "verbatim" }).catch(() => []);
    return found.map(({ address }) => address);
  };
}

const RESOLVE_MS = 2_000;
const RESOLVE_TRIES = 2;

import { chownSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { Transform, type Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { request, type Dispatcher } from "undici";
import type { RegistryConfig } from "../config.ts";
import { fixed } from "../limits/fixed.ts";
import type { User } from "../processes/sandbox.ts";
import { setBounds } from "./set-bounds.ts";

const bounds = fixed({
  /** Requests to the registry in one run of npm, and the bytes of all its answers. */
  packageFetchRequests: 10_000,
  packageFetchBytes: 1024 * 1024 * 1024,
  /** The registry's description of all versions of one package, as it sends it. */
  packageAnswerBytes: 64 * 1024 * 1024,
});

/**
 * The host's end of the one way out that npm has in the sandbox: a Unix socket where it asks for descriptions of
 * packages and for tarballs, and for nothing else. Each request goes to the operator's registry, with the operator's
 * token, which npm never sees. One relay serves one run of npm and counts what that takes.
 */
export class RegistryRelay {
  readonly #options: RelayOptions;
  readonly #base: URL;
  readonly #server: Server;
  readonly #abort = new AbortController();
  #requests = 0;
  #bytes = 0;
  /** Why the first request was refused or cut off: the run asked for more than it may have. */
  refusal: string | undefined;
  /** The latest reason why the registry did not answer. */
  failure: string | undefined;

  constructor(options: RelayOptions) {
    this.#options = options;
    this.#base = new URL(options.registry.url);
    this.#server = createServer({ maxHeaderSize: HEADER_BYTES_MAX }, (asked, answer) => {
      this.#answer(asked, answer).catch(() => answer.destroy());
    });
  }

  /** Listens at a path in a folder that no other user of the machine can enter. */
  async listen(path: string, user: User | undefined): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      // Not by a primary process of this one, which would get its connections.
      this.#server.listen({ path, exclusive: true }, resolve);
    });
    if (user) chownSync(path, user.uid, user.gid);
  }

  /** The path of the registry's address, with a slash at the end. */
  get basePath(): string {
    return this.#base.pathname;
  }

  async close(): Promise<void> {
    this.#abort.abort();
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(asked: IncomingMessage, answer: ServerResponse): Promise<void> {
    asked.resume();
    answer.on("error", () => {});
    const { method = "", url = "" } = asked;
    if (method !== "GET" && method !== "HEAD") return this.#refuse(answer, `npm wanted to ${method} at the registry`);
    const { packageFetchRequests } = bounds;
    if (++this.#requests > packageFetchRequests) {
      return this.#refuse(answer, `this takes more than ${packageFetchRequests} requests to the registry`);
    }
    const [path = ""] = url.split("?", 1);
    const inside = path.startsWith(this.#base.pathname) ? path.slice(this.#base.pathname.length) : "";
    const kind = kindOfPath(inside);
    if (!kind) {
      const shown = JSON.stringify(path.slice(0, SHOWN_UNITS));
      return this.#refuse(answer, `npm asked for ${shown}, which is no package and no tarball of the registry`);
    }
    let response: Dispatcher.ResponseData | string;
    try {
      response = await this.#forward(new URL(path, this.#base), method, asked);
    } catch (error) {
      this.failure = `the registry does not answer (${reasonOf(error)})`;
      answer.writeHead(502).end();
      return;
    }
    if (typeof response === "string") return this.#refuse(answer, response);
    if (response.statusCode >= 500) this.failure = `the registry answers with status ${response.statusCode}`;
    await this.#pass(response, kind, answer, decodeURIComponent(inside));
  }

  /** The answer, after redirects; a string says why there is none. */
  async #forward(
    first: URL,
    method: "GET" | "HEAD",
    asked: IncomingMessage,
  ): Promise<Dispatcher.ResponseData | string> {
    const { registry, dispatcher } = this.#options;
    let target = first;
    for (let hops = 0; hops <= REDIRECTS_MAX; hops++) {
      const isOwn = target.origin === this.#base.origin;
      const response = await request(target, {
        method,
        dispatcher,
        signal: this.#abort.signal,
        headers: {
          ...headersOf(asked),
          ...(isOwn && registry.token !== undefined && { authorization: `Bearer ${registry.token}` }),
        },
      });
      const location = response.headers["location"];
      if (!REDIRECTS.has(response.statusCode) || typeof location !== "string") return response;
      response.body.on("error", () => {});
      response.body.destroy();
      const next = URL.canParse(location, target.href) ? new URL(location, target) : undefined;
      if (!next || !this.#mayFollow(next)) {
        const where = next ? next.origin : "nowhere";
        return (
          `the registry redirects to ${where}, which is not of the registry; ` +
          "where that is right, the operator can allow it with BERTH_REGISTRY_TARBALL_ORIGINS"
        );
      }
      target = next;
    }
    return `the registry redirects more than ${REDIRECTS_MAX} times`;
  }

  #mayFollow({ origin, username, password }: URL): boolean {
    const { tarballOrigins } = this.#options.registry;
    return username === "" && password === "" && (origin === this.#base.origin || tarballOrigins.includes(origin));
  }

  /** Passes an answer on as it comes, up to its limits. */
  async #pass(
    { statusCode, headers, body }: Dispatcher.ResponseData,
    kind: Kind,
    answer: ServerResponse,
    what: string,
  ): Promise<void> {
    const { packageAnswerBytes, packageFetchBytes } = bounds;
    const bytesMax = kind === "tarball" ? setBounds.packageBytes : packageAnswerBytes;
    const stop = (why: string): void => {
      this.refusal ??= why;
      body.on("error", () => {});
      body.destroy();
    };
    const tooLong = `${what} is larger than ${bytesMax} bytes`;
    if (Number(headers["content-length"] ?? 0) > bytesMax) {
      stop(tooLong);
      answer.writeHead(REFUSED).end();
      return;
    }
    const passed = PASSED_BACK.flatMap((name) => {
      const value = headers[name];
      return value === undefined ? [] : [[name, value] as const];
    });
    answer.writeHead(statusCode, Object.fromEntries(passed));
    let length = 0;
    const counted = new Transform({
      transform: (chunk: Buffer, _encoding, done) => {
        length += chunk.length;
        this.#bytes += chunk.length;
        if (length > bytesMax) return done(new Cut(tooLong));
        if (this.#bytes > packageFetchBytes) {
          return done(new Cut(`this takes more than ${packageFetchBytes} bytes from the registry`));
        }
        done(null, chunk);
      },
    });
    try {
      await pipeline(body as Readable, counted, answer);
    } catch (error) {
      if (error instanceof Cut) stop(error.message);
      else this.failure ??= `an answer of the registry ended early (${reasonOf(error)})`;
      answer.destroy();
    }
  }

  #refuse(answer: ServerResponse, why: string): void {
    this.refusal ??= why;
    // npm takes that as final, and tries others again.
    answer.writeHead(REFUSED).end();
  }
}

export interface RelayOptions {
  readonly registry: RegistryConfig;
  readonly dispatcher: Dispatcher;
}

/** The answer was cut off at a limit. */
class Cut extends Error {}

const REFUSED = 403;
const HEADER_BYTES_MAX = 16 * 1024;
const REDIRECTS_MAX = 3;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const SHOWN_UNITS = 120;

/** The headers that npm sends and gets; nothing else goes either way: no cookie, no token, no warning. */
const PASSED_ON = ["accept", "if-none-match", "if-modified-since"] as const;
const PASSED_BACK = [
  "content-type",
  "content-encoding",
  "content-length",
  "etag",
  "last-modified",
  "cache-control",
  "retry-after",
] as const;

function headersOf({ headers }: IncomingMessage): Record<string, string> {
  const passed: Record<string, string> = { "accept-encoding": "gzip", "user-agent": "berth" };
  for (const name of PASSED_ON) {
    const value = headers[name];
    if (typeof value === "string") passed[name] = value;
  }
  return passed;
}

type Kind = "description" | "tarball";

const PART = "[a-z0-9~][a-z0-9._~-]*";
const NAME = `(?:@${PART}(?:%2f|/))?${PART}`;
/** `@scope%2fname` */
const DESCRIPTION = new RegExp(`^${NAME}$`, "i");
/** `name/-/name-1.0.0.tgz`, with the scope once more for some; and the way of GitHub Packages. */
const TARBALL = new RegExp(
  `^(?:${NAME}/-/(?:@${PART}(?:%2f|/))?[a-z0-9](?:[a-z0-9._~+-]|%2b)*\\.tgz|download/${NAME}/[a-z0-9.+-]+/[a-z0-9]+)$`,
  "i",
);

/** Undefined for every other path: those under `-/` are of persons, tokens, and settings. */
function kindOfPath(path: string): Kind | undefined {
  if (path.length > PATH_UNITS_MAX || path.includes("..")) return undefined;
  if (TARBALL.test(path)) return "tarball";
  return DESCRIPTION.test(path) ? "description" : undefined;
}

const PATH_UNITS_MAX = 1_000;

/** A code, and never a message: those name addresses. */
function reasonOf(error: unknown): string {
  const { code, name } = error as { code?: unknown; name?: unknown };
  return typeof code === "string" ? code : String(name);
}

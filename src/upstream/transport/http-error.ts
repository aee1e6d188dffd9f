import { STATUS_CODES } from "node:http";
import { cutText } from "../../lib/cut-text.ts";
import { BerthError, type ErrorCode } from "../../lib/errors.ts";
import { isObject, tryParseJson } from "../../lib/json.ts";
import { printableLine } from "../../lib/printable.ts";
import { findMessages, quoted } from "../messages/messages.ts";
import { refusedByServer, UpstreamError } from "../messages/upstream-error.ts";
import type { HttpAnswer } from "./http-link.ts";
import type { Failure } from "./transport.ts";

export interface RemoteAddress {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly hasToken: boolean;
  /** Removes the values of launcher URI variables from the server's text. */
  readonly hide: (text: string) => string;
}

/** The failure of an HTTP error response, in the server's own words if it has any. */
export function statusFailure(answer: HttpAnswer, body: string, { hasToken, hide }: RemoteAddress): Failure {
  const { status, headers } = answer;
  const error = rpcErrorIn(body);
  if (error) return (what) => refusedByServer(what, error, { status });
  const description = hide(describeError(answer, body));
  const seconds = retryAfterSeconds(headers);
  const wait = seconds === undefined ? "" : `; it asks to wait ${seconds} s`;
  const name = STATUS_CODES[status] === undefined ? "" : ` ${STATUS_CODES[status]}`;
  const detail = `HTTP ${status}${name}${description === "" ? "" : `: ${description}`}${adviceFor(status, hasToken)}${wait}`;
  const data = { status, ...(seconds !== undefined && { retryAfterSeconds: seconds }) };
  // Like 429, these mean that nothing was done.
  const isUndone = NOT_DONE.has(status);
  return (what) => new UpstreamError("upstream_refused", `${what}: ${detail}`, { data, isUndone });
}

const NOT_DONE = new Set([400, 401, 403, 404, 405, 406, 413, 415, 429]);

function adviceFor(status: number, hasToken: boolean): string {
  switch (status) {
    case 401:
    case 403:
      return hasToken
        ? "; the token was refused: is it valid, and does it permit this?"
        : "; give a token as header.Authorization=Bearer%20${TOKEN}";
    case 404:
    case 405:
      return "; is the path right?";
    default:
      return "";
  }
}

function rpcErrorIn(body: string): Parameters<typeof refusedByServer>[1] | undefined {
  const [message] = findMessages(tryParseJson(body), () => {});
  if (!message || "method" in message || !isObject(message.error)) return undefined;
  const { code, message: text, data } = message.error;
  if (typeof code !== "number" || typeof text !== "string") return undefined;
  return { code, message: text, data };
}

/** The session of a request is lost (2025-11-25 `basic/transports`, "Session Management"); some servers say so with 400. */
export function isSessionLost(status: number, body: string): boolean {
  return status === 404 || (status === 400 && /\bsession\b|not initialized/i.test(body));
}

/**
 * The server's description of an error: problem details (RFC 9457), common JSON members, a challenge, or plain text.
 */
function describeError({ type, headers }: HttpAnswer, body: string): string {
  const challenge = [...(headers.get("www-authenticate") ?? "").matchAll(CHALLENGE)].map(([, part]) => part);
  const value = tryParseJson(body);
  const text = isObject(value) ? describeJson(value) : type === "text/html" || body.startsWith("<") ? "" : body;
  const line = (/[^\r\n]+/.exec(text.trim())?.[0] ?? "").trim();
  const all = [line, ...challenge].filter((each) => each !== "").join("; ");
  return printableLine(cutText(all, DESCRIPTION_UNITS));
}

const CHALLENGE = /\b((?:error_description|scope)="[^"]{1,300}")/g;
const DESCRIPTION_UNITS = 500;

function describeJson(value: Record<string, unknown>): string {
  const { title, detail, message, error, error_description: description } = value;
  const inner = isObject(error) ? (error["message"] ?? error["detail"]) : error;
  const texts = [title, detail ?? message ?? description ?? inner].filter((each) => typeof each === "string");
  return texts.length > 0 ? texts.join(": ") : quoted(value);
}

/** `Retry-After` in seconds or as a date (RFC 9110 section 10.2.3). */
export function retryAfterSeconds(headers: HttpAnswer["headers"]): number | undefined {
  const value = headers.get("retry-after")?.trim() ?? "";
  if (/^\d{1,9}$/.test(value)) return Number(value);
  // A date by another machine's clock.
  // oxlint-disable-next-line no-restricted-properties
  const ms = value === "" ? NaN : Date.parse(value) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.max(0, Math.ceil(ms / 1000));
}

/** The failure of a successful response that has no usable message. */
export function contentFailure({ status, type }: HttpAnswer, text: string, { hide }: RemoteAddress): Failure {
  const isEmpty = text.trim() === "";
  const form = isEmpty
    ? `HTTP ${status} and no content${type === "" ? "" : ` (${cutText(type, TYPE_UNITS)})`}`
    : type === "application/json"
      ? "JSON that is not a message"
      : type === ""
        ? `HTTP ${status} and no Content-Type, not as an MCP server`
        : `${cutText(type, TYPE_UNITS)}, not as an MCP server`;
  const content = isEmpty ? "" : `: ${hide(quoted(text))}`;
  return (what) =>
    new UpstreamError("upstream_protocol", `${what}: it answers with ${form}${content}; is the path right?`);
}

const TYPE_UNITS = 100;

/** The failure of a request that got no response, or only a part of one. */
export function networkFailure(error: unknown, { url }: RemoteAddress): Failure {
  if (error instanceof UpstreamError) {
    const { code, data, isUndone, detail } = error;
    return (what) => new UpstreamError(code, `${what}: ${detail}`, { ...(data && { data }), isUndone, cause: error });
  }
  if (error instanceof BerthError) return () => error;
  const system = systemCodeOf(error);
  const description = describeSystemError(system, url) ?? describeCauses(error);
  if (system !== undefined && CUT.has(system)) {
    return (what) => new UpstreamError("upstream_ended", `${what}: ${description}`, { cause: error });
  }
  // Without a system error code, something was reached that violates HTTP.
  const code: ErrorCode = system === undefined ? "upstream_protocol" : "upstream_not_started";
  return (what) => new UpstreamError(code, `${what}: ${description}`, { isUndone: system !== undefined, cause: error });
}

/** True if nothing was reached, or the connection broke: the server may be gone. */
export function isLoss(error: unknown): boolean {
  return !(error instanceof BerthError) && systemCodeOf(error) !== undefined;
}

const CUT = new Set(["ECONNRESET", "EPIPE", "UND_ERR_SOCKET", "UND_ERR_BODY_TIMEOUT", "UND_ERR_HEADERS_TIMEOUT"]);

function describeSystemError(code: string | undefined, { protocol, host, hostname }: URL): string | undefined {
  switch (code) {
    case "ECONNREFUSED":
      return `nothing listens at ${host} (${code}); start the server there, or correct its address`;
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return `the host ${hostname} cannot be found (${code}); correct its name, or check the name service of this machine`;
    case "ETIMEDOUT":
    case "EHOSTUNREACH":
    case "ENETUNREACH":
    case "UND_ERR_CONNECT_TIMEOUT":
      return `${host} does not answer (${code}); correct its address, or check the route to it: a firewall, a VPN, a proxy`;
    case "EPROTO":
    case "ERR_SSL_WRONG_VERSION_NUMBER":
      return `${host} does not speak TLS there (${code}); is its address one of http, not https?`;
    case "ECONNRESET":
    case "EPIPE":
    case "UND_ERR_SOCKET": {
      const advice =
        protocol === "http:" ? "is its address one of https, and is it an MCP server?" : "is it an MCP server?";
      return `${host} closed the connection without an answer (${code}); ${advice}`;
    }
    default:
      return undefined;
  }
}

function systemCodeOf(error: unknown): string | undefined {
  const codes = causesOf(error).flatMap(({ code }) => (typeof code === "string" ? [code] : []));
  return codes.find((code) => SYSTEM_CODE.test(code));
}

/** The codes of sockets, name look-ups, TLS, and undici. */
const SYSTEM_CODE = /^(?:E[A-Z_]+|UND_ERR_[A-Z_]+)$/;

/** The causes are more specific than `fetch failed`. */
function describeCauses(error: unknown): string {
  const messages: string[] = [];
  for (const { message } of causesOf(error)) {
    if (message !== "" && !messages.some((known) => known.includes(message))) messages.push(message);
  }
  return (messages.length > 1 ? messages.filter((each) => each !== "fetch failed") : messages).join(": ");
}

/** An error and its causes; of several attempts, the first. */
function causesOf(error: unknown): (Error & { readonly code?: unknown })[] {
  const causes: Error[] = [];
  for (let at = error; at instanceof Error && causes.length < CAUSES_MAX;) {
    causes.push(at);
    at = at instanceof AggregateError ? at.errors[0] : at.cause;
  }
  return causes;
}

const CAUSES_MAX = 10;

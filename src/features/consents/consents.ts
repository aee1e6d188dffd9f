import { hash, randomUUID } from "node:crypto";
import type { Checked, Consent, ConsentPort } from "../../host/calls/consent.ts";
import type { CalledTool } from "../../host/journal/record.ts";
import type { CallOptions } from "../../host/offers/catalog.ts";
import { canonicalJson, digestOfJson } from "../../lib/canonical-json.ts";
import { BerthError } from "../../lib/errors.ts";
import {
  isObject,
  JsonText,
  tryParseObject,
  type JsonDigest,
  type JsonObject,
  type JsonSchema,
} from "../../lib/json.ts";
import type { Records } from "../../lib/records.ts";
import type { Sealer } from "../../lib/seal.ts";
import { fixed } from "../../limits/fixed.ts";
import { CONSENT_KEY, consentQuestion, readConsent } from "../../outcome/consent.ts";
import { REQUEST_STATE_MS } from "../../outcome/question.ts";
import type { FeatureCore } from "../feature.ts";
import { shownArguments, visible } from "./format-arguments.ts";

const bounds = fixed({
  /** How long a user may take to consent to a call. */
  consentMs: 300_000,
  /** The arguments shown to the user; longer ones are cut in the middle. */
  consentCharacters: 4_000,
});

/**
 * The user's consent to exactly one call of a tool listed in its entry's "consent". The question's key contains what
 * the consent is for, sealed, so an answer is valid in any process and for nothing else; a record makes it valid only
 * once. It knows no protocol: consent is a question like any other.
 */
export class Consents implements ConsentPort {
  readonly #parts: ConsentParts;

  constructor(parts: ConsentParts) {
    this.#parts = parts;
  }

  forTool(tool: CalledTool, inputSchema: JsonSchema): Consent {
    const { properties } = inputSchema;
    const schemaNames = new Set(isObject(properties) ? Object.keys(properties) : []);
    return { check: (args, options) => this.#check({ ...tool, schemaNames: schemaNames }, args, options) };
  }

  async #check(
    { schemaNames, ...tool }: ToolWithSchema,
    args: JsonObject | JsonText,
    options: CallOptions,
  ): Promise<Checked> {
    const digest = args instanceof JsonText ? args.givenDigest : digestOfJson(args);
    const answered = Object.entries(options.answers ?? {}).findLast(([key]) => key.startsWith(CONSENT_KEY));
    const call: PendingCall = { tool, digest, principal: options.principal?.id ?? null, options };
    if (!answered) return this.#ask(call, args, schemaNames);
    const [key, answer] = answered;
    const request = this.#open(tool.tenant, key);
    if (typeof request === "string") return this.#refuse(call, request);
    const refusal = findMismatch(request, call) ?? (await this.#findOutdated(request, tool));
    if (refusal) return this.#refuse(call, refusal, request.id);
    return this.#use(call, request, readConsent(answer));
  }

  async #ask(
    call: PendingCall,
    args: JsonObject | JsonText,
    schemaNames: ToolWithSchema["schemaNames"],
  ): Promise<Checked> {
    const { sealer, records } = this.#parts;
    const { consentMs, consentCharacters } = bounds;
    const { tool, digest, principal } = call;
    const { server, release, tool: name } = tool;
    const until = records.now() + consentMs;
    const isServed = (await this.#servedRelease(tool)) === release;
    const details = { id: randomUUID(), principal, server, release, tool: name, digest: digest.sha256 };
    const request: ConsentRequest = { ...details, until, ...(isServed && { isServed }) };
    const key = CONSENT_KEY + sealer.seal(sealBinding(tool.tenant), request, consentMs + RECORD_MS);
    const json = args instanceof JsonText ? args.text : canonicalJson(args);
    const message = formatMessage(call, shownArguments(json, consentCharacters, schemaNames));
    await this.#audit(call, { outcome: "asked", consent: request.id });
    return { asked: { inputRequests: { [key]: consentQuestion(message) }, hint: formatHint(tool) } };
  }

  /** The request in the key, or why it is invalid here. */
  #open(tenant: string, key: string): ConsentRequest | Refusal {
    try {
      return this.#parts.sealer.unseal(sealBinding(tenant), key.slice(CONSENT_KEY.length)) as ConsentRequest;
    } catch (error) {
      if (error instanceof BerthError) return "unknown";
      throw error;
    }
  }

  /** A call that waits in its session is for the release that was served when it asked. */
  async #findOutdated({ isServed, release }: ConsentRequest, tool: CalledTool): Promise<Refusal | undefined> {
    return isServed && (await this.#servedRelease(tool)) !== release ? "release" : undefined;
  }

  /** Undefined if the server is not currently served. */
  async #servedRelease({ tenant, server }: CalledTool): Promise<string | undefined> {
    try {
      return await this.#parts.servedRelease(tenant, server);
    } catch (error) {
      if (error instanceof BerthError && error.code.startsWith("server_")) return undefined;
      throw error;
    }
  }

  /** Uses up the consent: of all concurrent attempts, on any node, only one succeeds. */
  async #use(call: PendingCall, request: ConsentRequest, answer: ReturnType<typeof readConsent>): Promise<Checked> {
    const { records } = this.#parts;
    const { tenant } = call.tool;
    const record = await records.record(tenant, KIND, request.id);
    const isFirst = record === undefined;
    if (isFirst && request.until <= records.now()) return this.#refuse(call, "expired", request.id);
    if (!isFirst && !(answer === "given" && isAwaited(record.value, call.options.answers))) {
      return this.#refuse(call, "used", request.id);
    }
    const revision = await this.#put(tenant, request, TAKEN, record?.revision ?? 0);
    if (revision === undefined) return this.#refuse(call, "used", request.id);
    if (answer !== "given") {
      await this.#audit(call, { outcome: "declined", by: answer, consent: request.id });
      const what = answer === "declined" ? "declined it" : "cancelled the question";
      return {
        refused: `The tool "${call.tool.tool}" was not called: the user was asked about this call, and ${what}.`,
      };
    }
    if (isFirst) await this.#audit(call, { outcome: "granted", consent: request.id });
    return {
      waitsFor: async (keys) => {
        await this.#put(tenant, request, JSON.stringify({ awaits: keys.map(shortenKey) }), revision);
      },
    };
  }

  /** Lasts longer than the consent can be presented, and than a call can wait for further answers. */
  async #put(
    tenant: string,
    { id, until }: ConsentRequest,
    value: string,
    expected: number,
  ): Promise<number | undefined> {
    const { records } = this.#parts;
    const expiresAt = Math.max(until, records.now() + REQUEST_STATE_MS) + RECORD_MS;
    return records.putRecord(tenant, KIND, id, { value, expected, expiresAt });
  }

  async #refuse(call: PendingCall, reason: Refusal, consent?: string): Promise<Checked> {
    await this.#audit(call, { outcome: "refused", reason: reason, ...(consent !== undefined && { consent }) });
    const hint = "Call it again without the answer to be asked again.";
    return { refused: `The tool "${call.tool.tool}" was not called: ${REASONS[reason]}. ${hint}` };
  }

  async #audit({ tool, digest, principal, options }: PendingCall, outcome: ConsentOutcome): Promise<void> {
    const { tenant, ...call } = tool;
    await this.#parts.audit.consent(tenant, {
      ...outcome,
      ...call,
      ...(principal !== null && { principal }),
      ...(options.trace && { requestId: options.trace.requestId }),
      arguments: { bytes: digest.bytes, sha256: Buffer.from(digest.sha256, "base64url").toString("hex") },
    });
  }
}

export interface ConsentParts {
  readonly sealer: Sealer;
  readonly records: Pick<Records, "now" | "record" | "putRecord">;
  readonly audit: FeatureCore["audit"];
  readonly servedRelease: FeatureCore["servedRelease"];
}

/** The outcome of a consent, for the audit log: contains only the size and digest of the arguments. */
type ConsentOutcome =
  | { readonly outcome: "asked" | "granted"; readonly consent: string }
  | { readonly outcome: "declined"; readonly by: string; readonly consent: string }
  | { readonly outcome: "refused"; readonly reason: Refusal; readonly consent?: string };

interface ToolWithSchema extends CalledTool {
  /** The names in its schema. */
  readonly schemaNames: ReadonlySet<string>;
}

interface PendingCall {
  readonly tool: CalledTool;
  readonly digest: JsonDigest;
  readonly principal: string | null;
  readonly options: CallOptions;
}

/** The call that a consent is for, as contained in its key. */
interface ConsentRequest {
  readonly id: string;
  readonly principal: string | null;
  readonly server: string;
  readonly release: string;
  readonly tool: string;
  readonly digest: string;
  /** Milliseconds since the epoch. */
  readonly until: number;
  /** True if its release was the served one, and not an earlier one. */
  readonly isServed?: boolean;
}

const REASONS = {
  principal: "the user's consent was given to another principal",
  server: "the user's consent was to a call of another server",
  release: "the user's consent was to a call of another release of this server, which has changed since",
  tool: "the user's consent was to a call of another tool",
  arguments: "the user's consent was to a call with other arguments",
  used: "the user's consent was to one call, and has been used",
  expired: "the user's consent has expired",
  unknown: "the answer does not belong to any question asked here",
} as const;

type Refusal = keyof typeof REASONS;

function findMismatch(request: ConsentRequest, { tool, digest, principal }: PendingCall): Refusal | undefined {
  if (request.principal !== principal) return "principal";
  if (request.server !== tool.server) return "server";
  if (request.tool !== tool.tool) return "tool";
  if (request.release !== tool.release) return "release";
  return request.digest === digest.sha256 ? undefined : "arguments";
}

/** True for a call that the user consented to, that then asked a question itself, and now comes with its answer. */
function isAwaited(value: string, answers: CallOptions["answers"] = {}): boolean {
  const awaits = tryParseObject(value)?.["awaits"];
  return Array.isArray(awaits) && Object.keys(answers).some((key) => awaits.includes(shortenKey(key)));
}

/** The keys of questions may be long. */
function shortenKey(key: string): string {
  return hash("sha256", key, "base64url").slice(0, KEY_LETTERS);
}

const KEY_LETTERS = 22;

const KIND = "consent";
const TAKEN = "{}";
/** How long expired consents can be distinguished from unknown ones, and used ones are recorded. */
const RECORD_MS = 24 * 3_600_000;

function sealBinding(tenant: string): string[] {
  return ["consent", tenant];
}

function formatMessage({ tool, digest }: PendingCall, args: string): string {
  const { server, tool: name } = tool;
  const sha256 = Buffer.from(digest.sha256, "base64url").toString("hex");
  return [
    `${quote(server)} asks to run its tool ${quote(name)} once. Do you consent?`,
    `Its arguments, ${digest.bytes} bytes with the SHA-256 ${sha256}:`,
    "```",
    args,
    "```",
  ].join("\n");
}

function quote(name: string): string {
  return visible(JSON.stringify(name), NAME_CHARACTERS);
}

const NAME_CHARACTERS = 200;

function formatHint({ server, tool }: CalledTool): string {
  return (
    `each call of the tool "${tool}" of "${server}" needs the consent of the user; use a client that can ask its user with a ` +
    'form (elicitation), or have the tool removed from "consent" in its entry in mcps'
  );
}

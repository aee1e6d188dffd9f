import { hash, randomUUID } from "node:crypto";
import type { Checked, Consent, ConsentPort } from "../../host/calls/consent.ts";
import type { CalledTool } from "../../host/journal/record.ts";
import type { CallOptions } from "../../host/offers/catalog.ts";
import { canonicalJson, digestOfJson } from "../../lib/canonical-json.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject, JsonText, soundObject, type JsonDigest, type JsonObject, type JsonSchema } from "../../lib/json.ts";
import type { Records } from "../../lib/records.ts";
import type { Sealer } from "../../lib/seal.ts";
import { fixed } from "../../limits/fixed.ts";
import { CONSENT_KEY, consentQuestion, readConsent } from "../../outcome/consent.ts";
import { REQUEST_STATE_MS } from "../../outcome/question.ts";
import type { FeatureCore } from "../feature.ts";
import { shownArguments, visible } from "./shown-arguments.ts";

const bounds = fixed({
  /** How long a user may take to consent to a call that its entry's "consent" asks about. */
  consentMs: 300_000,
  /** The arguments of such a call that the user is shown; longer ones are cut in their middle. */
  consentCharacters: 4_000,
});

/**
 * The user's consent to exactly one call of a tool that its entry names in "consent". The question's key carries what it
 * is for, sealed, so an answer counts in any process, and for nothing else; a record makes it count once. It knows no
 * protocol: to every way of calling a tool, consent is a question like others.
 */
export class Consents implements ConsentPort {
  readonly #parts: ConsentParts;

  constructor(parts: ConsentParts) {
    this.#parts = parts;
  }

  of(tool: CalledTool, inputSchema: JsonSchema): Consent {
    const { properties } = inputSchema;
    const known = new Set(isObject(properties) ? Object.keys(properties) : []);
    return { check: (args, options) => this.#check({ ...tool, known }, args, options) };
  }

  async #check({ known, ...tool }: ShownTool, args: JsonObject | JsonText, options: CallOptions): Promise<Checked> {
    const digest = args instanceof JsonText ? args.givenDigest : digestOfJson(args);
    const given = Object.entries(options.answers ?? {}).findLast(([key]) => key.startsWith(CONSENT_KEY));
    const call: AskedCall = { tool, digest, principal: options.principal?.id ?? null, options };
    if (!given) return this.#ask(call, args, known);
    const [key, answer] = given;
    const asked = this.#opened(tool.tenant, key);
    if (typeof asked === "string") return this.#refuse(call, asked);
    const why = whyNotFor(asked, call) ?? (await this.#whyNotNow(asked, tool));
    if (why) return this.#refuse(call, why, asked.id);
    return this.#use(call, asked, readConsent(answer));
  }

  async #ask(call: AskedCall, args: JsonObject | JsonText, known: ShownTool["known"]): Promise<Checked> {
    const { sealer, records } = this.#parts;
    const { consentMs, consentCharacters } = bounds;
    const { tool, digest, principal } = call;
    const { server, release, tool: name } = tool;
    const until = records.now() + consentMs;
    const isServed = (await this.#servedRelease(tool)) === release;
    const own = { id: randomUUID(), principal, server, release, tool: name, digest: digest.sha256 };
    const asked: Asked = { ...own, until, ...(isServed && { isServed }) };
    const key = CONSENT_KEY + sealer.seal(bindingOf(tool.tenant), asked, consentMs + KNOWN_MS);
    const json = args instanceof JsonText ? args.text : canonicalJson(args);
    const message = messageOf(call, shownArguments(json, consentCharacters, known));
    await this.#tell(call, { outcome: "asked", consent: asked.id });
    return { asked: { inputRequests: { [key]: consentQuestion(message) }, hint: hintOf(tool) } };
  }

  /** The call that the key is for, or why it is for nothing here. */
  #opened(tenant: string, key: string): Asked | Why {
    try {
      return this.#parts.sealer.unseal(bindingOf(tenant), key.slice(CONSENT_KEY.length)) as Asked;
    } catch (error) {
      if (error instanceof BerthError) return "unknown";
      throw error;
    }
  }

  /** A call that waits for the answer in its session still means the release that is served no more. */
  async #whyNotNow({ isServed, release }: Asked, tool: CalledTool): Promise<Why | undefined> {
    return isServed && (await this.#servedRelease(tool)) !== release ? "release" : undefined;
  }

  /** Undefined where the server is not served now. */
  async #servedRelease({ tenant, server }: CalledTool): Promise<string | undefined> {
    try {
      return await this.#parts.servedRelease(tenant, server);
    } catch (error) {
      if (error instanceof BerthError && error.code.startsWith("server_")) return undefined;
      throw error;
    }
  }

  /** Takes the consent: of all who try it, at whatever node, one gets it. */
  async #use(call: AskedCall, asked: Asked, answer: ReturnType<typeof readConsent>): Promise<Checked> {
    const { records } = this.#parts;
    const { tenant } = call.tool;
    const found = await records.record(tenant, KIND, asked.id);
    const isFirst = found === undefined;
    if (isFirst && asked.until <= records.now()) return this.#refuse(call, "expired", asked.id);
    if (!isFirst && !(answer === "given" && isAwaited(found.value, call.options.answers))) {
      return this.#refuse(call, "used", asked.id);
    }
    const revision = await this.#put(tenant, asked, TAKEN, found?.revision ?? 0);
    if (revision === undefined) return this.#refuse(call, "used", asked.id);
    if (answer !== "given") {
      await this.#tell(call, { outcome: "declined", by: answer, consent: asked.id });
      const what = answer === "declined" ? "declined it" : "cancelled the question";
      return {
        refused: `The tool "${call.tool.tool}" was not called: the user was asked about this call, and ${what}.`,
      };
    }
    if (isFirst) await this.#tell(call, { outcome: "granted", consent: asked.id });
    return {
      waitsFor: async (keys) => {
        await this.#put(tenant, asked, JSON.stringify({ awaits: keys.map(shortened) }), revision);
      },
    };
  }

  /** Longer than the consent can be shown, and than a call can wait for further answers. */
  async #put(tenant: string, { id, until }: Asked, value: string, expected: number): Promise<number | undefined> {
    const { records } = this.#parts;
    const expiresAt = Math.max(until, records.now() + REQUEST_STATE_MS) + KNOWN_MS;
    return records.putRecord(tenant, KIND, id, { value, expected, expiresAt });
  }

  async #refuse(call: AskedCall, why: Why, consent?: string): Promise<Checked> {
    await this.#tell(call, { outcome: "refused", reason: why, ...(consent !== undefined && { consent }) });
    const remedy = "Call it again without the answer to be asked anew.";
    return { refused: `The tool "${call.tool.tool}" was not called: ${REASONS[why]}. ${remedy}` };
  }

  async #tell({ tool, digest, principal, options }: AskedCall, facts: ConsentOutcome): Promise<void> {
    const { tenant, ...named } = tool;
    await this.#parts.audit.consent(tenant, {
      ...facts,
      ...named,
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

/** The fate of a consent, for the audit log: nothing of the arguments but their size and digest. */
type ConsentOutcome =
  | { readonly outcome: "asked" | "granted"; readonly consent: string }
  | { readonly outcome: "declined"; readonly by: string; readonly consent: string }
  | { readonly outcome: "refused"; readonly reason: Why; readonly consent?: string };

interface ShownTool extends CalledTool {
  /** The names in its schema. */
  readonly known: ReadonlySet<string>;
}

interface AskedCall {
  readonly tool: CalledTool;
  readonly digest: JsonDigest;
  readonly principal: string | null;
  readonly options: CallOptions;
}

/** The call that a consent is for, as its key carries it. */
interface Asked {
  readonly id: string;
  readonly principal: string | null;
  readonly server: string;
  readonly release: string;
  readonly tool: string;
  readonly digest: string;
  /** Milliseconds since the epoch. */
  readonly until: number;
  /** True if its release was the one that the server's name stood for, and not an earlier one. */
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
  unknown: "the answer is to no question that was asked here",
} as const;

type Why = keyof typeof REASONS;

function whyNotFor(asked: Asked, { tool, digest, principal }: AskedCall): Why | undefined {
  if (asked.principal !== principal) return "principal";
  if (asked.server !== tool.server) return "server";
  if (asked.tool !== tool.tool) return "tool";
  if (asked.release !== tool.release) return "release";
  return asked.digest === digest.sha256 ? undefined : "arguments";
}

/** True for a call that the user consented to, asked something itself, and now comes with an answer to that. */
function isAwaited(value: string, answers: CallOptions["answers"] = {}): boolean {
  const awaits = soundObject(value)?.["awaits"];
  return Array.isArray(awaits) && Object.keys(answers).some((key) => awaits.includes(shortened(key)));
}

/** The keys of questions may be long. */
function shortened(key: string): string {
  return hash("sha256", key, "base64url").slice(0, KEY_LETTERS);
}

const KEY_LETTERS = 22;

const KIND = "consent";
const TAKEN = "{}";
/** How long an expired consent is still told from one that Berth never asked for, and a used one remembered. */
const KNOWN_MS = 24 * 3_600_000;

function bindingOf(tenant: string): string[] {
  return ["consent", tenant];
}

function messageOf({ tool, digest }: AskedCall, shown: string): string {
  const { server, tool: name } = tool;
  const sha256 = Buffer.from(digest.sha256, "base64url").toString("hex");
  return [
    `${quoted(server)} asks to run its tool ${quoted(name)} once. Do you consent?`,
    `Its arguments, ${digest.bytes} bytes with the SHA-256 ${sha256}:`,
    "```",
    shown,
    "```",
  ].join("\n");
}

function quoted(name: string): string {
  return visible(JSON.stringify(name), NAME_CHARACTERS);
}

const NAME_CHARACTERS = 200;

function hintOf({ server, tool }: CalledTool): string {
  return (
    `each call of the tool "${tool}" of "${server}" needs the consent of the user; use a client that can ask its user with a ` +
    'form (elicitation), or have the tool taken out of "consent" in the entry of mcps'
  );
}

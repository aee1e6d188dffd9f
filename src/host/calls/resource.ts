import { appContents } from "../../contract/apps.ts";
import type { CompiledApp } from "../../discover/discovery.ts";
import type { OfferedResource } from "../../entry/offer.ts";
import type { GuestOutcome } from "../../executor/executor.ts";
import type { Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import { argumentsSchema } from "../checks/defaults.ts";
import type { OutcomeReader } from "../checks/tasks.ts";
import { guestFailed } from "../offers/call-failures.ts";
import type { Resource } from "../offers/catalog.ts";
import { LongObject } from "../offers/long-result.ts";
import { toContents } from "../offers/resource-contents.ts";
import type { Run } from "./run.ts";
import { type Findable, type Open } from "./uris/find-resource.ts";
import type { Redirects } from "./uris/redirect.ts";

/** A resource whose content comes from `run`. */
export function functionResource(
  { name, mimeType }: Pick<Findable, "name" | "mimeType">,
  run: Run,
  redirects: Redirects,
  readOutcome: OutcomeReader,
): Open<Resource> {
  return (uri, args) => ({
    async read(options) {
      // Copied, because `args` of a resource without variables is reused.
      const outcome = await readOutcome(await run({ ...args }, options), { as: "resource", uri, mimeType });
      if ("object" in outcome) return new LongObject(outcome.object);
      if (!outcome.ok) throw guestFailed(`The resource "${name}"`, outcome.error);
      if (outcome.value.kind === "asks") return { inputRequests: outcome.value.inputRequests };
      if (outcome.value.kind === "redirect") {
        const reading = { uri, ...(mimeType !== undefined && { mimeType }) };
        return redirects.asContents(outcome.value.location, reading, options);
      }
      const contents = toContents(outcome.value, uri, mimeType);
      if (!contents) throw new BerthError("resource_not_found", uri, { data: { uri } });
      return { contents };
    },
  });
}

/** The HTML of an app from its definition; `read` returns verified bytes. */
export function appResource(app: CompiledApp, read: (cid: Cid) => Promise<Uint8Array | undefined>): Open<Resource> {
  return (uri) => ({
    async read() {
      const { content } = app;
      const bytes = await read(content);
      if (!bytes) throw new BerthError("content_missing", `${content}, the app ${uri}`, { data: { cid: content } });
      const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
      return { contents: [appContents(app, text)] };
    },
  });
}

/** The lookup data of a resource; with the schema of its variables if it comes from a function. */
export function toFindable({ contract, source }: OfferedResource): Findable {
  const { name, mimeType } = contract;
  const uri = "uri" in contract ? contract.uri : contract.uriTemplate;
  const inputSchema =
    source.kind === "function" ? argumentsSchema(source.function.inputSchema, source.function) : undefined;
  return { name, uri, ...(mimeType !== undefined && { mimeType }), ...(inputSchema && { inputSchema }) };
}

/** Returns content from the configuration. */
export function createContentRun(content: { kind: "text"; text: string } | { kind: "blob"; base64: string }): Run {
  const value =
    content.kind === "text"
      ? ({ kind: "text", text: content.text } as const)
      : ({ kind: "bytes", base64: content.base64 } as const);
  const outcome: GuestOutcome = { ok: true, value };
  return () => Promise.resolve(outcome);
}
